#!/bin/bash
# plan foretells what encode does.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
clip a.mp4 9
silent_clip b.mp4 5
echo "no recording" >broken.mp4

# foretold OPTION...: plan and encode agree about a.mp4.
foretold() {
    local tokens
    rm -rf out
    check 0 "encode $*" "$LONGREEL" encode a.mp4 -m "$model" -o out "$@"
    tokens=$(jq '[.tokens, .counts.frames, .counts.sound_tokens]' out/a.mp4/manifest.json)
    check 0 "plan $*" "$LONGREEL" plan a.mp4 -m "$model" --json "$@"
    json "[.recordings[0] | .tokens, .frames, .sound_tokens] == $tokens"
}
foretold
foretold --fps 2 --no-audio
foretold --context 200 --start 2 --end 7
foretold --no-video

check 0 "two recordings on three ranks" "$LONGREEL" plan a.mp4 b.mp4 -m "$model" --ranks 3 --json
json '[.recordings[].path] == ["a.mp4", "b.mp4"] and .ranks == 3 and .fits == true'
json '.bytes_per_rank > 1e6 and .seconds > 0 and .seconds < 60'
check 0 "as text" "$LONGREEL" plan a.mp4 -m "$model"
grep -q '^a\.mp4: [0-9]* tokens' "$out" || fail "the text is otherwise: $(cat "$out")"
check 1 "one that cannot be read" "$LONGREEL" plan broken.mp4 b.mp4 -m "$model" --json
json '[.recordings[].path] == ["b.mp4"]'
says "broken.mp4"
check 2 "no model" "$LONGREEL" plan a.mp4
check 2 "a model that is none" "$LONGREEL" plan a.mp4 -m nowhere
check 2 "a wrong option" "$LONGREEL" plan a.mp4 -m "$model" --dim 7
finish
