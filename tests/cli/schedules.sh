#!/bin/bash
# The schedules of the exchange: the same bytes whatever the way of keys and values, and the manifest says
# which it was.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
clip talk.mp4 7.3
model=(-m "$fixtures/regular" --chunk 16 --threads 1 --save tokens)

# same DIRECTORY1 DIRECTORY2
same() {
    local file
    checks=$((checks + 1))
    for file in recording.npy segments.npy frames.npy tokens.safetensors; do
        cmp "$1/$file" "$2/$file" || fail "$2/$file differs"
    done
}

check 0 "one rank" "$LONGREEL" encode talk.mp4 "${model[@]}" -o one
for ranks in 2 5 8; do
    for schedule in auto ring all-gather two-level; do
        check 0 "$schedule, $ranks ranks" "$LONGREEL" encode talk.mp4 "${model[@]}" -o "$schedule-$ranks" \
            --ranks "$ranks" --schedule "$schedule" --node-ranks 3
        same one/talk.mp4 "$schedule-$ranks/talk.mp4"
        taken=$(jq -r .run.schedule "$schedule-$ranks/talk.mp4/manifest.json")
        checks=$((checks + 1))
        case $schedule in
            auto) [[ $taken =~ ^(ring|all-gather|two-level)$ ]] || fail "auto took '$taken'" ;;
            *) [ "$taken" = "$schedule" ] || fail "--schedule $schedule took '$taken'" ;;
        esac
    done
    # each is a way of its own
    sent() { jq '[.run.work[].chunks_sent]' "$1-$ranks/talk.mp4/manifest.json"; }
    checks=$((checks + 1))
    [ "$ranks" = 2 ] || [ "$(sent ring)" != "$(sent two-level)" ] || fail "two-level sends as the ring does"
done
check 2 "an unknown schedule" "$LONGREEL" encode talk.mp4 "${model[@]}" -o none --schedule halo
says "none of auto, ring, all-gather, two-level"
check 2 "nodes of no ranks" "$LONGREEL" encode talk.mp4 "${model[@]}" -o none --node-ranks 0
absent none
finish
