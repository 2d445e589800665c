/* The sound of a recording, decoded once for all ranks and windows of the process, and once for all processes
 * of a machine.
 *
 * Sound cannot be entered in the middle with the same bits, so each reader decodes from the start. Where
 * several slices want it, the first one writes it to a temporary file that has no name any more (in
 * TMPDIR, 64 KB a second), and all read their part from there: memory stays flat. Other processes open the
 * same file through /proc; one that cannot decodes by itself. One slice alone reads the decoder directly. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

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
        job->sound.decoded += count;
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

/* ------------------------------------------------------------------ once a machine */

/* Who may have the file of whom: processes of one kernel that see each other in /proc. */
typedef struct place {
    uint64_t machine; /* 0: not known */
    int64_t pid;
    uint64_t wants;
} place;

/* A file that a process has open: where, and what it must be. */
typedef struct shared_file {
    int64_t fd; /* -1: none */
    uint64_t device, inode, bytes;
} shared_file;

static uint64_t this_machine(void) {
    struct {
        char boot[64];
        uint64_t processes; /* the namespace of their numbers */
    } id = {{0}, 0};
    struct stat space;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, id.boot, sizeof id.boot);
    close(fd);
    if (n <= 0 || stat("/proc/self/ns/pid", &space) != 0) return 0;
    id.processes = (uint64_t)space.st_ino;
    return XXH3_64bits(&id, sizeof id);
}

/* The lowest rank of the same machine that wants the sound, too: it decodes. */
static int decoder_of(const place *all, int me) {
    for (int r = 0; r < me && all[me].machine != 0; r++) {
        if (all[r].wants && all[r].machine == all[me].machine) return r;
    }
    return me;
}

static bool is_same(int fd, const shared_file *file) {
    struct stat info;
    return fstat(fd, &info) == 0 && (uint64_t)info.st_dev == file->device && (uint64_t)info.st_ino == file->inode &&
           (uint64_t)info.st_size == file->bytes;
}

static void take_over(lr_job *job, const place *from, const shared_file *file) {
    char path[64];
    if (file->fd < 0) return;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)from->pid, (long long)file->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !is_same(fd, file)) {
        close(fd);
        fd = -1;
    }
    job->sound.fd = fd;
}

static lr_status decode_for_others(lr_job *job, lr_cancel *cancel, shared_file *out, lr_error *err) {
    struct stat info;
    pthread_mutex_lock(&job->sound.lock);
    lr_status st = fill(job, cancel, err);
    pthread_mutex_unlock(&job->sound.lock);
    if (st != LR_OK) return st;
    if (fstat(job->sound.fd, &info) != 0) return lr_fail_errno(err, LR_E_IO, errno, "the sound's temporary file");
    *out = (shared_file){.fd = job->sound.fd, .device = (uint64_t)info.st_dev, .inode = (uint64_t)info.st_ino,
                         .bytes = (uint64_t)info.st_size};
    return LR_OK;
}

lr_status lr_sound_track_share(lr_job *job, bool wants, lr_cancel *cancel, lr_error *err) {
    lr_status st = LR_OK;
    lr_comm *comm = job->comm;
    place *all = NULL, here = {.machine = this_machine(), .pid = getpid()};
    shared_file *files = NULL, mine = {.fd = -1};
    bool any = false;
    if (!comm || comm->size == 1) return LR_OK;
    here.wants = wants && job->sound.fd < 0;
    LR_TRY(LR_NEW(&all, (size_t)comm->size, "who wants the sound", err));
    LR_TRY(LR_NEW(&files, (size_t)comm->size, "who has the sound", err));
    LR_TRY(lr_comm_all_gather(comm, &here, sizeof here, all, err));
    for (int r = 0; r < comm->size; r++) any |= all[r].wants != 0;
    if (!any) goto done;
    int decoder = decoder_of(all, comm->rank);
    if (here.wants && decoder == comm->rank) LR_TRY(decode_for_others(job, cancel, &mine, err));
    LR_TRY(lr_comm_all_gather(comm, &mine, sizeof mine, files, err));
    if (here.wants && decoder != comm->rank) take_over(job, &all[decoder], &files[decoder]);
done:
    lr_free(files);
    lr_free(all);
    return st;
}
