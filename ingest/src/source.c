/* A file as libav's demuxer sees it: our own reads of one descriptor, nothing else can be opened. */
#include "avutil.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#define IO_BYTES (128 * 1024)
/* Streams are found within this much of the file; libav stops earlier once it knows them all. */
#define PROBE_BYTES (32 * 1024 * 1024)
#define PROBE_SECONDS 30

static bool is_cancelled(const lri_source *source)
{
    return source->cancel && atomic_load(source->cancel) != 0;
}

static void apply_patches(const lri_source *source, uint8_t *bytes, int64_t count)
{
    for (int p = 0; p < source->n_patches; p++)
        for (int i = 0; i < source->patches[p].count; i++) {
            int64_t at = source->patches[p].at + i - source->position;
            if (at >= 0 && at < count) bytes[at] = source->patches[p].bytes[i];
        }
}

static int on_read(void *opaque, uint8_t *to, int count)
{
    lri_source *source = opaque;
    if (is_cancelled(source)) return AVERROR_EXIT;
    ssize_t got;
    do
        got = pread(source->fd, to, (size_t)count, (off_t)source->position);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        source->read_errno = errno;
        return AVERROR(errno);
    }
    apply_patches(source, to, got);
    source->position += got;
    return got == 0 ? AVERROR_EOF : (int)got;
}

static int64_t on_seek(void *opaque, int64_t offset, int whence)
{
    lri_source *source = opaque;
    int64_t to;
    switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE: return source->bytes;
    case SEEK_SET: to = offset; break;
    case SEEK_CUR:
        if (__builtin_add_overflow(source->position, offset, &to)) return AVERROR(EINVAL);
        break;
    case SEEK_END:
        if (__builtin_add_overflow(source->bytes, offset, &to)) return AVERROR(EINVAL);
        break;
    default: return AVERROR(EINVAL);
    }
    if (to < 0) return AVERROR(EINVAL);
    source->position = to;
    return to;
}

static int on_interrupt(void *opaque)
{
    return is_cancelled(opaque);
}

/* Playlists and references inside a file end here. */
static int refuse_open(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                       AVDictionary **options)
{
    (void)format;
    (void)io;
    (void)flags;
    (void)options;
    lr_log(LR_LOG_WARNING, "a reference to another file is not followed: %s", url ? url : "");
    return AVERROR(EACCES);
}

lr_status lri_source_open(lri_source *source, const char *path, lr_cancel *cancel, lr_error *err)
{
    memset(source, 0, sizeof *source);
    source->path = path;
    source->cancel = cancel;
    /* O_NONBLOCK: a FIFO without a writer would wait here. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (source->fd < 0) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be opened", path);
    struct stat info;
    if (fstat(source->fd, &info) != 0)
        return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
    if (S_ISDIR(info.st_mode)) return lr_fail(err, LR_E_IO, "%s: is a directory", path);
    if (!S_ISREG(info.st_mode)) return lr_fail(err, LR_E_IO, "%s: is not a regular file", path);
    if (info.st_size == 0) return lr_fail(err, LR_E_NO_MEDIA, "%s: the file is empty", path);
    source->bytes = info.st_size;
    source->modified = info.st_mtim;
    source->inode = info.st_ino;
    return LR_OK;
}

void lri_source_close_demuxer(lri_source *source)
{
    av_packet_free(&source->packet);
    avformat_close_input(&source->format);
    if (source->io) {
        av_freep(&source->io->buffer);
        avio_context_free(&source->io);
    }
}

void lri_source_close(lri_source *source)
{
    lri_source_close_demuxer(source);
    if (source->path && source->fd >= 0) close(source->fd);
    memset(source, 0, sizeof *source);
    source->fd = -1;
}

static lr_status make_contexts(lri_source *source, lr_error *err)
{
    unsigned char *buffer = av_malloc(IO_BYTES);
    source->io =
        buffer ? avio_alloc_context(buffer, IO_BYTES, 0, source, on_read, NULL, on_seek) : NULL;
    if (!source->io) av_free(buffer);
    source->format = avformat_alloc_context();
    source->packet = av_packet_alloc();
    if (!source->io || !source->format || !source->packet)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory", source->path);
    AVFormatContext *format = source->format;
    format->pb = source->io;
    format->flags |= AVFMT_FLAG_CUSTOM_IO;
    format->io_open = refuse_open;
    format->interrupt_callback = (AVIOInterruptCB){on_interrupt, source};
    format->max_streams = LRI_MAX_STREAMS;
    format->probesize = PROBE_BYTES;
    format->max_analyze_duration = (int64_t)PROBE_SECONDS * AV_TIME_BASE;
    /* Demuxers that open others with a context of their own inherit this list: it names nothing. */
    format->protocol_whitelist = av_strdup("none");
    if (!format->protocol_whitelist)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory", source->path);
    return LR_OK;
}

/* Text files that libav would draw, and lists of other files. */
static bool is_recording_format(const AVInputFormat *format)
{
    static const char *const refused[] = {"tty", "hls", "concat", "dash", "imf", "sdp", "rtsp",
                                          "ffmetadata", "bin", "xbin", "adf", "idf"};
    if (format->flags & AVFMT_NOFILE) return false;
    size_t name_length = strcspn(format->name, ",");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strlen(refused[i]) == name_length && strncmp(refused[i], format->name, name_length) == 0)
            return false;
    return true;
}

/* Finding the streams, libav puts what their first pictures say over this, and if they say nothing. */
static void note_colours(lri_source *source)
{
    const AVFormatContext *format = source->format;
    source->n_colours = format->nb_streams < LRI_MAX_STREAMS ? format->nb_streams : LRI_MAX_STREAMS;
    for (unsigned i = 0; i < source->n_colours; i++) {
        const AVCodecParameters *p = format->streams[i]->codecpar;
        source->colours[i] = (lri_colour){p->color_space, p->color_primaries, p->color_trc, p->color_range};
    }
}

/* libav decodes a picture where only that tells its size; the bound must hold for these decoders, too. */
static int find_streams(AVFormatContext *format)
{
    unsigned count = format->nb_streams;
    AVDictionary **options = av_calloc(count > 0 ? count : 1, sizeof *options);
    if (!options) return AVERROR(ENOMEM);
    int code = 0;
    for (unsigned i = 0; i < count && code >= 0; i++)
        code = av_dict_set_int(&options[i], "max_pixels", LRI_MAX_PIXELS, 0);
    if (code >= 0) code = avformat_find_stream_info(format, options);
    for (unsigned i = 0; i < count; i++) av_dict_free(&options[i]);
    av_free(options);
    return code;
}

/* Demuxers that look for the next thing they know when they meet what they do not know, and say so. */
static bool says_where_it_is_lost(const AVInputFormat *format)
{
    static const char *const names[] = {"matroska", "ogg", "flv", "asf"};
    size_t length = strcspn(format->name, ",");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], format->name, length) == 0) return true;
    return false;
}

bool lri_source_lost(const lri_source *source, int64_t after)
{
    for (size_t i = 0; source->lost && i < source->lost->count; i++)
        if (source->lost->at[i] > after) return true;
    return false;
}

lr_status lri_source_demux(lri_source *source, lr_error *err)
{
    lr_status st = make_contexts(source, err);
    if (st != LR_OK) return st;
    const AVInputFormat *guess = NULL;
    int code = av_probe_input_buffer2(source->io, &guess, "", source->format, 0, 1 << 20);
    if (code < 0 && source->read_errno)
        return lr_fail_errno(err, LR_E_IO, source->read_errno, "%s: cannot be read", source->path);
    if (code == AVERROR_EXIT || code == AVERROR(ENOMEM))
        return lri_av_fail(err, code, LR_E_IO, "%s", source->path);
    if (code < 0 || !guess)
        return lr_fail(err, LR_E_NO_MEDIA, "%s: is not a recording of a known format",
                       source->path);
    if (!is_recording_format(guess))
        return lr_fail(err, LR_E_NO_MEDIA, "%s: is no recording but %s", source->path,
                       guess->long_name ? guess->long_name : guess->name);
    if (says_where_it_is_lost(guess)) source->format->opaque = source->lost;
    /* On failure this frees the format context and sets it to NULL. */
    code = avformat_open_input(&source->format, "", guess, NULL);
    if (code < 0)
        return lri_av_fail(err, code, source->read_errno ? LR_E_IO : LR_E_FORMAT,
                           "%s: cannot be opened as %s", source->path, guess->name);
    note_colours(source);
    code = find_streams(source->format);
    if (code < 0)
        return lri_av_fail(err, code, source->read_errno ? LR_E_IO : LR_E_FORMAT,
                           "%s: no stream can be found", source->path);
    return LR_OK;
}

/* Elsewhere it may: time stamps that wrap are unwrapped by the first packet of any stream, and a demuxer
 * that has lost its place looks for it in another way when it skips what is discarded. */
static bool streams_are_apart(const AVInputFormat *format)
{
    return strncmp(format->name, "mov", 3) == 0 || strncmp(format->name, "matroska", 8) == 0;
}

void lri_source_keep(lri_source *source, int stream, int other, bool astray)
{
    AVFormatContext *format = source->format;
    /* What is discarded is not looked into: what is wrong in it would lead astray no more. */
    if (streams_are_apart(format->iformat) && !astray) other = -1;
    for (unsigned i = 0; i < format->nb_streams; i++)
        if ((int)i != stream && (int)i != other) format->streams[i]->discard = AVDISCARD_ALL;
}

lr_status lri_source_read(lri_source *source, bool *got, lr_error *err)
{
    *got = false;
    /* A demuxer may report damage and go on behind it; without progress in the file it has ended. */
    int64_t last_position = -1;
    for (int failures = 0; failures < 64;) {
        lr_status st = lr_cancel_check(source->cancel, err);
        if (st != LR_OK) return st;
        av_packet_unref(source->packet);
        int code = av_read_frame(source->format, source->packet);
        if (code >= 0) {
            *got = true;
            return LR_OK;
        }
        if (code == AVERROR(ENOMEM) || code == AVERROR_EXIT)
            return lri_av_fail(err, code, LR_E_FORMAT, "%s", source->path);
        if (source->read_errno)
            return lr_fail_errno(err, LR_E_IO, source->read_errno, "%s: cannot be read",
                                 source->path);
        if (code == AVERROR_EOF) return LR_OK;
        if (code == AVERROR(EAGAIN)) {
            failures++;
            continue;
        }
        int64_t position = avio_tell(source->io);
        failures = position > last_position ? failures : failures + 1;
        last_position = position > last_position ? position : last_position;
        if (avio_feof(source->io)) failures++;
    }
    return LR_OK;
}

lr_status lri_source_pread(lri_source *source, int64_t at, void *to, size_t count, size_t *got,
                           lr_error *err)
{
    *got = 0;
    while (*got < count) {
        ssize_t n = pread(source->fd, (char *)to + *got, count - *got, (off_t)at + (off_t)*got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", source->path);
        if (n == 0) break;
        *got += (size_t)n;
    }
    return LR_OK;
}

lr_status lri_source_hash(lri_source *source, char hex[33], lr_error *err)
{
    enum { BLOCK = 1 << 20 };
    lr_status st = LR_OK;
    uint8_t *block = NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state) LR_FAIL(LR_E_NOMEM, "%s: out of memory", source->path);
    LR_TRY(lr_new_array((void **)&block, BLOCK, 1, "a block of the file", err));
    (void)XXH3_128bits_reset(state);
    for (int64_t at = 0;;) {
        size_t got;
        LR_TRY(lr_cancel_check(source->cancel, err));
        LR_TRY(lri_source_pread(source, at, block, BLOCK, &got, err));
        if (got == 0) break;
        (void)XXH3_128bits_update(state, block, got);
        at += (int64_t)got;
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    for (int i = 0; i < 16; i++) {
        hex[2 * i] = "0123456789abcdef"[canonical.digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[canonical.digest[i] & 15];
    }
    hex[32] = '\0';
done:
    lr_free(block);
    (void)XXH3_freeState(state);
    return st;
}
