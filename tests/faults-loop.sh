#!/bin/bash
# Ranks hit at random times, again and again. A round starts a run over two to four ranks (Open MPI, MPICH or local
# ones), kills, stops or tells to end one of them at some time, and starts the same work again with another number of
# ranks. The others must end in time, with the right status and a message that names the rank and the stage; nothing
# may be left, no process and no half-written set; the second run takes over all that was kept, does nothing of it
# again, and its set has the bytes of an undisturbed one.
#
#   LONGREEL=.../longreel tests/faults-loop.sh [ROUNDS [SEED]]     (default 20 rounds; the seed is printed)
. "$(dirname "${BASH_SOURCE[0]}")/cli/common.sh"
tests=$fixtures/..
. "$tests/support/processes.sh"
rounds=${1:-20} seed=${2:-$((SECONDS + $$ * 7919 + RANDOM))}
RANDOM=$((seed % 32768))
peer_timeout=4 grace=30
# What the others may take beyond the time limit: to tell each other and end the job, on a machine that is busy.
slack=${LR_FAULTS_SLACK:-40}
echo "seed $seed, $rounds rounds"

"$LONGREEL" make-model deep --size deep >/dev/null || exit 1
clip talk.mp4 24
work_options=(encode talk.mp4 -m deep --fps 4 --save tokens --chunk 256)
check 0 "without a disturbance" "$LONGREEL" "${work_options[@]}" -o whole --threads 1
# Tenths of seconds that a run takes, start included.
begin=$(date +%s%N)
check 0 "a run of MPI without a disturbance" bash "$tests/comm/mpirun.sh" mpich 2 "$LONGREEL" "${work_options[@]}" \
    -o measured --threads 1
whole_time=$((($(date +%s%N) - begin) / 100000000))
same_set whole/talk.mp4 measured/talk.mp4
frames=$(jq .counts.frames whole/talk.mp4/manifest.json)
tokens=$(jq .tokens whole/talk.mp4/manifest.json)

# on BY NUMBER ARGUMENT...: the work on so many ranks.
on() {
    local by=$1 number=$2
    shift 2
    case $by in
    local) exec "$LONGREEL" "${work_options[@]}" --threads 1 --ranks "$number" "$@" ;;
    *) exec bash "$tests/comm/mpirun.sh" "$by" "$number" "$LONGREEL" "${work_options[@]}" --threads 1 "$@" ;;
    esac
}

# hit BY SIGNAL RANK TENTHS: sends the signal at that time, or once the rank's process is there; $stage: what was
# under way. False: the run was through.
hit() {
    local by=$1 signal=$2 victim=$3 tenths=$4 pid='' i
    sleep "$((tenths / 10)).$((tenths % 10))"
    for ((i = 0; i < 200; i++)); do
        if [ "$by" = local ]; then pid=$job; else pid=$(rank_process "$victim"); fi
        [ -z "$pid" ] || break
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.05
    done
    stage=$(grep -o '"stage":"[a-z]*"' "$err" | tail -n 1 | cut -d'"' -f4)
    kill -s "$signal" "$pid" 2>/dev/null
}

# in_time: waits for the run, $status; false when it does not end.
in_time() {
    local i limit=$(((peer_timeout + slack) * 10))
    [ "$signal" != TERM ] || limit=$((limit + grace * 10))
    for ((i = 0; i < limit; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$job" 2>/dev/null && return 1
    wait "$job" 2>/dev/null
    status=$?
}

end_all() { # what this round started, after a failure
    local pid name
    while read -r pid name; do kill -KILL "$pid" 2>/dev/null; done < <(marked_processes | grep ' longreel$')
}

# The status that a run ends with.
check_status() {
    checks=$((checks + 1))
    case $signal in
    STOP) # or all had said good-bye
        [ "$status" -eq 3 ] || { [ "$status" -eq 0 ] && [ -e out/talk.mp4 ]; } || fail "$what: exit status $status, not 3: $(tail -n 3 "$err")" ;;
    TERM)
        if [ -e out/talk.mp4 ]; then
            [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || fail "$what: exit status $status with a set"
        else
            [ "$status" -eq 3 ] || fail "$what: exit status $status, not 3: $(tail -n 3 "$err")"
        fi
        ;;
    KILL) # the launcher's own
        [ "$status" -ne 0 ] || [ -e out/talk.mp4 ] || fail "$what: exit status 0 without a set"
        ;;
    esac
}

# The stage may have changed since the last line of progress.
check_message() {
    local says=interrupted
    [ "$signal" != KILL ] && [ "$status" -eq 3 ] || return 0
    checks=$((checks + 1))
    [ "$signal" != STOP ] || says="rank $victim is lost"
    grep -qE "$says|not all ranks have come" "$err" || fail "$what: no message says '$says': $(tail -n 3 "$err")"
    case $stage in
    towers) grep -qE "talk.mp4: (in the towers|in the backbone, layer [0-9]+ of 24): .*$says" "$err" ;;
    backbone) grep -qE "talk.mp4: (in the backbone, layer [0-9]+ of 24|while the set was written): .*$says" "$err" ;;
    esac || fail "$what: in $stage, which is not named: $(tail -n 3 "$err")"
}

# What there is of the work: a whole set, or none and what is kept.
check_left() {
    no_processes "$what"
    stored='{"frames":[0],"sound_tokens":[0],"layers":[0]}'
    if [ -e out/talk.mp4 ]; then
        check 0 "$what: a set is whole" "$LONGREEL" verify out/talk.mp4
    elif [ -e out ]; then
        check 0 "$what: status" "$LONGREEL" status out --json
        stored=$(jq -c '.sets[0].stored // {"frames":[0],"sound_tokens":[0],"layers":[0]}' "$out")
    fi
}

# The same command on other ranks, to its end.
check_again() {
    local by number
    by=$(pick openmpi mpich local)
    number=$((1 + RANDOM % 4))
    [ "$number" -ne "$ranks" ] || number=$((number % 4 + 1))
    [ "$number" -gt 1 ] || by=local
    # shellcheck disable=SC2016
    check 0 "$what; again on $number of $by" on_with_limit "$by" "$number" -o out "${extra[@]}" --json || return
    if jq -es '.[0].recordings[0].status == "skipped"' "$out" >/dev/null; then return; fi
    checks=$((checks + 1))
    jq -e --argjson s "$stored" --argjson f "$frames" --argjson n "$tokens" '.run | (.ranks - 1) as $more |
        .reused as $r | ([.work[].frames] | add) as $made | ([.work[].query_rows] | add) as $rows |
        $r.frames >= $s.frames[0] and $r.frames <= $s.frames[0] + $more and $made + $r.frames <= $f + $more and
        $r.sound_tokens >= $s.sound_tokens[0] and $r.layers == $s.layers[0] and
        $rows == (24 - $r.layers) * $n' out/talk.mp4/manifest.json >/dev/null ||
        fail "$what; again on $number of $by: kept $stored: $(jq -c '.run | {reused, work}' out/talk.mp4/manifest.json)"
}
on_with_limit() { (on "$@") & wait $!; }

pick() { local all=("$@"); echo "${all[RANDOM % $#]}"; }

for ((round = 1; round <= rounds; round++)); do
    RANDOM=$(((seed + round * 101) % 32768)) # what a subshell draws is lost
    by=$(pick openmpi mpich local openmpi mpich)
    r=$RANDOM ranks=$((2 + RANDOM % 3)) victim=$((RANDOM % ranks)) tenths=$((RANDOM % whole_time))
    signals=(KILL STOP TERM)
    [ "$by" != local ] || signals=(KILL TERM)
    signal=${signals[r % ${#signals[@]}]}
    extra=()
    [ $((RANDOM % 2)) -eq 0 ] || extra=(--checkpoint-layers)
    what="round $round: $signal for rank $victim of $ranks of $by after $tenths tenths of a second"
    [ ${#extra[@]} -eq 0 ] || what="$what, layers kept"
    rm -rf out "$err"
    : >"$err"
    (on "$by" "$ranks" -o out --progress=json --peer-timeout $peer_timeout --grace $grace "${extra[@]}") \
        >"$out" 2>"$err" </dev/null &
    job=$!
    stage=none status=0 failed_before=$failures
    hit "$by" "$signal" "$victim" "$tenths"
    if ! in_time; then
        fail "$what: not at its end $((peer_timeout + slack)) s later"
        end_all
        wait "$job" 2>/dev/null
        continue
    fi
    check_status
    check_message
    check_left
    check_again
    same_set whole/talk.mp4 out/talk.mp4
    absent out/.partial
    no_parts out
    echo "$what: in $stage, status $status, kept $stored$([ $failures -eq "$failed_before" ] || echo ' FAILED')"
done
finish
