#!/bin/bash
# A long list, most of it broken or finished before: the summary, the journal, one bad file after another;
# disks that are full and directories that cannot be written.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
options=(-m "$model" --threads 1)
silent_clip tiny.mp4 0.2
head -c 3000 tiny.mp4 >broken.mp4
good=60 bad=940
for ((i = 0; i < good; i++)); do ln tiny.mp4 "good$i.mp4" && echo "good$i.mp4"; done >names
for ((i = 0; i < bad; i++)); do
    case $((i % 3)) in
    0) ln broken.mp4 "bad$i.mp4" ;;
    1) echo "no recording" >"bad$i.mp4" ;;
    esac
    echo "bad$i.mp4"
done >>names
sort -R --random-source=broken.mp4 names >list.txt

# journal FILE EXPRESSION: every line is JSON, and jq's EXPRESSION is true of all of them in an array.
journal() {
    checks=$((checks + 1))
    jq -es "$2" "$1" >/dev/null || fail "$1: not so: $2; $(tail -n 2 "$1")"
}
# ------------------------------------------------------------------ a thousand

begin=$SECONDS
check 1 "a list of $((good + bad))" "$LONGREEL" encode @list.txt "${options[@]}" -o out
first=$((SECONDS - begin))
checks=$((checks + 1))
grep -qE "^1000 recordings: $good saved, 0 finished before, $bad failed; [0-9.]+ s\$" "$out" ||
    fail "the summary: $(tail -n 1 "$out")"
says "$bad of 1000 recordings failed; the others are saved"
journal out/journal.jsonl "length == 2000 and (map(.status) | sort | group_by(.) |
    map([.[0], length]) | . == [[\"begun\", 1000], [\"failed\", $bad], [\"saved\", $good]])"
journal out/journal.jsonl 'all(.time | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.][0-9]{3}Z$"))'
journal out/journal.jsonl 'map(.time) | . == sort'
journal out/journal.jsonl 'map(select(.status == "saved")) | all(.tokens > 0 and .seconds > 0)'
journal out/journal.jsonl 'map(select(.status == "failed")) | all((.path as $p | .error | startswith($p + ": ")) and
    (.reason | test("^(io|format|no-media|unsupported)$")))'
begin=$SECONDS
check 1 "the same again" "$LONGREEL" encode @list.txt "${options[@]}" -o out --json
json "(.recordings | length == 1000) and (.summary | .saved == 0 and .skipped == $good and .failed == $bad)"
checks=$((checks + 1))
cmp list.txt <(jq -r '.recordings[].path' "$out") || fail "the report is in another order than the list"
echo "  a thousand entries: $first s, then $((SECONDS - begin)) s"
journal out/journal.jsonl "length == 4000 and (map(select(.status == \"skipped\")) | length == $good)"
check 0 "status beside a journal" "$LONGREEL" status out --json
json "(.sets | length == 1000) and ([.sets[] | select(.state == \"done\")] | length == $good)"
check 0 "the sets are whole" "$LONGREEL" verify out
no_parts out

# ------------------------------------------------------------------ several at a time

head -n 60 list.txt >short.txt
for i in 1 2 3; do
    "$LONGREEL" encode @short.txt "${options[@]}" -o shared >/dev/null 2>&1 &
done
wait
journal shared/journal.jsonl 'length == 360 and ([.[].pid] | unique | length == 3)'
no_parts shared
if command -v mpirun.mpich >/dev/null; then
    check 1 "groups" bash "$fixtures/../comm/mpirun.sh" mpich 3 "$LONGREEL" encode @short.txt "${options[@]}" \
        -o grouped --groups 3 --json
    journal grouped/journal.jsonl 'length == 120 and ([.[].pid] | unique | length > 1)'
    json '.summary | .recordings == 60 and .saved + .failed == 60 and .saved > 0'
fi

# ------------------------------------------------------------------ what cannot be written

# A limit on the size of a file fails writes as a full disk does.
mkdir full
head -c 100000 /dev/zero | tr '\0' ' ' >full/journal.jsonl
check 0 "a journal that may not grow" bash -c 'ulimit -f 64; exec "$@"' - "$LONGREEL" encode good0.mp4 good1.mp4 \
    "${options[@]}" -o full
checks=$((checks + 1))
[ "$(grep -c 'journal.jsonl: cannot be written: File too large' "$err")" -eq 1 ] ||
    fail "not warned once: $(cat "$err")"
check 0 "its sets are whole" "$LONGREEL" verify full
printf '{"half": ' >shared/journal.jsonl
rm -rf shared/good0.mp4
check 0 "after half a line" "$LONGREEL" encode good0.mp4 "${options[@]}" -o shared
checks=$((checks + 1))
tail -n +2 shared/journal.jsonl | jq -es 'map(.status) == ["begun", "saved"]' >/dev/null ||
    fail "half a line swallowed the next: $(cat shared/journal.jsonl)"
mkdir -p taken/journal.jsonl
check 0 "a directory in the journal's place" "$LONGREEL" encode good0.mp4 "${options[@]}" -o taken
says "taken/journal.jsonl: cannot be written"
cp tiny.mp4 journal.jsonl
check 2 "a recording of the journal's name" "$LONGREEL" encode journal.jsonl "${options[@]}" -o fresh
says "give the recording another one"

# Root may write everywhere, unless that is taken away.
mkdir closed
chmod 555 closed
unprivileged=()
[ "$(id -u)" -ne 0 ] || unprivileged=(setpriv --bounding-set=-dac_override,-dac_read_search)
check 1 "a directory that cannot be written" "${unprivileged[@]}" "$LONGREEL" encode good0.mp4 good1.mp4 \
    "${options[@]}" -o closed --json
json '.summary | .failed == 2'
json '.recordings | all(.error | test("closed.*Permission denied"))'
absent closed/good0.mp4

# A real file system that is full, where one may be mounted: everything fails, and says so.
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k none small 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    head -c 60000 /dev/zero >small/fill 2>/dev/null
    check 1 "a full file system" "$LONGREEL" encode good0.mp4 good1.mp4 "${options[@]}" -o small/out --json
    json '.summary | .failed == 2'
    says "No space left on device"
    no_parts small
    rm small/fill
    check 0 "with room again" "$LONGREEL" encode good0.mp4 "${options[@]}" -o small/out
    [ ! -s small/out/journal.jsonl ] || journal small/out/journal.jsonl 'last.status == "saved"'
else
    echo "  no file system can be mounted here: checked with a limit on file sizes only"
fi
finish
