#!/bin/bash
# repool gives the files that encode would give.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$LONGREEL" make-model model >/dev/null || exit 1
clip talk.mp4 12.4

check 0 "saved tokens" "$LONGREEL" encode talk.mp4 -m model -o out --save tokens
check 0 "repool" "$LONGREEL" repool out/talk.mp4 -o again/talk.mp4 --segment 3 --hop 1.5 --dim 64 --json
json '.status == "saved" and .segments > 5'
check 0 "the same by encode" "$LONGREEL" encode talk.mp4 -m model -o want --segment 3 --hop 1.5 --dim 64 \
    --ranks 3
for file in recording.npy segments.npy segments.jsonl frames.npy frames.jsonl; do
    cmp "again/talk.mp4/$file" "want/talk.mp4/$file" || fail "$file differs"
done
check 0 "it is whole" "$LONGREEL" verify again
check 0 "it is done" "$LONGREEL" repool out/talk.mp4 -o again/talk.mp4 --segment 3 --hop 1.5 --dim 64 --json
json '.status == "skipped"'
check 0 "it can be searched" "$LONGREEL" query again "a red car" -m model
check 1 "another set is there" "$LONGREEL" repool out/talk.mp4 -o again/talk.mp4 --segment 4
says "--force"
check 0 "--force" "$LONGREEL" repool out/talk.mp4 -o again/talk.mp4 --segment 4 --force
check 2 "a set without tokens" "$LONGREEL" repool want/talk.mp4 -o no
says "tokens.safetensors"
check 2 "a width the model lacks" "$LONGREEL" repool out/talk.mp4 -o no --dim 47
check 2 "no output" "$LONGREEL" repool out/talk.mp4
truncate -s -100 out/talk.mp4/tokens.safetensors
check 1 "a damaged set" "$LONGREEL" repool out/talk.mp4 -o no
says "tokens.safetensors"
absent no
finish
