#!/bin/bash
# A run that is killed, stopped or cut short is continued by the same command, within the recording, by any
# number of ranks: the same bytes, and nothing that was stored is made again.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$fixtures/../support/processes.sh"
"$LONGREEL" make-model model >/dev/null || exit 1
clip talk.mp4 24
options=(-m model --fps 4 --save tokens)
check 0 "without a disturbance" "$LONGREEL" encode talk.mp4 "${options[@]}" -o whole --threads 2
absent whole/.partial
frames=96 sound=600

# start ARGUMENT...: a run in the background, $job.
start() {
    rm -f "$err"
    "$LONGREEL" encode talk.mp4 "${options[@]}" --progress=json "$@" >"$out" 2>"$err" </dev/null &
    job=$!
}

# until_stored PATTERN: waits until the directory `out` holds a slice whose name begins so.
until_stored() {
    local i
    for ((i = 0; i < 3000; i++)); do
        compgen -G "out/.partial/*/$1*" >/dev/null && return 0
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.02
    done
    return 1
}

# until_said TEXT: the same for what the run prints.
until_said() {
    local i
    for ((i = 0; i < 3000; i++)); do
        grep -qF "$1" "$err" 2>/dev/null && return 0
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.02
    done
    return 1
}

# stopped SIGNAL WHEN ARGUMENT...: a run that gets the signal once it has stored a slice of that name, or (WHEN
# is "backbone") once its towers are through. $ended: its exit status; $stored: what it left. A busy machine may come too late for that: then once more.
stopped() {
    local signal=$1 when=$2 tries
    shift 2
    for ((tries = 0; tries < 5; tries++)); do
        rm -rf out
        start -o out "$@"
        if [ "$when" = backbone ]; then
            until_said '"stage":"backbone"'
        else
            until_stored "$when"
        fi
        kill -s STOP "$job" 2>/dev/null
        "$LONGREEL" status out --json >under_way
        kill -s "$signal" "$job" 2>/dev/null
        kill -s CONT "$job" 2>/dev/null
        wait "$job" 2>/dev/null
        ended=$?
        [ -e out/talk.mp4 ] && continue
        "$LONGREEL" status out --json >state
        stored=$(jq -c '.sets[0].stored' state)
        checks=$((checks + 1))
        jq -e '.sets[0] | .state == "interrupted" and (.path == "out/talk.mp4")' state >/dev/null ||
            fail "status after SIG$signal: $(cat state)"
        return 0
    done
    fail "five runs ended before they could be stopped at $when: $(tail -n 2 "$err")"
    return 1
}

# again WHAT ARGUMENT...: the same work to its end: the bytes of an undisturbed run, and what was stored is not
# made again.
again() {
    local what=$1
    shift
    check 0 "$what: again" "$LONGREEL" encode talk.mp4 "${options[@]}" -o out --json "$@"
    same_set whole/talk.mp4 out/talk.mp4
    absent out/.partial
    no_parts out
    checks=$((checks + 1))
    jq -e --argjson s "$stored" '.run.reused | .frames == $s.frames[0] and .sound_tokens == $s.sound_tokens[0] and
        .layers == $s.layers[0]' out/talk.mp4/manifest.json >/dev/null ||
        fail "$what: stored $stored, reused $(jq -c .run.reused out/talk.mp4/manifest.json)"
    # A frame that lies across a border is made, or taken, by both ranks.
    checks=$((checks + 1))
    jq -e --argjson f $frames --argjson s $sound '.run | (.ranks - 1) as $more |
        (([.work[].frames] | add) + .reused.frames) as $all | $all >= $f and $all <= $f + $more and
        (([.work[].sound_tokens] | add) + .reused.sound_tokens) >= $s' out/talk.mp4/manifest.json >/dev/null ||
        fail "$what: $(jq -c '.run | {reused, work}' out/talk.mp4/manifest.json)"
}

# ------------------------------------------------------------------ killed and stopped

stopped KILL frames-0-0-16-32 --threads 1
again "killed among the pictures" --ranks 3 --threads 1
jq -e '.run.reused.frames >= 32' out/talk.mp4/manifest.json >/dev/null || fail "the pictures were made again"

stopped KILL backbone --threads 1
jq -e '.sets[0] | .state == "under way" and .stored.frames[1] == 96' under_way >/dev/null ||
    fail "not under way: $(cat under_way)"
checks=$((checks + 1))
[ "$stored" = '{"frames":[96,96],"sound_tokens":[600,600],"layers":[0,6]}' ] || fail "stored after the towers: $stored"
cp -a out killed
again "killed in the backbone" --threads 2
checks=$((checks + 1))
jq -e '[.run.work[] | .frames, .sound_tokens] == [0, 0]' out/talk.mp4/manifest.json >/dev/null ||
    fail "a tower ran again"

for signal in TERM INT; do
    stopped $signal frames-0-0-0-16 --threads 2 --progress=off
    checks=$((checks + 1))
    [ $ended -eq 3 ] || fail "SIG$signal: exit status $ended, not 3"
    says "run the same command again"
    again "SIG$signal" --ranks 2 --threads 1
done

# ------------------------------------------------------------------ what is there is not what was written

# copy: the directory of a run that was killed when its towers were through.
copy() {
    rm -rf out
    cp -a killed out
    slices=$(echo out/.partial/*)
}
spoil() { printf '\xff\xfe\xfd' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
copy
spoil "$slices/frames-0-0-16-32" 5000
spoil "$slices/frames-0-0-32-48" 100
truncate -s 3000 "$slices/frames-0-0-48-64"
: >"$slices/frames-0-0-64-80"
rm "$slices/soundnotes-0-0-0-1"
mv "$slices/frames-0-0-80-96" "$slices/frames-0-0-80-95"
echo "no slice" >"$slices/frames-0-0-0-18446744073709551615"
rm "$slices"/sound-0-0-*
cp "$slices/frames-0-0-0-16" "$slices/sound-0-0-0-600"
stored='{"frames":[16,96],"sound_tokens":[0,600],"layers":[0,6]}'
again "slices altered, cut off, emptied, renamed and lost" --ranks 2 --threads 1
says "frames-0-0-16-32: is altered: what it held is done again"
says "frames-0-0-48-64: is cut off"
says "frames-0-0-80-95: is of other work"

copy
rm "$slices/about-0-0-0-1"
check 0 "status of what nobody knows" "$LONGREEL" status out --json
json '(.sets | length == 1) and (.sets[0] | .state == "interrupted" and .stored == null)'
stored='{"frames":[96,96],"sound_tokens":[600,600],"layers":[0,6]}'
again "without its note" --threads 1

# Ranges of damage that were met while decoding what is stored, and while decoding what is not.
cp talk.mp4 damaged.mp4
for at in 300 450 700; do spoil damaged.mp4 $(($(stat -c %s talk.mp4) * at / 1000)); done
check 0 "a damaged recording" "$LONGREEL" encode damaged.mp4 "${options[@]}" -o whole --threads 1
jq -e '.damage | length > 0' whole/damaged.mp4/manifest.json >/dev/null || fail "no damage to test with"
for ((tries = 0; tries < 5; tries++)); do
    rm -rf out "$err"
    "$LONGREEL" encode damaged.mp4 "${options[@]}" -o out --threads 1 --progress=json >"$out" 2>"$err" &
    job=$!
    until_said '"stage":"backbone"' && kill -s KILL $job
    wait $job 2>/dev/null
    [ -e out/damaged.mp4 ] || break
done
cp -a out torn
check 0 "damage that is stored" "$LONGREEL" encode damaged.mp4 "${options[@]}" -o out --threads 1
same_set whole/damaged.mp4 out/damaged.mp4
rm -f torn/.partial/*/{frames-0-0-16-32,frames-0-0-64-80,soundnotes-0-0-0-1}
check 0 "damage that is partly stored" "$LONGREEL" encode damaged.mp4 "${options[@]}" -o torn --ranks 2 --threads 1
same_set whole/damaged.mp4 torn/damaged.mp4
jq -e '.run.reused.frames == 64' torn/damaged.mp4/manifest.json >/dev/null || fail "more or less was reused"

# ------------------------------------------------------------------ layers

windows=("${options[@]}" --context 2000 --chunk 256)
check 0 "windows without a disturbance" "$LONGREEL" encode talk.mp4 "${windows[@]}" -o windows --threads 2
stopped KILL layer-2-5-0-256 --threads 1 --ranks 2 --context 2000 --chunk 256 --checkpoint-layers
layers=$(jq '.layers[0]' <<<"$stored")
[ "${layers:-0}" -ge 12 ] || fail "only $layers layers stored"
cp -a out layered
check 0 "on after two windows" "$LONGREEL" encode talk.mp4 "${windows[@]}" -o out --checkpoint-layers --ranks 3 \
    --threads 1
same_set windows/talk.mp4 out/talk.mp4
absent out/.partial
# Each window has 1800 tokens or more. A window whose state was not all there when the run was killed counts for
# nothing.
checks=$((checks + 1))
jq -e --argjson n "$layers" '.run.reused.layers as $l | $l >= 12 and $l <= $n and $l % 6 == 0 and
    ([.run.work[].query_rows] | add) <= 6 * .tokens - $l * 1800' out/talk.mp4/manifest.json >/dev/null ||
    fail "layers: $(jq -c '.run | {reused, work}' out/talk.mp4/manifest.json)"
spoil layered/.partial/*/layer-1-5-256-512 3000
check 0 "an altered state" "$LONGREEL" encode talk.mp4 "${windows[@]}" -o layered --checkpoint-layers --threads 1
says "layer-1-5-256-512: is altered"
same_set windows/talk.mp4 layered/talk.mp4

# ------------------------------------------------------------------ several at a time, and none

copy
for i in 1 2 3; do
    "$LONGREEL" encode talk.mp4 "${options[@]}" -o out --threads 1 --ranks $i >"run$i" 2>&1 </dev/null &
    jobs[i]=$!
done
for i in 1 2 3; do
    wait "${jobs[i]}" || fail "run $i of three at a time: $(cat "run$i")"
done
same_set whole/talk.mp4 out/talk.mp4
absent out/.partial
no_parts out

copy
check 0 "--force begins anew" "$LONGREEL" encode talk.mp4 "${options[@]}" -o out --threads 2 --force
jq -e '.run.reused == {"frames": 0, "sound_tokens": 0, "layers": 0}' out/talk.mp4/manifest.json >/dev/null ||
    fail "--force took something over"
absent out/.partial
copy
cp -a whole/talk.mp4 out/
check 0 "what is finished needs nothing" "$LONGREEL" encode talk.mp4 "${options[@]}" -o out
absent out/.partial
rm -rf out
start -o out --threads 2 --no-resume
until_event '"stage":"backbone"' $job
absent out/.partial
end_without() { kill -s KILL $job; wait $job 2>/dev/null; }
end_without

# A limit on the size of a file fails writes as a full disk does.
rm -rf out
check 0 "no room for slices" bash -c 'ulimit -f 64; exec "$@"' - "$LONGREEL" encode talk.mp4 -m model --fps 4 -o out \
    --threads 2
checks=$((checks + 1))
[ "$(grep -c 'File too large; what is done so far cannot be kept' "$err")" -eq 1 ] || fail "not warned once: $(cat "$err")"
cmp whole/talk.mp4/segments.npy out/talk.mp4/segments.npy || fail "other vectors without room for slices"

# ------------------------------------------------------------------ processes

# killed_after LAYER: three ranks of MPI, one of which is killed when the state after a layer is there. A busy
# machine may come too late for that.
killed_after() {
    local tries victim proxy
    for tries in 1 2 3; do
        rm -rf out "$err"
        bash "$fixtures/../comm/mpirun.sh" mpich 3 "$LONGREEL" "${deep[@]}" -o out --threads 1 --peer-timeout 4 \
            --checkpoint-layers >"$out" 2>"$err" &
        job=$!
        until_stored about && proxy=$(pgrep -P $job | head -n 1) && victim=$(pgrep -x -P "$proxy" longreel | sed -n 2p)
        until_stored "layer-0-$1-0-256" && kill -s KILL "$victim" 2>/dev/null
        wait $job 2>/dev/null
        [ -e out/talk.mp4 ] || return 0
    done
    fail "three runs ended before they could be killed"
}

# A model of 24 layers, of which the 6th, 12th, 18th and 24th see the whole sequence.
if command -v mpirun.mpich >/dev/null; then
    "$LONGREEL" make-model deep --size deep >/dev/null || exit 1
    deep=(encode talk.mp4 -m deep --fps 2 --save tokens --chunk 256)
    check 0 "a deep model without a disturbance" "$LONGREEL" "${deep[@]}" -o whole --force --threads 2
    for layer in 5 11; do
        killed_after $layer
        no_processes "a rank that was killed"
        "$LONGREEL" status out --json >state
        checks=$((checks + 1))
        jq -e --argjson l $layer '.sets[0].stored | .frames == [48, 48] and .sound_tokens == [600, 600] and
            .layers[1] == 24 and .layers[0] >= $l - 5' state >/dev/null || fail "three ranks stored $(cat state)"
        cp -a out "three-$layer"
        check 0 "one rank after three of MPI" "$LONGREEL" "${deep[@]}" -o out --threads 2
        check 0 "two of MPI after three" bash "$fixtures/../comm/mpirun.sh" mpich 2 "$LONGREEL" "${deep[@]}" \
            -o "three-$layer" --threads 1 --checkpoint-layers
        for again in out "three-$layer"; do
            same_set whole/talk.mp4 "$again/talk.mp4"
            absent "$again/.partial"
            checks=$((checks + 1))
            # Until the layer at hand is put away by all ranks, the one before it counts.
            jq -e --argjson l $layer '.tokens as $n | .run | .reused.layers as $done | .reused.frames == 48 and
                .reused.sound_tokens == 600 and $done % 6 == 0 and $done >= $l - 5 and $done <= $l + 7 and
                ([.work[].query_rows] | add) == (24 - $done) * $n and ([.work[].frames] | add) == 0' \
                "$again/talk.mp4/manifest.json" >/dev/null ||
                fail "$again: $(jq -c '.run | {reused, work}' "$again/talk.mp4/manifest.json")"
        done
    done
fi
finish
