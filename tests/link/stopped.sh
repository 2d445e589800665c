#!/bin/bash
# A process that stops while others wait for what its device sends: they are told within the time limit.
#   stopped.sh openmpi|mpich PROGRAM
set -uo pipefail
output=$(timeout -k 5 60 bash "$(dirname "${BASH_SOURCE[0]}")/../comm/mpirun.sh" "$1" 3 "$2" stop 2>&1)
status=$?
echo "$output"
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || { echo "FAILED: exit status $status"; exit 1; }
grep -q 'was told: .*rank 2' <<<"$output" || { echo "FAILED: nobody was told of rank 2"; exit 1; }
