#!/bin/bash
# Groups of processes: each recording is encoded once, with the bytes it always has; broken ones, lost
# ranks.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$fixtures/../support/processes.sh"
regular=(-m "$fixtures/regular" --chunk 16 --save tokens --threads 1)
ranks() {
    local mpi=$1 number=$2
    shift 2
    timeout -k 5 120 bash "$fixtures/../comm/mpirun.sh" "$mpi" "$number" "$LONGREEL" "$@"
}

for i in 1 2 3 4 5; do clip "$i.mp4" $((2 * i)); done
head -c 3000 5.mp4 >broken.mp4
printf '3.mp4\n1.mp4\nbroken.mp4\n5.mp4\n2.mp4\n4.mp4\nmissing.mp4\n5.mp4\n' >list.txt
printf '3.mp4\n3.mp4\n3.mp4\n3.mp4\n' >even.txt
check 1 "one local rank" "$LONGREEL" encode @list.txt "${regular[@]}" -o local --json
cp "$out" local.json

for mpi in openmpi mpich; do
    for shape in "2 2" "5 2" "5 3" "4 4"; do
        set -- $shape
        what="$2 groups of $1 ranks of $mpi"
        check 1 "$what" ranks $mpi "$1" encode @list.txt "${regular[@]}" -o "$mpi-$1-$2" --groups "$2" --json
        checks=$((checks + 1))
        cmp <(jq '[.recordings[] | [.path, .status]]' local.json) \
            <(jq '[.recordings[] | [.path, .status]]' "$out") || fail "$what: another report"
        json "[.recordings[] | select(.ranks) | .ranks] | length == 6 and (add >= 6) and (max <= 3)"
        for set in 1.mp4 2.mp4 3.mp4 4.mp4 5.mp4 5.mp4~2; do same_set "local/$set" "$mpi-$1-$2/$set"; done
        no_parts "$mpi-$1-$2"
        checks=$((checks + 1))
        [ "$(grep -c 'missing.mp4: cannot' "$err")" -eq 1 ] || fail "$what: a failure was told otherwise than once"
    done
    checks=$((checks + 1))
    jq -es 'map(select(.status == "begun") | .path) | .[:2] == ["5.mp4", "5.mp4"]' \
        "$mpi-5-2/journal.jsonl" >/dev/null ||
        fail "$mpi: not the longest first: $(jq -r 'select(.status == "begun") | .path' "$mpi-5-2/journal.jsonl" | tr '\n' ' ')"
    check 1 "the same again" ranks $mpi 3 encode @list.txt "${regular[@]}" -o "$mpi-5-2" --groups 3 --json
    json '[.recordings[].status] | map(select(. == "skipped")) | length == 6'
    check 1 "a mixed list, $mpi" ranks $mpi 4 encode @list.txt "${regular[@]}" -o "$mpi-mixed" --json
    json '.summary.groups >= 1 and .summary.saved == 6'
    for set in 1.mp4 2.mp4 3.mp4 4.mp4 5.mp4 5.mp4~2; do same_set "local/$set" "$mpi-mixed/$set"; done
    # Unless told, as many groups as are fastest: of recordings of one length each rank has its own, a single one has all.
    check 0 "as many groups as are good, $mpi" ranks $mpi 4 encode @even.txt "${regular[@]}" -o "$mpi-auto" --json
    json '.summary.groups == 4 and .summary.saved == 4'
    for set in 3.mp4 3.mp4~2 3.mp4~3 3.mp4~4; do same_set local/3.mp4 "$mpi-auto/$set"; done
    check 0 "one recording, $mpi" ranks $mpi 4 encode 5.mp4 "${regular[@]}" -o "$mpi-one" --json
    json '.summary.groups == 1 and .recordings[0].ranks == 4'
done
check 2 "more groups than ranks" ranks mpich 2 encode 1.mp4 "${regular[@]}" -o wrong --groups 3
says "--groups 3: there are 2 ranks"
check 2 "groups without processes" "$LONGREEL" encode 1.mp4 "${regular[@]}" -o wrong --groups 2
says "--groups 2"
absent wrong

# One rank lost ends all groups; what is finished stays. Both groups' progress tells that they are in the backbone,
# within the 6th layer of 24 or after it: each 6th takes nearly all the time.
"$LONGREEL" make-model deep --size deep >/dev/null || exit 1
silent_clip long.mp4 60
ffmpeg -v error -nostdin -y -i long.mp4 -vf hflip -c:v libx264 -preset ultrafast -g 25 -threads 1 long2.mp4 || exit 1
silent_clip short.mp4 1
batch=(encode short.mp4 long.mp4 long2.mp4 -m deep --fps 4 --threads 1 --progress=json --peer-timeout 4
    --grace 100 --groups 2)
for signal in STOP TERM; do
    rm -rf lost "$err"
    ranks mpich 4 "${batch[@]}" -o lost >"$out" 2>"$err" &
    job=$!
    until_event 'long.mp4.*"stage":"backbone","done":0\.[2-9]' $job || continue
    until_event 'long2.mp4.*"stage":"backbone","done":0\.[2-9]' $job || continue
    kill -s $signal "$(rank_process 3)"
    wait $job
    status=$?
    checks=$((checks + 1))
    [ $status -eq 3 ] || fail "$signal in a group: exit status $status, not 3"
    [ $signal != STOP ] || says "rank 3 is lost"
    no_processes "$signal in a group"
    absent lost/long.mp4
    absent lost/long2.mp4
done
# The group that was told to end had put its layer away.
"$LONGREEL" status lost --json >state
checks=$((checks + 1))
jq -e '[.sets[].stored.layers[0]] | length == 2 and max >= 5' state >/dev/null ||
    fail "TERM in a group: kept $(jq -c .sets state)"
finish
