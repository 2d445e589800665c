/* Status values and the error record that every fallible function fills.
 *
 * A function returns lr_status. When it is not LR_OK, the caller-owned lr_error (may be NULL) holds
 * the first failure with its context: which file, which stream, what time. Nothing below cli/
 * prints, exits or aborts. Thread rules: an lr_error belongs to one thread at a time. */
#ifndef LONGREEL_STATUS_H
#define LONGREEL_STATUS_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lr_status {
    LR_OK = 0,
    LR_E_USAGE,       /* an argument or option is wrong; nothing was done */
    LR_E_NOMEM,       /* memory ran out, or a size does not fit */
    LR_E_IO,          /* the system refused to read or write (errno is in the message) */
    LR_E_FORMAT,      /* a file's content is not what it must be */
    LR_E_UNSUPPORTED, /* well formed, but a construct or value Longreel does not handle */
    LR_E_MODEL,       /* a checkpoint is missing a tensor, or a shape or value is wrong */
    LR_E_NO_MEDIA,    /* a recording holds no readable picture or sound */
    LR_E_PEER,        /* another rank failed, was lost or aborted the run */
    LR_E_COVERAGE,    /* the coverage proof failed: a key unseen, seen twice or altered */
    LR_E_INTERRUPTED, /* cancelled by the caller (signal) */
    LR_E_EXISTS,      /* the output is there already and may not be replaced */
    LR_E_INTERNAL     /* a broken invariant inside Longreel */
} lr_status;

#define LR_ERROR_TEXT 1024

typedef struct lr_error {
    lr_status status;          /* LR_OK until the first failure */
    char text[LR_ERROR_TEXT];  /* UTF-8, NUL terminated, cut on a character border */
} lr_error;

#if defined(__GNUC__)
#define LR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LR_PRINTF(f, a)
#endif

/* Records the failure unless one is recorded already; returns `status` in any case. Bytes that are not
 * UTF-8 (a file name may hold any) become '?'. A text that does not fit keeps its cause: the context
 * before it is cut first. */
lr_status lr_fail(lr_error *err, lr_status status, const char *format, ...) LR_PRINTF(3, 4);
lr_status lr_vfail(lr_error *err, lr_status status, const char *format, va_list args) LR_PRINTF(3, 0);
/* As lr_fail with ": " and strerror(errno_value) appended. */
lr_status lr_fail_errno(lr_error *err, lr_status status, int errno_value, const char *format, ...)
    LR_PRINTF(4, 5);
/* Puts "<context>: " before a recorded text (the caller knows the file, the callee the cause). */
void lr_error_context(lr_error *err, const char *format, ...) LR_PRINTF(2, 3);
void lr_error_clear(lr_error *err);
/* A short lower-case name: "ok", "usage", "no-memory", ... Never NULL. */
const char *lr_status_name(lr_status status);

/* Inside a function with a local `lr_status st` and a label `done`. */
#define LR_TRY(expr)                                                                               \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != LR_OK) goto done;                                                                \
    } while (0)

/* Records a failure in `err`, sets `st` and goes to `done`. */
#define LR_FAIL(...)                                                                               \
    do {                                                                                           \
        st = lr_fail(err, __VA_ARGS__);                                                            \
        goto done;                                                                                 \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
