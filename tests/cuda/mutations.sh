#!/bin/bash
# mutations.sh DIRECTORY: edits one instruction of a kernel's PTX and runs the tests of that kernel, which must
# then fail. A kernel whose tests do not notice is tested in name only.
#
# Each line: test program, kernel, which of the instructions that contain the text, the text, what is put in its
# place (nothing: the instruction is gone). The environment is that of the tests.
set -u
directory=$1
missed=0

while IFS='|' read -r program kernel which from to; do
    [ -n "$program" ] || continue
    log=$(STANDIN_EDIT="$kernel|$which|$from|$to" "$directory/$program" 2>&1)
    status=$?
    if grep -q 'no instruction to edit' <<<"$log"; then
        echo "FAILED: $kernel has no '$from' number $which"
        missed=$((missed + 1))
    elif [ "$status" -eq 0 ]; then
        echo "FAILED: $program does not notice '$from' number $which of $kernel as '$to'"
        missed=$((missed + 1))
    fi
done <<'LIST'
test_cuda_rows|lr_norm|0|add.f32|sub.f32
test_cuda_rows|lr_norm|0|shfl.sync.bfly|shfl.sync.down
test_cuda_rows|lr_norm|0|setp.ge.u64|setp.gt.u64
test_cuda_rows|lr_norm|0|sqrt.rn.f32|mov.f32
test_cuda_map|lr_map|0|ex2.approx|lg2.approx
test_cuda_map|lr_map|0|setp.ge.u64|setp.gt.u64
test_cuda_map|lr_rope|3|fma.rn.f32|mov.f32
test_cuda_map|lr_rope_angles|0|mul.f64|add.f64
test_cuda_map|lr_sum_rows|0|add.f64|sub.f64
LIST
[ "$missed" -eq 0 ]
