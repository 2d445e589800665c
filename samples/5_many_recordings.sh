#!/bin/bash
# All recordings in a directory and below: encoded one after another, what failed and why, and a search over all.
#   samples/5_many_recordings.sh MODEL DIRECTORY OUT ["TEXT"]
# Run it again at any time: what is finished is skipped, what was interrupted goes on, new recordings are added.
# LONGREEL names the program (default: longreel, from PATH). Needs jq. On a cluster: 7_slurm_array.sbatch.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3s/^# */usage: /p' "$0" >&2; exit 2; }
model=$1 directory=$2 out=$3 text=${4:-}
longreel=${LONGREEL:-longreel}

# A list on standard input, one name a line, sorted: two recordings of one name get "name" and "name~2" by its order.
# Exit status 1: some could not be encoded. The others are there to be searched.
find "$directory" -type f \( -iname '*.mp4' -o -iname '*.mkv' -o -iname '*.mov' -o -iname '*.webm' -o -iname '*.avi' \
    -o -iname '*.mp3' -o -iname '*.m4a' -o -iname '*.flac' -o -iname '*.wav' -o -iname '*.ogg' \) | sort |
    "$longreel" encode @- -m "$model" -o "$out" || [ $? -eq 1 ]

"$longreel" status "$out"
echo "Failed so far:"
jq -r 'select(.status == "failed") | [.time, .path, .reason] | @tsv' "$out/journal.jsonl"

[ -z "$text" ] || "$longreel" query "$out" "$text" -m "$model" -k 5
