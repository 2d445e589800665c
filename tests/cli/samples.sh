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

check 0 "a query's vector" "$LONGREEL" embed -m "$model" -o query.npy --task search-query \
    --text "a red car"
if python3 -c 'import numpy' 2>/dev/null; then
    check 0 "2_python_numpy.py" "$samples/2_python_numpy.py" query.npy out/a.mp4 out/b.mp4
    [ "$(wc -l <"$out")" -eq 4 ] || fail "2_python_numpy.py found otherwise: $(cat "$out")"
    best=$(awk 'NR == 1 { print $1 }' "$out")
    check 0 "the same by the program" "$LONGREEL" query out "a red car" -m "$model" -k 1 --json
    json "(.hits[0].score - $best) | fabs < 0.0001"
else
    echo "  numpy is not there: 2_python_numpy.py was not run"
fi

library=$(dirname "$LONGREEL")/../samples/sample_library
if [ -x "$library" ]; then
    check 0 "3_library.c" "$library" "$model" a.mp4 "a red car"
    for file in recording.npy segments.npy frames.npy; do
        cmp "library-set/$file" "out/a.mp4/$file" || fail "the library's $file is another one"
    done
else
    echo "  $library is not built: 3_library.c was not run"
fi
finish
