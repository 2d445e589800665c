/* The tables, and which of them this processor runs. */
#include "table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LR_X86
#include <cpuid.h>
#endif

#define N_ISAS (LR_ISA_LAST - LR_ISA_SCALAR + 1)

static const char *const isa_names[] = {"auto", "scalar", "avx2", "avx512", "neon"};
static const char *const gemm_names[] = {"auto", "openblas", "packed"};

static lr_kernels tables[N_ISAS][2]; /* [isa - LR_ISA_SCALAR][gemm - LR_GEMM_OPENBLAS] */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

size_t lr_linear_n(const lr_linear *linear)
{
    return linear->n;
}

size_t lr_linear_k(const lr_linear *linear)
{
    return linear->k;
}

const char *lr_isa_name(lr_isa isa)
{
    return (unsigned)isa < sizeof(isa_names) / sizeof(*isa_names) ? isa_names[isa] : "unknown";
}

/* What the processor lacks for the instruction set, NULL when it runs it. __builtin_cpu_supports
 * answers no too where the operating system does not save the registers. */
static const char *lacking(lr_isa isa)
{
    if (isa == LR_ISA_SCALAR) return NULL;
#if LR_ARM64
    return isa == LR_ISA_NEON ? NULL : "the x86-64 instruction set";
#elif LR_X86
    if (isa == LR_ISA_NEON) return "the AArch64 instruction set";
    unsigned eax, ebx, ecx = 0, edx;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) return "AVX2";
    if (!__builtin_cpu_supports("fma")) return "FMA";
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C)) return "F16C";
    if (isa == LR_ISA_AVX2) return NULL;
    if (!__builtin_cpu_supports("avx512f")) return "AVX-512F";
    if (!__builtin_cpu_supports("avx512dq")) return "AVX-512DQ";
    if (!__builtin_cpu_supports("avx512bw")) return "AVX-512BW";
    if (!__builtin_cpu_supports("avx512vl")) return "AVX-512VL";
    return NULL;
#else
    return "another instruction set";
#endif
}

static void fill_isa(lr_kernels *table, lr_isa isa)
{
    lr_fill_scalar(table);
#if LR_X86
    if (isa >= LR_ISA_AVX2) {
        lr_fill_avx2(table);
        lr_fill_attention_avx2(table);
    }
    if (isa >= LR_ISA_AVX512) {
        lr_fill_avx512(table);
        lr_fill_attention_avx512(table);
    }
#elif LR_ARM64
    if (isa == LR_ISA_NEON) {
        lr_fill_neon(table);
        lr_fill_attention_neon(table);
    }
#else
    (void)isa;
#endif
}

static void fill_gemm(lr_kernels *table, lr_isa isa, lr_gemm gemm)
{
    lr_fill_linear_packed_scalar(table);
#if LR_X86
    if (isa == LR_ISA_AVX2) lr_fill_linear_packed_avx2(table);
    if (isa == LR_ISA_AVX512) lr_fill_linear_packed_avx512(table);
#elif LR_ARM64
    if (isa == LR_ISA_NEON) lr_fill_linear_packed_neon(table);
#else
    (void)isa;
#endif
#if defined(LR_HAVE_OPENBLAS)
    if (gemm == LR_GEMM_OPENBLAS) lr_fill_linear_openblas(table);
#else
    (void)gemm;
#endif
}

static void fill_tables(void)
{
    for (int isa = LR_ISA_SCALAR; isa < LR_ISA_SCALAR + N_ISAS; isa++) {
        if (lacking((lr_isa)isa)) continue;
        for (int gemm = LR_GEMM_OPENBLAS; gemm <= LR_GEMM_PACKED; gemm++) {
            lr_kernels *table = &tables[isa - LR_ISA_SCALAR][gemm - LR_GEMM_OPENBLAS];
            fill_isa(table, (lr_isa)isa);
            fill_gemm(table, (lr_isa)isa, (lr_gemm)gemm);
        }
    }
}

/* An environment variable's value as an index into names; 0 (auto) when unset or empty. */
static lr_status from_environment(const char *variable, const char *const *names, size_t n_names,
                                  int *out, lr_error *err)
{
    const char *value = getenv(variable);
    *out = 0;
    if (!value || !*value) return LR_OK;
    for (size_t i = 0; i < n_names; i++)
        if (!strcmp(value, names[i])) {
            *out = (int)i;
            return LR_OK;
        }
    char list[64] = "";
    for (size_t i = 0; i < n_names; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return lr_fail(err, LR_E_USAGE, "%s=%s: not one of %s", variable, value, list);
}

static lr_isa best_isa(void)
{
    lr_isa isa = LR_ISA_LAST;
    while (lacking(isa))
        isa--;
    return isa;
}

/* The packed kernels are the faster where they have vectors to work with. */
static lr_gemm best_gemm(lr_isa isa)
{
#if defined(LR_HAVE_OPENBLAS)
    if (isa == LR_ISA_SCALAR) return LR_GEMM_OPENBLAS;
#endif
    (void)isa;
    return LR_GEMM_PACKED;
}

lr_status lr_kernels_get(lr_isa isa, lr_gemm gemm, const lr_kernels **out, lr_error *err)
{
    lr_status st = LR_OK;
    int chosen;
    *out = NULL;
    if (isa == LR_ISA_AUTO) {
        LR_TRY(from_environment("LONGREEL_ISA", isa_names, LR_ISA_LAST + 1, &chosen, err));
        isa = chosen ? (lr_isa)chosen : best_isa();
    }
    if (gemm == LR_GEMM_AUTO) {
        LR_TRY(from_environment("LONGREEL_GEMM", gemm_names, 3, &chosen, err));
        gemm = chosen ? (lr_gemm)chosen : best_gemm(isa);
    }
    if (isa < LR_ISA_SCALAR || isa > LR_ISA_LAST || gemm < LR_GEMM_OPENBLAS ||
        gemm > LR_GEMM_PACKED)
        LR_FAIL(LR_E_INTERNAL, "no kernels have the number %d, %d", (int)isa, (int)gemm);
    if (lacking(isa))
        LR_FAIL(LR_E_UNSUPPORTED, "the %s kernels need %s, which this processor does not have",
                lr_isa_name(isa), lacking(isa));
    pthread_once(&tables_once, fill_tables);
    *out = &tables[isa - LR_ISA_SCALAR][gemm - LR_GEMM_OPENBLAS];
done:
    return st;
}
