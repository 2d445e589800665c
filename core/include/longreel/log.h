/* Logging through a callback. Without one, nothing is written anywhere. The callback may be called
 * from any thread, one call at a time; it must not call lr_log_set, and what it logs itself is
 * dropped. */
#ifndef LONGREEL_LOG_H
#define LONGREEL_LOG_H

#include <longreel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lr_log_level { LR_LOG_ERROR, LR_LOG_WARNING, LR_LOG_INFO, LR_LOG_DEBUG } lr_log_level;
typedef void (*lr_log_callback)(void *arg, lr_log_level level, const char *text);

void lr_log_set(lr_log_callback callback, void *arg, lr_log_level most);
void lr_log(lr_log_level level, const char *format, ...) LR_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif
