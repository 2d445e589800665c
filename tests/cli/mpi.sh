#!/bin/bash
# Ranks that are processes: the same bytes as with local ranks, under each MPI; the wrong launcher; ranks
# that differ, fail, are killed or stopped.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
tests=$fixtures/..
. "$tests/support/processes.sh"
clip talk.mp4 7.3
silent_clip short.mp4 0.5
regular=(-m "$fixtures/regular" --chunk 16 --save tokens --segment 2 --hop 1.5)

# ranks MPI NUMBER ARGUMENT...: longreel on so many processes.
ranks() {
    local mpi=$1 number=$2
    shift 2
    timeout -k 5 120 bash "$tests/comm/mpirun.sh" "$mpi" "$number" "$LONGREEL" "$@"
}

other() { if [ "$1" = openmpi ]; then echo mpich; else echo openmpi; fi; }

# ------------------------------------------------------------------ the same bytes

check 0 "one local rank" "$LONGREEL" encode talk.mp4 short.mp4 "${regular[@]}" -o local
for mpi in openmpi mpich; do
    for number in 1 2 3 5 8; do
        check 0 "$number ranks of $mpi" ranks $mpi $number encode talk.mp4 short.mp4 "${regular[@]}" \
            -o "$mpi-$number" --comm mpi --threads 1 --json --groups 1
        json "[.recordings[] | .status, .ranks] == [\"saved\", $number, \"saved\", $number]"
        for recording in talk.mp4 short.mp4; do
            same_set "local/$recording" "$mpi-$number/$recording"
            jq -e ".run | .communicator == \"mpi\" and (.work | length) == $number" \
                "$mpi-$number/$recording/manifest.json" >/dev/null || fail "$mpi-$number: not $number ranks"
        done
        jq -e '[.run.work[].samples_decoded | select(. > 0)] | length == 1' \
            "$mpi-$number/talk.mp4/manifest.json" >/dev/null || fail "$mpi-$number: the sound was not decoded once"
    done
    check 0 "$mpi without being asked" ranks $mpi 3 encode talk.mp4 "${regular[@]}" -o "$mpi-auto" \
        --context 300 --threads 2
    jq -e '.run | .communicator == "mpi" and .ranks == 3' "$mpi-auto/talk.mp4/manifest.json" >/dev/null ||
        fail "$mpi: three tasks did not become three ranks"
    check 0 "a finished set under $mpi" ranks $mpi 2 encode talk.mp4 "${regular[@]}" -o "$mpi-3"
    checks=$((checks + 1))
    [ "$(cat "$out")" = "$mpi-3/talk.mp4: finished before, skipped" ] || fail "printed: $(cat "$out")"
done
check 0 "windows on a local rank" "$LONGREEL" encode talk.mp4 "${regular[@]}" -o local-windows --context 300
for mpi in openmpi mpich; do same_set local-windows/talk.mp4 $mpi-auto/talk.mp4; done

# ------------------------------------------------------------------ wrong usage

for mpi in openmpi mpich; do
    check 2 "the other MPI under the launcher of $mpi" ranks $mpi 2 encode talk.mp4 "${regular[@]}" -o wrong \
        --mpi "$(other $mpi)"
    says "started 2 tasks, but"
    says "use --mpi $mpi"
    checks=$((checks + 1))
    [ "$(grep -c '^longreel:' "$err")" -eq 1 ] || fail "more than one rank spoke: $(cat "$err")"
    check 2 "local ranks beside $mpi" ranks $mpi 2 encode talk.mp4 "${regular[@]}" -o wrong --ranks 2
    says "--ranks 2"
    check 2 "no model under $mpi" ranks $mpi 2 encode talk.mp4 -m none -o wrong
    says "none/config.json"
    check 2 "no output under $mpi" ranks $mpi 3 encode talk.mp4 -m "$fixtures/regular"
    checks=$((checks + 1))
    [ "$(grep -c 'is missing' "$err")" -eq 1 ] || fail "more than one rank spoke: $(cat "$err")"
done
check 2 "MPI without a launcher" "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong --comm mpi
says "mpirun"
check 2 "srun without MPI" env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$LONGREEL" encode talk.mp4 \
    "${regular[@]}" -o wrong
says "srun --mpi=pmix"
check 0 "tasks that each work for themselves" env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "$LONGREEL" encode \
    short.mp4 "${regular[@]}" -o alone --comm local
check 2 "ranks of different instruction sets" timeout 60 mpirun.mpich -n 1 "$LONGREEL" encode talk.mp4 \
    "${regular[@]}" -o wrong : -n 1 env LONGREEL_ISA=scalar "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong
says "instruction set: scalar"
check 2 "ranks of different options" timeout 60 mpirun.mpich -n 1 "$LONGREEL" encode talk.mp4 "${regular[@]}" \
    -o wrong : -n 1 "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong --fps 2
says "--fps: 2/1"
absent wrong

# A task that never calls MPI keeps the others from starting, as one that is stopped before does.
started=$SECONDS
check 3 "a rank that does not come" timeout 60 mpirun.mpich -n 1 "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong \
    --peer-timeout 1 : -n 1 sleep 50
says "not all ranks have come within 22 s"
checks=$((checks + 1))
[ $((SECONDS - started)) -le 45 ] || fail "noticed only after $((SECONDS - started)) s"
absent wrong

# ------------------------------------------------------------------ batches

head -c 3000 talk.mp4 >broken.mp4
printf 'broken.mp4\nshort.mp4\nmissing.mp4\ntalk.mp4\n' >list.txt
for mpi in openmpi mpich; do
    check 1 "a list with broken files under $mpi" ranks $mpi 3 encode @list.txt "${regular[@]}" -o "$mpi-list" \
        --json
    json '[.recordings[].status] == ["failed", "saved", "failed", "saved"]'
    same_set local/talk.mp4 "$mpi-list/talk.mp4"
    no_parts "$mpi-list"
done
checks=$((checks + 1))
printf 'short.mp4\n' | ranks openmpi 2 encode @- "${regular[@]}" -o stdin >"$out" 2>"$err" ||
    fail "a list from standard input: $(cat "$err")"
same_set local/short.mp4 stdin/short.mp4

# A file that is another one on one rank.
mkdir a b
cp talk.mp4 a/it.mp4
silent_clip b/it.mp4 2
check 1 "another file on rank 1" timeout 60 mpirun.mpich -n 1 -wdir "$work/a" "$LONGREEL" encode it.mp4 \
    "${regular[@]}" -o "$work/wrong" : -n 1 -wdir "$work/b" "$LONGREEL" encode it.mp4 "${regular[@]}" \
    -o "$work/wrong"
says "is another file here than on rank 0"
absent wrong/it.mp4
cp -p talk.mp4 b/it.mp4
check 0 "a copy on rank 1" timeout 60 mpirun.mpich -n 1 -wdir "$work/a" "$LONGREEL" encode it.mp4 \
    "${regular[@]}" -o "$work/copies" : -n 1 -wdir "$work/b" "$LONGREEL" encode it.mp4 "${regular[@]}" \
    -o "$work/copies"
checks=$((checks + 1))
cmp local/talk.mp4/tokens.safetensors copies/it.mp4/tokens.safetensors || fail "a copy gives other bytes"

# ------------------------------------------------------------------ what only one rank sees

# Rank 1 cannot put away what it makes, for a file is in the place of its directory; the set is whole, and the user
# hears of it.
touch b/warned
one=("$LONGREEL" encode it.mp4 -m "$fixtures/regular" --chunk 16 -o warned)
check 0 "a warning of rank 1" timeout 60 mpirun.mpich -n 1 -wdir "$work/a" "${one[@]}" : -n 1 -wdir "$work/b" \
    "${one[@]}" : -n 1 -wdir "$work/a" "${one[@]}"
says "cannot be kept for another run"
checks=$((checks + 1))
[ "$(grep -c 'warning:' "$err")" -eq 1 ] || fail "not one warning: $(cat "$err")"
checks=$((checks + 1))
jq -e '.warnings == [] and (.run.warnings | map(.rank) == [1] and
    (.[0].message | contains("cannot be kept for another run")))' a/warned/it.mp4/manifest.json >/dev/null ||
    fail "not in the manifest: $(jq -c '[.warnings, .run.warnings]' a/warned/it.mp4/manifest.json)"

# ------------------------------------------------------------------ lost ranks

"$LONGREEL" make-model model >/dev/null || exit 1
silent_clip long.mp4 60
long=(encode long.mp4 -m model --fps 10 --threads 1 --progress=json --peer-timeout 4)

# lose MPI SIGNAL STAGE RANK: what becomes of the others when one of three is hit in a stage.
lose() {
    local mpi=$1 signal=$2 stage=$3 victim=$4 status begin
    local what="$signal for rank $victim of $mpi in $stage"
    rm -rf lost "$err"
    ranks "$mpi" 3 "${long[@]}" -o lost >"$out" 2>"$err" &
    local job=$!
    until_event "\"stage\":\"$stage\"" "$job" || return
    kill -s "$signal" "$(rank_process "$victim")"
    begin=$SECONDS
    wait "$job"
    status=$?
    checks=$((checks + 1))
    if [ "$signal" = KILL ]; then # the launcher reports the signal
        [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "$what: exit status $status"
    else
        [ "$status" -eq 3 ] || fail "$what: exit status $status, not 3"
    fi
    [ $((SECONDS - begin)) -le 15 ] || fail "$what: noticed only after $((SECONDS - begin)) s"
    [ "$signal" != STOP ] || says "rank $victim is lost"
    no_processes "$what"
    absent lost/long.mp4
}

for mpi in openmpi mpich; do
    lose $mpi KILL towers 0
    lose $mpi KILL backbone 1
    lose $mpi STOP towers 2
    lose $mpi STOP backbone 0
    lose $mpi TERM backbone 1
    no_parts lost
done
check 0 "the same command again" ranks mpich 2 "${long[@]}" -o lost
check 0 "without a disturbance" "$LONGREEL" "${long[@]}" -o whole
same_set whole/long.mp4 lost/long.mp4
no_parts lost

# ------------------------------------------------------------------ the layer at hand

# Of this model's 24 layers each 6th takes nearly all the time: the progress tells which one the signal comes in.
# However slow the machine, it has the time to end that layer.
"$LONGREEL" make-model deep --size deep >/dev/null || exit 1
deep=(encode long.mp4 -m deep --fps 3 --threads 1 --progress=json --peer-timeout 30 --grace 100)
check 0 "a deep model without a disturbance" "$LONGREEL" "${deep[@]}" -o whole --force

# layer_kept MPI RANK: a rank is told to end in the backbone; the layer at hand is kept, in $kept.
layer_kept() {
    local mpi=$1 victim=$2 status at what="TERM for rank $2 of $1 within a layer"
    rm -rf kept "$err"
    ranks "$mpi" 3 "${deep[@]}" -o kept >"$out" 2>"$err" &
    local job=$!
    until_event '"stage":"backbone","done":0\.[2-6]' "$job" || return
    kill -s TERM "$(rank_process "$victim")"
    wait "$job"
    status=$?
    checks=$((checks + 3))
    [ "$status" -eq 3 ] || fail "$what: exit status $status, not 3"
    no_processes "$what"
    no_parts kept
    absent kept/long.mp4
    # The signal came after this share of the layers.
    at=$(grep -o '"stage":"backbone","done":0\.[2-6][0-9]*' "$err" | head -n 1 | cut -d: -f3)
    "$LONGREEL" status kept --json >state
    kept=$(jq '.sets[0].stored.layers[0]' state)
    jq -e --argjson at "${at:-1}" '.sets[0] | .state == "interrupted" and .stored.frames == [180, 180] and
        .stored.layers[0] > 24 * $at and .stored.layers[0] < 24' state >/dev/null ||
        fail "$what: told at $at, kept: $(cat state)"
}

# goes_on WHAT COMMAND...: the run that was told to end is ended by the command, and no layer is done again.
goes_on() {
    local what=$1
    shift
    check 0 "$what" "$@"
    same_set whole/long.mp4 kept/long.mp4
    absent kept/.partial
    checks=$((checks + 1))
    jq -e --argjson k "${kept:-0}" '.tokens as $n | .run | .reused.layers == $k and .reused.frames == 180 and
        ([.work[].query_rows] | add) == (24 - $k) * $n' kept/long.mp4/manifest.json >/dev/null ||
        fail "$what: $kept layers were kept: $(jq -c '.run | {reused, work}' kept/long.mp4/manifest.json)"
}

layer_kept openmpi 1 && goes_on "one local rank after three of Open MPI" "$LONGREEL" "${deep[@]}" -o kept
layer_kept mpich 0 && goes_on "two ranks of MPICH after three" ranks mpich 2 "${deep[@]}" -o kept
finish
