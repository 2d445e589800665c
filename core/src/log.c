#include <longreel/log.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lr_log_callback current_callback;
static void *current_arg;
/* Read without the lock, so that a call whose level is not wanted costs next to nothing; -1: none. */
static atomic_int most_wanted = -1;
/* A callback that logs would wait for itself. */
static _Thread_local int inside_callback;

void lr_log_set(lr_log_callback callback, void *arg, lr_log_level most)
{
    pthread_mutex_lock(&lock);
    current_callback = callback;
    current_arg = arg;
    atomic_store(&most_wanted, callback ? (int)most : -1);
    pthread_mutex_unlock(&lock);
}

void lr_log(lr_log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&most_wanted) || inside_callback) return;
    char text[2048];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0) return;
    pthread_mutex_lock(&lock);
    if (current_callback && (int)level <= atomic_load(&most_wanted)) {
        inside_callback = 1;
        current_callback(current_arg, level, text);
        inside_callback = 0;
    }
    pthread_mutex_unlock(&lock);
}
