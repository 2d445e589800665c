# --device cuda, on the driver that interprets the kernels: the same bytes for any number of ranks and windows cut
# anywhere, near those of the CPU, apart from them in key and manifest, and what is said where it cannot be.
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh"
build=$(cd "$(dirname "$LONGREEL")/.." && pwd)
driver=$build/tests/cuda/libstandin_cuda.so
if [ ! -e "$build/lib/longreel/liblongreel_cuda.so" ] || [ ! -e "$driver" ]; then
    echo "  SKIPPED: nvcc was not found: the plugin for CUDA was not built"
    exit 0
fi
export LONGREEL_CUDA_DRIVER=$driver
clip a.mp4 1
check 0 "a model" "$LONGREEL" make-model m
model=m

# near A B: the vectors of two .npy files (version 1, float32), which are of length 1, lie in one direction.
# Activations and weights are bf16 on a device. What a layer adds is off by 1.4 x 2^-8 in relative rms (six roundings in
# a row and more, tests/cuda/test_encoder.c); six layers, all to the same side: 0.033 of the vector. The cosine of
# two vectors that differ by d across is 1 - d^2 / 2: 0.99946.
near() {
    checks=$((checks + 1))
    [ -s "$1" ] && [ "$(stat -c %s "$1")" = "$(stat -c %s "$2")" ] || { fail "$1 and $2 are of different size"; return; }
    paste <(od -An -v -w4 -tf4 -j128 "$1") <(od -An -v -w4 -tf4 -j128 "$2") | awk -v dim="$3" '
        { dot += $1 * $2 } NR % dim == 0 { if (!(dot >= 0.99946)) bad = bad " " dot; dot = 0 }
        END { if (NR == 0 || NR % dim || bad) { print "cosines:" bad; exit 1 } }' || fail "$1 is far from $2"
}
same() {
    checks=$((checks + 1))
    for file in recording segments frames; do
        cmp -s "$1/${3-a.mp4}/$file.npy" "$2/${3-a.mp4}/$file.npy" || fail "$file of $1 and $2 differ"
    done
}

few=(-m "$model" --chunk 32 --soft-tokens 70)
check 0 "on the CPU" "$LONGREEL" encode a.mp4 "${few[@]}" -o cpu
check 0 "on the device" "$LONGREEL" encode a.mp4 "${few[@]}" -o one --device cuda
dim=$(jq .model.dim one/a.mp4/manifest.json)
for file in recording segments frames; do near one/a.mp4/$file.npy cpu/a.mp4/$file.npy "$dim"; done
checks=$((checks + 1))
cmp -s one/a.mp4/recording.npy cpu/a.mp4/recording.npy && fail "the device was not used"
check 0 "the manifest" jq -es '.[0].run.build.device == "stand-in, interpreted, sm_80" and .[0].memory.device_bytes > 0
    and .[1].run.build.device == null and .[0].timings.predicted == null and .[0].key != .[1].key' \
    one/a.mp4/manifest.json cpu/a.mp4/manifest.json
check 0 "two ranks" "$LONGREEL" encode a.mp4 "${few[@]}" -o two --device cuda:0 --ranks 2 --threads 1
same two one
check 0 "windows" "$LONGREEL" encode a.mp4 "${few[@]}" -o windows --device cuda --context 80
check 0 "windows on three ranks" "$LONGREEL" encode a.mp4 "${few[@]}" -o windows3 --device cuda --context 80 --ranks 3
same windows3 windows

# The other family, whose positions are tubelet, row and column.
clip b.mp4 4
check 0 "another family" "$LONGREEL" make-model vj --family vjepa2
check 0 "its CPU" "$LONGREEL" encode b.mp4 -m vj --chunk 16 -o vcpu
check 0 "its device" "$LONGREEL" encode b.mp4 -m vj --chunk 16 -o vone --device cuda
for file in recording segments frames; do near vone/b.mp4/$file.npy vcpu/b.mp4/$file.npy 128; done
check 0 "its device, two ranks" "$LONGREEL" encode b.mp4 -m vj --chunk 16 -o vtwo --device cuda --ranks 2
same vtwo vone b.mp4

# What is finished, and what was made elsewhere.
check 0 "again" "$LONGREEL" encode a.mp4 "${few[@]}" -o one --device cuda --json
json '.recordings[0].status == "skipped"'
check 1 "over a set of the CPU" "$LONGREEL" encode a.mp4 "${few[@]}" -o cpu --device cuda
says "another recording, model or options"

check 0 "a text" "$LONGREEL" embed -m "$model" -o cpu.npy --text "a red car"
check 0 "a text on the device" "$LONGREEL" embed -m "$model" -o device.npy --text "a red car" --device cuda
near device.npy cpu.npy "$dim"
check 0 "a search" "$LONGREEL" query one "a red car" -m "$model" --device cuda --json
json '.hits | length > 0'

check 0 "a plan" "$LONGREEL" plan a.mp4 -m "$model" --device cuda --json
json '.fits and .seconds == null and .recordings[0].device_bytes > 0 and .recordings[0].device_available > 1e9'
check 2 "more than the device has" "$LONGREEL" encode a.mp4 -m "$model" -o x --no-audio --fps 200000 --device cuda
says "free on the device: what fits is --context"

check 2 "a device that is not there" "$LONGREEL" encode a.mp4 -m "$model" -o x --device cuda:7
says "there is no device 7"
LONGREEL_CUDA_DRIVER=$work/none.so check 2 "no driver" "$LONGREEL" encode a.mp4 -m "$model" -o x --device cuda
says "there is no NVIDIA driver"
check 2 "heads that kernels do not take" "$LONGREEL" encode a.mp4 -m "$fixtures/vjepa" -o x --device cuda
says "heads of 20 values"
checks=$((checks + 1))
grep -q "a model is a directory" "$err" && fail "the model is said to be wrong"
mkdir bare && cp "$LONGREEL" bare/
LONGREEL_PLUGIN_PATH='' check 2 "no plugin" bare/longreel encode a.mp4 -m "$model" -o x --device cuda
says "liblongreel_cuda.so is missing"
absent x
finish
