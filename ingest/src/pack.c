/* A recording's index as bytes, so that one rank makes it and hands it to the others.
 *
 * The bytes are the structure's own image and its arrays one after another: they are for processes of
 * the same build, which compare their builds before. */
#include "hardware.h"
#include "recording.h"

#include <string.h>

typedef struct packed_head {
    char magic[8];
    uint64_t struct_bytes, all_bytes, warning_bytes;
} packed_head;

static const char magic[8] = "LRINDEX";

/* One of the arrays of a recording, of `count` elements. */
typedef struct packed_array {
    void **data;
    size_t count, size;
} packed_array;

enum { N_ARRAYS = 22 };

#define NUMBERS(n) \
    {(void **)&(n).bytes, (n).n_bytes, 1}, {(void **)&(n).blocks, (n).n_blocks, sizeof *(n).blocks}


static void list_arrays(lr_recording *r, packed_array arrays[N_ARRAYS])
{
    const packed_array all[N_ARRAYS] = {
        {(void **)&r->video.flags, r->video.n_packets, sizeof *r->video.flags},
        {(void **)&r->video.checks, r->video.n_packets, sizeof *r->video.checks},
        NUMBERS(r->video.pts),
        NUMBERS(r->video.seek),
        NUMBERS(r->video.entry),
        NUMBERS(r->video.shown),
        NUMBERS(r->video.reach.places),
        NUMBERS(r->audio.kept),
        NUMBERS(r->audio.reach.places),
        {(void **)&r->video.headers.list, r->video.headers.count, sizeof *r->video.headers.list},
        {(void **)&r->video.headers.bytes, r->video.headers.n_bytes, 1},
        {(void **)&r->audio.runs, r->audio.n_runs, sizeof *r->audio.runs},
        {(void **)&r->damage, r->n_damage, sizeof *r->damage},
        {(void **)&r->gaps, r->n_gaps, sizeof *r->gaps},
        {(void **)&r->kinds, r->timeline.video.n_kinds, sizeof *r->kinds},
    };
    memcpy(arrays, all, sizeof all);
}

static size_t warning_bytes(const lr_recording *r)
{
    size_t bytes = 0;
    for (size_t i = 0; i < r->n_warnings; i++) bytes += strlen(r->warnings[i]) + 1;
    return bytes;
}

lr_status lr_recording_pack(const lr_recording *recording, void **bytes, size_t *count, lr_error *err)
{
    packed_array arrays[N_ARRAYS];
    lr_recording copy = *recording;
    packed_head head = {.struct_bytes = sizeof copy, .warning_bytes = warning_bytes(recording)};
    unsigned char *out = NULL, *at;
    memcpy(head.magic, magic, sizeof magic);
    list_arrays(&copy, arrays);
    head.all_bytes = sizeof head + sizeof copy + head.warning_bytes;
    /* Each is a block in memory, so their sum fits. */
    for (int i = 0; i < N_ARRAYS; i++) head.all_bytes += arrays[i].count * arrays[i].size;
    lr_status st = LR_NEW(&out, head.all_bytes, "the index of a recording", err);
    if (st != LR_OK) return st;
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, &copy, sizeof copy);
    at = out + sizeof head + sizeof copy;
    for (int i = 0; i < N_ARRAYS; i++) {
        size_t size = arrays[i].count * arrays[i].size;
        if (size > 0) memcpy(at, *arrays[i].data, size);
        at += size;
    }
    for (size_t i = 0; i < recording->n_warnings; i++) {
        size_t length = strlen(recording->warnings[i]) + 1;
        memcpy(at, recording->warnings[i], length);
        at += length;
    }
    *bytes = out;
    *count = head.all_bytes;
    return LR_OK;
}

/* ------------------------------------------------------------------ back */

/* Pointers of another process. */
static void forget_pointers(lr_recording *r)
{
    packed_array arrays[N_ARRAYS];
    list_arrays(r, arrays);
    for (int i = 0; i < N_ARRAYS; i++) *arrays[i].data = NULL;
    r->path = NULL;
    r->timeline.path = NULL;
    r->video.packets = NULL;
    r->video.made_shown = NULL;
    r->video.made_entry = NULL;
    r->video.reach.description = NULL;
    r->audio.reach.description = NULL;
    r->video.parser = NULL;
    r->video.parser_codec = NULL;
    r->video.poc = NULL;
    r->video.numbers = NULL;
    r->video.holes = NULL;
    r->audio.pts = r->audio.declared = (lri_numbers){0};
    r->audio.parser = NULL;
    r->audio.parser_codec = NULL;
    r->warnings = NULL;
    r->video.places = NULL;
    r->timeline.video.kinds = NULL;
    r->timeline.damage = NULL;
    r->timeline.warnings = NULL;
    r->timeline.audio.gaps = NULL;
    r->hardware = NULL;
    r->options.cancel = NULL;
    r->n_warnings = 0;
}

static lr_status take_arrays(lr_recording *r, const unsigned char **at, const unsigned char *end,
                             lr_error *err)
{
    lr_status st = LR_OK;
    packed_array arrays[N_ARRAYS];
    list_arrays(r, arrays);
    for (int i = 0; i < N_ARRAYS; i++) {
        size_t bytes;
        if (!lr_mul_size(arrays[i].count, arrays[i].size, &bytes) || bytes > (size_t)(end - *at))
            LR_FAIL(LR_E_INTERNAL, "the index of a recording that another rank sent is cut off");
        LR_TRY(lr_new_array(arrays[i].data, arrays[i].count, arrays[i].size,
                            "the index of a recording", err));
        if (bytes > 0) memcpy(*arrays[i].data, *at, bytes);
        *at += bytes;
    }
done:
    return st;
}

static lr_status take_warnings(lr_recording *r, size_t count, const unsigned char *at,
                               const unsigned char *end, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(&r->warnings, count, "warnings", err));
    for (size_t i = 0; i < count; i++) {
        const unsigned char *stop = memchr(at, '\0', (size_t)(end - at));
        if (!stop)
            LR_FAIL(LR_E_INTERNAL, "the index of a recording that another rank sent is cut off");
        r->warnings[i] = lr_strdup((const char *)at);
        if (!r->warnings[i]) LR_FAIL(LR_E_NOMEM, "out of memory: warnings");
        r->n_warnings++;
        at = stop + 1;
    }
done:
    r->warnings_capacity = count;
    return st;
}

/* The file that was indexed, or a copy of it on this machine. */
static lr_status check_file(lr_recording *r, lr_cancel *cancel, lr_error *err)
{
    lr_status st = LR_OK;
    lri_source source = {.fd = -1};
    char hash[33];
    LR_TRY(lri_source_open(&source, r->path, cancel, err));
    bool same = source.bytes == r->file_bytes;
    bool shared = source.inode == r->inode && source.modified.tv_sec == r->modified.tv_sec &&
                  source.modified.tv_nsec == r->modified.tv_nsec;
    if (same && !shared) {
        LR_TRY(lri_source_hash(&source, hash, err));
        same = strcmp(hash, r->timeline.content_hash) == 0;
    }
    if (!same) LR_FAIL(LR_E_FORMAT, "%s: is another file here than on rank 0", r->path);
    r->modified = source.modified;
    r->inode = source.inode;
done:
    lri_source_close(&source);
    return st;
}

lr_status lr_recording_unpack(lr_recording **out, const void *bytes, size_t count, const char *path,
                              const lr_ingest_options *options, lr_error *err)
{
    lr_status st = LR_OK;
    const unsigned char *at = bytes, *end = at + count;
    packed_head head;
    lr_recording *r = NULL;
    *out = NULL;
    lri_log_redirect();
    if (count < sizeof head + sizeof *r)
        LR_FAIL(LR_E_INTERNAL, "the index of a recording that another rank sent is cut off");
    memcpy(&head, at, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.struct_bytes != sizeof *r ||
        head.all_bytes != count)
        LR_FAIL(LR_E_INTERNAL, "the index of a recording came from another version of Longreel");
    LR_TRY(LR_NEW(&r, 1, "a recording", err));
    memcpy(r, at + sizeof head, sizeof *r);
    size_t n_warnings = r->n_warnings;
    bool by_hardware = r->hardware != NULL;
    forget_pointers(r);
    at += sizeof head + sizeof *r;
    r->options.cancel = options->cancel;
    r->options.threads = options->threads;
    r->path = lr_strdup(path);
    if (!r->path) LR_FAIL(LR_E_NOMEM, "%s: out of memory", path);
    LR_TRY(take_arrays(r, &at, end, err));
    r->audio.runs_capacity = r->audio.n_runs;
    r->damage_capacity = r->n_damage;
    r->gaps_capacity = r->n_gaps;
    r->kinds_capacity = r->timeline.video.n_kinds;
    if (r->timeline.video.n_kinds > 0) r->timeline.video.kinds = r->kinds;
    LR_TRY(take_warnings(r, n_warnings, at, end, err));
    if (by_hardware) LR_TRY(lri_hardware_open(r, err));
    r->timeline.path = r->path;
    r->timeline.damage = r->damage;
    r->timeline.n_warnings = r->n_warnings;
    r->timeline.warnings = (const char *const *)r->warnings;
    r->timeline.audio.gaps = (const lr_time(*)[2])r->gaps;
    LR_TRY(check_file(r, options->cancel, err));
    LR_TRY(lri_reach_describe(r, err));
    *out = r;
    r = NULL;
done:
    lr_recording_close(r);
    return st;
}
