#!/bin/bash
# Searches recordings by a picture, by a sound and by a clip, all cut out of a recording at one place: the first
# hit is to be that place, where it is in the sets.
#   samples/2_pictures_and_sounds.sh MODEL SETS RECORDING [SECOND]
# SETS is what "longreel encode -o" wrote (1_encode_and_query.sh: out); needs ffmpeg. LONGREEL names the program
# (default: longreel, from PATH).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '4s/^# */usage: /p' "$0" >&2; exit 2; }
model=$1 sets=$2 recording=$3 second=${4:-5}
longreel=${LONGREEL:-longreel}
pieces=$(mktemp -d)
trap 'rm -rf "$pieces"' EXIT

# piece FILE OPTION...: a part of the recording, from that second on.
piece() { ffmpeg -v error -nostdin -y -ss "$second" -i "$recording" "${@:2}" "$pieces/$1"; }
streams=$(ffprobe -v error -show_entries stream=codec_type -of csv=p=0 "$recording")

if [[ $streams == *video* ]]; then
    echo "== the picture at $second s"
    piece picture.png -frames:v 1
    "$longreel" query "$sets" --image "$pieces/picture.png" -m "$model" --level frame -k 3
fi
if [[ $streams == *audio* ]]; then
    echo "== three seconds of the sound from there"
    piece sound.wav -t 3 -vn
    "$longreel" query "$sets" --audio "$pieces/sound.wav" -m "$model" -k 3
fi
if [[ $streams == *video* ]]; then
    echo "== three seconds of both"
    piece clip.mkv -t 3
    "$longreel" query "$sets" --video "$pieces/clip.mkv" -m "$model" -k 3
fi
