#!/bin/bash
# Under a real Slurm of one machine: srun with Open MPI and MPICH, the batch scripts of samples/, lost and
# cancelled jobs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$fixtures/../support/processes.sh"
. "$fixtures/../support/slurm.sh"
samples=$(cd "$fixtures/../../samples" && pwd)
export LONGREEL
trap 'stop_slurm; rm -rf "$work"' EXIT
start_slurm || { echo "  FAILED: Slurm does not come up: $(tail -n 3 "$slurm"/*.log "$slurm"/*.err)"; exit 1; }
clip talk.mp4 7.3
silent_clip short.mp4 0.5
regular=(-m "$fixtures/regular" --chunk 16 --save tokens)
check 0 "one local rank" "$LONGREEL" encode talk.mp4 short.mp4 "${regular[@]}" -o local
step() { timeout -k 5 120 srun "$@"; }

for service in pmix pmi2; do
    check 0 "three tasks by $service" step --mpi=$service -n 3 "$LONGREEL" encode talk.mp4 "${regular[@]}" \
        -o $service
    same_set local/talk.mp4 $service/talk.mp4
    jq -e '.run | .communicator == "mpi" and .ranks == 3' $service/talk.mp4/manifest.json >/dev/null ||
        fail "$service: three tasks did not become three ranks"
    checks=$((checks + 1))
    [ "$(wc -l <"$out")" -eq 1 ] || fail "$service: printed $(cat "$out")"
done
check 2 "no service for MPI" step --mpi=none -n 3 "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong
says "use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
check 2 "MPICH by pmix" step --mpi=pmix -n 2 "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong --mpi mpich
says "srun --mpi=pmi2"
check 2 "Open MPI by pmi2" step --mpi=pmi2 -n 2 "$LONGREEL" encode talk.mp4 "${regular[@]}" -o wrong \
    --mpi openmpi
says "srun --mpi=pmix"
absent wrong
check 0 "one task" step --mpi=none -n 1 "$LONGREEL" encode short.mp4 "${regular[@]}" -o one --ranks 2

# ------------------------------------------------------------------ batch scripts

# batch WHAT SBATCH ARGUMENT...: submits, waits; the job's output is in job-*.out
batch() {
    local what=$1
    shift
    check 0 "$what" timeout 120 sbatch --wait --output=job-%A-%a.out "$@" || tail -n 5 job-*.out
}

printf 'talk.mp4\nshort.mp4\n' >list.txt
batch "an array job" --array=0-1 "$samples/7_slurm_array.sbatch" "$fixtures/regular" list.txt array \
    --chunk 16 --save tokens
for recording in talk.mp4 short.mp4; do
    same_set local/$recording array/$recording
    jq -e '.run.ranks == 2' array/$recording/manifest.json >/dev/null || fail "array: $recording: not 2 ranks"
done
batch "a ring" --ntasks-per-node=4 "$samples/8_slurm_ring.sbatch" "$fixtures/regular" talk.mp4 ring --chunk 16 \
    --save tokens
same_set local/talk.mp4 ring/talk.mp4
jq -e '.run.ranks == 4' ring/talk.mp4/manifest.json >/dev/null || fail "ring: not 4 ranks"
batch "the same job again" --array=0-1 "$samples/7_slurm_array.sbatch" "$fixtures/regular" list.txt array \
    --chunk 16 --save tokens
grep -q "skipped" job-*.out || fail "the same job again did not skip"

# ------------------------------------------------------------------ lost and cancelled

"$LONGREEL" make-model model >/dev/null || exit 1
silent_clip long.mp4 60
long=("$LONGREEL" encode long.mp4 -m model --fps 10 --threads 1 --progress=json --peer-timeout 4 -o lost)

# lose SERVICE SIGNAL: rank 1 of a step is hit; `cancel` for the signal: the step is cancelled.
lose() {
    local service=$1 signal=$2 status what="$2 under srun --mpi=$1"
    rm -rf lost "$err"
    step --mpi="$service" -n 3 "${long[@]}" >"$out" 2>"$err" &
    local job=$!
    until_event '"stage":"backbone"' "$job" || return
    if [ "$signal" = cancel ]; then
        scancel --signal=TERM "$(squeue -h -o %A | head -n 1)"
    else
        kill -s "$signal" "$(rank_process 1)"
    fi
    wait "$job"
    status=$?
    checks=$((checks + 1))
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "$what: exit status $status"
    [ "$signal" != cancel ] || [ "$status" -eq 3 ] || fail "$what: exit status $status, not 3"
    [ "$signal" != STOP ] || says "rank 1 is lost"
    no_processes "$what"
    absent lost/long.mp4
}

for service in pmix pmi2; do
    lose $service KILL
    lose $service STOP
    lose $service cancel
    no_parts lost
done
finish
