#!/bin/bash
# embed, query, status, verify.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
clip a.mp4 12
silent_clip b.mkv 31
ffmpeg -v error -nostdin -y -i a.mp4 -frames:v 1 -update 1 picture.png
ffmpeg -v error -nostdin -y -i a.mp4 -vn -t 3 sound.wav

# ------------------------------------------------------------------ embed
check 0 "three inputs" "$LONGREEL" embed -m "$model" -o v.npy --text "a red car" --image picture.png \
    --audio sound.wav
head -c 128 v.npy | grep -qa "'descr': '<f4'.*'shape': (3, 64)" || fail "v.npy has another shape"
[ "$(stat -c %s v.npy)" -eq $((128 + 3 * 64 * 4)) ] || fail "v.npy has another size"
check 0 "each alone" "$LONGREEL" embed -m "$model" -o w.npy --image picture.png
cmp <(tail -c +$((128 + 64 * 4 + 1)) v.npy | head -c 256) <(tail -c 256 w.npy) ||
    fail "a row depends on the other inputs"
printf 'a red car' >text.txt
check 0 "a text from a file" "$LONGREEL" embed -m "$model" -o w.npy --text @text.txt --threads 1
cmp <(tail -c +129 v.npy | head -c 256) <(tail -c 256 w.npy) || fail "@FILE gives another row"
check 0 "a task" "$LONGREEL" embed -m "$model" -o w.npy --text "a red car" --task search-query
cmp -s <(tail -c +129 v.npy | head -c 256) <(tail -c 256 w.npy) && fail "the task's prompt is not used"
prompt=$(jq -r '.prompts | to_entries[] | select(.key == "query" or .key == "Retrieval-query") | .value' \
    "$model/config_sentence_transformers.json" | head -n 1)
check 0 "the prompt by hand" "$LONGREEL" embed -m "$model" -o w2.npy --text "${prompt}a red car"
cmp w.npy w2.npy || fail "the task's prompt is another than '$prompt'"
"$LONGREEL" make-model matryoshka >/dev/null
check 0 "a smaller width" "$LONGREEL" embed -m matryoshka -o w.npy --text a --dim 64
head -c 128 w.npy | grep -qa "'shape': (1, 64)" || fail "--dim has no effect"
mkdir saved
check 0 "tokens and stages" "$LONGREEL" embed -m "$model" -o saved/v.npy --image picture.png \
    --save tokens --save stages
for file in tokens.safetensors stages/patches_u8.npy stages/vision_soft.npy stages/input_ids.npy \
    stages/embeds.npy stages/layers.npy stages/normed.npy; do
    there "saved/$file"
done
check 1 "a picture that is none" "$LONGREEL" embed -m "$model" -o no.npy --image text.txt
says "text.txt"
check 1 "a picture that is missing" "$LONGREEL" embed -m "$model" -o no.npy --image nowhere.png
check 2 "a film as a picture" "$LONGREEL" embed -m "$model" -o no.npy --image a.mp4
check 2 "a picture for a text model" "$LONGREEL" embed -m "$fixtures/textonly" -o no.npy \
    --image picture.png
says "no vision tower"
absent no.npy

# ------------------------------------------------------------------ query
check 0 "sets" "$LONGREEL" encode a.mp4 b.mkv -m "$model" -o out --segment 5 --hop 5
check 0 "a text" "$LONGREEL" query out "a red car" -m "$model" --json
json '.hits | length > 0 and length <= 10'
json '.hits | map(.score) == (map(.score) | sort | reverse)'
json '.hits | all(.score <= 1.000001 and .score >= -1.000001 and .start < .end and (.set | startswith("out/")))'
check 0 "single segments" "$LONGREEL" query out "a red car" -m "$model" --json --no-merge -k 100
json '.hits | length == 10 and all(.end - .start <= 5)'
check 0 "frames" "$LONGREEL" query out "a red car" -m "$model" --json --level frame --no-merge -k 50
json '.hits | length == 43 and all(.end - .start <= 1.1)'
check 0 "recordings" "$LONGREEL" query out "a red car" -m "$model" --json --level recording
json '.hits | length == 2 and (map(.recording) | sort) == ["a.mp4", "b.mkv"] and all(.start == 0)'
check 0 "one set" "$LONGREEL" query out/a.mp4 "a red car" -m "$model" --json
json '.hits | all(.recording == "a.mp4")'
check 0 "by a picture" "$LONGREEL" query out --image picture.png -m "$model" --json
check 0 "by a sound" "$LONGREEL" query out --audio sound.wav -m "$model" --json
check 0 "as a table" "$LONGREEL" query out "a red car" -m "$model" -k 3
grep -Eq '^ *-?[01]\.[0-9]{4}  (a\.mp4|b\.mkv) +[0-9]{2}:[0-9]{2}:[0-9]{2}  [0-9]{2}:[0-9]{2}:[0-9]{2}$' "$out" ||
    fail "the table is otherwise: $(cat "$out")"
check 0 "the prompt" "$LONGREEL" query out "a red car" -m "$model" --json --task search-query -k 1
cp "$out" with
check 0 "the default prompt" "$LONGREEL" query out "a red car" -m "$model" --json -k 1
cmp "$out" with || fail "the default is not the search prompt"
check 0 "no prompt" "$LONGREEL" query out "a red car" -m "$model" --json -k 1 --task none
cmp -s "$out" with && fail "--task none has no effect"
check 2 "another model" "$LONGREEL" query out "a red car" -m "$fixtures/odd"
says "out/a.mp4: was made with another model"
check 0 "the whole width" "$LONGREEL" encode a.mp4 -m matryoshka -o wide
check 0 "a smaller width" "$LONGREEL" encode a.mp4 -m matryoshka -o narrow --dim 32
check 0 "the width comes from the set" "$LONGREEL" query narrow "a red car" -m matryoshka
check 2 "two widths" "$LONGREEL" query wide narrow "a red car" -m matryoshka
says "wide/a.mp4: its vectors have 96 values, those of narrow/a.mp4 have 32"
check 0 "sets of another context" "$LONGREEL" encode a.mp4 -m "$model" -o windows --context 200
check 2 "two contexts" "$LONGREEL" query out windows "a red car" -m "$model"
says "context"

# ------------------------------------------------------------------ status and verify
check 0 "status" "$LONGREEL" status out --json
json '[.sets[] | .state] == ["done", "done"] and .sets[1].duration_s > 30.9 and .sets[0].frames == 12'
check 0 "status as text" "$LONGREEL" status out
grep -q '^done  *out/a.mp4' "$out" || fail "status is otherwise: $(cat "$out")"
check 0 "whole sets" "$LONGREEL" verify out windows/a.mp4 --json
json '.sets | length == 3 and all(.whole)'

# altered FILE COMMAND...: the set of a.mp4 is not whole once COMMAND has changed a copy of FILE.
altered() {
    local file=$1
    shift
    rm -rf copy && cp -r out copy
    (cd copy/a.mp4 && "$@")
    check 1 "$file altered by $*" "$LONGREEL" verify copy --json
    json '[.sets[].whole] == [false, true]'
    says "$file"
}
flip() { printf '\x55' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
altered segments.npy flip segments.npy 200
altered frames.npy truncate -s -4 frames.npy
altered recording.npy rm recording.npy
altered frames.jsonl sed -i '$d' frames.jsonl
altered segments.jsonl sed -i 's/"start": 0/"start": 1/' segments.jsonl
altered notes.txt touch notes.txt
rm -rf copy && cp -r out copy && rm copy/a.mp4/manifest.json
check 1 "a set without its manifest" "$LONGREEL" verify copy/a.mp4
says "manifest.json"
finish
