/* Standard error: messages, and the progress of the recording at hand. */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

const char *const cli_progress_words[] = {"auto", "off", "json", NULL};

static struct {
    pthread_mutex_t lock;
    bool line, json; /* how progress is shown; neither: not at all */
    bool up;         /* a progress line is on the screen */
    bool silent;
    const char *recording; /* the one at hand */
    size_t number, count;
    struct timespec last;
    lr_stage last_stage;
    bool any;
} screen = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cli_screen_begin(cli_progress_mode mode) {
    screen.json = mode == CLI_PROGRESS_JSON;
    screen.line = mode == CLI_PROGRESS_AUTO && isatty(STDERR_FILENO);
}

void cli_be_silent(bool silent) {
    screen.silent = silent;
}

bool cli_is_silent(void) {
    return screen.silent;
}

void cli_screen_recording(const char *path, size_t number, size_t count) {
    screen.recording = path;
    screen.number = number;
    screen.count = count;
    screen.any = false;
}

static void take_line_away(void) {
    if (screen.up) fputs("\r\033[K", stderr);
    screen.up = false;
}

void cli_screen_clear(void) {
    pthread_mutex_lock(&screen.lock);
    take_line_away();
    fflush(stderr);
    pthread_mutex_unlock(&screen.lock);
}

/* ------------------------------------------------------------------ progress */

static const char *stage_name(lr_stage stage) {
    switch (stage) {
    case LR_STAGE_INDEX: return "index";
    case LR_STAGE_TOWERS: return "towers";
    case LR_STAGE_BACKBONE: return "backbone";
    case LR_STAGE_WRITE: return "write";
    }
    return "?";
}

/* Seconds of recording a second: over the whole of it once that can be predicted. */
static double speed_of(const lr_progress *p) {
    double whole = p->elapsed + p->remaining;
    if (p->remaining >= 0 && whole > 0 && p->duration > 0) return p->duration / whole;
    return p->elapsed > 0 ? p->recording_seconds / p->elapsed : 0;
}

/* "1:02:03", "2:03" */
static char *clock_of(double seconds, char buffer[24]) {
    long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
    if (s >= 3600) {
        snprintf(buffer, 24, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(buffer, 24, "%lld:%02lld", s / 60, s % 60);
    }
    return buffer;
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* At most `size` - 1 bytes of a name, no character cut in two. */
static void cut_name(const char *name, char *out, size_t size) {
    size_t length = strlen(name);
    if (length > size - 1) length = size - 1;
    while (length > 0 && name[length] && ((unsigned char)name[length] & 0xc0) == 0x80) length--;
    memcpy(out, name, length);
    out[length] = '\0';
}

static void show_line(const lr_progress *p) {
    char text[512], position[48] = "", shown[512], name[40], a[24], b[24], c[24];
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
    if (screen.count > 1) snprintf(position, sizeof position, "[%zu/%zu] ", screen.number, screen.count);
    cli_escape(file_name(p->recording), shown, sizeof shown);
    cut_name(shown, name, sizeof name);
    int n = snprintf(text, sizeof text, "%s%s  %s %.0f%%  %s of %s", position, name,
                     stage_name(p->stage), 100 * p->done, clock_of(p->recording_seconds, a),
                     clock_of(p->duration, b));
    double speed = speed_of(p);
    if (n > 0 && (size_t)n < sizeof text && p->remaining >= 0) {
        snprintf(text + n, sizeof text - (size_t)n, "  %.*fx real time  %s left",
                 speed < 10 ? 1 : 0, speed, clock_of(p->remaining, c));
    }
    fprintf(stderr, "\r%.*s\033[K", width - 1, text);
    screen.up = true;
}

static void print_event(json_t *event) {
    if (!event) return;
    json_dumpf(event, stderr, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', stderr);
    json_decref(event);
}

static void show_json(const lr_progress *p) {
    json_t *remaining = p->remaining >= 0 ? json_real(p->remaining) : json_null();
    print_event(json_pack("{s:s, s:o, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:o}", "event", "progress",
                          "recording", cli_json_text(p->recording), "number",
                          (json_int_t)screen.number, "count", (json_int_t)screen.count, "stage",
                          stage_name(p->stage), "done", p->done, "recording_s", p->recording_seconds,
                          "duration_s", p->duration, "elapsed_s", p->elapsed, "speed", speed_of(p),
                          "remaining_s", remaining));
}

void cli_progress(void *arg, const lr_progress *p) {
    (void)arg;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&screen.lock);
    double since = (double)(now.tv_sec - screen.last.tv_sec) + 1e-9 * (double)(now.tv_nsec - screen.last.tv_nsec);
    bool due = !screen.any || p->stage != screen.last_stage || since >= (screen.json ? 1.0 : 0.2);
    if (due && !screen.silent && (screen.line || screen.json)) {
        if (screen.line) show_line(p);
        if (screen.json) show_json(p);
        fflush(stderr);
        screen.last = now;
        screen.last_stage = p->stage;
        screen.any = true;
    }
    pthread_mutex_unlock(&screen.lock);
}

/* ------------------------------------------------------------------ messages */

/* What to do next. */
static const char *advice(lr_status status, bool recording) {
    switch (status) {
    case LR_E_MODEL:
        return "a model is a directory as Hugging Face publishes it: config.json, tokenizer.json, "
               "model.safetensors (or its shards with model.safetensors.index.json)";
    case LR_E_NO_MEDIA:
    case LR_E_FORMAT:
        return recording ? "'longreel inspect FILE' shows what can be read of a recording" : NULL;
    case LR_E_NOMEM: return "fewer --ranks, --context 8192 or a smaller --soft-tokens take less memory";
    case LR_E_INTERRUPTED:
    case LR_E_PEER: return "run the same command again: it goes on from what is done";
    case LR_E_COVERAGE:
    case LR_E_INTERNAL: return "this is a fault of Longreel: please report it with the command line";
    case LR_OK:
    case LR_E_USAGE:
    case LR_E_IO:
    case LR_E_UNSUPPORTED:
    case LR_E_EXISTS: break;
    }
    return NULL;
}

static void say(const char *event, const char *recording, lr_status status, const char *text) {
    const char *next = advice(status, recording != NULL);
    if (screen.silent) return;
    pthread_mutex_lock(&screen.lock);
    take_line_away();
    if (screen.json) {
        json_t *about = recording ? cli_json_text(recording) : json_null();
        print_event(json_pack("{s:s, s:o, s:o}", "event", event, "recording", about, "message",
                              cli_json_text(text)));
    } else {
        fputs("longreel: ", stderr);
        cli_put_escaped(text, stderr);
        fputc('\n', stderr);
        if (next) fprintf(stderr, "longreel: %s\n", next);
    }
    fflush(stderr);
    pthread_mutex_unlock(&screen.lock);
}

void cli_event(const char *event, const char *recording, const char *set) {
    if (!screen.json || screen.silent) return;
    pthread_mutex_lock(&screen.lock);
    print_event(json_pack("{s:s, s:o, s:o}", "event", event, "recording", cli_json_text(recording), "set",
                          cli_json_text(set)));
    fflush(stderr);
    pthread_mutex_unlock(&screen.lock);
}

void cli_report(lr_status status, const char *recording, const char *text) {
    say("error", recording, status, text);
}

void cli_warn(const char *recording, const char *format, ...) {
    char text[LR_ERROR_TEXT], whole[LR_ERROR_TEXT + 16];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "warning: %s", text);
    cli_keep_warning(text);
    say("warning", recording, LR_OK, screen.json ? text : whole);
}

void cli_note(const char *format, ...) {
    char text[LR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("note", NULL, LR_OK, text);
}

void cli_log(void *arg, lr_log_level level, const char *text) {
    (void)arg;
    if (level == LR_LOG_ERROR) {
        cli_note("%s", text);
    } else {
        cli_warn(screen.recording, "%s", text);
    }
}

int cli_exit_code(lr_status status) {
    switch (status) {
    case LR_OK: return CLI_DONE;
    case LR_E_INTERRUPTED:
    case LR_E_PEER: return CLI_INTERRUPTED;
    case LR_E_USAGE:
    case LR_E_MODEL:
    case LR_E_UNSUPPORTED: return CLI_WRONG_USAGE;
    case LR_E_NOMEM:
    case LR_E_IO:
    case LR_E_FORMAT:
    case LR_E_NO_MEDIA:
    case LR_E_COVERAGE:
    case LR_E_EXISTS:
    case LR_E_INTERNAL: break;
    }
    return CLI_SOME_FAILED;
}

int cli_fail_model(const lr_error *err) {
    bool stopped = err->status == LR_E_INTERRUPTED, other = err->status == LR_E_USAGE; /* than the model: an option */
    cli_report(stopped || other ? err->status : LR_E_MODEL, NULL, err->text);
    return stopped ? CLI_INTERRUPTED : CLI_WRONG_USAGE;
}

int cli_fail(const lr_error *err) {
    cli_report(err->status, NULL, err->text);
    return cli_exit_code(err->status);
}
