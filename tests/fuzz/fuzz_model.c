/* Any bytes as one of a checkpoint's JSON files, the rest of the checkpoint being a fixture; what opens
 * must embed. The first byte chooses the fixture and the file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <longreel/encoder.h>

#include "fuzz.h"
#include "mutate_json.h"

static const char *const fixtures[] = {"textonly", "sound", "odd", "regular", "vjepa"};
static const char *const names[] = {"config.json", "processor_config.json",
                                    "config_sentence_transformers.json", "tokenizer.json",
                                    "video_preprocessor_config.json"};
#define N_FIXTURES (sizeof fixtures / sizeof *fixtures)
#define N_NAMES (sizeof names / sizeof *names)

static struct original {
    char *text;
    size_t bytes;
} originals[N_FIXTURES][N_NAMES];

static const lr_kernels *kernels;

static void link_weights(const char *fixture)
{
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json",
                                          "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char target[512], name[128];
        (void)snprintf(target, sizeof target, LR_FIXTURES "/%s/%s", fixture, weights[i]);
        (void)snprintf(name, sizeof name, "%s/%s", fixture, weights[i]);
        FILE *there = fopen(target, "rb");
        if (!there) continue;
        (void)fclose(there);
        fz_link(name, target);
    }
}

static void put(size_t fixture, size_t name, const void *data, size_t bytes)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", fixtures[fixture], names[name]);
    (void)fz_write(path, data, bytes);
}

static void make_seeds(void)
{
    for (size_t f = 0; f < N_FIXTURES; f++)
        for (size_t n = 0; n < N_NAMES; n++) {
            char name[128];
            const uint8_t head = (uint8_t)(f + N_FIXTURES * n);
            /* One tokenizer will do: fuzz_tokenizer is for them. */
            if (!originals[f][n].text || (strcmp(names[n], "tokenizer.json") == 0 && f != 1)) continue;
            (void)snprintf(name, sizeof name, "%s-%s", fixtures[f], names[n]);
            fz_seed(name, &head, 1, originals[f][n].text, originals[f][n].bytes);
        }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    lr_error err = {0};
    fz_init();
    FZ_CHECK(fz_succeeded(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_PACKED, &kernels, &err), &err));
    for (size_t f = 0; f < N_FIXTURES; f++) {
        fz_make_directory(fixtures[f]);
        link_weights(fixtures[f]);
        for (size_t n = 0; n < N_NAMES; n++) {
            char path[512];
            (void)snprintf(path, sizeof path, LR_FIXTURES "/%s/%s", fixtures[f], names[n]);
            if (access(path, F_OK) != 0) continue; /* not every checkpoint has every file */
            originals[f][n].text = fz_slurp(path, &originals[f][n].bytes);
            put(f, n, originals[f][n].text, originals[f][n].bytes);
        }
    }
    fz_seeds(make_seeds);
    return 0;
}

/* ------------------------------------------------------------------ embedding */

static lr_status forward(const lr_model *model, float *x, uint64_t n, lr_error *err)
{
    lr_status st = LR_OK;
    lr_comm *comm = NULL;
    lr_partition partition = {0};
    LR_TRY(lr_comm_local_create(1, 0, &comm, err));
    LR_TRY(lr_partition_create(&partition, n, 1024, 1, err));
    const lr_backbone_run run = {.comm = comm, .partition = &partition};
    LR_TRY(lr_backbone_forward(model, &run, x, NULL, err));
done:
    lr_partition_free(&partition);
    lr_comm_free(comm);
    return st;
}

/* The means of all tokens, in each of the model's widths: finite and of length 1 (fp32: half an ulp a
 * value, and the square root). */
static lr_status project(const lr_model *model, const float *x, uint64_t n, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_model_info *info = lr_model_info_of(model);
    double *sum = NULL;
    float *vector = NULL;
    LR_TRY(LR_NEW(&sum, info->hidden, "a sum", err));
    LR_TRY(LR_NEW(&vector, info->dim, "a vector", err));
    kernels->sum_rows(sum, x, info->hidden, n, info->hidden);
    for (size_t i = 0; i < info->n_dims; i++) {
        double square = 0;
        size_t dim = (size_t)info->dims[i];
        FZ_CHECK(dim > 0 && dim <= info->dim);
        LR_TRY(lr_project(model, sum, n, dim, vector, err));
        for (size_t d = 0; d < dim; d++) square += (double)vector[d] * (double)vector[d];
        FZ_CHECK(fabs(sqrt(square) - 1) < 1e-5);
    }
done:
    lr_free(sum);
    lr_free(vector);
    return st;
}

static lr_status embed_layout(const lr_model *model, const lr_layout *layout, const float *soft,
                              lr_error *err)
{
    lr_status st = LR_OK;
    float *x = NULL;
    size_t hidden = lr_model_info_of(model)->hidden;
    LR_TRY(LR_NEW(&x, layout->n_tokens * hidden, "embeddings", err));
    LR_TRY(lr_embed_ids(model, layout->ids, layout->n_tokens, x, err));
    for (size_t i = 0; soft && i < layout->n_spans; i++) {
        const lr_span *span = &layout->spans[i];
        memcpy(x + span->soft_first * hidden, soft, span->soft_count * hidden * sizeof *x);
    }
    LR_TRY(forward(model, x, layout->n_tokens, err));
    LR_TRY(project(model, x, layout->n_tokens, err));
done:
    lr_free(x);
    return st;
}

static lr_status embed_text(const lr_model *model, lr_error *err)
{
    static const char text[] = "a query: 00:01 <bos>\n";
    lr_status st = LR_OK;
    lr_layout *layout = NULL;
    LR_TRY(lr_layout_text(&layout, lr_model_info_of(model)->tokenizer, text, sizeof text - 1, err));
    LR_TRY(embed_layout(model, layout, NULL, err));
done:
    lr_layout_free(layout);
    return st;
}

/* A pool of 64 x 64 patches makes pictures that take minutes: nothing wrong with them. */
#define MOST_PIXELS (192 * 192)

static lr_status embed_picture(const lr_model *model, lr_error *err)
{
    static uint8_t rgb[24 * 40 * 3];
    const lr_model_info *info = lr_model_info_of(model);
    lr_frame frame = {.rgb = rgb, .stride = 40 * 3, .width = 40, .height = 24, .display_width = 40,
                      .display_height = 24};
    lr_status st = LR_OK;
    lr_layout *layout = NULL;
    lr_vision *vision = NULL;
    float *soft = NULL;
    int width, height;
    uint64_t tokens;
    for (size_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)(i * 7);
    LR_TRY(lr_picture_size(&info->picture, 40, 24, &width, &height, &tokens, err));
    if (width * height > MOST_PIXELS) goto done;
    LR_TRY(lr_layout_picture(&layout, &info->rules, tokens, width, height, err));
    LR_TRY(LR_NEW(&soft, tokens * info->hidden, "soft tokens", err));
    LR_TRY(lr_vision_create(&vision, model, width, height, &(lr_worker){0}, err));
    LR_TRY(lr_vision_encode(vision, &frame, soft, &(lr_stage_tap){0}, err));
    LR_TRY(embed_layout(model, layout, soft, err));
done:
    lr_vision_free(vision);
    lr_free(soft);
    lr_layout_free(layout);
    return st;
}

typedef struct heard {
    float *soft;
    size_t hidden;
    uint64_t next;
} heard;

static lr_status hear(void *arg, uint64_t first, uint64_t count, const float *soft, lr_error *err)
{
    heard *h = arg;
    (void)err;
    FZ_CHECK(first == h->next);
    memcpy(h->soft + first * h->hidden, soft, count * h->hidden * sizeof *soft);
    h->next += count;
    return LR_OK;
}

static lr_status embed_sound(const lr_model *model, lr_error *err)
{
    enum { SAMPLES = 4801 };
    static float samples[SAMPLES];
    const lr_model_info *info = lr_model_info_of(model);
    uint64_t tokens = lr_sound_tokens(SAMPLES);
    heard h = {.hidden = info->hidden};
    lr_status st = LR_OK;
    lr_layout *layout = NULL;
    lr_sound_tower *tower = NULL;
    for (size_t i = 0; i < SAMPLES; i++) samples[i] = (float)((i * 37) % 101) / 101 - 0.5F;
    LR_TRY(lr_layout_sound(&layout, &info->rules, tokens, err));
    LR_TRY(LR_NEW(&h.soft, tokens * info->hidden, "soft tokens", err));
    LR_TRY(lr_sound_tower_create(&tower, model, SAMPLES, 0, tokens, &(lr_worker){0}, hear, &h,
                                 &(lr_stage_tap){0}, err));
    LR_TRY(lr_sound_tower_feed(tower, samples, 1000, err));
    LR_TRY(lr_sound_tower_feed(tower, samples + 1000, SAMPLES - 1000, err));
    LR_TRY(lr_sound_tower_finish(tower, err));
    FZ_CHECK(h.next == tokens);
    LR_TRY(embed_layout(model, layout, h.soft, err));
done:
    lr_sound_tower_free(tower);
    lr_free(h.soft);
    lr_layout_free(layout);
    return st;
}

/* ------------------------------------------------------------------ one input */

static void use(lr_model *model)
{
    lr_error err = {0};
    const lr_model_info *info = lr_model_info_of(model);
    FZ_CHECK(info->hidden > 0 && info->dim > 0 && info->n_layers > 0 && info->has_text == (info->tokenizer != NULL));
    for (size_t n = 0; lr_model_task(model, n); n++)
        FZ_CHECK(lr_model_prompt(model, lr_model_task(model, n)));
    if (info->has_text) (void)fz_succeeded(embed_text(model, &err), &err);
    lr_error_clear(&err);
    if (info->has_vision) (void)fz_succeeded(embed_picture(model, &err), &err);
    lr_error_clear(&err);
    if (info->has_audio) (void)fz_succeeded(embed_sound(model, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lr_error err = {0};
    lr_model *model = NULL;
    fz_bytes in = {data, size};
    uint64_t choice = fz_take(&in, 1);
    size_t fixture = choice % N_FIXTURES, name = choice / N_FIXTURES % N_NAMES;
    const lr_model_options options = {.kernels = kernels, .vision = true, .audio = true};
    if (!originals[fixture][name].text) return 0;
    put(fixture, name, in.at, in.left);
    fz_begin();
    if (fz_succeeded(lr_model_open(&model, fz_path(fixtures[fixture]), &options, &err), &err))
        use(model);
    else FZ_CHECK(!model);
    lr_model_close(model);
    fz_end((size_t)512 << 20);
    put(fixture, name, originals[fixture][name].text, originals[fixture][name].bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    if (size < 2 || max_size < 2) return LLVMFuzzerMutate(data, size, max_size);
    return 1 + fz_mutate_json(data + 1, size - 1, max_size - 1, seed);
}
