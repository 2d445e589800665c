#!/bin/bash
# test_check.sh BUILD STANDIN: tests/gpu/check.sh goes through on the stand-in for the driver, its document is JSON with
# figures, and a kernel with one instruction changed is not passed over.
set -uo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/check.sh
export LONGREEL_CUDA_DRIVER=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}

bash "$check" --build "$1" --only rows,no_such --tiny --out "$work/good.json" || fail "the check on the stand-in"
python3 - "$work/good.json" <<'P' || fail "the document"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["failed"] == 0 and d["tests"][0]["status"] == 0 and d["tests"][1]["absent"]
assert all(case["tflops"] > 0 for kind in ("attention", "linear") for case in d["bench"][kind])
assert {c["head_dim"] for c in d["bench"]["attention"]} == {64, 72, 128, 256, 512}
assert d["encode"].get("within") or "absent" in d["encode"], d["encode"]
assert all(rate > 0 for rate in d["bench"]["copies_gb_per_s"].values())
P
if STANDIN_EDIT='lr_norm|-|0|add.f32|sub.f32' bash "$check" --build "$1" --only rows --tiny --out "$work/bad.json" \
    >"$work/log" 2>&1; then fail "a broken kernel was passed over"; fi
grep -q '"status": [1-9]' "$work/bad.json" || fail "the broken kernel is not in the document"
echo "all is well"
