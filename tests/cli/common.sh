# Shared by the scripts of this folder; each sources it first. Needs LONGREEL, the program under
# test; ffmpeg makes the recordings, jq reads the documents.
#
#   check CODE WHAT COMMAND...   runs COMMAND; its exit status must be CODE. Its output is afterwards
#                                in $out and $err
#   fail TEXT                    notes a failure
#   finish                       the last line of a script
# shellcheck shell=bash
set -uo pipefail
[ -x "${LONGREEL:?LONGREEL must be set to the program}" ] || { echo "no program: $LONGREEL" >&2; exit 1; }
for tool in ffmpeg jq cmp; do
    command -v "$tool" >/dev/null || { echo "needed: $tool" >&2; exit 1; }
done
# shellcheck disable=SC2034  # used by the scripts
fixtures=$(cd "$(dirname "${BASH_SOURCE[0]}")/../fixtures" && pwd)
export OPENBLAS_NUM_THREADS=1 LC_ALL=C.UTF-8
work=$(mktemp -d)
out=$work/stdout err=$work/stderr
failures=0 checks=0
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    failures=$((failures + 1))
    echo "  FAILED: $1"
}

check() {
    local wanted=$1 what=$2 status
    shift 2
    checks=$((checks + 1))
    "$@" >"$out" 2>"$err" </dev/null
    status=$?
    if [ "$status" -ne "$wanted" ]; then
        fail "$what: exit status $status, not $wanted: $*"
        sed 's/^/    /' "$err" | head -n 5
        return 1
    fi
}

# says TEXT: the last command's messages hold TEXT.
says() {
    checks=$((checks + 1))
    grep -qF -- "$1" "$err" || fail "no message says '$1'; it was: $(head -n 3 "$err")"
}

# json EXPRESSION: standard output is one JSON document for which jq's EXPRESSION is true.
json() {
    checks=$((checks + 1))
    jq -es "length == 1 and (.[0] | $1)" "$out" >/dev/null 2>&1 ||
        fail "not so: $1 in $(head -c 600 "$out")"
}

there() {
    checks=$((checks + 1))
    [ -e "$1" ] || fail "$1 is missing"
}

absent() {
    checks=$((checks + 1))
    [ ! -e "$1" ] || fail "$1 is there"
}

# Nothing unfinished lies about in a directory.
no_parts() {
    local left
    checks=$((checks + 1))
    left=$(find "$1" -name '*.part-*' 2>/dev/null)
    [ -z "$left" ] || fail "left behind: $left"
}

# clip FILE SECONDS [OPTION...]: moving pictures with a tone that changes.
clip() {
    local file=$1 seconds=$2
    shift 2
    ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=160x90:rate=25:duration=$seconds" \
        -f lavfi -i "aevalsrc='0.3*sin(2*PI*t*(300+40*floor(t)))':sample_rate=44100:duration=$seconds" \
        -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a aac -threads 1 "$@" "$file" ||
        { echo "ffmpeg could not make $file" >&2; exit 1; }
}

# silent_clip FILE SECONDS
silent_clip() {
    ffmpeg -v error -nostdin -y -f lavfi -i "testsrc2=size=160x90:rate=25:duration=$2" -c:v libx264 \
        -preset ultrafast -pix_fmt yuv420p -g 25 -threads 1 "$1" ||
        { echo "ffmpeg could not make $1" >&2; exit 1; }
}

finish() {
    if [ "$failures" -gt 0 ]; then
        echo "  $failures of $checks checks failed"
        exit 1
    fi
    echo "  $checks checks passed"
    exit 0
}
