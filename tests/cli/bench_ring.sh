#!/bin/bash
# bench ring: the same bytes by every schedule, the volume that the formula says, local and over MPI; the
# simulation.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
small=(--chunk 32 --head-dim 32 --repeats 1 --threads 1)

check 0 "bench ring --help" "$LONGREEL" bench ring --help
grep -q "^Usage: longreel bench ring " "$out" || fail "bench ring --help begins otherwise"
check 0 "local ranks" "$LONGREEL" bench ring "${small[@]}" --tokens 500,1001 --ranks 1,2,5,8 --node-ranks 3 --json
json '.bench == "ring" and .simulated == false and (.results | length) == 20'
json '[.results[] | .same_bytes and .elements == .elements_due] | all'
# 2 (P - 1) n H_kv D
json '[.results[] | .elements == 2 * (.ranks - 1) * .tokens * 32] | all'
json '[.results[] | .bytes_sent >= 4 * .elements and .bytes_per_rank > 0 and .hidden >= 0 and .hidden <= 1] | all'
json '[.results[] | .seconds_min > 0 and .seconds_compute > 0 and .seconds_simulated > 0] | all'
json '[.results[] | select(.tokens == 500) | .digest] | unique | length == 1'
json '[.results[].schedule] | unique == ["all-gather", "none", "ring", "two-level"]'
json '[.results[] | select(.ranks == 8 and .tokens == 1001) | .messages] | unique == [224]'
check 0 "heads that share" "$LONGREEL" bench ring "${small[@]}" --tokens 300 --ranks 3 --heads 6 --kv-heads 3 \
    --schedule two-level,ring --json
json '[.results[].same_bytes] == [true, true] and .results[0].elements == 2 * 2 * 300 * 3 * 32'
check 0 "heads of a model" "$LONGREEL" bench ring --repeats 1 --threads 1 -m "$fixtures/vjepa" --tokens 2100 --ranks 2 \
    --schedule ring --json
json '.heads == 2 and .kv_heads == 2 and .head_dim == 20 and .results[0].elements == 2 * 2100 * 2 * 20'
check 0 "another width than the model's" "$LONGREEL" bench ring --repeats 1 --threads 1 -m "$fixtures/regular" \
    --head-dim 16 --tokens 300 --ranks 2 --json
json '.head_dim == 16 and ([.results[].same_bytes] | all)'
check 2 "no model" "$LONGREEL" bench ring -m none
says "none/config.json"
check 0 "as text" "$LONGREEL" bench ring "${small[@]}" --tokens 200 --ranks 1,2
grep -Eq ' +200 +2 two-level .* as due .* same$' "$out" || fail "printed: $(cat "$out")"
check 0 "more ranks than chunks" "$LONGREEL" bench ring "${small[@]}" --tokens 40 --ranks 8 --json
json '[.results[] | .same_bytes and .elements == .elements_due] | all'

for mpi in openmpi mpich; do
    check 0 "$mpi" timeout -k 5 120 bash "$fixtures/../comm/mpirun.sh" $mpi 3 "$LONGREEL" bench ring "${small[@]}" \
        --tokens 500 --ranks 1,2,3 --node-ranks 2 --json
    json '(.results | length) == 7 and ([.results[] | .same_bytes and .elements == .elements_due] | all)'
    check 2 "more ranks than there are, $mpi" timeout -k 5 120 bash "$fixtures/../comm/mpirun.sh" $mpi 2 "$LONGREEL" \
        bench ring "${small[@]}" --tokens 500 --ranks 3
    says "--ranks: 3"
done

check 0 "a simulation" "$LONGREEL" bench ring --simulate --flops 4e14 --link 4e11,5e10 --value-bytes 2 --ranks 1,8,64 \
    --tokens 65536,524288 --json
json '.simulated and (.results | length) == 18 and (.hidden_from | length) == 4'
json '[.results[] | select(.ranks == 1) | .messages == 0 and .efficiency > 0.999] | all'
json '[.results[] | .seconds >= .seconds_compute * 0.999 and .hidden <= 1.001 and .groups >= 1] | all'
# short sequences on many ranks: the exchange is not hidden, and smaller rings get through more
json '[.results[] | select(.ranks == 64 and .tokens == 65536)] | all(.hidden < 0.9 and .groups > 1)'
json '[.hidden_from[] | .tokens > .closed_form * 0.8] | all'
check 0 "a simulation as text" "$LONGREEL" bench ring --simulate --flops 1e12 --link 1e10 --ranks 4 --tokens 16384
grep -q "hidden from [0-9]* tokens on" "$out" || fail "printed: $(cat "$out")"

# Groups are of rings; without those nothing is said of them.
check 0 "a simulated all-gather" "$LONGREEL" bench ring --simulate --flops 1e12 --link 1e10 --ranks 4 --tokens 16384 \
    --schedule all-gather --json
json '[.results[] | .groups, .groups_gain] == [null, null]'
check 2 "a simulation of nothing" "$LONGREEL" bench ring --simulate
says "--flops and --link"
for link in '' x 0 -1 1e9, 1e9,x 1e9,1e9,1e9 inf nan; do
    check 2 "--link '$link'" "$LONGREEL" bench ring --simulate --flops 1e12 --link "$link"
    says "--link"
done
check 2 "an unknown schedule" "$LONGREEL" bench ring --schedule ring,halo
check 2 "heads that do not share" "$LONGREEL" bench ring --heads 4 --kv-heads 3
check 2 "an odd head" "$LONGREEL" bench ring --head-dim 7
check 2 "links without a simulation" "$LONGREEL" bench ring --link 1e9
check 2 "three bytes a value" "$LONGREEL" bench ring --value-bytes 3
check 2 "too many ranks" "$LONGREEL" bench ring --ranks 65
check 2 "a recording" "$LONGREEL" bench ring a.mp4
finish
