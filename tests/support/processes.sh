# For scripts whose ranks are processes: finds those that it started, by a mark in their environment.
# Sourced after common.sh.
# shellcheck shell=bash disable=SC2154
export LONGREEL_TEST_MARK=$work

# Those that live: "PID NAME", one a line.
marked_processes() {
    local directory state
    for directory in /proc/[0-9]*; do
        grep -qzxF "LONGREEL_TEST_MARK=$work" "$directory/environ" 2>/dev/null || continue
        state=$(sed 's/.*) //' "$directory/stat" 2>/dev/null) || continue
        [ "${state%% *}" = Z ] || echo "${directory#/proc/} $(cat "$directory/comm" 2>/dev/null)"
    done
}

# rank_process RANK: the process of a rank of the program that runs now.
rank_process() {
    local pid name
    while read -r pid name; do
        [ "$name" = longreel ] || continue
        grep -qzxE "(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID)=$1" "/proc/$pid/environ" && echo "$pid"
    done < <(marked_processes) | head -n 1
}

# no_processes WHAT: no rank is left, a moment after its launcher ended.
no_processes() {
    local i left
    checks=$((checks + 1))
    for ((i = 0; i < 50; i++)); do
        left=$(marked_processes | grep ' longreel$')
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    fail "$1: left behind: $left"
}

# until_event PATTERN PID: waits until the command, process PID, has said so.
until_event() {
    local i
    for ((i = 0; i < 1200; i++)); do
        grep -q "$1" "$err" 2>/dev/null && return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.05
    done
    fail "the run did not come to: $1; $(tail -n 3 "$err")"
    return 1
}

# same_set DIRECTORY1 DIRECTORY2: the same bytes, but for what says how it was made.
same_set() {
    local file
    checks=$((checks + 1))
    for file in recording.npy segments.npy segments.jsonl frames.npy frames.jsonl tokens.safetensors; do
        if [ ! -e "$1/$file" ] && [ "$file" = tokens.safetensors ]; then continue; fi
        cmp "$1/$file" "$2/$file" || fail "$2/$file differs"
    done
    cmp <(jq -S 'del(.run, .timings, .memory)' "$1/manifest.json") \
        <(jq -S 'del(.run, .timings, .memory)' "$2/manifest.json") || fail "$2/manifest.json differs"
}
