#!/bin/bash
# Ranks on two hosts with TCP between them: the same bytes, over a slow link too; a link that is cut.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$fixtures/../support/processes.sh"
. "$fixtures/../support/hosts.sh"
end_all() { # what this script started; daemons of a launcher that wait for a host that is cut off
    local pid name
    while read -r pid name; do
        case $name in mpirun* | mpiexec* | hydra* | orted | longreel) kill -KILL "$pid" 2>/dev/null ;; esac
    done < <(marked_processes)
}
trap 'end_all; remove_hosts; rm -rf "$work"' EXIT
if ! make_hosts; then
    echo "  no network namespaces here ($(cat "$work/hosts.err" 2>/dev/null)): not run"
    exit 0
fi
export UCX_TLS=tcp,self OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# ranks MPI ON_A ON_B ARGUMENT...: longreel on so many ranks of each host.
ranks() {
    local mpi=$1 hosts=${host_addresses[0]}:$2,${host_addresses[1]}:$3 number=$(($2 + $3))
    shift 3
    if [ "$mpi" = openmpi ]; then
        on_host A timeout -k 5 120 mpirun.openmpi --mca plm_rsh_agent "$work/agent" --mca pml ob1 \
            --mca btl tcp,self --mca btl_tcp_if_include "${host_addresses[0]}/24" \
            --mca oob_tcp_if_include "${host_addresses[0]}/24" --bind-to none -host "$hosts" -n $number \
            "$LONGREEL" "$@"
    else
        on_host A timeout -k 5 120 mpirun.mpich -launcher ssh -launcher-exec "$work/agent" -hosts "$hosts" \
            -n $number "$LONGREEL" "$@"
    fi
}

clip talk.mp4 7.3
regular=(-m "$fixtures/regular" --chunk 16 --save tokens --threads 1)
check 0 "one local rank" "$LONGREEL" encode talk.mp4 "${regular[@]}" -o local
for mpi in openmpi mpich; do
    for shape in "1 1" "2 1" "3 2" "4 4"; do
        # shellcheck disable=SC2086
        check 0 "$shape ranks of $mpi" ranks $mpi $shape encode talk.mp4 "${regular[@]}" -o "$mpi$shape"
        same_set local/talk.mp4 "$mpi$shape/talk.mp4"
    done
done
if link_slow 20mbit; then
    for mpi in openmpi mpich; do
        check 0 "a slow link, $mpi" ranks $mpi 1 2 encode talk.mp4 "${regular[@]}" -o "slow-$mpi" \
            --peer-timeout 3
        same_set local/talk.mp4 "slow-$mpi/talk.mp4"
    done
    link_slow 10gbit
else
    fail "the link cannot be slowed"
fi

# ------------------------------------------------------------------ a cut

"$LONGREEL" make-model model >/dev/null || exit 1
silent_clip long.mp4 60
for mpi in openmpi mpich; do
    rm -f "$err"
    ranks $mpi 2 1 encode long.mp4 -m model -o cut --fps 5 --threads 1 --progress=json --peer-timeout 4 \
        >"$out" 2>"$err" &
    job=$!
    until_event '"stage":"backbone"' $job || continue
    link_down
    # The ranks end on both sides, within the time limit and what they leave each other to end the job.
    for ((i = 0; i < 250; i++)); do
        [ -n "$(marked_processes | grep ' longreel$')" ] || break
        sleep 0.1
    done
    no_processes "a cut link, $mpi"
    says "rank 2 is lost"
    absent cut/long.mp4
    link_up
    end_all
    wait $job 2>/dev/null
done
finish
