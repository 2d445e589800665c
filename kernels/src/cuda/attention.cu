/* Attention over chunks of keys, with the online softmax carried along (longreel/kernels.h has the formulas):
 *     s = q k^T ;  m' = max(m, s) ;  p = exp(s - m') ;  l' = l exp(m - m') + sum p ;  o' = o exp(m - m') + p v
 *
 * A block has ROWS rows, 16 BANDS to each warp of a column of warps; COLUMNS warps share rows: each takes a share of
 * the keys in s, and of head_dim in o. Keys come in sub-blocks of KEYS counted from the chunk's first one. While
 * s is made from K, V is on its way; while o is, the next K.
 *
 * What a row gets depends on its own q and range, and on the chunks: the sum of p is closed with each sub-block
 * (so that a state that went through memory is as good as one that did not), and where a row sees nothing the
 * correction is 1, p is 0, and nothing changes. */
#include "mma.cuh"

#define LOG2E 1.4426950408889634f
/* 2^x, 2^0 = 1. */
static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* A sub-block: keys [key, key + n) of a chunk. n 0: there is none any more. */
struct Place {
    uint32_t chunk;
    uint64_t key, n;
};

template <int D, int KEYS, int ROWS, int COLUMNS, int BANDS> struct Attention {
    static constexpr int THREADS = ROWS / (16 * BANDS) * COLUMNS * LANES, UNITS = D / EIGHT;
    static constexpr int WARP_KEYS = KEYS / COLUMNS, WARP_DIMS = D / COLUMNS;
    static constexpr int S_TILES = WARP_KEYS / 8, O_TILES = WARP_DIMS / 8;

    const lr_cu_attention &p;
    uint32_t q, k, v, weights;    /* addresses in shared memory */
    uint64_t *lo, *hi;            /* [ROWS] */
    float *maxima, *sums;         /* [COLUMNS, ROWS] */
    uint64_t row0, least, past;   /* the tile's first row; keys that any row of it sees */
    uint64_t all_from, all_past;  /* keys that all of its rows see */
    uint32_t kv_head, lane, warp_row, warp_column;
    /* Of rows lane / 4 and lane / 4 + 8 of each 16 of the warp. maximum: over this warp's keys; correction: of what
     * was summed before this sub-block. */
    float s[BANDS][S_TILES][4], o[BANDS][O_TILES][4];
    float m[BANDS][2], l[BANDS][2], maximum[BANDS][2], correction[BANDS][2];

    __device__ __forceinline__ Attention(const lr_cu_attention &params, char *memory) : p(params)
    {
        q = shared_address(memory);
        k = q + ROWS * D * 2;
        v = k + KEYS * D * 2;
        weights = v + KEYS * D * 2;
        char *rest = memory + ROWS * D * 2 + 2 * KEYS * D * 2 + (COLUMNS > 1 ? ROWS * KEYS * 2 : 0);
        lo = (uint64_t *)rest;
        hi = lo + ROWS;
        maxima = (float *)(hi + ROWS);
        sums = maxima + COLUMNS * ROWS;
        row0 = (uint64_t)blockIdx.x * ROWS;
        kv_head = blockIdx.y;
        uint32_t warp = threadIdx.x / LANES;
        lane = threadIdx.x % LANES;
        warp_row = warp / COLUMNS * (16 * BANDS);
        warp_column = warp % COLUMNS;
    }

    /* ---------------------------------------------------------------- where rows and keys are */

    __device__ __forceinline__ uint64_t token_of(uint64_t row) const { return row / p.group; }
    __device__ __forceinline__ uint64_t head_of(uint64_t row) const { return kv_head * p.group + row % p.group; }

    __device__ __forceinline__ void fetch_queries()
    {
#pragma unroll 1
        for (uint32_t n = 0; n < ROWS * UNITS / THREADS; n++) {
            uint32_t i = threadIdx.x + n * THREADS;
            uint32_t row = i / UNITS, unit = i % UNITS;
            bool there = row0 + row < p.n_rows;
            uint64_t from = there ? token_of(row0 + row) * p.q_ld + head_of(row0 + row) * p.head_dim : 0;
            fetch_unit(q + unit_at<UNITS>(row, unit), p.q + from * 2, there, unit, p.head_dim);
        }
    }

    /* A thread has the same unit of every STEP-th key. Addresses of keys that are not there are not read. */
    __device__ __forceinline__ void fetch_keys(uint32_t to, uint64_t from, const Place &place)
    {
        constexpr uint32_t STEP = THREADS / UNITS;
        uint32_t key = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
        bool in = unit * EIGHT < p.head_dim;
        uint64_t at = from + ((place.key + key) * p.kv_ld + kv_head * p.head_dim) * 2 + unit * 16;
        to += unit_at<UNITS>(key, unit);
#pragma unroll
        for (uint32_t n = 0; n < KEYS / STEP; n++) {
            bool there = in && key + n * STEP < place.n;
            copy_async(row_down<UNITS>(to, n * STEP), at, there ? 16 : 0);
            at += STEP * p.kv_ld * 2;
        }
    }

    /* Ranges of the tile's rows; rows that are not there see nothing. */
    __device__ __forceinline__ void find_ranges()
    {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < ROWS; i += THREADS) {
            bool there = row0 + i < p.n_rows;
            lo[i] = there ? global<const uint64_t>(p.lo)[token_of(row0 + i)] : 0;
            hi[i] = there ? global<const uint64_t>(p.hi)[token_of(row0 + i)] : 0;
        }
        __syncthreads();
        least = all_past = ~0ull;
        past = all_from = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < ROWS && row0 + i < p.n_rows; i++) {
            all_from = max(all_from, lo[i]);
            all_past = min(all_past, hi[i]);
            if (lo[i] >= hi[i]) continue;
            least = min(least, lo[i]);
            past = max(past, hi[i]);
        }
    }

    /* Chunks are in ascending order and none is empty. */
    __device__ __forceinline__ Place bounded(Place place) const
    {
        place.n = 0;
        if (place.chunk < p.n_chunks) {
            const lr_cu_chunk *chunk = global<const lr_cu_chunk>(p.chunks) + place.chunk;
            if (chunk->first_key + place.key < past) place.n = min(chunk->n_keys - place.key, (uint64_t)KEYS);
        }
        return place;
    }

    /* The first sub-block that a row of the tile sees. */
    __device__ __forceinline__ Place begin() const
    {
        const lr_cu_chunk *chunk = global<const lr_cu_chunk>(p.chunks);
        Place place = {0, 0, 0};
        while (place.chunk < p.n_chunks && chunk[place.chunk].first_key + chunk[place.chunk].n_keys <= least)
            place.chunk++;
        if (place.chunk < p.n_chunks && least > chunk[place.chunk].first_key)
            place.key = (least - chunk[place.chunk].first_key) / KEYS * KEYS;
        return bounded(place);
    }

    __device__ __forceinline__ Place next(Place place) const
    {
        place.key += KEYS;
        if (place.key >= global<const lr_cu_chunk>(p.chunks)[place.chunk].n_keys) {
            place.chunk++;
            place.key = 0;
        }
        return bounded(place);
    }

    /* ---------------------------------------------------------------- scores */

    __device__ __forceinline__ void scores()
    {
#pragma unroll
        for (int band = 0; band < BANDS; band++)
#pragma unroll
            for (int j = 0; j < S_TILES; j++) s[band][j][0] = s[band][j][1] = s[band][j][2] = s[band][j][3] = 0;
        uint32_t q_at = q + unit_at<UNITS>(warp_row + lane % 16, lane / 16);
        uint32_t k_at = k + unit_at<UNITS>(warp_column * WARP_KEYS + lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll 1
        for (int d = 0; d < D / 64; d++, q_at += 128, k_at += 128) {
#pragma unroll
            for (int units = 0; units < 8; units += 2) multiply_keys(units_on(q_at, units), units_on(k_at, units));
        }
    }

    /* s += q k^T over 16 values of the rows at q_at and k_at. */
    __device__ __forceinline__ void multiply_keys(uint32_t q_at, uint32_t k_at)
    {
        uint32_t a[BANDS][4], b[4];
#pragma unroll
        for (int band = 0; band < BANDS; band++) ldmatrix(a[band], row_down<UNITS>(q_at, 16 * band));
#pragma unroll
        for (int j = 0; j < S_TILES; j += 2) {
            ldmatrix(b, row_down<UNITS>(k_at, 8 * j));
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                mma(s[band][j], a[band], b[0], b[1]);
                mma(s[band][j + 1], a[band], b[2], b[3]);
            }
        }
    }

    /* A row of the tile that this lane has values of. */
    __device__ __forceinline__ uint32_t row_of(int band, int half) const
    {
        return warp_row + 16 * band + lane / 4 + 8 * half;
    }

    /* Keys [begin, end) of the sub-block that the row sees. */
    __device__ __forceinline__ void range_of(uint32_t row, uint64_t first, uint32_t n, uint32_t *begin,
                                             uint32_t *end) const
    {
        uint64_t low = lo[row], high = hi[row];
        *begin = low <= first ? 0 : (uint32_t)min(low - first, (uint64_t)KEYS);
        *end = high <= first ? 0 : (uint32_t)min(high - first, (uint64_t)n);
    }

    /* Scores of unseen keys become -inf. */
    __device__ __forceinline__ void mask_row(int band, int half, uint64_t first, uint32_t n)
    {
        uint32_t begin, end;
        range_of(row_of(band, half), first, n, &begin, &end);
#pragma unroll
        for (int j = 0; j < S_TILES; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t key = warp_column * WARP_KEYS + 8 * j + lane % 4 * 2 + i;
                float &x = s[band][j][2 * half + i];
                x = key >= begin && key < end ? x : -INFINITY;
            }
    }

    /* The largest of the row, over this warp's keys, for the others to see. */
    __device__ __forceinline__ void find_maximum(int band, int half)
    {
        float top = -INFINITY;
#pragma unroll
        for (int j = 0; j < S_TILES; j++) top = fmaxf(top, fmaxf(s[band][j][2 * half], s[band][j][2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        if (COLUMNS > 1) {
            if (lane % 4 == 0) maxima[warp_column * ROWS + row_of(band, half)] = top;
        } else {
            maximum[band][half] = top;
        }
    }

    __device__ __forceinline__ void mask(uint64_t first, uint32_t n)
    {
        bool all = n == KEYS && first >= all_from && first + n <= all_past;
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            if (!all) mask_row(band, 0, first, n), mask_row(band, 1, first, n);
            find_maximum(band, 0);
            find_maximum(band, 1);
        }
    }

    /* p = exp(s - m'), the correction, and the sum of the row over this warp's keys. */
    __device__ __forceinline__ void weigh_row(int band, int half)
    {
        uint32_t row = row_of(band, half);
        float top = m[band][half];
        if (COLUMNS > 1) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) top = fmaxf(top, maxima[c * ROWS + row]);
        } else {
            top = fmaxf(top, maximum[band][half]);
        }
        float base = top == -INFINITY ? 0 : top, sum = 0; /* a row that has seen nothing yet */
        correction[band][half] = exp2_fast((m[band][half] - base) * LOG2E);
        m[band][half] = top;
#pragma unroll
        for (int j = 0; j < S_TILES; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &x = s[band][j][2 * half + i];
                x = exp2_fast((x - base) * LOG2E);
                sum += x;
            }
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (COLUMNS > 1) {
            if (lane % 4 == 0) sums[warp_column * ROWS + row] = sum;
        } else {
            l[band][half] = l[band][half] * correction[band][half] + sum;
        }
    }

    __device__ __forceinline__ void weigh()
    {
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            weigh_row(band, 0);
            weigh_row(band, 1);
            if (COLUMNS > 1) share_weights(band);
        }
    }

    /* p as bf16 into shared memory [ROWS, KEYS], for the warps that share the rows. */
    __device__ __forceinline__ void share_weights(int band)
    {
#pragma unroll
        for (int j = 0; j < S_TILES; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                uint32_t unit = warp_column * (WARP_KEYS / 8) + j;
                uint32_t to = weights + unit_at<KEYS / 8>(row_of(band, half), unit) + lane % 4 * 4;
                asm volatile("st.shared.b32 [%0], %1;"
                             :: "r"(to), "r"(bf16_pair(s[band][j][2 * half], s[band][j][2 * half + 1])) : "memory");
            }
    }

    /* ---------------------------------------------------------------- values */

    /* Where warps share rows: the sums of all of them, in the order of the keys. */
    __device__ __forceinline__ void add_sums(int band, int half)
    {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) sum += sums[c * ROWS + row_of(band, half)];
        l[band][half] = l[band][half] * correction[band][half] + sum;
    }

    /* The weights of keys 16 j .. 16 j + 15. */
    __device__ __forceinline__ void load_weights(uint32_t a[4], int band, int j) const
    {
        if constexpr (COLUMNS > 1) {
            uint32_t at = weights + unit_at<KEYS / 8>(warp_row + lane % 16, lane / 16);
            ldmatrix(a, row_down<KEYS / 8>(units_on(at, 2 * j), 16 * band));
        } else {
            const float *x = s[band][2 * j], *y = s[band][2 * j + 1];
            a[0] = bf16_pair(x[0], x[1]), a[1] = bf16_pair(x[2], x[3]);
            a[2] = bf16_pair(y[0], y[1]), a[3] = bf16_pair(y[2], y[3]);
        }
    }

    __device__ __forceinline__ void values()
    {
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            if (COLUMNS > 1) add_sums(band, 0), add_sums(band, 1);
            /* Seldom, once many keys were seen: times 1 changes nothing. */
            if (!__any_sync(0xffffffffu, correction[band][0] != 1 || correction[band][1] != 1)) continue;
#pragma unroll
            for (int n = 0; n < O_TILES; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) o[band][n][i] *= correction[band][i / 2];
        }
        uint32_t v_at = v + unit_at<UNITS>(lane % 8 + lane / 8 % 2 * 8, warp_column * (WARP_DIMS / 8) + lane / 16);
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            uint32_t a[BANDS][4], b[4];
#pragma unroll
            for (int band = 0; band < BANDS; band++) load_weights(a[band], band, j);
#pragma unroll
            for (int n = 0; n < O_TILES; n += 2) {
                ldmatrix_transposed(b, row_down<UNITS>(units_on(v_at, n), 16 * j));
#pragma unroll
                for (int band = 0; band < BANDS; band++) {
                    mma(o[band][n], a[band], b[0], b[1]);
                    mma(o[band][n + 1], a[band], b[2], b[3]);
                }
            }
        }
    }

    /* ---------------------------------------------------------------- state */

    __device__ __forceinline__ void load_row(int band, int half)
    {
        uint64_t row = row0 + row_of(band, half);
        bool there = p.resume && row < p.n_rows;
        uint64_t ml = token_of(row) * p.kv_heads * p.group + head_of(row);
        m[band][half] = there ? global<const float>(p.m)[ml] : -INFINITY;
        l[band][half] = there ? global<const float>(p.l)[ml] : 0;
        const float *from = global<const float>(p.o) + token_of(row) * p.o_ld + head_of(row) * p.head_dim;
#pragma unroll
        for (int n = 0; n < O_TILES; n++) {
            uint32_t d = warp_column * WARP_DIMS + 8 * n + lane % 4 * 2;
            bool in = there && d < p.head_dim;
            o[band][n][2 * half] = in ? from[d] : 0;
            o[band][n][2 * half + 1] = in ? from[d + 1] : 0;
        }
    }

    /* + 0: the sign of a zero must not tell which sub-blocks were passed over. */
    __device__ __forceinline__ void keep_row(int band, int half, uint64_t token, uint64_t head) const
    {
        float *to = global<float>(p.o) + token * p.o_ld + head * p.head_dim;
        uint64_t ml = token * p.kv_heads * p.group + head;
        if (lane % 4 == 0 && warp_column == 0) {
            global<float>(p.m)[ml] = m[band][half];
            global<float>(p.l)[ml] = l[band][half];
        }
#pragma unroll
        for (int n = 0; n < O_TILES; n++) {
            uint32_t d = warp_column * WARP_DIMS + 8 * n + lane % 4 * 2;
            const float *x = o[band][n] + 2 * half;
            if (d < p.head_dim) to[d] = x[0] + 0.0f, to[d + 1] = x[1] + 0.0f;
        }
    }

    __device__ __forceinline__ void finish_row(int band, int half, uint64_t token, uint64_t head) const
    {
        uint64_t to = p.out + (token * p.out_ld + head * p.head_dim) * 2;
        float inverse = l[band][half] > 0 ? 1 / l[band][half] : 0;
#pragma unroll
        for (int n = 0; n < O_TILES; n++) {
            uint32_t d = warp_column * WARP_DIMS + 8 * n + lane % 4 * 2;
            const float *x = o[band][n] + 2 * half;
            if (d < p.head_dim)
                *global<uint32_t>(to + 2 * d) = bf16_pair(x[0] * inverse + 0.0f, x[1] * inverse + 0.0f);
        }
    }

    __device__ __forceinline__ void load_state()
    {
#pragma unroll
        for (int band = 0; band < BANDS; band++) {
            load_row(band, 0);
            load_row(band, 1);
        }
    }

    __device__ __forceinline__ void store() const
    {
#pragma unroll
        for (int band = 0; band < BANDS; band++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                uint64_t row = row0 + row_of(band, half);
                if (row >= p.n_rows) continue;
                if (p.out) finish_row(band, half, token_of(row), head_of(row));
                else keep_row(band, half, token_of(row), head_of(row));
            }
    }

    /* ---------------------------------------------------------------- the whole */

    __device__ __forceinline__ void run()
    {
        load_state(); /* before the barrier in find_ranges: other lanes of the row write it in the end */
        find_ranges();
        Place at = begin();
        const lr_cu_chunk *chunks = global<const lr_cu_chunk>(p.chunks);
        if (at.n > 0) {
            fetch_queries();
            fetch_keys(k, chunks[at.chunk].k, at);
            copy_commit();
            fetch_keys(v, chunks[at.chunk].v, at);
            copy_commit();
        }
        while (at.n > 0) {
            copy_wait<1>(); /* q and K are here */
            __syncthreads();
            scores();
            mask(chunks[at.chunk].first_key + at.key, (uint32_t)at.n);
            __syncthreads(); /* K may be overwritten; the maxima can be seen */
            Place after = next(at);
            if (after.n > 0) fetch_keys(k, chunks[after.chunk].k, after);
            copy_commit();
            weigh();
            copy_wait<1>(); /* V is here */
            __syncthreads(); /* the weights and sums can be seen */
            values();
            __syncthreads(); /* V may be overwritten */
            if (after.n > 0) fetch_keys(v, chunks[after.chunk].v, after);
            copy_commit();
            at = after;
        }
        copy_wait<0>();
        store();
    }
};

#define DEFINE(unused, name, D, KEYS, ROWS, COLUMNS, BANDS)                                        \
    extern "C" __global__ void __launch_bounds__(ROWS / (16 * BANDS) * COLUMNS * LANES)            \
        lr_##name(const __grid_constant__ lr_cu_attention p)                                       \
    {                                                                                              \
        extern __shared__ __align__(128) char memory[];                                            \
        Attention<D, KEYS, ROWS, COLUMNS, BANDS>(p, memory).run();                                 \
    }
LR_CU_ATTENTIONS(DEFINE, )
