#!/bin/bash
# A picture of a recording: its frames with their times, how alike its segments are, how loud it is.
#   samples/3_report.sh MODEL RECORDING PICTURE.png
# LONGREEL names the program (default: longreel, from PATH); OUT the directory for the set (default: out).
set -euo pipefail
[ $# -eq 3 ] || { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }
model=$1 recording=$2 picture=$3
longreel=${LONGREEL:-longreel} out=${OUT:-out}

# Skipped where 1_encode_and_query.sh has made the set: it is the same work.
"$longreel" encode "$recording" -m "$model" -o "$out"
"$longreel" report "$out/$(basename "$recording")" -o "$picture"
