#!/bin/bash
# All figures of docs/performance.md, unattended, in some 45 minutes on two quiet processors: Longreel against what
# people would use instead, in turns on this machine (transformers on PyTorch's CPU: backbone, towers, V-JEPA 2, whole
# runs; egemma2: texts; for reading frames ffmpeg's command line, PyAV and torchcodec), and Longreel's own benches:
# growth over the length with its plot, kernels, threads, ranks, start-up, a profile.
#
#   tests/peers/run.sh BUILD [DIRECTORY]
#
# BUILD is a build directory of Longreel; DIRECTORY (default BUILD/peers) gets what was measured (JSON), the tables
# (figures.md), the plot (growth.svg), the profile (profile.txt), and, unless they are named, a Python environment with
# the peers, which pip installs, and two checkpoints with random weights (2.1 GB). The machine should have nothing else to
# do: figures.md says how much of it other programs took. What fails is told at the end; the rest is measured all the same.
#
#   LR_PYTHON, LR_EGEMMA2   a Python with the peers, the program egemma2, that are there already
#   LR_FULL, LR_VJEPA2      checkpoints that are there already
#   LR_THREADS              threads of both sides (default all processors)
#   LR_PAIRS                turns of each (default 3)
#   LR_QUICK=1              small models and sizes: whether everything runs
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?a build directory}" && pwd)
work=${2:-$build/peers} threads=${LR_THREADS:-$(nproc)}
longreel=$build/cli/longreel
mkdir -p "$work"
work=$(cd "$work" && pwd)
export PYTHONDONTWRITEBYTECODE=1

if [ -n "${LR_QUICK:-}" ]; then
    pairs=1 backbone=(--tokens "64,128" --once 192) vjepa=(--tokens 128 --once "") film=4 clip=2 words=20
    growth=64,128,256 lengths=64,128 ranks=256 ring=256 profile=128 starts=1 size=small
    kernels=(--repeats 1)
else
    pairs=${LR_PAIRS:-3} backbone=(--tokens 2048 --once "8192,32768") vjepa=(--tokens 2048 --once 8192) film=60 clip=120
    words=1000 growth=2048,4096,8192,16384,32768,65536,131072,262144 lengths=2048,8192 ranks=8192 ring=4096
    profile=8192 starts=10 size=full kernels=()
fi

python=${LR_PYTHON:-$work/venv/bin/python} egemma2=${LR_EGEMMA2:-$work/venv/bin/egemma2}
if [ -z "${LR_PYTHON:-}" ] && [ ! -e "$work/venv/done" ]; then
    pip=("$work/venv/bin/pip" install --quiet)
    python3 -m venv "$work/venv" && "${pip[@]}" torch torchvision transformers safetensors numpy pillow || exit 1
    # Each of these only where there is a build for this machine.
    for peer in egemma2 av torchcodec; do "${pip[@]}" "$peer" || echo "not installed: $peer"; done
    touch "$work/venv/done"
fi
with_egemma2=()
[ ! -x "$egemma2" ] || with_egemma2=(--egemma2 "$egemma2")
full=${LR_FULL:-$work/model-$size} vjepa2=${LR_VJEPA2:-$work/vjepa2-$size} clip_film=$work/film-$film.mp4
[ -d "$full" ] || "$longreel" make-model "$full" --size "$size" || exit 1
[ -d "$vjepa2" ] || "$longreel" make-model "$vjepa2" --family vjepa2 --size "$size" || exit 1
[ -e "$clip_film" ] || ffmpeg -v error -f lavfi -i testsrc2=s=1920x1080:r=25:d=$film -pix_fmt yuv420p -g 250 \
    "$clip_film" || exit 1

failed=()
# step NAME COMMAND...: its messages in NAME.log, its seconds in steps.tsv.
step() {
    local name=$1 begin=$SECONDS
    shift
    echo "$(date +%T) $name"
    if ! "$@" >"$work/$name.log" 2>&1; then
        failed+=("$name")
        echo "  failed: $(tail -n 1 "$work/$name.log")"
    fi
    printf '%s\t%d\n' "$name" $((SECONDS - begin)) >>"$work/steps.tsv"
}
# A bench of Longreel's own: its document is NAME.json.
own() {
    local name=$1
    shift
    # shellcheck disable=SC2016  # expanded by that shell
    step "$name" bash -c 'out=$1; shift; "$@" --json >"$out.part" && mv "$out.part" "$out"' - "$work/$name.json" \
        "$longreel" bench "$@"
}
profile() {
    command -v perf >/dev/null || { echo "no perf: no profile"; return; }
    perf record -q -o "$work/perf.data" "$longreel" bench encode -m "$full" --no-vision --no-sound --threads 1 --repeats 1 \
        --tokens "$profile" && perf report -i "$work/perf.data" --stdio --no-children -g none 2>/dev/null |
        grep -v "^#" | grep . | sed -n 1,25p >"$work/profile.txt"
}
starts() {
    for _ in $(seq 0 "$starts"); do
        local begin=$EPOCHREALTIME
        "$longreel" embed -m "$full" --text "a red car" --threads "$threads" -o "$work/start.npy" >/dev/null || return 1
        python3 -c "print($EPOCHREALTIME - $begin)"
    done | tail -n +2 | python3 -c 'import json, sys; print(json.dumps({"start": [float(x) for x in sys.stdin]}))' \
        >"$work/start.json"
}

rm -f "$work"/*.json "$work/steps.tsv" "$work/profile.txt"
common=(--threads "$threads" --pairs "$pairs")
# Longreel alone first: what it needs is short.
step start starts
own gemm gemm --threads 1 "${kernels[@]}"
own attention attention --threads 1 "${kernels[@]}"
own ingest ingest "$clip_film" --threads "$threads"
own encode-1 encode -m "$full" --tokens "$lengths" --threads 1 --repeats 2
own "encode-$threads" encode -m "$full" --tokens "$lengths" --threads "$threads" --repeats 2
for n in 2 4 8; do
    own "ranks-$n" encode -m "$full" --tokens "$ranks" --ranks "$n" --threads 1 --repeats 1 --no-vision --no-sound
done
own ring ring --tokens "$ring" --repeats 2
own growth encode -m "$full" --tokens "$growth" --no-vision --no-sound --threads "$threads" --plot "$work/growth.svg"
step profile profile
step backbone "$python" "$here/backbone.py" "$longreel" --model "$full" "${common[@]}" "${backbone[@]}" --json "$work/backbone.json"
step vjepa2 "$python" "$here/vjepa2.py" "$longreel" --model "$vjepa2" "${common[@]}" "${vjepa[@]}" --json "$work/vjepa2.json"
step whole "$python" "$here/whole.py" "$longreel" --model "$full" "${with_egemma2[@]}" "${common[@]}" --clip-pairs 1 \
    --seconds "$clip" --words "$words" --json "$work/whole.json"
if [ -x "$build/tests/ingest/print_frames" ]; then
    step decode "$python" "$here/decode.py" "$build/tests/ingest/print_frames" "$clip_film" --threads "$threads" \
        --turns "$pairs" --json "$work/decode.json"
fi
step figures "$python" "$here/figures.py" "$work" "$work/figures.md"
cat "$work/figures.md"
[ -x "$egemma2" ] || echo "egemma2 was not there: texts are compared with transformers alone."
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}; see their .log in $work"; exit 1; }
