/* A pool in which a loop is "open" while indices may be left. Workers join an open loop, take
 * indices from an atomic counter and leave; the caller closes the loop when its own share is done
 * and waits only for those who joined. A worker that wakes late finds the loop closed and sleeps on,
 * so a short loop never waits for a thread that the system has not yet scheduled. */
#include <longreel/thread.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <longreel/memory.h>

typedef struct pool_worker {
    lr_pool *pool;
    size_t index; /* 1 ... threads - 1; the caller of lr_pool_for is 0 */
    pthread_t thread;
} pool_worker;

struct lr_pool {
    size_t threads;
    pool_worker *workers; /* [threads - 1] */
    size_t n_started;
    bool has_lock, has_wake, has_left;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a loop was opened, or stop */
    pthread_cond_t left; /* the last worker left the loop */
    /* Under lock. */
    bool stop, open;
    uint64_t loop; /* number of the newest loop */
    size_t n_inside;
    /* Written under lock while nobody is inside; read by those inside. */
    size_t count;
    lr_pool_body body;
    void *arg;
    atomic_size_t next;
};

static void take_indices(lr_pool *pool, size_t worker)
{
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) return;
        pool->body(pool->arg, index, worker);
    }
}

static void *worker_main(void *arg)
{
    pool_worker *self = arg;
    lr_pool *pool = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && (!pool->open || pool->loop == seen))
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop) break;
        seen = pool->loop;
        pool->n_inside++;
        pthread_mutex_unlock(&pool->lock);
        take_indices(pool, self->index);
        pthread_mutex_lock(&pool->lock);
        pool->n_inside--;
        if (pool->n_inside == 0) pthread_cond_signal(&pool->left);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Signals belong to the program's own threads: the workers block all of them. */
static int start_workers(lr_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    int code = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (code != 0) return code;
    for (size_t i = 0; i + 1 < pool->threads && code == 0; i++) {
        pool_worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i + 1;
        code = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (code == 0) pool->n_started++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static int init_locks(lr_pool *pool)
{
    int code = pthread_mutex_init(&pool->lock, NULL);
    if (code != 0) return code;
    pool->has_lock = true;
    code = pthread_cond_init(&pool->wake, NULL);
    if (code != 0) return code;
    pool->has_wake = true;
    code = pthread_cond_init(&pool->left, NULL);
    if (code == 0) pool->has_left = true;
    return code;
}

lr_status lr_pool_create(size_t threads, lr_pool **out, lr_error *err)
{
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    int code;
    *out = NULL;
    if (threads == 0) LR_FAIL(LR_E_USAGE, "a thread pool needs at least one thread");
    LR_TRY(LR_NEW(&pool, 1, "a thread pool", err));
    pool->threads = threads;
    atomic_init(&pool->next, 0);
    if (threads > 1) {
        LR_TRY(LR_NEW(&pool->workers, threads - 1, "a thread pool's workers", err));
        code = init_locks(pool);
        if (code == 0) code = start_workers(pool);
        if (code != 0) {
            st = lr_fail_errno(err, LR_E_NOMEM, code, "cannot start %zu threads", threads - 1);
            goto done;
        }
    }
    *out = pool;
    pool = NULL;
done:
    lr_pool_free(pool);
    return st;
}

void lr_pool_free(lr_pool *pool)
{
    if (!pool) return;
    if (pool->n_started > 0) {
        pthread_mutex_lock(&pool->lock);
        pool->stop = true;
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (size_t i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].thread, NULL);
    }
    if (pool->has_left) pthread_cond_destroy(&pool->left);
    if (pool->has_wake) pthread_cond_destroy(&pool->wake);
    if (pool->has_lock) pthread_mutex_destroy(&pool->lock);
    lr_free(pool->workers);
    lr_free(pool);
}

size_t lr_pool_threads(const lr_pool *pool)
{
    return pool ? pool->threads : 1;
}

void lr_pool_for(lr_pool *pool, size_t count, lr_pool_body body, void *arg)
{
    if (!pool || pool->threads == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++) body(arg, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->count = count;
    pool->body = body;
    pool->arg = arg;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->loop++;
    pool->open = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);

    take_indices(pool, 0);

    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->n_inside > 0) pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

lr_status lr_cancel_check(lr_cancel *cancel, lr_error *err)
{
    if (cancel && atomic_load(cancel) != 0) return lr_fail(err, LR_E_INTERRUPTED, "interrupted");
    return LR_OK;
}

void lr_stop_ask(lr_stop *stop)
{
    atomic_store(&stop->asked, 1);
    if (atomic_load(&stop->holders) == 0) atomic_store(stop->cancel, 1);
}

void lr_stop_hold(lr_stop *stop)
{
    if (stop) atomic_fetch_add(&stop->holders, 1);
}

void lr_stop_let_go(lr_stop *stop)
{
    if (!stop) return;
    if (atomic_fetch_sub(&stop->holders, 1) == 1 && atomic_load(&stop->asked) != 0) atomic_store(stop->cancel, 1);
}
