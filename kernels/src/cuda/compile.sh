#!/bin/sh
# compile.sh LOG COMMAND...: runs the command; what it says goes to LOG, and when it fails to the terminal.
log=$1
shift
"$@" >"$log" 2>&1 && exit
status=$?
cat "$log" >&2
exit $status
