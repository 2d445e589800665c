/* The sound of a recording, decoded once for all ranks and windows of the process.
 *
 * Sound cannot be entered in the middle with the same bits, so each reader decodes from the start. Where
 * several slices want it, the first one writes it to a temporary file that has no name any more (in
 * TMPDIR, 64 KB a second), and all read their part from there: memory stays flat. One slice alone reads
 * the decoder directly. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

#define PIECE 16000

lr_status lr_sound_track_init(lr_sound_track *track, lr_error *err) {
    track->fd = -1;
    if (pthread_mutex_init(&track->lock, NULL) != 0) return lr_fail(err, LR_E_NOMEM, "no mutex");
    track->ready = true;
    return LR_OK;
}

void lr_sound_track_free(lr_sound_track *track) {
    if (!track->ready) return;
    if (track->fd >= 0) close(track->fd);
    pthread_mutex_destroy(&track->lock);
    track->ready = false;
}

static lr_status open_nameless(int *fd, lr_error *err) {
    const char *directory = getenv("TMPDIR");
    if (!directory || !*directory) directory = "/tmp";
    char *path = NULL;
    lr_status st = lr_format(&path, err, "%s/longreel-sound-XXXXXX", directory);
    if (st != LR_OK) return st;
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: no temporary file for the sound", directory);
    } else {
        (void)unlink(path);
    }
    lr_free(path);
    return st;
}

static lr_status write_all(int fd, const float *samples, size_t count, lr_error *err) {
    const char *at = (const char *)samples;
    size_t left = count * sizeof *samples;
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            return lr_fail_errno(err, LR_E_IO, errno, "the sound's temporary file (in TMPDIR) cannot "
                                 "be written");
        }
        at += n;
        left -= (size_t)n;
    }
    return LR_OK;
}

/* Decodes the whole track into the file. */
static lr_status fill(lr_job *job, lr_cancel *cancel, lr_error *err) {
    lr_status st = LR_OK;
    lr_sound_reader *reader = NULL;
    float *piece = NULL;
    int fd = -1;
    size_t count = 0, n_damage = 0;
    LR_TRY(LR_NEW(&piece, PIECE, "a piece of sound", err));
    LR_TRY(open_nameless(&fd, err));
    LR_TRY(lr_sound_reader_open(&reader, job->recording, err));
    do {
        LR_TRY(lr_cancel_check(cancel, err));
        LR_TRY(lr_sound_reader_read(reader, piece, PIECE, &count, err));
        LR_TRY(write_all(fd, piece, count, err));
    } while (count > 0);
    const lr_damage *damage = lr_sound_reader_damage(reader, &n_damage);
    LR_TRY(lr_job_add_damage(job, damage, n_damage, err));
    LR_TRY(lr_stored_put_sound_damage(job, damage, n_damage, err));
    job->sound.fd = fd;
    fd = -1;
done:
    if (fd >= 0) close(fd);
    lr_sound_reader_close(reader);
    lr_free(piece);
    return st;
}

lr_status lr_sound_track_read(lr_job *job, lr_cancel *cancel, int64_t first, float *samples,
                              size_t capacity, size_t *count, lr_error *err) {
    lr_status st = LR_OK;
    pthread_mutex_lock(&job->sound.lock);
    if (job->sound.fd < 0) st = fill(job, cancel, err);
    pthread_mutex_unlock(&job->sound.lock);
    if (st != LR_OK) return st;
    size_t have = 0, want = capacity * sizeof *samples;
    while (have < want) {
        ssize_t n = pread(job->sound.fd, (char *)samples + have, want - have,
                          (off_t)first * (off_t)sizeof *samples + (off_t)have);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lr_fail_errno(err, LR_E_IO, errno, "the sound's temporary file cannot be read");
        if (n == 0) break;
        have += (size_t)n;
    }
    *count = have / sizeof *samples;
    return LR_OK;
}
