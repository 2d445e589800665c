#!/bin/bash
# A full disk: the message names the file and the cause, and nothing unfinished is left.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=$fixtures/regular
clip talk.mp4 20
silent_clip short.mp4 1

# A limit on the size of a file fails writes as a full disk does: tokens.safetensors is the largest.
limited() {
    (
        ulimit -f "$1"
        shift
        "$@"
    )
}
check 1 "a file may not grow" limited 64 "$LONGREEL" encode talk.mp4 short.mp4 -m "$model" -o out \
    --save tokens --json
says "tokens.safetensors: cannot be written: File too large"
json '[.recordings[].status] == ["failed", "saved"]'
absent out/talk.mp4
no_parts out
check 0 "the smaller one is whole" "$LONGREEL" verify out/short.mp4
check 0 "with room again" "$LONGREEL" encode talk.mp4 short.mp4 -m "$model" -o out --save tokens --json
json '[.recordings[].status] == ["saved", "skipped"]'

# --force keeps the old set when the new one cannot be written.
cp out/talk.mp4/manifest.json before
check 1 "a replacement that fails" limited 64 "$LONGREEL" encode talk.mp4 -m "$model" -o out \
    --save tokens --force
cmp out/talk.mp4/manifest.json before || fail "the old set was lost"
check 0 "the old set is whole" "$LONGREEL" verify out

texts=()
for i in {1..20}; do texts+=(--text "number $i"); done
check 1 "vectors that do not fit" limited 4 "$LONGREEL" embed -m "$model" -o v.npy "${texts[@]}"
says "v.npy"
absent v.npy
[ -z "$(find . -name 'v.npy*')" ] || fail "left behind: $(find . -name 'v.npy*')"

check 1 "a model that does not fit" limited 64 "$LONGREEL" make-model made
says "cannot be written: File too large"
absent made
absent made.partial

# A real file system that is full, where one may be mounted.
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=256k none small 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    check 1 "a full file system" "$LONGREEL" encode talk.mp4 -m "$model" -o small/out --save tokens
    says "No space left on device"
    absent small/out/talk.mp4
    no_parts small/out
    check 0 "a smaller set on it" "$LONGREEL" encode short.mp4 -m "$model" -o small/out
else
    echo "  no file system can be mounted here: checked with a limit on file sizes only"
fi
finish
