#!/bin/bash
# mutations.sh DIRECTORY: edits one instruction of a kernel's PTX and runs tests of that kernel, which must then
# fail. A kernel whose tests do not notice is tested in name only.
#
# Each line: test program, which of its tests, kernel, an instruction behind whose first one to look ("-": from the
# start), which of the instructions there that contain the text (from 0), the text, what is put in its place
# (nothing: the instruction is gone). The environment is that of the tests.
set -u
directory=$1
missed=0

while IFS='|' read -r program tests kernel after which from to; do
    [ -n "$program" ] || continue
    case $kernel in *_large) export STANDIN_ARCHITECTURE=90 ;; *) unset STANDIN_ARCHITECTURE ;; esac
    log=$(STANDIN_EDIT="$kernel|$after|$which|$from|$to" "$directory/$program" "$tests" 2>&1)
    if grep -q 'no instruction to edit' <<<"$log"; then
        echo "FAILED: $kernel has no '$from' number $which"
        missed=$((missed + 1))
    elif ! grep -q 'FAILED  \] test_' <<<"$log"; then # a setup that fails shows nothing
        echo "FAILED: $program does not notice '$from' number $which of $kernel as '$to':" "$log"
        missed=$((missed + 1))
    else
        echo "$kernel: '$from' number $which as '$to': $(grep -oE 'race: .*|cp.async of .*|.*allowed.*' <<<"$log" |
            head -n 1 | cut -c 1-120)"
    fi
done <<'LIST'
test_cuda_rows|*|lr_norm|-|0|add.f32|sub.f32
test_cuda_rows|*layer*|lr_norm|-|0|shfl.sync.bfly|shfl.sync.down
test_cuda_rows|*rms_norm_is*|lr_norm|-|0|setp.ge.u64|setp.gt.u64
test_cuda_rows|*rms_norm_is*|lr_norm|-|0|sqrt.rn.f32|mov.f32
test_cuda_map|*each_slot*|lr_map|-|0|ex2.approx|lg2.approx
test_cuda_map|*half*|lr_halves|-|3|cvt.f32.f16|cvt.f32.bf16
test_cuda_map|*each_slot*|lr_map|-|0|setp.ge.u64|setp.gt.u64
test_cuda_map|*rope_turns*|lr_rope|-|3|fma.rn.f32|mov.f32
test_cuda_map|*angles*|lr_rope_angles|-|0|mul.f64|add.f64
test_cuda_map|*sums*|lr_sum_rows|-|0|add.f64|sub.f64
test_cuda_gather|*host*|lr_checksum|-|0|mul.lo.s64|add.s64
test_cuda_gather|*host*|lr_checksum|-|0|atom.global.add.u64|ld.global.u64
test_cuda_gather|*number*|lr_gather|-|0|setp.lt.s64|setp.le.s64
test_cuda_sound|*neighbourhood*|lr_taps|-|0|setp.ge.s64|setp.gt.s64
test_cuda_sound|*neighbourhood*|lr_taps|-|0|setp.lt.s64|setp.le.s64
test_cuda_sound|*depthwise*|lr_depthwise|-|0|setp.lt.u32|setp.le.u32
test_cuda_sound|*before*|lr_near|-|0|setp.lt.u64|setp.le.u64
test_cuda_sound|*before*|lr_near|-|0|shfl.sync.bfly|shfl.sync.down
test_cuda_sound|*before*|lr_near|-|0|max.f32|min.f32
test_cuda_mel|*|lr_mel|-|1|bar.warp.sync|and.b32 %r1, %r1,
test_cuda_mel|*|lr_mel|-|2|bar.warp.sync|and.b32 %r1, %r1,
test_cuda_mel|*|lr_mel|-|3|sub.f64|add.f64
test_cuda_pictures|*colours*|lr_rgb|-|2|shr.s32|shr.u32
test_cuda_pictures|*resized*|lr_resize_rows|-|0|shr.s32|shr.u32
test_cuda_pictures|*resized*|lr_resize_cols|-|0|max.s32|min.s32
test_cuda_pictures|*cut*|lr_patches|-|0|sub.s32|add.s32
test_cuda_pictures|*positions*|lr_positions|-|0|add.f32|sub.f32
test_cuda_pictures|*pooled*|lr_cells|-|0|add.f64|sub.f64
test_cuda_linear|*bound*|lr_gemm|-|0|bar.sync 0|
test_cuda_linear|*bound*|lr_gemm|-|0|cp.async.wait_group 1|cp.async.wait_group 2
test_cuda_linear|*|lr_gemm|-|1|xor.b32|or.b32
test_cuda_attention|*very_key*|lr_attention_64|-|0|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_64|-|1|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_64|-|2|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_64|-|3|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_64|-|4|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_512|-|3|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_512_large|-|3|bar.sync 0|
test_cuda_attention|*very_key*|lr_attention_512_large|mma.sync|0|setp.ge.u32|setp.gt.u32
test_cuda_attention|*very_key*|lr_attention_64|-|1|cp.async.wait_group 1|cp.async.wait_group 2
test_cuda_attention|*very_key*|lr_attention_64|-|0|m8n8.x4.trans|m8n8.x4
test_cuda_attention|*within*|lr_attention_64|-|0|m8n8.x4.shared|m8n8.x4.trans.shared
test_cuda_attention|*very_key*|lr_attention_64|mma.sync|0|setp.lt.u32|setp.le.u32
test_cuda_attention|*very_key*|lr_attention_512|mma.sync|0|setp.lt.u32|setp.le.u32
test_cuda_attention|*within*|lr_attention_64|-|0|max.f32|min.f32
test_cuda_attention|*very_key*|lr_attention_128|mma.sync|0|setp.ge.u32|setp.gt.u32
test_cuda_attention|*very_key*|lr_attention_64|mma.sync|0|setp.lt.u64|setp.le.u64
LIST
[ "$missed" -eq 0 ]
