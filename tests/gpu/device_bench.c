/* Times what a device does, through its table: attention by head_dim and length, matrices, copies. One JSON object.
 *
 *   device_bench [--tiny] FILE
 *
 * Each figure is the best of some rounds; a round is several launches between two waits, so that the wait's own time
 * is a small part. Attention: 4 n^2 head_dim heads operations (two products, a multiply-add counting two), all keys
 * seen by all queries, no softmax counted. --tiny: shapes that an interpreter can do, to see that it all works; it counts
 * the warps' instructions, of which docs/performance.md makes a roofline. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <longreel/core.h>
#include <longreel/device.h>

#include "standin.h"

typedef struct bench {
    lr_device *device;
    const lr_device_ops *ops;
    lr_stream *stream;
    bool tiny;
    json_t *out;
} bench;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void (*one_launch)(bench *b, void *arg);

/* Seconds a launch takes: the first round warms up and tells how many launches make some 50 ms. */
static lr_status time_launches(bench *b, one_launch launch, void *arg, double *seconds, lr_error *err)
{
    lr_status st = LR_OK;
    int n = 1, rounds = b->tiny ? 1 : 4;
    *seconds = 1e30;
    for (int round = 0; round <= rounds; round++) {
        LR_TRY(b->ops->wait(b->stream, err));
        double start = now();
        for (int i = 0; i < n; i++) launch(b, arg);
        LR_TRY(b->ops->wait(b->stream, err));
        double each = (now() - start) / n;
        if (round > 0 && each < *seconds) *seconds = each;
        if (round == 0 && !b->tiny) n = each > 0.05 ? 1 : each < 5e-5 ? 1000 : (int)(0.05 / each) + 1;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ attention */

typedef struct attention {
    lr_device_attn attn;
    lr_device_at block; /* of device memory, for all of it */
} attention;

static void launch_attention(bench *b, void *arg)
{
    const attention *a = arg;
    b->ops->attention(b->stream, &a->attn);
}

/* Queries, keys and values are small numbers that a fill gives (0x3c3c as bf16 is 0.0115). */
static lr_status place(bench *b, attention *a, size_t n, size_t heads, size_t kv_heads, size_t dim, lr_error *err)
{
    lr_status st = LR_OK;
    size_t q = n * heads * dim * 2, kv = n * kv_heads * dim * 2, at = 0;
    uint64_t *range = NULL;
    LR_TRY(b->ops->alloc(b->device, 2 * q + 2 * kv + 4096 + 16 * n, "attention to be timed", &a->block, err));
    LR_TRY(LR_NEW(&range, 2 * n, "ranges", err));
    lr_device_attn *x = &a->attn;
    *x = (lr_device_attn){.n_tokens = n, .n_kv_heads = kv_heads, .head_dim = dim, .group = heads / kv_heads, .n_chunks = 1,
                          .kv_ld = kv_heads * dim};
    x->q = (lr_rows){.at = a->block, .ld = heads * dim, .head = dim, .dtype = LR_BF16};
    x->out = x->q;
    x->out.at += q;
    const lr_device_chunk chunk = {x->out.at + q, x->out.at + q + kv, 0, n};
    at = 2 * q + 2 * kv;
    x->chunks = a->block + (at + 255) / 256 * 256;
    x->lo = x->chunks + 256;
    x->hi = x->lo + 8 * n;
    for (size_t i = 0; i < n; i++) range[n + i] = n;
    b->ops->fill(b->stream, a->block, 0x3c, 2 * q + 2 * kv);
    b->ops->upload(b->stream, x->chunks, &chunk, sizeof chunk);
    b->ops->upload(b->stream, x->lo, range, 16 * n);
    LR_TRY(b->ops->wait(b->stream, err));
done:
    lr_free(range);
    return st;
}

/* Of one launch, where the driver is the stand-in. */
static lr_status count_attention(bench *b, attention *a, json_t *into, lr_error *err)
{
    static const struct { const char *name; int op; } ops[] = {
        {"mma", PTX_MMA}, {"ldmatrix", PTX_LDMATRIX}, {"ex2", PTX_EX2}, {"fma", PTX_FMA}, {"mul", PTX_MUL}, {"max", PTX_MAX},
        {"mov", PTX_MOV}, {"cp_async", PTX_CP_ASYNC}};
    lr_status st = LR_OK;
    const char *driver = getenv("LONGREEL_CUDA_DRIVER");
    void *library = driver ? dlopen(driver, RTLD_NOW | RTLD_NOLOAD) : NULL;
    machine_counts (*counts)(void) = NULL;
    if (library) *(void **)&counts = dlsym(library, "standin_counts");
    if (!counts) goto done;
    machine_counts before = counts();
    launch_attention(b, a);
    LR_TRY(b->ops->wait(b->stream, err));
    machine_counts after = counts();
    json_object_set_new(into, "warp_instructions", json_integer((json_int_t)(after.instructions - before.instructions)));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        json_object_set_new(into, ops[i].name, json_integer((json_int_t)(after.by_op[ops[i].op] - before.by_op[ops[i].op])));
done:
    if (library) (void)dlclose(library);
    return st;
}

static lr_status time_attention(bench *b, json_t *list, size_t n, size_t heads, size_t kv_heads, size_t dim,
                                lr_error *err)
{
    lr_status st = LR_OK;
    attention a = {0};
    double seconds = 0;
    LR_TRY(place(b, &a, n, heads, kv_heads, dim, err));
    LR_TRY(time_launches(b, launch_attention, &a, &seconds, err));
    double flop = 4.0 * (double)n * (double)n * (double)(heads * dim);
    json_t *figures = json_pack("{s:I,s:I,s:I,s:I,s:f,s:f}", "tokens", (json_int_t)n, "heads", (json_int_t)heads,
                                "kv_heads", (json_int_t)kv_heads, "head_dim", (json_int_t)dim, "seconds", seconds, "tflops",
                                flop / seconds / 1e12);
    json_array_append_new(list, figures);
    LR_TRY(count_attention(b, &a, figures, err));
done:
    b->ops->release(b->device, a.block);
    return st;
}

static lr_status bench_attention(bench *b, lr_error *err)
{
    static const size_t shapes[][3] = {{16, 16, 64}, {16, 16, 128}, {12, 12, 72}, {4, 1, 256}, {4, 1, 512}};
    static const size_t lengths[] = {4096, 16384, 65536, 390000}, tiny[] = {64, 192};
    lr_status st = LR_OK;
    json_t *list = json_array();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t i = 0; i < (b->tiny ? 2 : sizeof lengths / sizeof *lengths); i++) {
            size_t n = b->tiny ? tiny[i] : lengths[i];
            if (n > 100000 && shapes[s][2] != 512) continue; /* an hour: the layers that see everything */
            LR_TRY(time_attention(b, list, n, shapes[s][0], shapes[s][1], shapes[s][2], err));
        }
done:
    json_object_set_new(b->out, "attention", list);
    return st;
}

/* ------------------------------------------------------------------ matrices */

typedef struct product {
    lr_rows y, x;
    lr_device_at w;
    size_t rows, n, k;
} product;

static void launch_product(bench *b, void *arg)
{
    const product *p = arg;
    b->ops->linear(b->stream, p->y, p->x, p->w, 0, p->rows, p->n, p->k);
}

static lr_status bench_linear(bench *b, lr_error *err)
{
    /* EmbeddingGemma 2's layers: query, gate and up, down; and a square. */
    static const size_t shapes[][2] = {{1024, 512}, {4096, 512}, {512, 2048}, {4096, 4096}};
    lr_status st = LR_OK;
    json_t *list = json_array();
    lr_device_at block = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        product p = {.rows = b->tiny ? 40 : 16384, .n = b->tiny ? 64 : shapes[s][0], .k = b->tiny ? 64 : shapes[s][1]};
        size_t x = p.rows * p.k * 2, w = p.n * p.k * 2, y = p.rows * p.n * 2;
        double seconds = 0;
        LR_TRY(b->ops->alloc(b->device, x + w + y, "matrices to be timed", &block, err));
        b->ops->fill(b->stream, block, 0x3c, x + w);
        p.x = (lr_rows){.at = block, .ld = p.k, .dtype = LR_BF16};
        p.w = block + x;
        p.y = (lr_rows){.at = block + x + w, .ld = p.n, .dtype = LR_BF16};
        LR_TRY(time_launches(b, launch_product, &p, &seconds, err));
        json_array_append_new(list, json_pack("{s:I,s:I,s:I,s:f,s:f}", "rows", (json_int_t)p.rows, "n", (json_int_t)p.n, "k",
                                              (json_int_t)p.k, "seconds", seconds, "tflops",
                                              2.0 * (double)p.rows * (double)p.n * (double)p.k / seconds / 1e12));
        b->ops->release(b->device, block);
        block = 0;
    }
done:
    b->ops->release(b->device, block);
    json_object_set_new(b->out, "linear", list);
    return st;
}

/* ------------------------------------------------------------------ copies */

typedef struct transfer {
    lr_device_at device, other;
    void *host;
    size_t bytes;
} transfer;

static void launch_upload(bench *b, void *arg)
{
    const transfer *t = arg;
    b->ops->upload(b->stream, t->device, t->host, t->bytes);
}

static void launch_download(bench *b, void *arg)
{
    const transfer *t = arg;
    b->ops->download(b->stream, t->host, t->device, t->bytes);
}

static void launch_copy(bench *b, void *arg)
{
    const transfer *t = arg;
    b->ops->copy(b->stream, t->other, t->device, t->bytes);
}

/* Host memory is not pinned: what a run without staging of its own sees. */
static lr_status bench_copies(bench *b, lr_error *err)
{
    static const struct { const char *name; one_launch launch; } ways[] = {
        {"upload", launch_upload}, {"download", launch_download}, {"copy", launch_copy}};
    lr_status st = LR_OK;
    json_t *rates = json_object();
    unsigned char *host = NULL;
    transfer t = {.bytes = b->tiny ? 10000 : (size_t)256 << 20};
    LR_TRY(LR_NEW(&host, t.bytes, "bytes to be copied", err));
    t.host = host;
    LR_TRY(b->ops->alloc(b->device, t.bytes, "bytes to be copied", &t.device, err));
    LR_TRY(b->ops->alloc(b->device, t.bytes, "bytes to be copied", &t.other, err));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        double seconds = 0;
        LR_TRY(time_launches(b, ways[i].launch, &t, &seconds, err));
        json_object_set_new(rates, ways[i].name, json_real((double)t.bytes / seconds / 1e9));
    }
done:
    b->ops->release(b->device, t.other);
    b->ops->release(b->device, t.device);
    lr_free(host);
    json_object_set_new(b->out, "copies_gb_per_s", rates);
    return st;
}

/* ------------------------------------------------------------------ all */

static lr_status describe(bench *b, lr_error *err)
{
    size_t left = 0;
    const lr_device_info *info = &b->device->info;
    lr_status st = b->ops->memory_left(b->device, &left, err);
    json_object_set_new(b->out, "device", json_pack("{s:s,s:i,s:i,s:i,s:I,s:I}", "name", info->name, "major", info->major,
                                                    "minor", info->minor, "multiprocessors", info->n_multiprocessors,
                                                    "memory", (json_int_t)info->memory_bytes, "memory_left",
                                                    (json_int_t)left));
    return st;
}

int main(int argc, char **argv)
{
    lr_error err = {0};
    lr_status st = LR_OK;
    const lr_device_options options = {0};
    bench b = {.tiny = argc > 2 && strcmp(argv[1], "--tiny") == 0, .out = json_object()};
    if (argc < 2) return 2;
    LR_TRY(lr_device_open(&b.device, &options, &err));
    b.ops = b.device->ops;
    LR_TRY(b.ops->stream_create(b.device, &b.stream, &err));
    LR_TRY(describe(&b, &err));
    LR_TRY(bench_copies(&b, &err));
    LR_TRY(bench_linear(&b, &err));
    LR_TRY(bench_attention(&b, &err));
done:
    if (st != LR_OK) json_object_set_new(b.out, "error", json_string(err.text));
    if (st != LR_OK) fprintf(stderr, "device_bench: %s\n", err.text);
    if (b.stream) b.ops->stream_destroy(b.stream);
    if (b.device) b.device->ops->close(b.device);
    int written = json_dump_file(b.out, argv[argc - 1], JSON_INDENT(1));
    json_decref(b.out);
    return st == LR_OK && written == 0 ? 0 : 1;
}
