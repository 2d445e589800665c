/* Tensor cores, matrices in shared memory, and copies into it.
 *
 * A matrix of bf16 lies in shared memory row by row in units of 16 bytes, the units of a row permuted by the
 * row's number, so that the eight rows that ldmatrix reads at a time lie in different banks. */
#ifndef LONGREEL_CUDA_MMA_CUH
#define LONGREEL_CUDA_MMA_CUH

#include "rows.cuh"

/* d[16, 8] += a[16, 16] b[16, 8] */
static __device__ __forceinline__ void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void ldmatrix(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

static __device__ __forceinline__ void ldmatrix_transposed(uint32_t r[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

/* 16 bytes, of which the first `bytes` are read and the rest is zero. */
static __device__ __forceinline__ void copy_async(uint32_t to, uint64_t from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most PENDING of this thread's groups are under way. */
template <int PENDING> static __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Bytes from the start of a matrix of UNITS units a row to unit `unit` of row `row`. */
template <int UNITS> static __device__ __forceinline__ uint32_t unit_at(uint32_t row, uint32_t unit)
{
    uint32_t turn = UNITS >= 8 ? row & 7 : row >> 1 & 3; /* of a row of 4 units two share the banks' width */
    return (row * UNITS + (unit ^ turn)) * 16;
}

/* `units` units on along the row (an even number) from one of its first two: the permutation turns three bits of the
 * unit's number, or two, so these are turned over and the rest is added. What is known when compiled costs nothing or
 * one instruction. `at`: an address in a matrix that begins at a multiple of 128 bytes. */
static __device__ __forceinline__ uint32_t units_on(uint32_t at, uint32_t units)
{
    return (at ^ (units & 7) << 4) + (units & ~7u) * 16;
}

/* The same unit `rows` rows further down, from a row whose number has zeros where `rows` has bits below 8. */
template <int UNITS> static __device__ __forceinline__ uint32_t row_down(uint32_t at, uint32_t rows)
{
    uint32_t turn = UNITS >= 8 ? rows & 7 : rows >> 1 & 3;
    return (at ^ turn << 4) + rows * UNITS * 16;
}

/* Values [8 unit, 8 unit + 8) of a row of `dim` values (a multiple of 8) at `from` into shared memory, zero from
 * dim on and where the row is not there. */
static __device__ __forceinline__ void fetch_unit(uint32_t to, uint64_t from, bool there, uint32_t unit, uint32_t dim)
{
    bool any = there && unit * EIGHT < dim;
    copy_async(to, any ? from + unit * 16 : from, any ? 16 : 0);
}

#endif
