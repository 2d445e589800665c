#!/bin/bash
# All that needs a GPU, in one run: the kernels' tests on the real driver, recordings encoded on the device against the
# CPU, and figures. For a bare machine with a GPU; some ten minutes.
#
#   tests/gpu/check.sh [--build DIR] [--out FILE] [--tiny] [--only TEST,...]
#
# --build: a build directory (build/release). Where there is none, it is built first (needs what README.md names, and
# nvcc); a directory that was carried along with the sources is used as it is.
# --out: the JSON document (gpu-check.json). --tiny: shapes for an interpreter, and no figures by others.
# --only: these of the kernels' tests (rows,linear).
# The driver is libcuda.so.1, or LONGREEL_CUDA_DRIVER. What only the stand-in for the driver can tell (its counts of
# instructions, mistakes it finds in kernels) is left out on a device: the document counts those tests as skipped.
# Exit status 0 when every test passed and the document is whole.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build/release out=gpu-check.json tiny='' failed=0
tests=(device rows map gather linear attention sound mel pictures encoder)

while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --out) out=$2 && shift ;;
    --only) IFS=, read -ra tests <<<"$2" && shift ;;
    --tiny) tiny=--tiny ;;
    *)
        sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
    esac
    shift
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ------------------------------------------------------------------ the build

if [ ! -e "$build/lib/longreel/liblongreel_cuda.so" ]; then
    echo "== build"
    if ! { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release && cmake --build "$build" -j "$(nproc)"; } \
        >"$work/build.log" 2>&1; then
        tail -n 40 "$work/build.log"
        exit 1
    fi
    [ -e "$build/lib/longreel/liblongreel_cuda.so" ] || { echo "there is no nvcc, or no CUDA in the build"; exit 1; }
fi
export LONGREEL_PLUGIN_PATH=$build/lib/longreel
export LONGREEL_CUDA_DRIVER=${LONGREEL_CUDA_DRIVER:-libcuda.so.1}
longreel=$build/cli/longreel

quote() { # a JSON string
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "$(tr -d '\000-\037' <<<"$text")"
}

# ------------------------------------------------------------------ tests of the kernels

results=''
for name in "${tests[@]}"; do
    program=$build/tests/cuda/test_cuda_$name
    if [ ! -x "$program" ]; then
        results+="{\"test\": $(quote "$name"), \"absent\": true}, "
        continue
    fi
    echo "== test_cuda_$name"
    start=$SECONDS
    timeout 240 "$program" >"$work/$name.log" 2>&1
    status=$?
    skipped=$(grep -c '^\[  SKIPPED \] test_' "$work/$name.log")
    if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        tail -n 30 "$work/$name.log"
    fi
    first=$(grep -m 1 -E '^\[  FAILED  \] test_|ERROR' "$work/$name.log")
    results+="{\"test\": $(quote "$name"), \"status\": $status, \"skipped\": $skipped, \"seconds\": $((SECONDS - start))"
    results+=", \"failure\": $(quote "$first")}, "
done

# ------------------------------------------------------------------ encoding, against the CPU
#
# The relative difference of the recording's vectors. A value is rounded to bf16 (2^-9) some twelve times a layer; over
# the made model's six layers these add, as independent ones do, to 2^-9 sqrt(72) = 0.017. The bound is about twice that.

# A minute with sound; for an interpreter two small frames.
make_clip() {
    if [ -n "$tiny" ]; then
        ffmpeg -v error -f lavfi -i testsrc=s=64x48:r=4:d=2 -c:v ffv1 "$work/clip.mkv"
    else
        ffmpeg -v error -f lavfi -i testsrc=s=640x360:r=10:d=60 -f lavfi -i sine=d=60 -c:v ffv1 "$work/clip.mkv"
    fi
}

encode() { # DEVICE
    timeout 200 "$longreel" encode "$work/clip.mkv" -m "$work/model" -o "$work/$1" --device "$1" >"$work/$1.log" 2>&1
}

compare() {
    python3 - "$work" <<'P'
import glob, json, struct, sys
def vector(device):
    data = open(glob.glob(f"{sys.argv[1]}/{device}/*/recording.npy")[0], "rb").read()
    n = struct.unpack("<H", data[8:10])[0]
    return [x[0] for x in struct.iter_unpack("<f", data[10 + n:])]
a, b = vector("cpu"), vector("cuda")
difference = sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5 / sum(x * x for x in a) ** 0.5
manifest = json.load(open(glob.glob(f"{sys.argv[1]}/cuda/*/manifest.json")[0]))
timings, tokens = manifest["timings"], manifest["tokens"]
print(json.dumps({"difference": difference, "bound": 0.03, "within": difference < 0.03, "tokens": tokens,
                  "tokens_per_second": {part: tokens / timings[part] for part in ("towers", "backbone") if timings[part]},
                  "timings": timings, "memory": manifest.get("memory")}))
P
}

end_to_end='{"absent": "this longreel has no --device"}'
if [ -x "$longreel" ] && grep -q -- --device <<<"$("$longreel" encode --help 2>&1)"; then
    echo "== encode --device cuda"
    end_to_end=''
    if ! command -v ffmpeg >/dev/null || ! command -v python3 >/dev/null; then
        end_to_end='{"absent": "it needs ffmpeg and python3"}'
    elif make_clip && "$longreel" make-model "$work/model" >"$work/model.log" 2>&1 && encode cpu && encode cuda; then
        end_to_end=$(compare)
        grep -q '"within": true' <<<"$end_to_end" || failed=$((failed + 1))
    else
        failed=$((failed + 1))
        end_to_end="{\"error\": $(quote "$(cat "$work"/{model,cpu,cuda}.log 2>/dev/null | tail -n 2)")}"
    fi
    echo "${end_to_end:=null}"
fi

# ------------------------------------------------------------------ figures

bench=null peer='{"absent": "not asked for"}' links='""'
if [ -x "$build/tests/gpu/device_bench" ]; then
    echo "== figures"
    timeout 240 "$build/tests/gpu/device_bench" ${tiny:+"$tiny"} "$work/bench.json" || failed=$((failed + 1))
    [ ! -s "$work/bench.json" ] || bench=$(cat "$work/bench.json")
    if [ -z "$tiny" ] && [ "$bench" != null ]; then
        if timeout 120 python3 "$here/peer.py" "$work/bench.json" "$work/peer.json" 2>"$work/peer.log"; then
            peer=$(cat "$work/peer.json")
        else
            peer="{\"absent\": $(quote "$(tail -n 1 "$work/peer.log")")}"
        fi
    fi
else
    bench='{"absent": true}'
fi
command -v nvidia-smi >/dev/null && links=$(quote "$(nvidia-smi topo -m 2>/dev/null | tr '\n' ';')")

{
    printf '{"driver": %s,\n"failed": %d,\n"tests": [%s],\n' "$(quote "$LONGREEL_CUDA_DRIVER")" "$failed" "${results%, }"
    printf '"encode": %s,\n"bench": %s,\n"peer": %s,\n"links": %s}\n' "$end_to_end" "$bench" "$peer" "$links"
} >"$out" || failed=$((failed + 1))
echo "$out: $failed failed"
[ "$failed" -eq 0 ]
