/* A track, or a slice of it, through the sound tower as its samples come. */
#include <string.h>

#include "sound.h"

/* Tiles of a block for each thread: enough that the threads end at about the same time, few enough
 * that the block stays small. */
#define TILES_PER_THREAD 4
#define MOST_TILES 32

/* ------------------------------------------------------------------ create, free */

static void sound_free(lr_sound_tower *tower)
{
    if (!tower) return;
    eg2_sound_run *run = (eg2_sound_run *)(void *)tower;
    lr_scratch_free(&run->scratch);
    lr_free(run->floats);
    eg2_mel_free(run->mel_filters);
    lr_free(run);
}

static uint64_t round_down(uint64_t value, uint64_t step)
{
    return value - value % step;
}

/* Tokens worked at once. */
static size_t block_of(uint64_t tokens, size_t threads)
{
    size_t tiles = TILES_PER_THREAD * threads;
    uint64_t needed = (tokens + LR_ROW_TILE - 1) / LR_ROW_TILE;
    if (tiles > MOST_TILES) tiles = MOST_TILES;
    if (tiles > needed) tiles = needed > 0 ? (size_t)needed : 1;
    return tiles * LR_ROW_TILE;
}

static lr_status set_slice(eg2_sound_run *run, lr_error *err)
{
    uint64_t tokens = (run->valid + EG2_TOKEN_FRAMES - 1) / EG2_TOKEN_FRAMES;
    uint64_t look_back = eg2_sound_look_back(run->tower);
    if (run->n_samples < 0 || run->first > run->end || run->end > tokens)
        return lr_fail(err, LR_E_USAGE, "sound tokens %llu to %llu of a track of %lld samples, which "
                       "has %llu tokens", (unsigned long long)run->first,
                       (unsigned long long)run->end, (long long)run->n_samples,
                       (unsigned long long)tokens);
    run->begin = run->first > look_back ? round_down(run->first - look_back, LR_ROW_TILE) : 0;
    run->at = run->begin;
    run->fed = lr_sound_tower_first_sample(&run->head);
    run->block = block_of(run->end - run->begin, lr_pool_threads(run->worker.pool));
    return LR_OK;
}

static size_t cut_floats(eg2_sound_run *run, float *base)
{
    const eg2_sound *s = run->tower;
    lr_cutter cutter = {.base = base};
    size_t c = s->hidden, keys = s->window - 1, rows = s->kernel - 1;
    run->samples = lr_cut(&cutter, EG2_TOKEN_SAMPLES * (1 + run->block));
    run->mel = lr_cut(&cutter, (3 + EG2_TOKEN_FRAMES * run->block) * EG2_MEL_BANDS);
    run->h = lr_cut(&cutter, run->block * c);
    run->q = lr_cut(&cutter, run->block * c);
    run->k = lr_cut(&cutter, (keys + run->block) * c);
    run->v = lr_cut(&cutter, (keys + run->block) * c);
    run->gated = lr_cut(&cutter, (rows + run->block) * c);
    run->k_tail = lr_cut(&cutter, s->n_layers * keys * c);
    run->v_tail = lr_cut(&cutter, s->n_layers * keys * c);
    run->gated_tail = lr_cut(&cutter, s->n_layers * rows * c);
    run->out = lr_cut(&cutter, run->block * s->wide);
    run->soft = lr_cut(&cutter, run->block * s->soft);
    return cutter.used;
}

static lr_status sound_create(lr_sound_tower **out, const lr_model *model, int64_t n_samples,
                              uint64_t first_token, uint64_t end_token, const lr_worker *worker,
                              lr_sound_sink sink, void *arg, const lr_stage_tap *tap, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_sound_run *run = NULL;
    *out = NULL;
    LR_TRY(LR_NEW(&run, 1, "the sound tower's scratch", err));
    *run = (eg2_sound_run){.head = {.ops = &eg2_sound_ops}, .tower = model->sound,
                           .kernels = model->kernels, .worker = *worker, .sink = sink, .arg = arg,
                           .n_samples = n_samples, .valid = eg2_mel_valid(n_samples),
                           .first = first_token, .end = end_token};
    if (tap) run->tap = *tap;
    LR_TRY(set_slice(run, err));
    LR_TRY(eg2_mel_create(&run->mel_filters, lr_pool_threads(worker->pool), err));
    /* zeros: what lies before the track, for samples, keys and convolutions alike */
    LR_TRY(LR_NEW(&run->floats, cut_floats(run, NULL), "the sound tower's scratch", err));
    (void)cut_floats(run, run->floats);
    LR_TRY(lr_scratch_create(&run->scratch, worker->pool, eg2_sound_tile_floats(run),
                             "the sound tower's scratch", err));
    *out = &run->head;
    run = NULL;
done:
    if (run) sound_free(&run->head);
    return st;
}

static size_t sound_memory(const lr_model *model, uint64_t tokens, size_t threads)
{
    eg2_sound_run run = {.tower = model->sound, .kernels = model->kernels};
    run.block = block_of(tokens + eg2_sound_look_back(model->sound), threads);
    return (cut_floats(&run, NULL) + threads * eg2_sound_tile_floats(&run)) * sizeof(float);
}

/* Token `begin` needs the frames from three before its own on, and these the samples from
 * EG2_TOKEN_SAMPLES before its own on. */
static int64_t sound_first_sample(const lr_sound_tower *tower)
{
    const eg2_sound_run *run = (const eg2_sound_run *)(const void *)tower;
    return run->begin > 0 ? (int64_t)(run->begin - 1) * EG2_TOKEN_SAMPLES : 0;
}

/* ------------------------------------------------------------------ blocks */

static uint64_t block_end(const eg2_sound_run *run)
{
    uint64_t end = round_down(run->at, run->block) + run->block;
    return end < run->end ? end : run->end;
}

/* Samples before this one make the block at hand complete. */
static int64_t block_needs(const eg2_sound_run *run)
{
    int64_t needs = (int64_t)block_end(run) * EG2_TOKEN_SAMPLES;
    return needs < run->n_samples ? needs : run->n_samples;
}

#define FRAMES_A_TILE 64

/* Frames of the block, from 4 at - 3 on; those outside the track's valid ones are zero after the log. */
static void mel_tile(void *arg, size_t index, size_t worker)
{
    const eg2_sound_run *run = arg;
    size_t frames = 3 + EG2_TOKEN_FRAMES * run->count, first = index * FRAMES_A_TILE;
    for (size_t i = first; i < first + FRAMES_A_TILE && i < frames; i++) {
        uint64_t frame = EG2_TOKEN_FRAMES * run->at + i; /* three too many */
        float *out = run->mel + i * EG2_MEL_BANDS;
        if (frame < 3 || frame - 3 >= run->valid) memset(out, 0, EG2_MEL_BANDS * sizeof *out);
        else eg2_mel_frame(run->mel_filters, worker, run->samples + i * EG2_MEL_HOP, out);
    }
}

static lr_status tap_rows(const eg2_sound_run *run, const char *name, uint64_t first, size_t rows,
                          size_t columns, const float *data, lr_error *err)
{
    const lr_tensor tensor = {.dtype = LR_F32, .n_dims = columns ? 2 : 1, .dims = {rows, columns},
                              .data = data};
    if (!run->tap.sink || rows == 0) return LR_OK;
    return run->tap.sink(run->tap.arg, name, -1, first, &tensor, err);
}

/* Hands on the block's tokens that were asked for, with what led to them. */
static lr_status deliver(const eg2_sound_run *run, lr_error *err)
{
    lr_status st = LR_OK;
    const eg2_sound *s = run->tower;
    uint64_t end = run->at + run->count, first = run->first > run->at ? run->first : run->at;
    if (first >= end) return LR_OK;
    size_t skip = (size_t)(first - run->at), count = (size_t)(end - first);
    uint64_t frame = EG2_TOKEN_FRAMES * first, frames = EG2_TOKEN_FRAMES * (uint64_t)count;
    if (frame + frames > run->valid) frames = run->valid - frame;
    const float *soft = run->soft + skip * s->soft;
    LR_TRY(tap_rows(run, "mel", frame, (size_t)frames, EG2_MEL_BANDS,
                    run->mel + (3 + EG2_TOKEN_FRAMES * skip) * EG2_MEL_BANDS, err));
    LR_TRY(tap_rows(run, "audio_tower", first, count, s->wide, run->out + skip * s->wide, err));
    LR_TRY(tap_rows(run, "audio_soft", first, count, s->soft, soft, err));
    LR_TRY(run->sink(run->arg, first, count, soft, err));
done:
    return st;
}

static lr_status run_block(eg2_sound_run *run, lr_error *err)
{
    lr_status st = LR_OK;
    int64_t start = ((int64_t)run->at - 1) * EG2_TOKEN_SAMPLES; /* of run->samples */
    run->count = (size_t)(block_end(run) - run->at);
    size_t frames = 3 + EG2_TOKEN_FRAMES * run->count, used = EG2_TOKEN_SAMPLES * run->count;
    lr_pool_for(run->worker.pool, (frames + FRAMES_A_TILE - 1) / FRAMES_A_TILE, mel_tile, run);
    LR_TRY(eg2_sound_block(run, err));
    LR_TRY(deliver(run, err));
    size_t have = (size_t)(run->fed - start);
    if (have > used) memmove(run->samples, run->samples + used, (have - used) * sizeof(float));
    run->at += run->count;
done:
    return st;
}

static lr_status take(eg2_sound_run *run, const float *samples, size_t count, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(tap_rows(run, "waveform", (uint64_t)run->fed, count, 0, samples, err));
    while (run->at < run->end) {
        int64_t missing = block_needs(run) - run->fed;
        size_t part = missing < (int64_t)count ? (size_t)missing : count;
        int64_t start = ((int64_t)run->at - 1) * EG2_TOKEN_SAMPLES;
        memcpy(run->samples + (run->fed - start), samples, part * sizeof *samples);
        run->fed += (int64_t)part;
        samples += part;
        count -= part;
        if (run->fed < block_needs(run)) break;
        LR_TRY(run_block(run, err));
    }
    run->fed += (int64_t)count; /* past the slice's end: not needed */
done:
    return st;
}

static lr_status sound_feed(lr_sound_tower *tower, const float *samples, size_t count, lr_error *err)
{
    eg2_sound_run *run = (eg2_sound_run *)(void *)tower;
    if (run->failed != LR_OK)
        return lr_fail(err, run->failed, "the sound tower stopped at an error before");
    if (count > (uint64_t)(run->n_samples - run->fed))
        return lr_fail(err, LR_E_USAGE, "more samples for the sound tower than the %lld of its track",
                       (long long)run->n_samples);
    run->failed = take(run, samples, count, err);
    return run->failed;
}

static lr_status sound_finish(lr_sound_tower *tower, lr_error *err)
{
    const eg2_sound_run *run = (const eg2_sound_run *)(const void *)tower;
    if (run->failed != LR_OK)
        return lr_fail(err, run->failed, "the sound tower stopped at an error before");
    if (run->at < run->end)
        return lr_fail(err, LR_E_USAGE, "the sound ends at sample %lld; the tokens asked for need it "
                       "up to %lld", (long long)run->fed, (long long)block_needs(run));
    return LR_OK;
}

/* Attention, over a window of some keys, is not counted. */
static double sound_macs(const lr_model *model)
{
    const eg2_sound *s = model->sound;
    double macs = lr_linear_macs(s->input_proj) + lr_linear_macs(s->output_proj) + lr_linear_macs(s->projector);
    macs += EG2_TOKEN_BANDS * (4 * lr_linear_macs(s->subsample[0]) + lr_linear_macs(s->subsample[1]));
    for (size_t i = 0; i < s->n_layers; i++) {
        const eg2_sound_layer *l = &s->layers[i];
        const lr_dense *all[] = {&l->ffn[0].in, &l->ffn[0].out, &l->ffn[1].in, &l->ffn[1].out, &l->q, &l->k, &l->v,
                                 &l->post, &l->conv_in, &l->conv_out};
        for (size_t w = 0; w < sizeof all / sizeof *all; w++) macs += lr_linear_macs(all[w]->weight);
    }
    return macs;
}

const lr_sound_ops eg2_sound_ops = {.create = sound_create, .first_sample = sound_first_sample,
                                    .feed = sound_feed, .finish = sound_finish, .free = sound_free,
                                    .memory = sound_memory, .macs = sound_macs};
