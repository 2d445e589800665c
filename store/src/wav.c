/* Sound as RIFF WAVE with 32-bit float samples (format 3, which asks for a fact chunk). */
#include <string.h>

#include <longreel/store.h>

#include "files.h"

#define HEADER_BYTES 58
#define MOST_DATA (UINT32_MAX - (HEADER_BYTES - 8)) /* sizes have 32 bits */

struct lr_wav_writer {
    lr_out out;
    uint64_t count, written;
};

static unsigned char *put(unsigned char *at, const char *tag) {
    memcpy(at, tag, 4);
    return at + 4;
}

static unsigned char *put_number(unsigned char *at, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) *at++ = (unsigned char)(value >> (8 * i));
    return at;
}

static void make_header(unsigned char header[HEADER_BYTES], int rate, uint32_t count) {
    uint32_t data = count * (uint32_t)sizeof(float);
    unsigned char *at = put(header, "RIFF");
    at = put_number(at, HEADER_BYTES - 8 + data, 4);
    at = put(put(at, "WAVE"), "fmt ");
    at = put_number(at, 18, 4);                               /* bytes of the chunk */
    at = put_number(at, 3, 2);                                /* IEEE float */
    at = put_number(at, 1, 2);                                /* channels */
    at = put_number(at, (uint32_t)rate, 4);
    at = put_number(at, (uint32_t)(rate * (int)sizeof(float)), 4); /* bytes a second */
    at = put_number(at, sizeof(float), 2);                    /* bytes a sample of all channels */
    at = put_number(at, 32, 2);                               /* bits a sample */
    at = put_number(at, 0, 2);                                /* no extension */
    at = put_number(put(at, "fact"), 4, 4);
    at = put_number(at, count, 4);
    put_number(put(at, "data"), data, 4);
}

lr_status lr_wav_create(lr_wav_writer **out, const char *path, int rate, uint64_t count, lr_error *err) {
    lr_status st = LR_OK;
    lr_wav_writer *w = NULL;
    unsigned char header[HEADER_BYTES];
    *out = NULL;
    if (count > MOST_DATA / sizeof(float)) {
        LR_FAIL(LR_E_UNSUPPORTED, "%s: %llu samples are more than a WAV file can hold", path,
                (unsigned long long)count);
    }
    LR_TRY(LR_NEW(&w, 1, "a WAV file", err));
    w->count = count;
    make_header(header, rate, (uint32_t)count);
    LR_TRY(lr_out_open_aside(&w->out, path, err));
    LR_TRY(lr_out_write(&w->out, header, sizeof header, err));
    *out = w;
    w = NULL;
done:
    lr_wav_discard(w);
    return st;
}

lr_status lr_wav_write(lr_wav_writer *w, const float *samples, size_t count, lr_error *err) {
    if (count > w->count - w->written) {
        return lr_fail(err, LR_E_INTERNAL, "%s: more samples came than were announced", w->out.path);
    }
    w->written += count;
    return lr_out_write(&w->out, samples, count * sizeof *samples, err);
}

lr_status lr_wav_finish(lr_wav_writer *w, lr_error *err) {
    lr_status st = LR_OK;
    if (w->written != w->count) {
        LR_FAIL(LR_E_INTERNAL, "%s: %llu of %llu samples came", w->out.path,
                (unsigned long long)w->written, (unsigned long long)w->count);
    }
    LR_TRY(lr_out_close(&w->out, err));
done:
    lr_wav_discard(w);
    return st;
}

void lr_wav_discard(lr_wav_writer *w) {
    if (!w) return;
    lr_out_discard(&w->out);
    lr_free(w);
}
