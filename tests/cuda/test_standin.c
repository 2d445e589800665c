/* The stand-in itself, on PTX written by hand: what it computes, and the mistakes it must see. */
#include "lr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "standin.h"

static const char head[] = ".version 9.0\n.target sm_80\n.address_size 64\n"
                           ".visible .entry k(.param .u64 k_param_0)\n{\n"
                           ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n"
                           ".reg .f64 %fd<9>;\n"
                           ".shared .align 16 .b8 s[256];\n"
                           "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"
                           "add.s64 %rd3, %rd1, %rd2; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.s32 %r4, %r3, %r2;\n";

/* Runs `body` with 64 threads; the parameter is the address of 64 numbers, thread t's is rd3, and r4 its place in
 * shared memory. `got` NULL: it must fail, saying `part`. */
static void run(const char *body, uint32_t got[64], const char *part)
{
    char text[4096], message[MOST_MESSAGE] = "";
    uint64_t at = 0;
    machine_counts counts = {0};
    (void)snprintf(text, sizeof text, "%s%s\nret;\n}\n", head, body);
    assert_true(memory_alloc(256, 1 << 20, &at));
    memset(memory_at(at, 256), 0, 256);
    ptx_module *module = ptx_parse(text, strlen(text), NULL, message, sizeof message);
    bool good = module != NULL;
    if (good) {
        machine_launch launch = {.kernel = module->kernels, .params = &at, .grid = {1, 1, 1}, .block = {64, 1, 1}};
        good = machine_run(&launch, &counts, message);
        ptx_free(module);
    }
    if (good && got) memcpy(got, memory_at(at, 256), 256);
    assert_true(memory_free(at));
    if (!got && (good || !strstr(message, part))) fail_msg("\"%s\" instead of \"%s\"", good ? "nothing" : message, part);
    if (got && !good) fail_msg("%s", message);
}

static void expect(const char *body, uint32_t first, uint32_t last)
{
    uint32_t got[64];
    run(body, got, NULL);
    if (got[0] != first || got[63] != last)
        fail_msg("%s: %#x and %#x, not %#x and %#x", body, got[0], got[63], first, last);
}

#define STORE "st.global.u32 [%rd3], %r9;"

static void test_whole_numbers(void **state)
{
    (void)state;
    expect("add.s32 %r9, %r1, -5;" STORE, (uint32_t)-5, 58);
    expect("mul.hi.u32 %r9, %r1, -1;" STORE, 0, 62);
    expect("sub.s32 %r8, 0, %r1; shr.s32 %r9, %r8, 1;" STORE, 0, (uint32_t)-32);
    expect("sub.s32 %r8, 0, %r1; div.s32 %r9, %r8, 10;" STORE, 0, (uint32_t)-6);
    expect("bfe.u32 %r9, %r1, 2, 3;" STORE, 0, 7);
    expect("bfi.b32 %r9, %r1, -1, 4, 8;" STORE, 0xfffff00f, 0xfffff3ff);
    expect("lop3.b32 %r9, %r1, 12, 10, 0x96;" STORE, 6, 63 ^ 12 ^ 10);
    expect("prmt.b32 %r9, 0x44332211, %r1, 0x3240;" STORE, 0x44330011, 0x44333f11);
    expect("mov.u32 %r8, 0xfffe0003; dp2a.lo.s32.u32 %r9, %r8, 0xff0a, %r1;" STORE, (uint32_t)(3 * 10 - 2 * 255),
           (uint32_t)(3 * 10 - 2 * 255 + 63));
    expect("mov.u32 %r8, 0xfffe0003; st.global.u32 [%rd3], %r8; ld.global.s16 %r9, [%rd3+2];" STORE, (uint32_t)-2,
           (uint32_t)-2);
    expect("mov.b32 {%rs1, %rs2}, 0x12345678; mov.b32 %r9, {%rs2, %rs1};" STORE, 0x56781234, 0x56781234);
}

static void test_reals(void **state)
{
    (void)state;
    expect("cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f2, %f1, 0f40000000, 0f3F800000; cvt.rzi.u32.f32 %r9, %f2;" STORE,
           1, 127);
    expect("mov.f32 %f1, 0fC0600000; cvt.rni.s32.f32 %r9, %f1;" STORE, (uint32_t)-4, (uint32_t)-4);
    /* ties go to even: 1 + 2^-8 to 1, 1 + 3 2^-8 to 1 + 2^-6 */
    expect("mov.f32 %f1, 0f3F808000; mov.f32 %f2, 0f3F818000; cvt.rn.bf16x2.f32 %r9, %f1, %f2;" STORE, 0x3f803f82,
           0x3f803f82);
    expect("cvt.rn.f64.u32 %fd1, %r1; add.f64 %fd1, %fd1, 0d3FF0000000000000; sqrt.rn.f64 %fd2, %fd1;"
           "mul.f64 %fd2, %fd2, 0d4024000000000000; cvt.rzi.u32.f64 %r9, %fd2;" STORE, 10, 80);
    expect("mov.b32 {%rs1, %rs2}, 0x00013c01; cvt.f32.f16 %f1, %rs1; mov.b32 %r9, %f1;" STORE, 0x3f802000, 0x3f802000);
    expect("mov.b32 {%rs1, %rs2}, 0x00018001; cvt.f32.f16 %f1, %rs1; mov.b32 %r9, %f1;" STORE, 0xb3800000, 0xb3800000);
    expect("mov.b32 {%rs1, %rs2}, 0x0001fc00; cvt.f32.f16 %f1, %rs1; mov.b32 %r9, %f1;" STORE, 0xff800000, 0xff800000);
    expect("mov.f32 %f1, 0f7FC00000; setp.neu.f32 %p1, %f1, %f1; selp.u32 %r9, 1, 0, %p1;" STORE, 1, 1);
}

static void test_lanes_that_went_different_ways_meet_again(void **state)
{
    (void)state;
    expect("setp.lt.u32 %p1, %r1, 7; @%p1 bra $low; mov.u32 %r9, 2; bra.uni $end; $low: mov.u32 %r9, 1; $end:"
           "shfl.sync.idx.b32 %r9, %r9, 0, 31, -1;" STORE, 1, 2);
    expect("setp.eq.u32 %p1, %r1, 40; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2;" STORE, 0, 1);
    expect("mov.u32 %r9, 0; $again: add.s32 %r9, %r9, 1; setp.le.u32 %p1, %r9, %r1; @%p1 bra $again;" STORE, 1, 64);
}

static void test_a_barrier_orders_shared_memory(void **state)
{
    (void)state;
    expect("st.shared.u32 [%r4], %r1; bar.sync 0; sub.s32 %r8, 63, %r1; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r3;"
           "ld.shared.u32 %r9, [%r8];" STORE, 63, 0);
}

static void test_atomic_sums_are_in_order_among_themselves(void **state)
{
    (void)state;
    expect("red.global.add.u32 [%rd1], %r1;", 64 * 63 / 2, 0);
    run("red.global.add.u32 [%rd1], %r1; ld.global.u32 %r9, [%rd1];", NULL, "race: ");
    run("ld.global.u32 %r9, [%rd1]; red.global.add.u32 [%rd1], %r1;", NULL, "race: ");
}

static void test_bytes_are_watched_one_by_one(void **state)
{
    (void)state;
    const char place[] = "cvt.u64.u32 %rd4, %r1; add.s64 %rd4, %rd1, %rd4;";
    char body[256];
    (void)snprintf(body, sizeof body, "%sst.global.u8 [%%rd4], %%r1;", place);
    expect(body, 0x03020100, 0);
    (void)snprintf(body, sizeof body, "%sst.global.u8 [%%rd4], %%r1; ld.global.u8 %%r9, [%%rd4+1];", place);
    run(body, NULL, "race: thread 1");
}

static void test_a_warps_own_barrier_orders_its_lanes(void **state)
{
    (void)state;
    /* each lane reads its place, then the lane across reads and writes it */
    expect("xor.b32 %r8, %r4, 4; st.shared.u32 [%r4], %r1; ld.shared.u32 %r9, [%r4]; bar.warp.sync -1;"
           "ld.shared.u32 %r9, [%r8]; st.shared.u32 [%r8], %r1;" STORE, 1, 62);
    run("xor.b32 %r8, %r4, 4; st.shared.u32 [%r4], %r1; bar.warp.sync -1; ld.shared.u32 %r9, [%r4];"
        "st.shared.u32 [%r8], %r1;", NULL, "race: shared memory was read by thread");
}

static void test_mistakes_are_seen_and_named(void **state)
{
    (void)state;
    run("st.shared.u32 [%r4], %r1; ld.shared.u32 %r9, [s];", NULL, "race: shared memory was written by thread 0");
    run("mov.u32 %r9, 1; st.shared.u32 [s], %r9;", NULL, "race: shared memory was written");
    run("ld.shared.u32 %r9, [%r4];", NULL, "nothing was written to");
    run("st.shared.u32 [%r4+4], %r1;", NULL, "shared memory [256, +4) of 256 bytes");
    run("st.global.u32 [%rd3+4], %r1;", NULL, "outside of any allocation");
    run("st.global.u32 [%rd1], %r1;", NULL, "race: thread 0 of block 0 used this global memory");
    run("ld.global.u32 %r9, [%rd1]; st.global.u32 [%rd3], %r1;", NULL, "race: many threads");
    run("ld.global.u32 %r9, [%rd3+2];", NULL, "not aligned");
    run("ld.param.u64 %rd4, [k_param_0+8];", NULL, "parameters end at 8");
    run("setp.lt.u32 %p1, %r1, 7; @%p1 bra $low; bar.sync 0; $low: bar.sync 0;", NULL, "a barrier in divergent code");
    run("setp.lt.u32 %p1, %r1, 7; @%p1 ret; shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;", NULL, "which is not there");
    run("cp.async.cg.shared.global [s], [%rd1], 16;", NULL, "is still filling");
    run("setp.ne.u32 %p1, %r1, 0; @%p1 ret; cp.async.cg.shared.global [s], [%rd1], 16; ld.shared.u32 %r9, [s];", NULL,
        "no wait_group");
    run("setp.ne.u32 %p1, %r1, 0; @%p1 ret; cp.async.cg.shared.global [s], [%rd1], 16;", NULL,
        "cp.async is under way");
    run("frobnicate.b32 %r9, %r1;", NULL, "unknown instruction: frobnicate.b32");
    run("add.sat.s32 %r9, %r1, %r2;", NULL, "modifier: sat");
    run("add.s32 %r9, %r1, %q2;", NULL, "unknown operand: %q2");
    run("bra $nowhere;", NULL, "no such label");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_lanes_that_went_different_ways_meet_again),
        cmocka_unit_test(test_a_barrier_orders_shared_memory),
        cmocka_unit_test(test_atomic_sums_are_in_order_among_themselves),
        cmocka_unit_test(test_bytes_are_watched_one_by_one),
        cmocka_unit_test(test_a_warps_own_barrier_orders_its_lanes),
        cmocka_unit_test(test_mistakes_are_seen_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
