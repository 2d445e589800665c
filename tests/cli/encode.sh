#!/bin/bash
# Batches: names of sets, lists, what is skipped, replaced, refused; failing recordings and models.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
mkdir one two
clip one/a.mp4 3
silent_clip two/a.mp4 2
silent_clip b.mp4 2
echo "this is no recording" >broken.mp4
: >empty.mp4

# ------------------------------------------------------------------ names and lists
printf 'one/a.mp4\r\n\ntwo/a.mp4\n' >list.txt
check 0 "a list" "$LONGREEL" encode b.mp4 @list.txt -m "$model" -o out --json
json '[.recordings[].set] == ["out/b.mp4", "out/a.mp4", "out/a.mp4~2"]'
json '[.recordings[].status] == ["saved", "saved", "saved"]'
json '.recordings[1].frames == 3 and .recordings[1].sound_tokens > 0 and .recordings[2].sound_tokens == 0'
for set in b.mp4 a.mp4 a.mp4~2; do
    for file in manifest.json recording.npy segments.npy segments.jsonl frames.npy frames.jsonl; do
        there "out/$set/$file"
    done
    absent "out/$set/tokens.safetensors"
    absent "out/$set/stages"
done
check 0 "the list on standard input" bash -c '"$1" encode @- -m "$2" -o out2/deeper <list.txt' - \
    "$LONGREEL" "$model"
there out2/deeper/a.mp4~2/manifest.json
check 2 "a missing list" "$LONGREEL" encode @nowhere.txt -m "$model" -o out
says "nowhere.txt"
check 2 "a directory" "$LONGREEL" encode one/ -m "$model" -o out
check 2 "output that is a file" "$LONGREEL" encode b.mp4 -m "$model" -o b.mp4
says "is no directory"
odd_name=$'strange \xff name; rm -rf *.mp4'
cp b.mp4 "$odd_name"
check 0 "any bytes in a name" "$LONGREEL" encode "$odd_name" -m "$model" -o out --json
json '.recordings[0].status == "saved"'
there "out/$odd_name/manifest.json"
cp b.mp4 .hidden.mp4
check 0 "a name that begins with a dot" "$LONGREEL" encode .hidden.mp4 -m "$model" -o dotted
check 0 "its state" "$LONGREEL" status dotted --json
json '[.sets[] | .path] == ["dotted/.hidden.mp4"]'
check 0 "it is verified" "$LONGREEL" verify dotted --json
check 0 "it is found" "$LONGREEL" query dotted "a red car" -m "$model" --json
json '.hits[0].recording == ".hidden.mp4"'
long_name=$(printf 'x%.0s' {1..251}).mp4
cp b.mp4 "$long_name"
check 0 "a name as long as names may be" "$LONGREEL" encode "$long_name" -m "$model" -o long
there "long/$long_name/manifest.json"

# ------------------------------------------------------------------ documents of a set
jq -e '.format == "longreel-embeddings/1" and .recording.name == "a.mp4" and .options.chunk == 1024
    and .counts.frames == 3 and .tokens > 0 and (.model.hash | length) == 32' \
    out/a.mp4/manifest.json >/dev/null || fail "out/a.mp4/manifest.json is otherwise"
jq -es 'map(.i) == [0, 1, 2] and map(.t) == [0, 1, 2]' out/a.mp4/frames.jsonl >/dev/null ||
    fail "out/a.mp4/frames.jsonl is otherwise"
jq -es 'length == 1 and .[0].start == 0 and (.[0].tokens | length) == 2' out/a.mp4/segments.jsonl \
    >/dev/null || fail "out/a.mp4/segments.jsonl is otherwise"
head -c 128 out/a.mp4/frames.npy | grep -qa "'shape': (3, 64)" || fail "frames.npy has another shape"

# ------------------------------------------------------------------ skip, refuse, replace
stamp=$(stat -c %Y.%i out/b.mp4/manifest.json)
check 0 "a finished set" "$LONGREEL" encode b.mp4 -m "$model" -o out --ranks 2 --threads 1 --json
json '.recordings[0].status == "skipped"'
[ "$stamp" = "$(stat -c %Y.%i out/b.mp4/manifest.json)" ] || fail "a finished set was written again"
check 1 "other options" "$LONGREEL" encode b.mp4 -m "$model" -o out --fps 2
says "--force replaces it"
check 1 "another model" "$LONGREEL" encode b.mp4 -m "$fixtures/odd" -o out
check 1 "another recording of that name" bash -c \
    'cp one/a.mp4 two/b.mp4; "$1" encode two/b.mp4 -m "$2" -o out' - "$LONGREEL" "$model"
[ "$stamp" = "$(stat -c %Y.%i out/b.mp4/manifest.json)" ] || fail "a set was replaced without --force"
check 0 "--force" "$LONGREEL" encode b.mp4 -m "$model" -o out --fps 2 --force
jq -e '.counts.frames == 4' out/b.mp4/manifest.json >/dev/null || fail "--force did not replace the set"
mkdir -p out/c.mp4 && echo precious >out/c.mp4/notes.txt && cp b.mp4 c.mp4
check 1 "a directory that is no set" "$LONGREEL" encode c.mp4 -m "$model" -o out
there out/c.mp4/notes.txt
cp c.mp4 c.copy
for place in . out; do # the recording's own directory; one with something else of that name
    check 1 "--force on $place/c.mp4, which is no set" "$LONGREEL" encode c.mp4 -m "$model" -o "$place" --force
    says "is left as it is"
done
cmp c.mp4 c.copy || fail "--force replaced the recording"
there out/c.mp4/notes.txt
"$LONGREEL" encode b.mp4 -m "$model" -o both >first 2>&1 &
first=$!
check 0 "two processes at one set" "$LONGREEL" encode b.mp4 -m "$model" -o both
wait "$first" || fail "the other process failed: $(cat first)"
check 0 "what they made" "$LONGREEL" verify both
no_parts out

# ------------------------------------------------------------------ failing recordings
check 1 "a batch with broken ones" "$LONGREEL" encode broken.mp4 b.mp4 missing.mp4 empty.mp4 two/a.mp4 \
    -m "$model" -o mixed --json
json '[.recordings[].status] == ["failed", "saved", "failed", "failed", "saved"]'
json '[.recordings[] | select(.status == "failed") | .error | length > 0] | all'
says "broken.mp4: "
says "missing.mp4: "
says "empty.mp4: "
for set in broken.mp4 missing.mp4 empty.mp4; do absent "mixed/$set"; done
no_parts mixed
check 0 "the state of that" "$LONGREEL" status mixed --json
json '[.sets[] | select(.state == "failed") | .path] | sort ==
    ["mixed/broken.mp4", "mixed/empty.mp4", "mixed/missing.mp4"]'
json '[.sets[] | select(.state == "done") | .path] == ["mixed/a.mp4", "mixed/b.mp4"]'
cp b.mp4 broken.mp4
check 0 "a broken one that was mended" "$LONGREEL" encode broken.mp4 -m "$model" -o mixed
check 0 "the state after that" "$LONGREEL" status mixed --json
json '[.sets[] | select(.state == "failed")] | length == 2'
check 2 "a window that holds nothing" "$LONGREEL" encode b.mp4 -m "$model" -o fresh --context 5
says "5 tokens"
absent fresh/b.mp4

# ------------------------------------------------------------------ models
# refused_model DIR TEXT: nothing is done with it, and the message holds TEXT.
refused_model() {
    check 2 "the model $1" "$LONGREEL" encode b.mp4 -m "$1" -o refused
    says "$2"
    absent refused
}
# spoiled NAME: a copy of the model to be spoiled.
spoiled() {
    cp -r "$model" "$1"
    rm -f "$1"/expected.*
}
refused_model nowhere "nowhere"
mkdir hollow
refused_model hollow "config.json"
for file in config.json tokenizer.json model.safetensors; do
    spoiled "without-$file"
    rm "without-$file/$file"
    refused_model "without-$file" "$file"
    spoiled "cut-$file"
    truncate -s $(($(stat -c %s "$model/$file") * 2 / 3)) "cut-$file/$file"
    refused_model "cut-$file" "$file"
    spoiled "zero-$file"
    : >"zero-$file/$file"
    refused_model "zero-$file" "$file"
done
spoiled other-family
jq '.model_type = "something_else"' "$model/config.json" >other-family/config.json
refused_model other-family "something_else"
spoiled wide
jq '.text_config.hidden_size = 4096' "$model/config.json" >wide/config.json
refused_model wide "4096"
cp -r "$fixtures/odd" half
rm half/model-00002-of-00002.safetensors
refused_model half "model-00002-of-00002.safetensors"

# ------------------------------------------------------------------ progress
check 0 "progress as JSON" "$LONGREEL" encode one/a.mp4 -m "$model" -o lines --progress=json
jq -es '[.[] | select(.event == "progress") | .stage] | unique ==
    ["backbone", "index", "towers", "write"]' "$err" >/dev/null || fail "not all stages are reported"
jq -es '.[-1] == {"event": "saved", "recording": "one/a.mp4", "set": "lines/a.mp4"}' "$err" >/dev/null ||
    fail "the end is not reported"
check 1 "errors as JSON" "$LONGREEL" encode missing.mp4 -m "$model" -o lines --progress=json
jq -es 'map(.event) | index("error")' "$err" >/dev/null || fail "errors are no JSON lines"
check 0 "segments with gaps between them" "$LONGREEL" encode b.mp4 -m "$model" -o gaps --segment 0.5
says "belongs to no segment (--hop 0.5: all does)"
check 0 "no progress without a terminal" "$LONGREEL" encode one/a.mp4 -m "$model" -o quiet
[ ! -s "$err" ] || fail "messages without a cause: $(cat "$err")"
finish
