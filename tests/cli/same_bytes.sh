#!/bin/bash
# The same bytes for any number of ranks and threads: of every file of a set, and of the manifest but
# for what says how it was made.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
clip talk.mp4 7.3
silent_clip short.mp4 0.5
ranks=(1 2 3 5 8) threads=(1 2 3)

# same DIRECTORY1 DIRECTORY2
same() {
    local file
    checks=$((checks + 1))
    for file in recording.npy segments.npy segments.jsonl frames.npy frames.jsonl tokens.safetensors; do
        cmp "$1/$file" "$2/$file" || fail "$2/$file differs"
    done
    cmp <(jq -S 'del(.run, .timings, .memory)' "$1/manifest.json") \
        <(jq -S 'del(.run, .timings, .memory)' "$2/manifest.json") || fail "$2/manifest.json differs"
}

# over NAME MODEL RECORDING OPTION...: encodes over all ranks and threads.
over() {
    local name=$1 model=$2 recording=$3 r t
    shift 3
    for r in "${ranks[@]}"; do
        for t in "${threads[@]}"; do
            check 0 "$name, $r ranks, $t threads" "$LONGREEL" encode "$recording" -m "$model" \
                -o "$name-$r-$t" --ranks "$r" --threads "$t" --save tokens --segment 2 --hop 1.5 "$@"
            same "$name-1-1/$recording" "$name-$r-$t/$recording"
        done
    done
    # the ranks really shared the work, where it is eight chunks long
    jq -e '.options.context != "full" or .tokens <= 8 * .options.chunk or
        ([.run.work[].end_token] | length == 8 and (. == (sort | unique)))' \
        "$name-8-1/$recording/manifest.json" >/dev/null || fail "$name: 8 ranks did not share the work"
}

over chunk16 "$fixtures/regular" talk.mp4 --chunk 16
over chunk64 "$fixtures/regular" talk.mp4 --chunk 64
threads=(1 3)
over odd "$fixtures/odd" talk.mp4 --chunk 16 --fps 2
over windows "$fixtures/regular" talk.mp4 --chunk 16 --context 150
ranks=(1 3 8) threads=(1 2)
over fewer-chunks-than-ranks "$fixtures/regular" short.mp4 --chunk 64
over default-chunk "$fixtures/regular" short.mp4
over sound-only "$fixtures/regular" talk.mp4 --chunk 16 --no-video
over unstamped "$fixtures/regular" short.mp4 --chunk 16 --fps 25 --no-stamps
finish
