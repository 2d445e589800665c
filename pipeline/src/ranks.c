/* Ranks that are processes: what they compare before they begin, hand each other and bring together. */
#include <stdio.h>
#include <string.h>

#include "job.h"

/* ------------------------------------------------------------------ the same build, model, options */

#define CARD_BYTES 2048

/* A line each: "<what>: <value>". */
static lr_status write_card(char card[CARD_BYTES], lr_model *model, const lr_encode_options *o,
                            lr_error *err) {
    const lr_kernels *k = lr_model_kernels(model);
    const lr_device_info *on = lr_model_device(model);
    char hash[33], device[LR_DEVICE_TEXT] = "cpu";
    if (on) lr_device_text(on, device);
    lr_status st = lr_model_hash(model, hash, err);
    if (st != LR_OK) return st;
    int n = snprintf(
        card, CARD_BYTES,
        "version: %s\ncompiler: %s\ninstruction set: %s\nlinear layers: %s\n--device: %s\nmodel: %s\n--fps: %lld/%lld\n"
        "--soft-tokens: %d\n--context: %llu\n--segment: %lld\n--hop: %lld\n--dim: %zu\n--start: %lld\n"
        "--end: %lld\n--no-video: %d\n--no-audio: %d\n--no-stamps: %d\n--audio-track: %d\n--chunk: %llu\n"
        "--save tokens: %d\n--save stages: %d\n--force: %d\n"
        "--decode: %d\n--no-resume: %d\n--checkpoint-layers: %d\n--schedule: %s\nway to stop: %d\n",
        LR_VERSION, __VERSION__, k->isa, k->gemm, device, hash, (long long)o->fps.num, (long long)o->fps.den,
        o->soft_tokens, (unsigned long long)o->context, (long long)o->segment, (long long)o->hop, o->dim,
        (long long)o->start, (long long)o->end, !o->video, !o->audio, !o->stamps, o->audio_track,
        (unsigned long long)o->chunk, o->save_tokens, o->save_stages, o->force,
        o->decode, !o->keep_unfinished, o->keep_layers, lr_schedule_name(o->schedule), o->stop != NULL);
    return n > 0 && n < CARD_BYTES ? LR_OK : lr_fail(err, LR_E_INTERNAL, "a list of options is too long");
}

/* The first line that differs. */
static lr_status differ(int rank, const char *theirs, const char *first, lr_error *err) {
    while (*first && *theirs) {
        size_t a = strcspn(first, "\n"), b = strcspn(theirs, "\n"), name = strcspn(first, ":");
        if (a != b || memcmp(first, theirs, a) != 0) {
            size_t skip = name + 2 < a ? name + 2 : a;
            return lr_fail(err, LR_E_USAGE, "all ranks must be alike, but rank %d differs in %.*s: %.*s, and "
                           "rank 0 has %.*s", rank, (int)name, first, (int)(b > skip ? b - skip : 0),
                           theirs + (b > skip ? skip : b), (int)(a - skip), first + skip);
        }
        first += a + (first[a] == '\n');
        theirs += b + (theirs[b] == '\n');
    }
    return lr_fail(err, LR_E_USAGE, "all ranks must be alike, but rank %d is of another version", rank);
}

lr_status lr_ranks_compare(lr_comm *comm, lr_model *model, const lr_encode_options *options, lr_error *err) {
    lr_status st = LR_OK;
    char mine[CARD_BYTES] = "", *all = NULL;
    LR_TRY(LR_NEW(&all, (size_t)comm->size * CARD_BYTES, "the ranks' options", err));
    LR_TRY(write_card(mine, model, options, err));
    LR_TRY(lr_comm_all_gather(comm, mine, CARD_BYTES, all, err));
    for (int r = 1; r < comm->size; r++) {
        char *card = all + (size_t)r * CARD_BYTES;
        card[CARD_BYTES - 1] = '\0';
        if (strcmp(card, all) != 0) LR_TRY(differ(r, card, all, err));
    }
done:
    lr_free(all);
    return st;
}

/* ------------------------------------------------------------------ the index */

lr_status lr_ranks_open(lr_comm *comm, lr_recording **out, const char *path, const lr_ingest_options *options,
                        lr_error *err) {
    lr_status st = LR_OK;
    void *bytes = NULL;
    size_t count = 0;
    uint64_t size = 0;
    *out = NULL;
    if (comm->rank == 0) {
        LR_TRY(lr_recording_open(out, path, options, err));
        LR_TRY(lr_recording_pack(*out, &bytes, &count, err));
        size = count;
    }
    LR_TRY(lr_comm_broadcast(comm, 0, &size, sizeof size, err));
    count = (size_t)size;
    if (comm->rank != 0) LR_TRY(lr_new_array(&bytes, count, 1, "the index of a recording", err));
    LR_TRY(lr_comm_broadcast(comm, 0, bytes, count, err));
    if (comm->rank != 0) LR_TRY(lr_recording_unpack(out, bytes, count, path, options, err));
done:
    lr_free(bytes);
    return st;
}

/* ------------------------------------------------------------------ accounts */

typedef struct account {
    struct lr_rank_work work;
    uint64_t n_damage, peak_bytes;
} account;

static lr_status take_damage(void *arg, int rank, const void *data, size_t bytes, lr_error *err) {
    lr_job *job = arg;
    if (rank == 0) return LR_OK;
    return lr_job_add_damage(job, data, bytes / sizeof(lr_damage), err);
}

static lr_status gather_damage(lr_job *job, const account *all, lr_error *err) {
    lr_status st = LR_OK;
    size_t *sizes = NULL;
    lr_damage *mine = job->damage;
    LR_TRY(LR_NEW(&sizes, (size_t)job->ranks, "sizes to be gathered", err));
    /* Rank 0 keeps its own, which may move while the others' come. */
    for (int r = 1; r < job->ranks; r++) sizes[r] = (size_t)all[r].n_damage * sizeof *mine;
    LR_TRY(lr_comm_gather(job->comm, 0, mine, sizes, 1024 * sizeof *mine, take_damage, job, err));
done:
    lr_free(sizes);
    return st;
}

lr_status lr_ranks_collect(lr_job *job, lr_error *err) {
    lr_status st = LR_OK;
    lr_comm *comm = job->comm;
    account *all = NULL, mine = {.work = job->result->work[comm->rank], .n_damage = job->n_damage};
    mine.peak_bytes = lr_memory_peak();
    mine.work.samples_decoded = job->sound.decoded;
    LR_TRY(LR_NEW(&all, (size_t)comm->size, "the accounts of the ranks", err));
    LR_TRY(lr_comm_all_gather(comm, &mine, sizeof mine, all, err));
    for (int r = 0; r < comm->size; r++) {
        job->result->work[r] = all[r].work;
        if (all[r].peak_bytes > job->result->peak_bytes) job->result->peak_bytes = (size_t)all[r].peak_bytes;
    }
    LR_TRY(gather_damage(job, all, err));
    LR_TRY(lr_run_warnings_gather(job, err));
done:
    lr_free(all);
    return st;
}
