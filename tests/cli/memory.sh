#!/bin/bash
# Memory is foretold within 15 %, a run that would not fit is refused, and what is proposed instead fits; groups
# are proposed for many recordings.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=(-m "$fixtures/regular" --threads 1)
clip long.mp4 50

# ------------------------------------------------------------------ foretold

# foretold WHAT OPTION...: predicted and actual memory of the process, model and program included.
foretold() {
    rm -rf out
    check 0 "encode $*" "$LONGREEL" encode long.mp4 "${model[@]}" -o out "$@"
    checks=$((checks + 1))
    jq -e '.memory | .predicted_bytes / .peak_bytes | . > 0.85 and . < 1.15' out/long.mp4/manifest.json >/dev/null ||
        fail "encode $*: $(jq -c .memory out/long.mp4/manifest.json)"
    jq -e '.timings.predicted > 0' out/long.mp4/manifest.json >/dev/null || fail "no predicted time"
}
for ranks in 1 4; do
    foretold --ranks $ranks --fps 2 --end 10
    foretold --ranks $ranks --fps 2
    foretold --ranks $ranks --fps 2 --no-audio
    foretold --ranks $ranks --fps 4 --no-audio --end 20
done

# ------------------------------------------------------------------ refused

check 0 "plan" "$LONGREEL" plan long.mp4 "${model[@]}" --fps 25 --ranks 4 --json
json '.fits and .recordings[0].bytes_total > 0 and .recordings[0].bytes_resident > 1e6'
whole=$(jq '.recordings[0] | .bytes_total + .bytes_resident' "$out")
half=$((whole - $(jq '.recordings[0].bytes_total' "$out") * 6 / 10))
check 0 "plan within half of it" "$LONGREEL" plan long.mp4 "${model[@]}" --fps 25 --ranks 4 --memory $half --json
json '.fits == false'
check 2 "encode within half of it" "$LONGREEL" encode long.mp4 "${model[@]}" --fps 25 --ranks 4 --memory $half -o no
says "left of --memory"
says "--context "
says "--fps 25/"
says "--end "
absent no/long.mp4
# Each proposal is taken.
grep -o -- '--[a-z-]* [0-9/]*' "$err" | grep -v -- '--memory' >proposals
checks=$((checks + 1))
[ "$(wc -l <proposals)" -ge 3 ] || fail "proposed: $(cat "$err")"
while read -r name value; do
    check 0 "the proposal $name $value" "$LONGREEL" plan long.mp4 "${model[@]}" --fps 25 --ranks 4 --memory $half --json \
        "$name" "$value"
    json '.fits'
done <proposals
check 2 "next to nothing" "$LONGREEL" encode long.mp4 "${model[@]}" --memory 1M -o no
says "use a smaller --chunk"
for size in '' 0 -1 x 10X 1e30 nan; do
    check 2 "--memory '$size'" "$LONGREEL" plan long.mp4 "${model[@]}" --memory "$size"
    says "--memory"
done

# ------------------------------------------------------------------ groups

silent_clip a.mp4 3
for name in b c d e f g h; do cp a.mp4 $name.mp4; done
printf '%s\n' a.mp4 b.mp4 c.mp4 d.mp4 e.mp4 f.mp4 g.mp4 h.mp4 >list.txt
check 0 "eight short recordings on eight ranks" "$LONGREEL" plan @list.txt "${model[@]}" --ranks 8 --json
json '.groups.best == 8 and .groups.ranks == 1 and ([.groups.shapes[].groups] == [1, 2, 4, 8])'
json '.groups.shapes[0].seconds > 4 * .groups.seconds'
check 0 "one recording on eight ranks" "$LONGREEL" plan long.mp4 "${model[@]}" --fps 4 --chunk 64 --ranks 8
grep -q "one ring of 8 ranks is ready first" "$out" || fail "printed: $(cat "$out")"
check 0 "as text" "$LONGREEL" plan @list.txt "${model[@]}" --ranks 8
grep -q "mpirun -n 8 longreel encode --groups 8 (rings of 1)" "$out" || fail "printed: $(cat "$out")"
finish
