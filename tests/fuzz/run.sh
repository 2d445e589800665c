#!/bin/bash
# Runs one fuzz target from its seeds and the inputs in corpus/ that once broke it.
#
#   tests/fuzz/run.sh PROGRAM RUNS MAX_LEN       the same inputs each time: RUNS executions of seed 1
#   LR_FUZZ_SECONDS=600 LR_FUZZ_CORPUS=DIR ...   instead for so long, going on from DIR, which keeps what
#                                                was found; where that is not set, nothing is kept
#
# Fails on a crash, undefined behaviour, a leak, a broken promise, a hang and too much memory; the input is
# then in LR_FUZZ_ARTIFACTS (default: the current directory).
set -euo pipefail
program=$1 runs=$2 max_len=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=${program##*/}

# The targets' files are written in memory, but for those that are renamed into place.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
export OPENBLAS_NUM_THREADS=1 LC_ALL=C.UTF-8
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:quarantine_size_mb=64
export UBSAN_OPTIONS=print_stacktrace=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/seeds" "$work/found"

LR_FUZZ_SEEDS=$work/seeds "$program"
[ -n "$(ls -A "$work/seeds")" ] || { echo "$name wrote no seeds" >&2; exit 1; }

options=(-max_len="$max_len" -keep_seed=1 -timeout=120 -rss_limit_mb=2048 -malloc_limit_mb=1024
    -artifact_prefix="${LR_FUZZ_ARTIFACTS:-$PWD}/" -print_final_stats=1 -verbosity=1)
if [ -e "$here/$name.dict" ]; then options+=(-dict="$here/$name.dict"); fi
if [ -n "${LR_FUZZ_SECONDS:-}" ]; then
    options+=(-max_total_time="$LR_FUZZ_SECONDS")
else
    options+=(-seed=1 -runs="$runs")
fi
corpus=("${LR_FUZZ_CORPUS:-$work/found}" "$work/seeds")
if [ -d "$here/corpus/$name" ]; then corpus+=("$here/corpus/$name"); fi
"$program" "${options[@]}" "${corpus[@]}"
