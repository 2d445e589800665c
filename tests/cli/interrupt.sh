#!/bin/bash
# A signal stops a batch: what is finished stays, nothing unfinished is left, the same command goes on.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$LONGREEL" make-model model >/dev/null || exit 1
silent_clip short.mp4 2
silent_clip long.mp4 60

# until_event PATTERN: waits until the running command has said so.
until_event() {
    local i
    for ((i = 0; i < 600; i++)); do
        grep -q "$1" "$err" 2>/dev/null && return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    fail "the run did not come to: $1"
    return 1
}

command=("$LONGREEL" encode short.mp4 long.mp4 -m model -o out --fps 10 --threads 2 --json
    --progress=json)

for signal in INT TERM; do
    for stage in towers backbone; do
        rm -rf out "$err"
        "${command[@]}" >"$out" 2>"$err" &
        pid=$!
        until_event "\"number\":2.*\"stage\":\"$stage\"" && kill -s "$signal" "$pid"
        wait "$pid"
        status=$?
        checks=$((checks + 1))
        [ "$status" -eq 3 ] || fail "SIG$signal in $stage: exit status $status, not 3"
        there out/short.mp4/manifest.json
        absent out/long.mp4
        no_parts out
        json '[.recordings[].status] == ["saved", "interrupted"]'
    done
done
check 0 "the same command again" "${command[@]}"
json '[.recordings[].status] == ["skipped", "saved"]'
check 0 "what it left is whole" "$LONGREEL" verify out

# A process that is killed leaves an unfinished directory: it is never taken for a set, status tells,
# and a later run clears it away.
rm -rf out "$err"
"${command[@]}" >"$out" 2>"$err" &
pid=$!
until_event '"number":2.*"stage":"backbone"'
"$LONGREEL" status out --json >state
jq -e '[.sets[].state] == ["under way", "done"]' state >/dev/null || fail "not under way: $(cat state)"
kill -s KILL "$pid"
wait "$pid" 2>/dev/null
absent out/long.mp4
check 0 "status after a kill" "$LONGREEL" status out --json
json '[.sets[].state] == ["interrupted", "done"]'
check 0 "query does not see it" "$LONGREEL" query out text -m model --json
json '[.hits[].recording] | unique == ["short.mp4"]'
check 0 "the same command after a kill" "${command[@]}"
no_parts out
check 0 "status after that" "$LONGREEL" status out --json
json '[.sets[].state] == ["done", "done"]'
finish
