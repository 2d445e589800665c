#!/bin/bash
# Encodes recordings and searches them by text.
#   samples/1_encode_and_query.sh MODEL "TEXT" RECORDING...
# LONGREEL names the program (default: longreel, from PATH); OUT the directory for the sets (default:
# out).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }
model=$1 text=$2
shift 2
longreel=${LONGREEL:-longreel} out=${OUT:-out}

# Exit status 1: some recordings could not be encoded. The others are there to be searched.
"$longreel" encode "$@" -m "$model" -o "$out" || [ $? -eq 1 ]

"$longreel" query "$out" "$text" -m "$model" -k 5

# The same for a program: the best place as JSON, to jump to in a player.
"$longreel" query "$out" "$text" -m "$model" -k 1 --json
