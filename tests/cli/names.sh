#!/bin/bash
# Names of files that are not UTF-8: every document stays valid JSON, in which each stray byte is U+FFFD, and the set,
# whose directory keeps the name's bytes, serves as any other.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
name=$(printf 'caf\351 \377.mp4') shown=$(printf 'caf\357\277\275 \357\277\275.mp4')
clip "$name" 3
cp "$name" plain.mp4

# document WHAT: standard output is well-formed UTF-8, and JSON
document() {
    checks=$((checks + 1))
    iconv -f UTF-8 -t UTF-8 "$out" >/dev/null 2>&1 || fail "$1: not UTF-8"
    jq -e . "$out" >/dev/null || fail "$1: not JSON"
}

check 0 "inspect" "$LONGREEL" inspect "$name" --json
document inspect
jq -e --arg n "$shown" '.path == $n' "$out" >/dev/null || fail "the path is $(jq .path "$out")"
check 1 "inspect, a file that is not there" "$LONGREEL" inspect "no $name" --json
document "inspect, not there"
json '.status == "error" and (.error | contains("cannot be opened"))'
check 0 "plan" "$LONGREEL" plan "$name" -m "$model" --json
document plan
check 1 "encode" "$LONGREEL" encode "$name" "no $name" -m "$model" -o sets --save tokens --json
document encode
json '.recordings | length == 2 and .[0].status == "saved" and .[1].status == "failed"'
there "sets/$name/manifest.json"
iconv -f UTF-8 -t UTF-8 "sets/$name/manifest.json" >/dev/null || fail "the manifest is not UTF-8"
iconv -f UTF-8 -t UTF-8 sets/journal.jsonl >/dev/null || fail "the journal is not UTF-8"
jq -e . sets/journal.jsonl >/dev/null || fail "the journal is not JSON"
[ "$(jq -r .run.path_bytes "sets/$name/manifest.json")" = "$(printf %s "$(pwd -P)/$name" | od -An -v -tx1 | tr -d ' \n')" ] ||
    fail "path_bytes is $(jq .run.path_bytes "sets/$name/manifest.json")"
check 0 "encode again" "$LONGREEL" encode "$name" -m "$model" -o sets --save tokens --json
json '.recordings[0].status == "skipped"'
printf '%s\n' "$name" >list.txt
check 0 "from a list" "$LONGREEL" encode @list.txt -m "$model" -o listed --json
document "from a list"
cmp "sets/$name/recording.npy" "listed/$name/recording.npy" || fail "the vectors differ"
check 0 "verify" "$LONGREEL" verify "sets/$name" --json
document verify
json '.sets[0].whole'
check 0 "status" "$LONGREEL" status sets --json
document status
check 0 "query" "$LONGREEL" query sets "a text" -m "$model" --json
document query
json '.hits | length > 0'
check 0 "repool" "$LONGREEL" repool "sets/$name" -o again --segment 1
check 0 "a table" "$LONGREEL" export "sets/$name" --csv table.csv
iconv -f UTF-8 -t UTF-8 table.csv >/dev/null || fail "the table is not UTF-8"
check 0 "a database" "$LONGREEL" export "sets/$name" --sqlite table.db
# The report finds the recording by its bytes.
check 0 "report" "$LONGREEL" report "sets/$name" -o bytes.png --json
document report
check 0 "report of the same file by a plain name" "$LONGREEL" encode plain.mp4 -m "$model" -o plain
check 0 "report" "$LONGREEL" report plain/plain.mp4 -o plain.png --json
cp "$out" plain.json
check 0 "report" "$LONGREEL" report "sets/$name" -o bytes2.png --json
[ "$(jq .frames "$out")" = "$(jq .frames plain.json)" ] && [ "$(jq .frames "$out")" -gt 0 ] ||
    fail "the report does not find the recording: $(cat "$out")"
finish
