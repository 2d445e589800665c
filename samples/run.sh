#!/bin/bash
# From nothing to a search result: installs what is needed (Debian 12, Ubuntu 24.04), builds Longreel,
# encodes a recording and searches it.
#
#   samples/run.sh [-m MODEL] [-o OUT] [RECORDING]
#
# MODEL is a checkpoint directory as Hugging Face publishes it. Without one, a small checkpoint with
# random weights is made: everything runs, but what is found means nothing. Without RECORDING, one of
# 40 seconds is made. OUT (default build/samples/out) gets the embedding set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=$OLDPWD
. cmake/packages.sh

usage() {
    sed -n '5p' "${BASH_SOURCE[0]}" | sed 's/^# */usage: /' >&2
    exit 2
}
# absolute NAME: a path given by the user, seen from where they stand
absolute() { case $1 in /*) echo "$1" ;; *) echo "$here/$1" ;; esac; }

dir=${LR_BUILD_DIR:-build}/samples
model='' out=$dir/out
while getopts m:o: option; do
    case $option in
    m) model=$(absolute "$OPTARG") ;;
    o) out=$(absolute "$OPTARG") ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || usage
recording=''
[ $# -eq 0 ] || recording=$(absolute "$1")

say() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "${*@Q}" | sed "s/'\([A-Za-z0-9_./=-]*\)'/\1/g"; "$@"; }

say "Packages"
packages=("${LR_BUILD_PACKAGES[@]}")
[ -n "$recording" ] || packages+=(ffmpeg)
lr_install_packages "${packages[@]}"

say "Build"
mkdir -p "$dir"
lr_configure release "$dir" -DLR_TESTS=OFF -DLR_WERROR=OFF >"$dir.log" 2>&1 ||
    { cat "$dir.log" >&2; exit 1; }
cmake --build "$dir" -j "${LR_JOBS:-$(nproc)}"
longreel=$dir/cli/longreel

if [ -z "$recording" ]; then
    recording=$dir/sample.mp4
    say "A recording of four scenes with four sounds, 10 seconds each: $recording"
    ffmpeg -v error -nostdin -y \
        -f lavfi -i "smptehdbars=size=640x360:rate=25:duration=10" \
        -f lavfi -i "mandelbrot=size=640x360:rate=25" \
        -f lavfi -i "life=size=160x90:rate=25:mold=10:random_seed=7" \
        -f lavfi -i "testsrc2=size=640x360:rate=25:duration=10" \
        -f lavfi -i "sine=frequency=220:duration=10,aresample=44100" \
        -f lavfi -i "anoisesrc=color=pink:amplitude=0.2:duration=10:sample_rate=44100:seed=7" \
        -f lavfi -i "aevalsrc='0.3*sin(2*PI*(300+200*sin(2*PI*t/2))*t)':duration=10:sample_rate=44100" \
        -f lavfi -i "anullsrc=sample_rate=44100:channel_layout=mono" \
        -filter_complex "[0]setsar=1,format=yuv420p[a];[1]trim=duration=10,setsar=1,format=yuv420p[b];
            [2]trim=duration=10,scale=640:360,setsar=1,format=yuv420p[c];[3]setsar=1,format=yuv420p[d];
            [4]aformat=channel_layouts=mono[e];[5]aformat=channel_layouts=mono[f];
            [6]aformat=channel_layouts=mono[g];[7]atrim=duration=10[h];
            [a][e][b][f][c][g][d][h]concat=n=4:v=1:a=1[v][s]" \
        -map '[v]' -map '[s]' -c:v libx264 -preset veryfast -c:a aac -b:a 64k "$recording"
fi

random=
if [ -z "$model" ]; then
    random=yes
    model=$dir/random-model
    say "A small checkpoint with random weights (no -m MODEL was given)"
    [ -e "$model/config.json" ] || run "$longreel" make-model "$model"
fi

say "Encode: the whole recording as one sequence, over two ranks"
run "$longreel" encode "$recording" -m "$model" -o "$out" --ranks 2 --force
set=$out/${recording##*/}

say "What is in the set"
ls -l "$set"

say "Search"
if grep -q '"model_type": *"vjepa2"' "$model/config.json"; then # it takes no text: by a frame of the recording
    rm -rf "$dir/frames"
    run "$longreel" inspect "$recording" --fps 1/10 --frames "$dir/frames" >"$dir/inspect.log"
    frames=("$dir"/frames/*.png)
    run "$longreel" query "$out" --image "${frames[-1]}" -m "$model" -k 5 --no-merge
else
    run "$longreel" query "$out" "a fractal in many colours" -m "$model" -k 5 --no-merge
fi

say "What next"
if [ -n "$random" ]; then
    cat <<END
The scores above mean nothing: the checkpoint's weights are random. With the real model:
  pip install -U huggingface_hub
  hf download google/embeddinggemma-2 --local-dir embeddinggemma-2
  samples/run.sh -m embeddinggemma-2
END
fi
[ -z "$random" ] || model=embeddinggemma-2
cat <<END
Your own recordings:
  $longreel encode talk.mp4 -m $model -o out
  $longreel query out "a red car" -m $model
Smaller programs to start from, by number: samples/1_encode_and_query.sh, samples/2_pictures_and_sounds.sh,
samples/3_report.sh, samples/4_python.py, samples/5_many_recordings.sh, samples/6_library.c. All commands: $longreel --help
END
