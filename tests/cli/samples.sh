#!/bin/bash
# The numbered samples run, and the library's sample gives what the program gives.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
samples=$(cd "$fixtures/../../samples" && pwd)
model=$fixtures/regular
clip a.mp4 12
silent_clip b.mp4 12

check 0 "1_encode_and_query.sh" env OUT=out "$samples/1_encode_and_query.sh" "$model" "a red car" \
    a.mp4 b.mp4
grep -q '"hits"' "$out" || fail "1_encode_and_query.sh printed no document"

check 0 "2_pictures_and_sounds.sh" "$samples/2_pictures_and_sounds.sh" "$model" out a.mp4 5
[ "$(grep -c '^== ' "$out")" -eq 3 ] || fail "2_pictures_and_sounds.sh did not search three times: $(cat "$out")"
check 0 "2_pictures_and_sounds.sh, no sound" "$samples/2_pictures_and_sounds.sh" "$model" out b.mp4
[ "$(grep -c '^== ' "$out")" -eq 2 ] || fail "2_pictures_and_sounds.sh searched for silence: $(cat "$out")"

check 0 "3_report.sh" env OUT=out "$samples/3_report.sh" "$model" a.mp4 report.png
there report.png

check 0 "a query's vector" "$LONGREEL" embed -m "$model" -o query.npy --task search-query \
    --text "a red car"
if python3 -c 'import numpy' 2>/dev/null; then
    check 0 "a database" "$LONGREEL" export out --sqlite sets.sqlite
    check 0 "4_python.py" "$samples/4_python.py" query.npy out/a.mp4 out/b.mp4 sets.sqlite
    [ "$(grep -c ' s to ' "$out")" -ge 8 ] || fail "4_python.py found otherwise: $(cat "$out")"
    [ "$(grep ' s to ' "$out" | sort | uniq -c | awk '$1 < 2' | wc -l)" -eq 0 ] ||
        fail "4_python.py found other places one way than another: $(cat "$out")"
    best=$(awk 'NR == 2 { print $1 }' "$out")
    check 0 "the same by the program" "$LONGREEL" query out "a red car" -m "$model" -k 1 --json
    json "(.hits[0].score - $best) | fabs < 0.0001"
else
    echo "  numpy is not there: 4_python.py was not run"
fi

mkdir -p many/below
cp b.mp4 many/one.mp4
cp b.mp4 many/below/two.mkv
echo "no recording" >many/bad.mp4
check 0 "5_many_recordings.sh" "$samples/5_many_recordings.sh" "$model" many all "a red car"
grep -q 'bad.mp4' "$out" || fail "5_many_recordings.sh did not tell of what failed: $(cat "$out")"
there all/one.mp4/segments.npy
there all/two.mkv/segments.npy

library=$(dirname "$LONGREEL")/../samples/sample_library
if [ -x "$library" ]; then
    check 0 "6_library.c" "$library" "$model" a.mp4 "a red car"
    for file in recording.npy segments.npy frames.npy; do
        cmp "library-set/$file" "out/a.mp4/$file" || fail "the library's $file is another one"
    done
else
    echo "  $library is not built: 6_library.c was not run"
fi
finish
