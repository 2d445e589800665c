/* A pool of threads for loops over tiles, and a cancel flag.
 *
 * Plain mutexes and atomics (no OpenMP): ThreadSanitizer sees every hand-over, and each local rank
 * has a pool of its own. A loop's result must not depend on which thread takes which index. */
#ifndef LONGREEL_THREAD_H
#define LONGREEL_THREAD_H

#include <stddef.h>
#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif

#include <longreel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_pool lr_pool;

/* threads >= 1, the calling thread counted: 1 makes no thread at all. */
lr_status lr_pool_create(size_t threads, lr_pool **out, lr_error *err);
void lr_pool_free(lr_pool *pool);
size_t lr_pool_threads(const lr_pool *pool); /* of NULL: 1 */

/* Runs body(arg, index, worker) for index in [0, count), handed out in ascending order; returns when
 * all are done. worker is in [0, lr_pool_threads): use it to pick scratch memory. The caller works
 * too. pool NULL: runs in the calling thread. A body must not call lr_pool_for on the same pool. One
 * lr_pool_for at a time per pool. */
typedef void (*lr_pool_body)(void *arg, size_t index, size_t worker);
void lr_pool_for(lr_pool *pool, size_t count, lr_pool_body body, void *arg);

/* Set from a signal handler or another thread; the stages look at it between pieces of work and stop
 * with LR_E_INTERRUPTED. A NULL pointer never cancels. */
#ifdef __cplusplus
typedef std::atomic_int lr_cancel;
#else
typedef atomic_int lr_cancel;
#endif
lr_status lr_cancel_check(lr_cancel *cancel, lr_error *err);

/* Stopping where the work at hand would be lost: who does such work holds the stop, and puts the work away when it is
 * asked for, within `grace` seconds. Nobody holds it: cancelled at once. */
typedef struct lr_stop {
    lr_cancel *cancel;
    double grace;
    lr_cancel asked, holders;
} lr_stop;
void lr_stop_ask(lr_stop *stop); /* may be called in a signal handler */
/* NULL: nothing. After the last let_go a stop that was asked for cancels. */
void lr_stop_hold(lr_stop *stop);
void lr_stop_let_go(lr_stop *stop);

#ifdef __cplusplus
}
#endif

#endif
