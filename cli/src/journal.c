/* The journal of a directory of sets. */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME "journal.jsonl"

lr_status cli_journal_open(cli_journal *j, const char *output, lr_error *err) {
    size_t length = strlen(output);
    *j = (cli_journal){0};
    if (gethostname(j->host, sizeof j->host - 1) != 0) j->host[0] = '\0';
    return lr_format(&j->path, err, "%s%s" NAME, output, length > 0 && output[length - 1] == '/' ? "" : "/");
}

void cli_journal_close(cli_journal *j) {
    cli_journal_catch_up(j);
    lr_free(j->path);
    lr_free(j->waiting);
    *j = (cli_journal){0};
}

/* ------------------------------------------------------------------ the file */

/* 0, or an errno. */
static int append(int fd, const char *lines, size_t bytes) {
    ssize_t n;
    do {
        n = write(fd, lines, bytes);
    } while (n < 0 && errno == EINTR);
    if (n == (ssize_t)bytes) return 0;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    /* The disk is full in the middle of a line. The piece goes, unless another run has written behind it. */
    struct stat info;
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (end >= n && fstat(fd, &info) == 0 && info.st_size == end && ftruncate(fd, end - n) != 0) return errno;
    return ENOSPC;
}

/* A line that a crash or a full disk has left unfinished must not swallow the next one. */
static bool ends_within_a_line(int fd) {
    char last = '\n';
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size == 0) return false;
    return pread(fd, &last, 1, info.st_size - 1) == 1 && last != '\n';
}

/* ENOENT: the directory is not there. `lines` has room for a newline before it. */
static int write_lines(const cli_journal *j, const char *lines, size_t bytes) {
    int fd = open(j->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) return errno;
    size_t skip = ends_within_a_line(fd) ? 0 : 1;
    int why = append(fd, lines + skip, bytes - skip);
    if (close(fd) != 0 && why == 0) why = errno;
    return why;
}

void cli_journal_catch_up(cli_journal *j) {
    if (!j->path || j->n_waiting == 0) return;
    int why = write_lines(j, j->waiting, j->n_waiting);
    if (why == ENOENT) return;
    j->n_waiting = 0;
    if (why == 0 || j->warned) return;
    j->warned = true;
    cli_warn(NULL, "%s: cannot be written: %s; the sets are written all the same", j->path, strerror(why));
}

/* ------------------------------------------------------------------ lines */

static json_t *moment(void) {
    char text[40];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &parts)) return NULL;
    size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, sizeof text - length, ".%03ldZ", now.tv_nsec / 1000000);
    return json_string(text);
}

static json_t *line_of(const cli_journal *j, const cli_recording *r, const char *status,
                       const lr_encode_result *result, const lr_error *why) {
    json_t *line = json_pack("{s:o, s:s, s:o, s:o}", "time", moment(), "status", status, "path",
                             cli_json_text(r->path), "set", cli_json_text(r->set));
    int bad = line ? 0 : -1;
    if (result) {
        bad |= json_object_set_new(line, "seconds", json_real(result->seconds));
        bad |= json_object_set_new(line, "tokens", json_integer((json_int_t)result->tokens));
        bad |= json_object_set_new(line, "warnings", json_integer((json_int_t)result->n_warnings));
    }
    if (why) {
        bad |= json_object_set_new(line, "reason", json_string(lr_status_name(why->status)));
        bad |= json_object_set_new(line, "error", cli_json_text(why->text));
    }
    bad |= json_object_set_new(line, "host", cli_json_text(j->host));
    bad |= json_object_set_new(line, "pid", json_integer((json_int_t)getpid()));
    if (bad == 0) return line;
    json_decref(line);
    return NULL;
}

/* A newline stands at the beginning, for write_lines. */
static bool keep(cli_journal *j, const char *text) {
    size_t length = strlen(text), at = j->n_waiting ? j->n_waiting : 1;
    if (LR_GROW(&j->waiting, &j->capacity, at + length + 1, "the journal", NULL) != LR_OK) return false;
    j->waiting[0] = '\n';
    memcpy(j->waiting + at, text, length);
    j->waiting[at + length] = '\n';
    j->n_waiting = at + length + 1;
    return true;
}

void cli_journal_note(cli_journal *j, const cli_recording *r, const char *status,
                      const lr_encode_result *result, const lr_error *why) {
    if (!j->path) return;
    uint64_t failures = lr_alloc_failures(); /* jansson drops bytes without a word */
    json_t *line = line_of(j, r, status, result, why);
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text && lr_alloc_failures() == failures && keep(j, text)) {
        cli_journal_catch_up(j);
    } else if (!j->warned) {
        j->warned = true;
        cli_warn(NULL, "%s: out of memory: a line is missing", j->path);
    }
    lr_free(text); /* jansson allocates by lr_alloc */
    json_decref(line);
}
