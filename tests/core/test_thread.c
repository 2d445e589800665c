#include "lr_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The k-th pthread_create from now fails; 0: none. */
static int create_fail_at;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    if (create_fail_at > 0 && --create_fail_at == 0) return EAGAIN;
    return __real_pthread_create(thread, attr, start, arg);
}

typedef struct job {
    size_t n_threads, count;
    unsigned char *times;   /* [count], plain: each index belongs to one thread only */
    size_t *order;          /* [count] index in the order of the calls of worker 0 */
    size_t n_order;
    atomic_size_t bad_worker;
    size_t per_worker[16];  /* plain: a worker number belongs to one thread only */
} job;

static void count_index(void *arg, size_t index, size_t worker)
{
    job *j = arg;
    if (worker >= j->n_threads) {
        atomic_fetch_add(&j->bad_worker, 1);
        return;
    }
    j->per_worker[worker]++;
    j->times[index]++;
    if (worker == 0) j->order[j->n_order++] = index;
}

static void check_loop(lr_pool *pool, size_t count)
{
    job j = {.n_threads = lr_pool_threads(pool), .count = count};
    j.times = calloc(count + 1, 1);
    j.order = calloc(count + 1, sizeof *j.order);
    assert_non_null(j.times);
    assert_non_null(j.order);
    lr_pool_for(pool, count, count_index, &j);
    size_t sum = 0;
    for (size_t i = 0; i < 16; i++) sum += j.per_worker[i];
    assert_int_equal(sum, count);
    assert_int_equal(atomic_load(&j.bad_worker), 0);
    for (size_t i = 0; i < count; i++) assert_int_equal(j.times[i], 1);
    for (size_t i = 1; i < j.n_order; i++) assert_true(j.order[i] > j.order[i - 1]);
    free(j.order);
    free(j.times);
}

static void test_each_index_runs_once_for_1_to_8_threads(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, 5000};
    for (size_t threads = 1; threads <= 8; threads++) {
        lr_error err = {0};
        lr_pool *pool = NULL;
        lrt_assert_ok(lr_pool_create(threads, &pool, &err), &err);
        assert_int_equal(lr_pool_threads(pool), threads);
        for (int again = 0; again < 3; again++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                check_loop(pool, counts[i]);
        lr_pool_free(pool);
    }
}

static void test_no_pool_runs_in_the_caller(void **state)
{
    (void)state;
    assert_int_equal(lr_pool_threads(NULL), 1);
    check_loop(NULL, 20);
    lr_pool_free(NULL);
}

static void test_one_thread_makes_no_thread(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = NULL;
    create_fail_at = 1;
    lrt_assert_ok(lr_pool_create(1, &pool, &err), &err);
    assert_int_equal(create_fail_at, 1);
    create_fail_at = 0;
    check_loop(pool, 10);
    lr_pool_free(pool);
}

static void add_to_sum(void *arg, size_t index, size_t worker)
{
    (void)worker;
    ((uint64_t *)arg)[index]++;
}

/* Results written by workers in one loop are read by others in the next, without atomics: the hand-
 * over between loops is all that orders them. */
static void test_many_short_loops_hand_over_their_results(void **state)
{
    (void)state;
    enum { SLOTS = 5, LOOPS = 3000 };
    lr_error err = {0};
    lr_pool *pool = NULL;
    uint64_t sums[SLOTS] = {0};
    lrt_assert_ok(lr_pool_create(4, &pool, &err), &err);
    for (int i = 0; i < LOOPS; i++) {
        lr_pool_for(pool, SLOTS, add_to_sum, sums);
        assert_int_equal(sums[i % SLOTS], i + 1);
    }
    lr_pool_free(pool);
    for (int i = 0; i < SLOTS; i++) assert_int_equal(sums[i], LOOPS);
}

typedef struct meeting {
    atomic_size_t present;
    size_t wanted;
} meeting;

static void wait_for_all(void *arg, size_t index, size_t worker)
{
    meeting *m = arg;
    (void)index;
    (void)worker;
    atomic_fetch_add(&m->present, 1);
    while (atomic_load(&m->present) < m->wanted) sched_yield();
}

static void test_all_threads_work_at_the_same_time(void **state)
{
    (void)state;
    for (size_t threads = 2; threads <= 8; threads++) {
        lr_error err = {0};
        lr_pool *pool = NULL;
        meeting m = {.wanted = threads};
        lrt_assert_ok(lr_pool_create(threads, &pool, &err), &err);
        lr_pool_for(pool, threads, wait_for_all, &m);
        assert_int_equal(atomic_load(&m.present), threads);
        lr_pool_free(pool);
    }
}

typedef struct slow_job {
    meeting all;
    int finished[4]; /* plain: read only after the loop */
} slow_job;

static void finish_late(void *arg, size_t index, size_t worker)
{
    slow_job *j = arg;
    wait_for_all(&j->all, index, worker);
    if (worker != 0) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    j->finished[index] = 1;
}

static void test_loop_returns_only_when_the_slowest_worker_is_done(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = NULL;
    lrt_assert_ok(lr_pool_create(4, &pool, &err), &err);
    for (int again = 0; again < 3; again++) {
        slow_job j = {.all.wanted = 4};
        lr_pool_for(pool, 4, finish_late, &j);
        for (int i = 0; i < 4; i++) assert_int_equal(j.finished[i], 1);
    }
    lr_pool_free(pool);
}

static void test_zero_threads_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = (lr_pool *)&err;
    assert_int_equal(lr_pool_create(0, &pool, &err), LR_E_USAGE);
    assert_null(pool);
}

static void test_absurd_numbers_of_threads_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = NULL;
    assert_int_equal(lr_pool_create(SIZE_MAX, &pool, &err), LR_E_NOMEM);
    assert_null(pool);
}

static void test_each_failing_thread_unwinds(void **state)
{
    (void)state;
    size_t live = lr_alloc_live();
    for (int k = 1; k <= 4; k++) {
        lr_error err = {0};
        lr_pool *pool = (lr_pool *)&err;
        create_fail_at = k;
        assert_int_equal(lr_pool_create(5, &pool, &err), LR_E_NOMEM);
        assert_null(pool);
        assert_non_null(strstr(err.text, "cannot start 4 threads: "));
        assert_int_equal(lr_alloc_live(), live);
    }
}

static lr_status make_pool(void *arg, lr_error *err)
{
    (void)arg;
    lr_pool *pool = NULL;
    lr_status st = lr_pool_create(3, &pool, err);
    lr_pool_free(pool);
    return st;
}

static void test_each_failing_allocation_unwinds(void **state)
{
    (void)state;
    assert_int_equal(lrt_fail_each_allocation(make_pool, NULL), 2);
}

static void check_signals_blocked(void *arg, size_t index, size_t worker)
{
    sigset_t set;
    (void)index;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (sigismember(&set, SIGINT) != (worker != 0)) atomic_fetch_add((atomic_size_t *)arg, 1);
}

static void test_workers_leave_signals_to_the_program(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = NULL;
    atomic_size_t wrong = 0;
    lrt_assert_ok(lr_pool_create(3, &pool, &err), &err);
    lr_pool_for(pool, 1000, check_signals_blocked, &wrong);
    lr_pool_free(pool);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void test_cancel_is_seen(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_cancel cancel = 0;
    assert_int_equal(lr_cancel_check(NULL, &err), LR_OK);
    assert_int_equal(lr_cancel_check(&cancel, &err), LR_OK);
    atomic_store(&cancel, 1);
    assert_int_equal(lr_cancel_check(&cancel, &err), LR_E_INTERRUPTED);
    assert_string_equal(err.text, "interrupted");
    assert_int_equal(lr_cancel_check(&cancel, NULL), LR_E_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_index_runs_once_for_1_to_8_threads),
        cmocka_unit_test(test_no_pool_runs_in_the_caller),
        cmocka_unit_test(test_one_thread_makes_no_thread),
        cmocka_unit_test(test_many_short_loops_hand_over_their_results),
        cmocka_unit_test(test_all_threads_work_at_the_same_time),
        cmocka_unit_test(test_loop_returns_only_when_the_slowest_worker_is_done),
        cmocka_unit_test(test_zero_threads_are_refused),
        cmocka_unit_test(test_absurd_numbers_of_threads_are_refused),
        cmocka_unit_test(test_each_failing_thread_unwinds),
        cmocka_unit_test(test_each_failing_allocation_unwinds),
        cmocka_unit_test(test_workers_leave_signals_to_the_program),
        cmocka_unit_test(test_cancel_is_seen),
    };
    return cmocka_run_group_tests_name("core thread", tests, NULL, NULL);
}
