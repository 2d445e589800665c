#include "crew.h"

#include <signal.h>
#include <unistd.h>

typedef struct lri_crew {
    pthread_mutex_t gate; /* held while clients join and leave */
    pthread_mutex_t lock;
    pthread_cond_t change;
    /* Under gate. */
    pthread_t *threads;
    size_t n_threads, capacity;
    /* Under lock. */
    lri_crew_client *clients;
    lri_crew_client *served; /* the last one */
    int working, most;
    bool stop;
} lri_crew;

static lri_crew crew = {
    .gate = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

void lri_crew_lock(void)
{
    pthread_mutex_lock(&crew.lock);
}

void lri_crew_unlock(void)
{
    pthread_mutex_unlock(&crew.lock);
}

void lri_crew_wake(void)
{
    pthread_cond_broadcast(&crew.change);
}

void lri_crew_wait(void)
{
    pthread_cond_wait(&crew.change, &crew.lock);
}

int lri_crew_most(void)
{
    lri_crew_lock();
    int most = crew.most;
    crew.most = crew.working;
    lri_crew_unlock();
    return most;
}

/* ------------------------------------------------------------------ work */

/* Threads that may be at work. Clients come one a rank, with a share of the processors each, and one a file, with
 * all of them. */
static int limit(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN), all = 0, largest = 1;
    for (const lri_crew_client *c = crew.clients; c; c = c->next) {
        all += c->threads;
        if (c->threads > largest) largest = c->threads;
    }
    if (processors < largest) processors = largest;
    return (int)(all < processors ? all : processors);
}

static bool may_work(const lri_crew_client *client, int most)
{
    bool alone = client->working == 0 && crew.working == 0;
    return alone || (client->working + client->weight <= client->threads && crew.working + client->weight <= most);
}

/* The clients behind the one served last come first. */
static lri_crew_client *pick(size_t *work)
{
    int most = limit();
    lri_crew_client *first = crew.served && crew.served->next ? crew.served->next : crew.clients, *c = first;
    while (c) {
        if (may_work(c, most) && c->pick(c->arg, work)) return c;
        c = c->next ? c->next : crew.clients;
        if (c == first) break;
    }
    return NULL;
}

static void *work_on(void *arg)
{
    size_t work;
    lri_crew_lock();
    while (!crew.stop) {
        lri_crew_client *client = pick(&work);
        if (!client) {
            lri_crew_wait();
            continue;
        }
        crew.served = client;
        client->working += client->weight;
        crew.working += client->weight;
        if (crew.working > crew.most) crew.most = crew.working;
        lri_crew_unlock();
        client->step(client->arg, work);
        lri_crew_lock();
        client->working -= client->weight;
        crew.working -= client->weight;
        client->settle(client->arg, work);
        lri_crew_wake();
    }
    lri_crew_unlock();
    return arg;
}

/* ------------------------------------------------------------------ clients */

/* Signals belong to the program's own threads. */
static lr_status start(size_t count, lr_error *err)
{
    lr_status st = LR_GROW(&crew.threads, &crew.capacity, count, "the threads that decode", err);
    if (st != LR_OK) return st;
    sigset_t all, before;
    sigfillset(&all);
    int code = pthread_sigmask(SIG_SETMASK, &all, &before);
    while (code == 0 && crew.n_threads < count) {
        code = pthread_create(&crew.threads[crew.n_threads], NULL, work_on, NULL);
        if (code == 0) crew.n_threads++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    /* With fewer it takes longer. */
    return crew.n_threads > 0 ? LR_OK : lr_fail_errno(err, LR_E_NOMEM, code, "cannot start a thread to decode with");
}

static void end_threads(void)
{
    lri_crew_lock();
    crew.stop = true;
    lri_crew_wake();
    lri_crew_unlock();
    for (size_t i = 0; i < crew.n_threads; i++) pthread_join(crew.threads[i], NULL);
    lr_free(crew.threads);
    crew.threads = NULL;
    crew.n_threads = crew.capacity = 0;
    crew.stop = false;
}

static void remove_client(lri_crew_client *client)
{
    lri_crew_client **at = &crew.clients;
    while (*at && *at != client) at = &(*at)->next;
    if (*at) *at = client->next;
    if (crew.served == client) crew.served = NULL;
}

lr_status lri_crew_join(lri_crew_client *client, lr_error *err)
{
    pthread_mutex_lock(&crew.gate);
    lri_crew_lock();
    client->working = 0;
    client->next = crew.clients;
    crew.clients = client;
    size_t wanted = (size_t)limit();
    lri_crew_unlock();
    lr_status st = start(wanted, err);
    lri_crew_lock();
    if (st != LR_OK) remove_client(client);
    lri_crew_wake();
    lri_crew_unlock();
    pthread_mutex_unlock(&crew.gate);
    return st;
}

void lri_crew_leave(lri_crew_client *client)
{
    pthread_mutex_lock(&crew.gate);
    lri_crew_lock();
    remove_client(client);
    while (client->working > 0) lri_crew_wait();
    bool last = !crew.clients;
    lri_crew_unlock();
    if (last) end_threads();
    pthread_mutex_unlock(&crew.gate);
}
