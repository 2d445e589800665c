#!/bin/bash
# An hour-long recording that is stopped twice and gone on with: what is done again, and how much the work under way
# takes on the disk.
#
#   tests/peers/hour.sh BUILD [RECORDING]
#
# RECORDING (default: one of an hour is made, 640 x 360 with sound) goes through a made model (LR_MODEL: another one)
# undisturbed; then again, killed when half of the towers' work is done, gone on with, told to end within the first
# layers, and gone on with by another number of ranks. The last set must have the bytes of the first. Prints one JSON
# document: seconds of each run, bytes of OUT/.partial after each stop, and what was taken over. A state's size grows with
# the width of the model (`hidden`). It takes some minutes, most of them for the sequence as a whole (n^2).
build=$(cd "${1:?a build directory}" && pwd) || exit 1
recording=$(realpath "${2:-/dev/null}")
export LONGREEL=$build/cli/longreel
. "$(dirname "${BASH_SOURCE[0]}")/../cli/common.sh"
. "$fixtures/../support/processes.sh"
model=${LR_MODEL:-$work/model}
[ -d "$model" ] || "$LONGREEL" make-model "$model" >/dev/null || exit 1
if [ ! -s "$recording" ]; then
    recording=$work/hour.mp4
    ffmpeg -v error -nostdin -f lavfi -i "testsrc2=size=640x360:rate=5:duration=${LR_SECONDS:-3600}" -f lavfi \
        -i "aevalsrc='0.3*sin(2*PI*t*(300+40*floor(t)))':sample_rate=16000:duration=${LR_SECONDS:-3600}" \
        -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a aac "$recording" || exit 1
fi
set_name=${recording##*/}
common=(encode "$recording" -m "$model" --progress=json --grace 100000)

# start ARGUMENT...: a run in the background, $job.
start() {
    rm -f "$err"
    "$LONGREEL" "${common[@]}" "$@" >"$out" 2>"$err" </dev/null &
    job=$!
}

# until_said PATTERN: waits as long as it takes.
until_said() {
    while ! grep -q "$1" "$err" 2>/dev/null; do
        kill -0 "$job" 2>/dev/null || { fail "the run did not come to: $1; $(tail -n 1 "$err")"; return 1; }
        sleep 0.1
    done
}

kept_bytes() { du -sb out/.partial 2>/dev/null | cut -f1; }
kept_of() { find out/.partial -name "$1-*" -printf '%s\n' | awk '{sum += $1} END {print sum + 0}'; }
stored() { "$LONGREEL" status out --json | jq -c '.sets[0].stored'; }
seconds_of() { jq '.timings | .index + .towers + .backbone + .write' "$1/$set_name/manifest.json"; }

check 0 "undisturbed" "$LONGREEL" "${common[@]}" -o whole --ranks 2

start -o out --ranks 2
until_said '"stage":"towers","done":0\.[5-9]'
kill -s KILL "$job" && wait "$job" 2>/dev/null
bytes_towers=$(kept_bytes) stored_towers=$(stored)

start -o out --ranks 3
until_said '"stage":"backbone","done":0\.0*[1-9]'
kill -s TERM "$job" && wait "$job"
[ $? -eq 3 ] || fail "not told to end with status 3: $(tail -n 2 "$err")"
bytes_backbone=$(kept_bytes) stored_backbone=$(stored)
bytes_frames=$(kept_of frames) bytes_sound=$(kept_of sound) bytes_layer=$(kept_of layer)

check 0 "gone on with" "$LONGREEL" "${common[@]}" -o out --ranks 1
same_set "whole/$set_name" "out/$set_name"
absent out/.partial
jq -e --argjson s "$stored_backbone" '.run | .reused.layers == $s.layers[0] and .reused.frames == $s.frames[0] and
    ([.work[] | .frames + .sound_tokens] | add) == 0' "out/$set_name/manifest.json" >/dev/null ||
    fail "kept $stored_backbone, taken over $(jq -c .run.reused "out/$set_name/manifest.json")"
jq -n --argjson tokens "$(jq .tokens "whole/$set_name/manifest.json")" \
    --argjson hidden "$(jq '.text_config.hidden_size // .hidden_size' "$model/config.json")" \
    --argjson whole "$(seconds_of whole)" --argjson last "$(seconds_of out)" \
    --argjson at_towers "${stored_towers:-null}" --argjson at_backbone "${stored_backbone:-null}" \
    --argjson bt "${bytes_towers:-0}" --argjson bb "${bytes_backbone:-0}" --argjson frames "$bytes_frames" \
    --argjson sound "$bytes_sound" --argjson layer "$bytes_layer" \
    --argjson reused "$(jq .run.reused "out/$set_name/manifest.json")" \
    '{tokens: $tokens, hidden: $hidden, seconds_undisturbed: $whole, seconds_last_run: $last,
      killed_in_towers: {stored: $at_towers, bytes: $bt},
      ended_in_backbone: {stored: $at_backbone, bytes: $bb, bytes_frames: $frames, bytes_sound: $sound,
                          bytes_layers: $layer}, reused: $reused}'
finish
