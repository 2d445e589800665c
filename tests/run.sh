#!/bin/bash
# Builds Longreel and runs all of its tests: optimised, with the address and undefined behaviour
# sanitizers, with the thread sanitizer, the command line's, and a fixed number of executions of each
# fuzz target (tests/fuzz). The last line is "N passed, N failed"; the exit status is 0 when nothing
# failed.
#
#   tests/run.sh [release] [asan] [tsan] [cli] [fuzz]     (default: all)
#
# LR_BUILD_DIR (default build/) holds one directory a configuration; LR_JOBS is the number of jobs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. cmake/packages.sh

build_dir=${LR_BUILD_DIR:-$PWD/build}
jobs=${LR_JOBS:-$(nproc)}
export OPENBLAS_NUM_THREADS=1 LC_ALL=C.UTF-8 TZ=UTC
unset CMAKE_GENERATOR

passed=0 failed=0 skipped=0
failures=()
left_out=()

note_failure() {
    failed=$((failed + 1))
    failures+=("$1")
    echo "FAILED: $1"
}

# attribute NAME FILE: a number of the first <testsuite> element.
attribute() {
    sed -n '/<testsuite/,/>/s/.*[[:space:]]'"$1"'="\([0-9]*\)".*/\1/p' "$2" | head -n 1
}

# build PRESET: false when it does not build.
build() {
    local target=()
    [ "$1" != fuzz ] || target=(--target fuzz)
    echo "== $1: build"
    lr_configure "$1" "$build_dir/$1" && cmake --build "$build_dir/$1" -j "$jobs" "${target[@]}"
}

# run_ctest PRESET [CTEST ARGUMENT...]
run_ctest() {
    local preset=$1 report=$build_dir/$1/results.xml prefix=() tests bad off
    shift
    if ! build "$preset"; then
        note_failure "$preset: build"
        return
    fi
    # The sanitizers of older compilers cannot place their shadow memory on kernels that randomise
    # addresses more widely than they expect.
    if [ "$preset" != release ] && setarch "$(uname -m)" -R true 2>/dev/null; then
        prefix=(setarch "$(uname -m)" -R)
    fi
    echo "== $preset: tests"
    rm -f "$report"
    "${prefix[@]}" ctest --test-dir "$build_dir/$preset" --output-on-failure --no-tests=error \
        -j "$jobs" --output-junit "$report" "$@"
    local status=$?
    tests=$(attribute tests "$report" 2>/dev/null)
    if [ -z "$tests" ] || [ "$tests" -eq 0 ]; then
        note_failure "$preset: ctest ran no tests"
        return
    fi
    bad=$(attribute failures "$report")
    off=$(($(attribute disabled "$report") + $(attribute skipped "$report")))
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then note_failure "$preset: ctest"; fi
    passed=$((passed + tests - bad - off))
    failed=$((failed + bad))
    skipped=$((skipped + off))
    while IFS= read -r name; do
        failures+=("$preset: $name")
    done < <(sed -n 's/.*<testcase name="\([^"]*\)".*status="fail".*/\1/p' "$report")
    while IFS= read -r name; do
        left_out+=("$preset: $name")
    done < <(sed -n 's/.*<testcase name="\([^"]*\)".*status="\(notrun\|disabled\)".*/\1/p' "$report")
}

# The scripts of tests/cli, each with LONGREEL set to the program; common.sh is theirs to share.
run_cli() {
    local script line log=$build_dir/script.log
    if ! build release; then
        note_failure "cli: build"
        return
    fi
    for script in tests/cli/*.sh; do
        [ -e "$script" ] || continue
        [ "${script##*/}" != common.sh ] || continue
        echo "== $script"
        if LONGREEL=$build_dir/release/cli/longreel bash "$script" 2>&1 | tee "$log"; then
            if line=$(grep -m1 '^  SKIPPED: ' "$log"); then
                skipped=$((skipped + 1))
                left_out+=("$script: ${line#  SKIPPED: }")
            else
                passed=$((passed + 1))
            fi
        else
            note_failure "$script"
            while IFS= read -r line; do failures+=("$script:$line"); done < <(grep -A5 'FAILED:' "$log" | head -n 40)
        fi
    done
}

run_fuzz() {
    if lr_install_packages "${LR_FUZZ_PACKAGES[@]}"; then
        run_ctest fuzz -L '^fuzz$'
    else
        note_failure "fuzz: packages"
    fi
}

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(release asan tsan cli fuzz)
for what in "${wanted[@]}"; do
    case $what in
    release | asan | tsan | cli | fuzz) ;;
    *)
        echo "usage: tests/run.sh [release] [asan] [tsan] [cli] [fuzz]" >&2
        exit 2
        ;;
    esac
done

if ! lr_install_packages "${LR_BUILD_PACKAGES[@]}" "${LR_TEST_PACKAGES[@]}"; then
    echo "0 passed, 1 failed"
    exit 1
fi
for what in "${wanted[@]}"; do
    case $what in
    release) run_ctest release ;;
    asan) run_ctest asan -LE '^slow$' ;;
    tsan) run_ctest tsan -LE '^(slow|serial)$' ;; # what starts no thread has nothing to show it
    fuzz) run_fuzz ;;
    cli) run_cli ;;
    esac
done

[ "$skipped" -eq 0 ] || echo "$skipped skipped"
for name in "${left_out[@]}"; do echo "skipped: $name"; done
for name in "${failures[@]}"; do echo "failed: $name"; done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
