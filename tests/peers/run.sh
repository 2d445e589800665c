#!/bin/bash
# Longreel against what people would use instead, in turns on this machine, and one table of the ratios: transformers
# on PyTorch's CPU (backbone, towers, V-JEPA 2, whole runs), egemma2 (texts), and for reading frames ffmpeg's command
# line, PyAV and torchcodec.
#
#   tests/peers/run.sh BUILD [DIRECTORY]
#
# BUILD is a build directory of Longreel; DIRECTORY (default BUILD/peers) gets a Python environment with the peers, which
# pip installs, two checkpoints with random weights (2.1 GB) and the figures. LR_PAIRS: turns of each (default 3);
# LR_THREADS: threads of both sides (default all processors). It takes long; the machine should have nothing else to
# do: each figure says how much of it other programs took.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?a build directory}" && pwd)
work=${2:-$build/peers} pairs=${LR_PAIRS:-3} threads=${LR_THREADS:-$(nproc)}
longreel=$build/cli/longreel
mkdir -p "$work"
work=$(cd "$work" && pwd)
export PYTHONDONTWRITEBYTECODE=1

if [ ! -e "$work/venv/done" ]; then
    python3 -m venv "$work/venv"
    pip=("$work/venv/bin/pip" install --quiet)
    "${pip[@]}" torch torchvision transformers safetensors numpy pillow
    # Each of these only where there is a build for this machine.
    for peer in egemma2 av torchcodec; do "${pip[@]}" "$peer" || echo "not installed: $peer"; done
    touch "$work/venv/done"
fi
python=$work/venv/bin/python
egemma2=()
[ ! -x "$work/venv/bin/egemma2" ] || egemma2=(--egemma2 "$work/venv/bin/egemma2")
[ -d "$work/full" ] || "$longreel" make-model "$work/full" --size full
[ -d "$work/vjepa2" ] || "$longreel" make-model "$work/vjepa2" --family vjepa2 --size full

common=(--threads "$threads" --pairs "$pairs")
"$python" "$here/backbone.py" "$longreel" --model "$work/full" "${common[@]}" --json "$work/backbone.json"
"$python" "$here/vjepa2.py" "$longreel" --model "$work/vjepa2" "${common[@]}" --once "" --json "$work/vjepa2.json"
"$python" "$here/whole.py" "$longreel" --model "$work/full" "${egemma2[@]}" "${common[@]}" --json "$work/whole.json"
figures=("$work"/{backbone,vjepa2,whole}.json)
if [ -x "$build/tests/ingest/print_frames" ]; then
    film=$work/film.mp4
    [ -e "$film" ] || ffmpeg -v error -f lavfi -i testsrc2=s=1920x1080:r=25:d=60 -pix_fmt yuv420p -g 250 "$film"
    "$python" "$here/decode.py" "$build/tests/ingest/print_frames" "$film" --threads "$threads" --turns "$pairs" \
        --json "$work/decode.json"
    figures+=("$work/decode.json")
fi
echo
"$python" "$here/table.py" "${figures[@]}" | tee "$work/table.md"
