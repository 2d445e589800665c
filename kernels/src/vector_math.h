/* exp and what is made of it, on vectors. Included after an instruction set's ops.h. Finite
 * arguments and infinities; a NaN comes out as a NaN. */
#ifndef LONGREEL_KERNELS_VECTOR_MATH_H
#define LONGREEL_KERNELS_VECTOR_MATH_H

/* BODY once for each vector of n elements: from element i on, `lanes` of them (fewer than VW at the
 * end, where loads and stores are masked, so that the tail rounds like the rest). */
#define BY_VECTORS(n, ...)                                                                         \
    do {                                                                                           \
        const size_t end = (n);                                                                    \
        size_t i = 0;                                                                              \
        _Pragma("GCC unroll 2") for (; i + VW <= end; i += VW)                                     \
        {                                                                                          \
            const size_t lanes = VW;                                                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (i < end) {                                                                             \
            const size_t lanes = end - i;                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

SIMD vec vec_get(const float *p, size_t lanes)
{
    return lanes == VW ? vec_load(p) : vec_load_n(p, lanes);
}

SIMD void vec_put(float *p, vec a, size_t lanes)
{
    if (lanes == VW)
        vec_store(p, a);
    else
        vec_store_n(p, a, lanes);
}

/* e^x = 2^n e^r, n = round(x / ln 2), r = x - n ln 2 (ln 2 in two parts, its first 17 bits and the
 * rest, so that n times the first is exact); e^r = 1 + r + r^2 P(r), P a minimax fit of the
 * relative error on |r| <= ln(2) / 2, which is 3.4e-9. Together at most 1.1 ulp. x is cut to
 * [-87.3, 89]: below stands 2^-126, above infinity. */
SIMD vec vec_exp(vec x)
{
    const vec magic = vec_all(0x1.8p23f); /* adding it rounds to a whole number */
    x = vec_min(vec_all(89.0f), vec_max(vec_all(-87.3f), x));
    vec n = vec_sub(vec_fma(x, vec_all(0x1.715476p+0f), magic), magic);
    vec r = vec_fma(n, vec_all(-0x1.62e4p-1f), x);
    r = vec_fma(n, vec_all(-0x1.7f7d1cp-20f), r);
    vec p = vec_fma(vec_all(0x1.6a4d72p-10f), r, vec_all(0x1.123e58p-7f));
    p = vec_fma(p, r, vec_all(0x1.5558b8p-5f));
    p = vec_fma(p, r, vec_all(0x1.55548cp-3f));
    p = vec_fma(p, r, vec_all(0x1.fffffcp-2f));
    p = vec_fma(p, vec_mul(r, r), r);
    return vec_ldexp(vec_add(p, vec_all(1.0f)), n);
}

/* a / (1 + exp(-b)) */
SIMD vec vec_times_sigmoid(vec a, vec b)
{
    return vec_div(a, vec_add(vec_all(1.0f), vec_exp(vec_sub(vec_zero(), b))));
}

/* 0.5 x (1 + tanh(u)) = x sigmoid(2u), 2u = x (a + b x^2), a = 2 sqrt(2/pi), b = 0.044715 a. */
SIMD vec vec_gelu_tanh(vec x)
{
    vec slope = vec_fma(vec_mul(x, x), vec_all(0.0713548163f), vec_all(1.5957691216f));
    return vec_times_sigmoid(x, vec_mul(x, slope));
}

/* 0.5 x (1 + erf(x / sqrt 2)) = max(x, 0) - 0.5 |x| erfc(|x| / sqrt 2), which does not cancel for
 * negative x. log erfc(t / sqrt 2) is a polynomial in t on [0, 10], fitted so that what it does to
 * the result is below 7e-9 everywhere and below 5.2e-8 relatively for |x| < 4; beyond 10 the term
 * is below 1e-22 and stays where it is. */
SIMD vec vec_gelu_erf(vec x)
{
    static const float c[] = {-0x1.98847ap-1f,  -0x1.45f01ap-2f,  -0x1.29f618p-5f, 0x1.3d222cp-8f,
                              -0x1.1e4a46p-17f, -0x1.9d654ep-13f, 0x1.df0548p-15f, -0x1.344fecp-17f,
                              0x1.e56dbep-21f,  -0x1.b2a004p-25f, 0x1.51b256p-30f};
    vec t = vec_min(vec_all(10.0f), vec_abs(x)), p = vec_all(c[10]);
    for (int i = 9; i >= 0; i--)
        p = vec_fma(p, t, vec_all(c[i]));
    vec erfc = vec_exp(vec_mul(p, t));
    return vec_sub(vec_max(vec_zero(), x), vec_mul(vec_mul(vec_all(0.5f), t), erfc));
}

#endif
