/* The backbone's weights in the memory of a device: one block, filled once when the model is opened. Matrices are
 * bf16: the checkpoint's own bits where it is bf16, else rounded to the nearest, ties to even. */
#include "on_device.h"

#include <math.h>
#include <string.h>

#include "weights.h"

#define ALIGN 256

/* ------------------------------------------------------------------ what there is */

typedef struct place {
    size_t host, device; /* offsets in lr_layer and lr_device_layer */
} place;

#define BOTH(name) {offsetof(lr_layer, name), offsetof(lr_device_layer, name)}
static const place matrices[] = {BOTH(q),    BOTH(kv),  BOTH(o),        BOTH(gate_up),
                                 BOTH(down), BOTH(ple), BOTH(ple_gate), BOTH(ple_out)};

typedef enum kind { WIDTH_HIDDEN, WIDTH_HEAD, WIDTH_Q, WIDTH_KV, WIDTH_GATE_UP } kind;
static const struct vector {
    place at;
    kind width;
} vectors[] = {
    {BOTH(input_norm), WIDTH_HIDDEN},      {BOTH(post_attention_norm), WIDTH_HIDDEN},
    {BOTH(pre_mlp_norm), WIDTH_HIDDEN},    {BOTH(post_mlp_norm), WIDTH_HIDDEN},
    {BOTH(post_ple_norm), WIDTH_HIDDEN},   {BOTH(input_norm_bias), WIDTH_HIDDEN},
    {BOTH(pre_mlp_norm_bias), WIDTH_HIDDEN}, {BOTH(q_norm), WIDTH_HEAD},
    {BOTH(k_norm), WIDTH_HEAD},            {BOTH(q_bias), WIDTH_Q},
    {BOTH(kv_bias), WIDTH_KV},             {BOTH(o_bias), WIDTH_HIDDEN},
    {BOTH(gate_up_bias), WIDTH_GATE_UP},   {BOTH(down_bias), WIDTH_HIDDEN},
};

static size_t count_of(const lr_backbone *backbone, const lr_layer *layer, kind width)
{
    switch (width) {
    case WIDTH_HEAD: return layer->head_dim;
    case WIDTH_Q: return layer->n_heads * layer->head_dim;
    case WIDTH_KV: return 2 * layer->n_kv_heads * layer->head_dim;
    case WIDTH_GATE_UP: return (backbone->gated ? 2 : 1) * backbone->mlp;
    case WIDTH_HIDDEN: break;
    }
    return backbone->hidden;
}

static const float *vector_of(const lr_layer *layer, size_t offset)
{
    const float *vector;
    memcpy((void *)&vector, (const char *)layer + offset, sizeof vector);
    return vector;
}

static lr_device_at *slot_of(lr_device_layer *layer, size_t offset)
{
    return (lr_device_at *)(void *)((char *)layer + offset);
}

/* ------------------------------------------------------------------ filling a block */

/* The same calls size the block (at 0) and fill it. */
typedef struct filler {
    lr_model *model;
    lr_device_model *on;
    lr_stream *stream;
    bool counts;
    size_t used;
    uint16_t *staging; /* [staged]: one matrix */
    size_t staged;
    double *turns;     /* [most_half] */
    size_t most_half;
} filler;

static lr_device_at reserve(filler *f, size_t bytes)
{
    size_t at = f->used;
    f->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return f->counts ? 0 : f->on->block + at;
}

static void put_vector(filler *f, lr_device_at *out, const float *values, size_t count)
{
    *out = 0;
    if (!values) return;
    *out = reserve(f, count * sizeof *values);
    if (!f->counts) f->on->device->ops->upload(f->stream, *out, values, count * sizeof *values);
}

static uint16_t round_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits); /* finite: it was checked */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* `count` values from a tensor's data into the staging area. */
static void narrow(const filler *f, const lr_tensor *tensor, size_t count, uint16_t *out)
{
    float piece[512];
    const unsigned char *data = tensor->data;
    size_t size = lr_dtype_size(tensor->dtype);
    for (size_t i = 0; i < count; i += sizeof piece / sizeof *piece) {
        size_t n = count - i < sizeof piece / sizeof *piece ? count - i : sizeof piece / sizeof *piece;
        lr_to_f32(f->model->kernels, tensor->dtype, data + i * size, n, piece);
        for (size_t j = 0; j < n; j++) out[i + j] = round_to_bf16(piece[j]);
    }
}

static lr_status put_matrix(filler *f, lr_device_at *out, const lr_weight_job *job, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_device_ops *ops = f->on->device->ops;
    size_t at = 0, total = 0;
    for (size_t i = 0; i < job->n_parts; i++) total += job->parts[i].weight.dims[0] * job->parts[i].weight.dims[1];
    if (total > f->staged) f->staged = total;
    *out = reserve(f, total * sizeof *f->staging);
    if (f->counts) return LR_OK;
    LR_TRY(lr_weight_job_check(f->model, job, err));
    for (size_t i = 0; i < job->n_parts; i++) {
        const lr_tensor *tensor = &job->parts[i].weight;
        size_t count = tensor->dims[0] * tensor->dims[1];
        const void *from = tensor->data;
        if (tensor->dtype != LR_BF16) {
            narrow(f, tensor, count, f->staging + at);
            from = f->staging + at;
        }
        ops->upload(f->stream, *out + at * sizeof *f->staging, from, count * sizeof *f->staging);
        at += count;
    }
    LR_TRY(ops->wait(f->stream, err)); /* staging is used again, and the mapping given back */
    lr_weight_job_release(f->model, job);
done:
    return st;
}

/* The weight job whose result was to go to this place of a layer; NULL: none. */
static const lr_weight_job *job_for(const lr_model *model, const lr_layer *layer, size_t offset)
{
    for (size_t i = 0; i < model->n_jobs; i++)
        if ((const char *)model->jobs[i].out == (const char *)layer + offset) return &model->jobs[i];
    return NULL;
}

static lr_status put_turns(filler *f, const lr_layer *layer, lr_device_at *out, lr_error *err)
{
    const lr_model *model = f->model;
    const double pi = 3.14159265358979323846;
    size_t half = layer->head_dim / 2;
    *out = 0;
    if (!layer->rope || model->backbone.place_width > 0) return LR_OK; /* places have tables of their own */
    if (half > f->most_half) f->most_half = half;
    *out = reserve(f, half * sizeof(double));
    if (f->counts) return LR_OK;
    for (size_t i = 0; i < model->n_ropes; i++) {
        const lr_model_rope_entry *entry = &model->ropes[i];
        if (entry->rope != layer->rope || entry->dim != layer->head_dim) continue;
        for (size_t j = 0; j < half; j++)
            f->turns[j] = pow(entry->theta, -2 * (double)j / (double)entry->dim) / (2 * pi);
        f->on->device->ops->upload(f->stream, *out, f->turns, half * sizeof *f->turns);
        return f->on->device->ops->wait(f->stream, err);
    }
    return lr_fail(err, LR_E_INTERNAL, "a layer's rotary angles are of another width than its heads");
}

static lr_status put_all(filler *f, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_backbone *backbone = &f->model->backbone;
    put_vector(f, &f->on->ple_norm, backbone->ple_norm, backbone->ple);
    put_vector(f, &f->on->final_norm, backbone->final_norm, backbone->hidden);
    put_vector(f, &f->on->final_norm_bias, backbone->final_norm_bias, backbone->hidden);
    for (size_t i = 0; i < backbone->n_layers; i++) {
        const lr_layer *layer = &backbone->layers[i];
        lr_device_layer *out = &f->on->layers[i];
        for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++)
            put_vector(f, slot_of(out, vectors[v].at.device), vector_of(layer, vectors[v].at.host),
                       count_of(backbone, layer, vectors[v].width));
        for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++) {
            const lr_weight_job *job = job_for(f->model, layer, matrices[m].host);
            if (job) LR_TRY(put_matrix(f, slot_of(out, matrices[m].device), job, err));
        }
        LR_TRY(put_turns(f, layer, &out->turns, err));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ all */

/* Kernels copy rows of bf16 16 bytes at a time. */
static lr_status check_widths(const lr_model *model, lr_error *err)
{
    const lr_backbone *b = &model->backbone;
    for (size_t i = 0; i < b->n_layers; i++) {
        const struct {
            const char *what;
            size_t width;
        } widths[] = {{"heads", b->layers[i].head_dim}, {"hidden states", b->hidden}, {"MLP", b->mlp},
                      {"per-layer inputs", b->ple}};
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            if (widths[w].width % 8 != 0 || (w == 0 && widths[w].width > 512))
                return lr_fail(err, LR_E_UNSUPPORTED,
                               "%s: %s of %zu values (layer %zu) cannot run on a device: it takes multiples of 8%s",
                               model->directory, widths[w].what, widths[w].width, i, w == 0 ? " up to 512" : "");
    }
    return LR_OK;
}

static void drop_uploaded_jobs(lr_model *model)
{
    const char *begin = (const char *)model->backbone.layers;
    const char *end = (const char *)(model->backbone.layers + model->backbone.n_layers);
    size_t kept = 0;
    for (size_t i = 0; i < model->n_jobs; i++) {
        const char *out = (const char *)model->jobs[i].out;
        if (out < begin || out >= end) model->jobs[kept++] = model->jobs[i];
    }
    model->n_jobs = kept;
}

static lr_status fill_block(lr_model *model, lr_device_model *on, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_device_ops *ops = on->device->ops;
    filler f = {.model = model, .on = on, .counts = true};
    LR_TRY(put_all(&f, err));
    on->bytes = f.used;
    LR_TRY(LR_NEW(&f.staging, f.staged, "a matrix on its way to the device", err));
    LR_TRY(LR_NEW(&f.turns, f.most_half, "rotary angles", err));
    LR_TRY(ops->stream_create(on->device, &f.stream, err));
    LR_TRY(ops->alloc(on->device, on->bytes, "the backbone's weights", &on->block, err));
    f.counts = false;
    f.used = 0;
    LR_TRY(put_all(&f, err));
    LR_TRY(ops->wait(f.stream, err));
done:
    if (f.stream) ops->stream_destroy(f.stream);
    lr_free(f.turns);
    lr_free(f.staging);
    return st;
}

lr_status lr_device_model_create(lr_model *model, const lr_device_options *options, lr_error *err)
{
    lr_status st = LR_OK;
    lr_device_model *on = NULL;
    if (!model->backbone.device_block)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: %s has no forward pass on a device yet; use --device cpu", model->directory,
                model->family->layout);
    LR_TRY(check_widths(model, err));
    LR_TRY(LR_NEW(&on, 1, "a model on a device", err));
    model->on_device = on; /* freed with the model, whatever happens below */
    LR_TRY(LR_NEW(&on->layers, model->backbone.n_layers, "layers on a device", err));
    LR_TRY(lr_device_open(&on->device, options, err));
    LR_TRY(fill_block(model, on, err));
    drop_uploaded_jobs(model);
done:
    return st;
}

void lr_device_model_free(lr_device_model *on)
{
    if (!on) return;
    if (on->device && on->block) on->device->ops->release(on->device, on->block);
    if (on->device) on->device->ops->close(on->device);
    lr_free(on->layers);
    lr_free(on);
}

const lr_device_info *lr_model_device(const lr_model *model)
{
    return model->on_device ? &model->on_device->device->info : NULL;
}

lr_status lr_model_device_left(const lr_model *model, size_t *bytes, lr_error *err)
{
    lr_device *device = model->on_device->device;
    return device->ops->memory_left(device, bytes, err);
}
