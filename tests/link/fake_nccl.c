#include "fake_nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>

#include "standin.h"

enum { MOST_RANKS = 8, LANE_BYTES = 4096, MOST_SPLITS = 8, PATH = 64 };

/* ------------------------------------------------------------------ what the ranks share */

typedef struct lane { /* from one rank to another: a message at a time */
    _Atomic uint64_t sends, send_bytes;       /* the number of the message at hand, from 1 */
    _Atomic uint64_t receives, receive_bytes;
    _Atomic uint64_t written, taken;          /* bytes, of all messages */
    unsigned char data[LANE_BYTES];
} lane;

typedef struct ticket {
    _Atomic int posted;
    int color, key;
    _Atomic int named;
    char path[PATH]; /* of the new communicator, from its first rank */
} ticket;

typedef struct shared {
    _Atomic int joined;
    _Atomic int pid[MOST_RANKS];
    ticket splits[MOST_SPLITS][MOST_RANKS];
    lane lanes[MOST_RANKS][MOST_RANKS]; /* [from][to] */
} shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A file without a name; whoever knows the process finds it under /proc. */
static int make_shared(char path[PATH])
{
    int fd = memfd_create("nccl", 0);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(shared)) != 0) abort();
    (void)snprintf(path, PATH, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd;
}

static shared *map_shared(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return s == MAP_FAILED ? NULL : s;
}

/* ------------------------------------------------------------------ communicators */

typedef struct op {
    bool send, posted, done;
    int peer;
    CUdeviceptr at;
    uint64_t bytes, moved, number;
} op;

typedef struct group {
    struct group *next;
    struct ncclComm *comm;
    CUstream stream;
    uint64_t number;
    size_t n;
    op ops[];
} group;

struct ncclComm {
    struct ncclComm *next;
    shared *shared;
    int rank, size, fd;
    struct ncclComm *parent; /* while it is being split off */
    int split, color, key;
    bool joined;
    int polls; /* until something is done */
    ncclResult_t fault;
    group *waiting; /* to be enqueued */
    group *all;
    uint64_t n_groups, n_enqueued, n_done;
    uint64_t lane_sends[MOST_RANKS], lane_receives[MOST_RANKS];
    int n_splits;
    bool aborted, ready, finishing;
    uint64_t fault_after;
};

static struct ncclComm *live; /* of this process */
static atomic_int misuses;
static __thread group *open_group;
static __thread int depth;
static __thread char last_error[160];
static bool has_thread;

static ncclResult_t misuse(const char *what)
{
    atomic_fetch_add(&misuses, 1);
    (void)fprintf(stderr, "NCCL misused: %s\n", what);
    (void)snprintf(last_error, sizeof last_error, "%s", what);
    return ncclInvalidUsage;
}

static bool is_live_locked(const struct ncclComm *comm)
{
    const struct ncclComm *c = live;
    while (c && c != comm) c = c->next;
    return c != NULL;
}

static bool is_live(const struct ncclComm *comm)
{
    (void)pthread_mutex_lock(&lock);
    bool found = is_live_locked(comm);
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* "call:rank" of a variable. */
static bool is_asked(const char *variable, const char *what, int rank)
{
    char wanted[80];
    const char *text = getenv(variable);
    (void)snprintf(wanted, sizeof wanted, "%s:%d", what, rank);
    return text && strcmp(text, wanted) == 0;
}

static ncclResult_t refuse(const char *call)
{
    (void)snprintf(last_error, sizeof last_error, "%s was told to fail", call);
    return ncclInternalError;
}

/* A device works by itself. */
static void *progress(void *unused)
{
    const struct timespec pause = {.tv_nsec = 100000};
    for (;;) {
        standin_progress();
        (void)nanosleep(&pause, NULL);
    }
    return unused;
}

static struct ncclComm *new_comm(void)
{
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->fd = -1;
    c->polls = 3;
    (void)pthread_mutex_lock(&lock);
    c->next = live;
    live = c;
    if (!has_thread) {
        pthread_t thread;
        has_thread = true;
        if (pthread_create(&thread, NULL, progress, NULL) != 0) abort();
        (void)pthread_detach(thread);
    }
    (void)pthread_mutex_unlock(&lock);
    return c;
}

static void read_fault(struct ncclComm *c)
{
    const char *text = getenv("FAKE_NCCL_FAULT");
    unsigned long long after = 0;
    int rank = -1;
    c->fault_after = text && sscanf(text, "%llu:%d", &after, &rank) == 2 && rank == c->rank ? after : UINT64_MAX;
}

static void join(struct ncclComm *c)
{
    read_fault(c);
    atomic_store(&c->shared->pid[c->rank], (int)getpid());
    atomic_fetch_add(&c->shared->joined, 1);
    c->joined = true;
}

ncclResult_t ncclGetVersion(int *version)
{
    const char *text = getenv("FAKE_NCCL_VERSION");
    *version = text && *text ? atoi(text) : 22800;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInvalidUsage: return "invalid usage";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInternalError: return "internal error";
    default: return "an error";
    }
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

/* ------------------------------------------------------------------ beginning */

/* The files stay open: the others may come at any time. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    if (is_asked("FAKE_NCCL_FAIL", "ncclGetUniqueId", 0)) return refuse("ncclGetUniqueId");
    int fd = make_shared(id->internal);
    memcpy(id->internal + PATH, &fd, sizeof fd);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    last_error[0] = '\0';
    if (is_asked("FAKE_NCCL_FAIL", "ncclCommInitRankConfig", rank)) return refuse("ncclCommInitRankConfig");
    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size) return misuse("ranks that cannot be");
    if (config->blocking != 0) return misuse("a communicator that blocks");
    struct ncclComm *c = new_comm();
    c->shared = map_shared(id.internal);
    if (!c->shared) abort();
    if (rank == 0) memcpy(&c->fd, id.internal + PATH, sizeof c->fd);
    c->rank = rank;
    c->size = size;
    join(c);
    *comm = c;
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    if (!is_live(parent) || !parent->ready) return misuse("a split of a communicator that is not ready");
    if (is_asked("FAKE_NCCL_FAIL", "ncclCommSplit", parent->rank)) return refuse("ncclCommSplit");
    if (parent->n_splits == MOST_SPLITS || config->blocking != 0) return misuse("a split that cannot be");
    struct ncclComm *c = new_comm();
    c->parent = parent;
    c->split = parent->n_splits++;
    c->color = color;
    c->key = key;
    ticket *mine = &parent->shared->splits[c->split][parent->rank];
    mine->color = color;
    mine->key = key;
    atomic_store(&mine->posted, 1);
    *out = c;
    return ncclInProgress;
}

/* Finds its place among the ranks of its color, once all have said theirs. */
static void go_on_splitting(struct ncclComm *c)
{
    const struct ncclComm *parent = c->parent;
    ticket *tickets = parent->shared->splits[c->split];
    int first = -1, rank = 0, size = 0;
    for (int r = 0; r < parent->size; r++) {
        if (!atomic_load(&tickets[r].posted)) return;
        if (tickets[r].color != c->color) continue;
        size++;
        if (first < 0 || tickets[r].key < tickets[first].key) first = r;
        if (tickets[r].key < c->key || (tickets[r].key == c->key && r < parent->rank)) rank++;
    }
    if (first == parent->rank && !atomic_load(&tickets[first].named)) {
        c->fd = make_shared(tickets[first].path);
        atomic_store(&tickets[first].named, 1);
    }
    if (!atomic_load(&tickets[first].named)) return;
    c->shared = map_shared(tickets[first].path);
    if (!c->shared) abort();
    c->rank = rank;
    c->size = size;
    join(c);
}

/* ------------------------------------------------------------------ messages */

static void fault(struct ncclComm *c, ncclResult_t what)
{
    if (c->fault == ncclSuccess) c->fault = what;
}

/* The other end is at this message too; sizes that differ are a fault. */
static bool meets(struct ncclComm *c, const op *o, const _Atomic uint64_t *number, const _Atomic uint64_t *bytes)
{
    uint64_t there = atomic_load(number);
    if (there < o->number) return false;
    if (there > o->number || atomic_load(bytes) == o->bytes) return true;
    fault(c, ncclInvalidUsage);
    return false;
}

static void move_send(struct ncclComm *c, op *o)
{
    lane *l = &c->shared->lanes[c->rank][o->peer];
    if (!o->posted) {
        o->number = ++c->lane_sends[o->peer];
        atomic_store(&l->send_bytes, o->bytes);
        atomic_store(&l->sends, o->number);
        o->posted = true;
    }
    if (o->moved < o->bytes && !meets(c, o, &l->receives, &l->receive_bytes)) return;
    uint64_t written = atomic_load(&l->written);
    while (o->moved < o->bytes && written - atomic_load(&l->taken) < LANE_BYTES) {
        uint64_t at = written % LANE_BYTES, n = LANE_BYTES - (written - atomic_load(&l->taken));
        if (n > LANE_BYTES - at) n = LANE_BYTES - at;
        if (n > o->bytes - o->moved) n = o->bytes - o->moved;
        const unsigned char *from = standin_at(o->at + o->moved, n);
        if (!from) {
            fault(c, ncclInvalidArgument);
            return;
        }
        memcpy(l->data + at, from, n);
        o->moved += n;
        written += n;
        atomic_store(&l->written, written);
    }
    o->done = o->moved == o->bytes && atomic_load(&l->taken) == written;
}

static void move_receive(struct ncclComm *c, op *o)
{
    lane *l = &c->shared->lanes[o->peer][c->rank];
    if (!o->posted) {
        o->number = ++c->lane_receives[o->peer];
        atomic_store(&l->receive_bytes, o->bytes);
        atomic_store(&l->receives, o->number);
        o->posted = true;
    }
    if (!meets(c, o, &l->sends, &l->send_bytes)) return;
    uint64_t taken = atomic_load(&l->taken), there;
    while (o->moved < o->bytes && (there = atomic_load(&l->written) - taken) > 0) {
        uint64_t at = taken % LANE_BYTES, n = there;
        if (n > LANE_BYTES - at) n = LANE_BYTES - at;
        if (n > o->bytes - o->moved) n = o->bytes - o->moved;
        unsigned char *to = standin_at(o->at + o->moved, n);
        if (!to) {
            fault(c, ncclInvalidArgument);
            return;
        }
        memcpy(to, l->data + at, n);
        o->moved += n;
        taken += n;
        atomic_store(&l->taken, taken);
    }
    o->done = o->moved == o->bytes;
}

/* A group at work in its stream. A fault leaves it there until the communicator is aborted. */
static bool step(void *arg)
{
    group *g = arg;
    struct ncclComm *c = g->comm;
    (void)pthread_mutex_lock(&lock);
    bool done = c->aborted;
    if (!done && c->fault == ncclSuccess && c->n_done == g->number) {
        bool all = true;
        bool send_busy[MOST_RANKS] = {false}, receive_busy[MOST_RANKS] = {false};
        for (size_t i = 0; i < g->n; i++) {
            op *o = &g->ops[i];
            bool *busy = o->send ? &send_busy[o->peer] : &receive_busy[o->peer];
            if (!o->done && !*busy) o->send ? move_send(c, o) : move_receive(c, o);
            if (!o->done) *busy = true, all = false;
        }
        done = all && c->fault == ncclSuccess;
    }
    if (done) c->n_done++;
    (void)pthread_mutex_unlock(&lock);
    return done;
}

ncclResult_t ncclGroupStart(void); /* nccl.h has them without prototypes */
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

static ncclResult_t add(bool send, CUdeviceptr at, size_t bytes, int peer, ncclComm_t comm, CUstream stream)
{
    const char *call = send ? "ncclSend" : "ncclRecv";
    last_error[0] = '\0';
    if (!is_live(comm) || comm->aborted || comm->finishing) return misuse("a message on a communicator that is gone");
    if (!comm->ready || comm->waiting) return misuse("a message while the communicator is busy");
    if (is_asked("FAKE_NCCL_FAIL", call, comm->rank)) return refuse(call);
    if (depth == 0) return misuse("a message outside of a group");
    if (peer < 0 || peer >= comm->size || bytes == 0 || !stream) return misuse("a message that cannot be");
    if (open_group && (open_group->comm != comm || open_group->stream != stream)) return misuse("a mixed group");
    size_t n = open_group ? open_group->n : 0;
    open_group = realloc(open_group, sizeof *open_group + (n + 1) * sizeof(op));
    if (!open_group) abort();
    if (n == 0) *open_group = (group){.comm = comm, .stream = stream};
    open_group->ops[n] = (op){.send = send, .peer = peer, .at = at, .bytes = bytes};
    open_group->n = n + 1;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *at, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclInt8) return misuse("messages here are bytes");
    return add(true, (CUdeviceptr)(uintptr_t)at, count, peer, comm, (CUstream)stream);
}

ncclResult_t ncclRecv(void *at, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclInt8) return misuse("messages here are bytes");
    return add(false, (CUdeviceptr)(uintptr_t)at, count, peer, comm, (CUstream)stream);
}

ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0) return misuse("the end of a group that did not begin");
    if (--depth > 0 || !open_group) return ncclSuccess;
    struct ncclComm *c = open_group->comm;
    if (is_asked("FAKE_NCCL_FAIL", "ncclGroupEnd", c->rank)) {
        free(open_group);
        open_group = NULL;
        return refuse("ncclGroupEnd");
    }
    (void)pthread_mutex_lock(&lock);
    open_group->number = c->n_groups++;
    open_group->next = c->all;
    c->all = c->waiting = open_group;
    c->polls = 2;
    (void)pthread_mutex_unlock(&lock);
    open_group = NULL;
    return ncclInProgress;
}

/* ------------------------------------------------------------------ state and end */

static bool lost_one(const struct ncclComm *c)
{
    for (int r = 0; r < c->size; r++) {
        int pid = atomic_load(&c->shared->pid[r]);
        if (pid > 0 && pid != (int)getpid() && kill(pid, 0) != 0 && errno == ESRCH) return true;
    }
    return false;
}

/* False while something is under way; *enqueue: what is to go to its stream now. */
static bool advance(struct ncclComm *c, group **enqueue)
{
    if (!c->joined && c->parent) go_on_splitting(c);
    if (!c->joined || atomic_load(&c->shared->joined) < c->size || --c->polls > 0) return false;
    c->ready = true;
    c->parent = NULL;
    if (c->waiting) {
        *enqueue = c->waiting;
        c->waiting = NULL;
        if (++c->n_enqueued == c->fault_after) fault(c, ncclRemoteError);
    }
    return !c->finishing || c->n_done == c->n_groups;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *found)
{
    group *enqueue = NULL;
    (void)pthread_mutex_lock(&lock);
    if (!is_live_locked(c)) {
        (void)pthread_mutex_unlock(&lock);
        return misuse("the state of a communicator that is gone");
    }
    bool idle = advance(c, &enqueue);
    if (c->joined && lost_one(c)) fault(c, ncclRemoteError);
    *found = c->fault != ncclSuccess ? c->fault : idle ? ncclSuccess : ncclInProgress;
    (void)pthread_mutex_unlock(&lock);
    if (enqueue && standin_enqueue(enqueue->stream, step, enqueue) != CUDA_SUCCESS) *found = ncclUnhandledCudaError;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    if (!is_live(c) || !c->ready) return misuse("the end of a communicator that is not ready");
    (void)pthread_mutex_lock(&lock);
    c->finishing = true;
    c->polls = 2;
    (void)pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

/* All of its groups in streams have ended. */
static bool is_settled(struct ncclComm *c, uint64_t n)
{
    (void)pthread_mutex_lock(&lock);
    bool settled = c->n_done == n;
    (void)pthread_mutex_unlock(&lock);
    return settled;
}

/* As NCCL waits for its kernels to see the abort; where the device has failed they never do, and are left. */
static void remove_comm(struct ncclComm *c)
{
    (void)pthread_mutex_lock(&lock);
    struct ncclComm **at = &live;
    while (*at && *at != c) at = &(*at)->next;
    if (*at) *at = c->next;
    c->aborted = true;
    if (c->fd >= 0) (void)close(c->fd);
    c->fd = -1;
    (void)pthread_mutex_unlock(&lock);
    const struct timespec pause = {.tv_nsec = 100000};
    for (int i = 0; !is_settled(c, c->n_enqueued); i++) {
        if (i == 20000) return;
        standin_progress();
        (void)nanosleep(&pause, NULL);
    }
    if (c->shared) (void)munmap(c->shared, sizeof *c->shared);
    while (c->all) {
        group *next = c->all->next;
        free(c->all);
        c->all = next;
    }
    free(c);
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    if (!is_live(c) || !c->finishing || !is_settled(c, c->n_groups))
        return misuse("a communicator destroyed before its end");
    remove_comm(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    if (!is_live(c)) return misuse("an abort of a communicator that is gone");
    remove_comm(c);
    return ncclSuccess;
}

int fake_nccl_misuses(void)
{
    return atomic_load(&misuses);
}

int fake_nccl_live(void)
{
    int n = 0;
    (void)pthread_mutex_lock(&lock);
    for (const struct ncclComm *c = live; c; c = c->next) n++;
    (void)pthread_mutex_unlock(&lock);
    return n;
}
