#!/bin/bash
# How attention over ranks scales on this machine: one layer of full attention (`longreel bench ring`), each rank with
# one thread, and one table of it all.
#
#   tests/peers/scaling.sh BUILD [DIRECTORY]
#
# strong: one length, more ranks. weak: the length grows with the square root of the ranks, so that each rank has the
# same work. Both over local ranks and over processes. link: two processes on two "hosts" (network namespaces, TCP) with
# a link of several rates between them (tbf; needs root and iproute2): what share of the exchange is hidden.
# In each row: efficiency is the time on one rank over that on P, times P for strong scaling, referred to the processors
# there are where ranks are more; volume is what was sent over 2 (P - 1) n H_kv D; the bytes of the output are those of
# one rank. DIRECTORY (default BUILD/scaling) gets scaling.json and scaling.md.
# LR_TOKENS (default 16384), LR_RANKS (1 2 4 8), LR_REPEATS (3), LR_LINKS (100mbit 300mbit 1gbit 3gbit 10gbit), LR_MPI
# (openmpi, mpich; default mpich). The machine should have nothing else to do: each row says what share of it other
# programs took.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?a build directory}" && pwd) || exit 1
LONGREEL=$build/cli/longreel results=${2:-$build/scaling}
mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1
export LONGREEL
. "$here/../cli/common.sh"
. "$here/../support/hosts.sh"
trap 'remove_hosts; rm -rf "$work"' EXIT
base=${LR_TOKENS:-16384} repeats=${LR_REPEATS:-3} mpi=${LR_MPI:-mpich} processors=$(nproc)
read -ra counts <<<"${LR_RANKS:-1 2 4 8}"
read -ra rates <<<"${LR_LINKS:-100mbit 300mbit 1gbit 3gbit 10gbit}"
rows=$work/rows.json
: >"$rows"

# Jiffies that the machine was busy, those of this script and its children, and all there were.
busy_now() { awk '/^cpu / {print $2 + $3 + $4 + $7 + $8 + $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9}' /proc/stat; }
own_now() { awk '{print $14 + $15 + $16 + $17}' /proc/$$/stat; }

# measure PART RANKS TOKENS WHERE LINK COMMAND...: the row of so many ranks; the one of one rank with the same tokens is
# measured in the same run, and its digest compared.
measure() {
    local part=$1 ranks=$2 tokens=$3 where=$4 link=$5 before after own
    shift 5
    read -ra before <<<"$(busy_now) $(own_now)"
    if ! "$@" bench ring --tokens "$tokens" --ranks "$ranks" --schedule ring --threads 1 --repeats "$repeats" --json \
        >"$out" 2>"$err" </dev/null; then
        fail "$part, $ranks ranks, $where $link: $(tail -n 2 "$err")"
        return 1
    fi
    read -ra after <<<"$(busy_now) $(own_now)"
    own=$((after[2] - before[2]))
    jq -c --arg part "$part" --arg where "$where" --arg link "$link" --argjson processors "$processors" \
        --argjson others "$(awk -v b=$((after[0] - before[0] - own)) -v t=$((after[1] - before[1])) \
            'BEGIN {print (t > 0 && b > 0 ? b / t : 0)}')" \
        '.results[-1] | {part: $part, where: $where, link: $link, processors: $processors, others_share: $others,
            volume_over_formula: (if .elements_due > 0 then .elements / .elements_due else 1 end)} + .' "$out" |
        tee -a "$rows" | jq -r '"\(.part) \(.where) \(.link): \(.ranks) ranks, \(.tokens) tokens: \(.seconds_min) s"'
}

on_processes() { # RANKS ARGUMENT...
    local ranks=$1
    shift
    if [ "$ranks" -eq 1 ]; then "$LONGREEL" "$@"; else bash "$here/../comm/mpirun.sh" "$mpi" "$ranks" "$LONGREEL" "$@"; fi
}

on_hosts() { # ARGUMENT...: one rank on each
    local hosts=${host_addresses[0]}:1,${host_addresses[1]}:1
    export UCX_TLS=tcp,self OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    if [ "$mpi" = openmpi ]; then
        on_host A mpirun.openmpi --mca plm_rsh_agent "$work/agent" --mca pml ob1 --mca btl tcp,self \
            --mca btl_tcp_if_include "${host_addresses[0]}/24" --mca oob_tcp_if_include "${host_addresses[0]}/24" \
            --bind-to none -host "$hosts" -n 2 "$LONGREEL" "$@"
    else
        on_host A mpirun.mpich -launcher ssh -launcher-exec "$work/agent" -hosts "$hosts" -n 2 "$LONGREEL" "$@"
    fi
}

# Whole chunks of 1,024.
weak_tokens() { awk -v n="$base" -v p="$1" 'BEGIN {c = int(n * sqrt(p) / 1024 + 0.5); print 1024 * (c > 0 ? c : 1)}'; }

for ranks in "${counts[@]}"; do
    measure strong "$ranks" "$base" local "" "$LONGREEL"
    measure strong "$ranks" "$base" "$mpi" "" on_processes "$ranks"
    measure weak "$ranks" "$(weak_tokens "$ranks")" local "" "$LONGREEL"
    measure weak "$ranks" "$(weak_tokens "$ranks")" "$mpi" "" on_processes "$ranks"
done
if make_hosts; then
    for rate in "${rates[@]}"; do
        link_slow "$rate" && measure link 2 "$base" "$mpi" "$rate" on_hosts
    done
else
    echo "no network namespaces here: no links measured"
fi

# Efficiencies refer to the row of one rank of the same part and place; work grows with the square of the length.
jq -s '. as $all | map(. as $r | ([$all[] | select(.part == $r.part and .where == $r.where and .ranks == 1)] | first) as $one |
        ([$r.ranks, $r.processors] | min) as $workers |
        . + {efficiency: (if $one then ($one.seconds_min / ($one.tokens * $one.tokens)) * ($r.tokens * $r.tokens) /
            ($r.seconds_min * $workers) else null end)})' "$rows" >"$results/scaling.json"
{
    echo "| part | ranks | tokens | over | link | seconds | computation | exchange | hidden | efficiency | sent, over the formula | bytes | others |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    jq -r 'def r($x): . * $x | round / $x; .[] | "| \(.part) | \(.ranks) | \(.tokens) | \(.where) | \(.link) | " +
        "\(.seconds_min | r(1000)) | \(.seconds_compute | r(1000)) | \(.seconds_transfer | r(10000)) | " +
        "\(if .ranks > 1 then (.hidden * 100 | round | tostring) + " %" else "" end) | " +
        "\(if .efficiency then (.efficiency * 100 | round | tostring) + " %" else "" end) | " +
        "\(.volume_over_formula) | \(if .same_bytes then "same" else "OTHER" end) | " +
        "\(.others_share * 100 | round) % |"' "$results/scaling.json"
} | tee "$results/scaling.md"
checks=$(wc -l <"$rows")
jq -e 'all(.same_bytes and .volume_over_formula == 1)' "$results/scaling.json" >/dev/null || fail "other bytes, or another volume"
finish
