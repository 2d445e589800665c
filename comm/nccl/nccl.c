/* NCCL behind lr_nccl: its functions, found at run time, and what they say. */
#include "link.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <nccl.h>

#define LEAST_VERSION NCCL_VERSION(2, 18, 1) /* ncclCommSplit */

#define FUNCTIONS(F)                                                                               \
    F(ncclGetVersion) F(ncclGetUniqueId) F(ncclGetErrorString) F(ncclGetLastError)                 \
    F(ncclCommInitRankConfig) F(ncclCommSplit) F(ncclCommFinalize) F(ncclCommDestroy) F(ncclCommAbort) \
    F(ncclCommGetAsyncError) F(ncclGroupStart) F(ncclGroupEnd) F(ncclSend) F(ncclRecv)

struct lr_nccl_library {
    void *library;
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

struct lr_nccl_comm {
    const lr_nccl_library *library;
    ncclComm_t comm;
};

_Static_assert(sizeof(ncclUniqueId) == LR_NCCL_ID_BYTES, "the size of NCCL's id");

/* ------------------------------------------------------------------ the library */

static const char *look_up(lr_nccl_library *l)
{
#define LOOK_UP(name)                                                                              \
    *(void **)&l->name = dlsym(l->library, #name);                                                 \
    if (!l->name) return #name;
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

static void library_close(lr_nccl_library *l)
{
    if (l->library) (void)dlclose(l->library);
    lr_free(l);
}

static lr_status check_library(lr_nccl_library *l, const char *file, lr_error *err)
{
    int version = 0;
    if (!l->library) return lr_fail(err, LR_E_UNSUPPORTED, "there is no NCCL: %s", dlerror());
    const char *lacking = look_up(l);
    if (lacking) return lr_fail(err, LR_E_UNSUPPORTED, "NCCL is too old: %s lacks %s", file, lacking);
    if (l->ncclGetVersion(&version) != ncclSuccess || version < LEAST_VERSION)
        return lr_fail(err, LR_E_UNSUPPORTED, "NCCL is too old: %s is version %d, needed is %d or newer", file,
                       version, LEAST_VERSION);
    return LR_OK;
}

static lr_status library_open(lr_nccl_library **out, const char *file, lr_error *err)
{
    const char *named = getenv("LONGREEL_NCCL");
    lr_nccl_library *l;
    *out = NULL;
    lr_status st = LR_NEW(&l, 1, "the functions of NCCL", err);
    if (st != LR_OK) return st;
    if (!file) file = named && *named ? named : "libnccl.so.2";
    /* NODELETE: it leaves threads and handlers behind. */
    l->library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    st = check_library(l, file, err);
    if (st == LR_OK) *out = l;
    else library_close(l);
    return st;
}

/* ------------------------------------------------------------------ what it says */

static lr_status failed(const lr_nccl_library *l, ncclComm_t comm, ncclResult_t result, const char *doing, lr_error *err)
{
    const char *last = l->ncclGetLastError(comm);
    bool more = last && *last;
    lr_status st = result == ncclRemoteError || result == ncclSystemError ? LR_E_PEER : LR_E_INTERNAL;
    return lr_fail(err, st, "NCCL: %s: %s%s%s", doing, l->ncclGetErrorString(result), more ? ": " : "",
                   more ? last : "");
}

static bool went_well(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

static lr_status unique_id(lr_nccl_library *l, unsigned char id[LR_NCCL_ID_BYTES], lr_error *err)
{
    ncclUniqueId made;
    ncclResult_t result = l->ncclGetUniqueId(&made);
    if (result != ncclSuccess) return failed(l, NULL, result, "an id for the ranks", err);
    memcpy(id, &made, sizeof made);
    return LR_OK;
}

/* ------------------------------------------------------------------ communicators */

static ncclConfig_t nonblocking(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* Of a communicator whose making did not begin well NCCL may have made a part. */
static lr_status keep(lr_nccl_comm *c, ncclResult_t result, const char *doing, lr_nccl_comm **out, lr_error *err)
{
    if (went_well(result) && c->comm) {
        *out = c;
        return LR_OK;
    }
    lr_status st = failed(c->library, NULL, result, doing, err);
    if (c->comm) (void)c->library->ncclCommAbort(c->comm);
    lr_free(c);
    return st;
}

static lr_status comm_start(lr_nccl_library *l, const unsigned char id[LR_NCCL_ID_BYTES], int size, int rank,
                            lr_nccl_comm **out, lr_error *err)
{
    ncclUniqueId given;
    ncclConfig_t config = nonblocking();
    lr_nccl_comm *c;
    *out = NULL;
    lr_status st = LR_NEW(&c, 1, "a communicator of NCCL", err);
    if (st != LR_OK) return st;
    c->library = l;
    memcpy(&given, id, sizeof given);
    return keep(c, l->ncclCommInitRankConfig(&c->comm, size, given, rank, &config), "connecting the ranks", out, err);
}

static lr_status comm_split(lr_nccl_comm *parent, int color, int key, lr_nccl_comm **out, lr_error *err)
{
    ncclConfig_t config = nonblocking();
    lr_nccl_comm *c;
    *out = NULL;
    lr_status st = LR_NEW(&c, 1, "a communicator of NCCL", err);
    if (st != LR_OK) return st;
    c->library = parent->library;
    return keep(c, c->library->ncclCommSplit(parent->comm, color, key, &c->comm, &config), "splitting the ranks", out,
                err);
}

static lr_status comm_state(lr_nccl_comm *c, bool *busy, lr_error *err)
{
    ncclResult_t found = ncclSuccess;
    ncclResult_t result = c->library->ncclCommGetAsyncError(c->comm, &found);
    *busy = found == ncclInProgress;
    if (result != ncclSuccess) return failed(c->library, c->comm, result, "asking for faults", err);
    return went_well(found) ? LR_OK : failed(c->library, c->comm, found, "a fault", err);
}

static lr_status comm_finish(lr_nccl_comm *c, lr_error *err)
{
    ncclResult_t result = c->library->ncclCommFinalize(c->comm);
    return went_well(result) ? LR_OK : failed(c->library, c->comm, result, "ending", err);
}

static void comm_destroy(lr_nccl_comm *c)
{
    (void)c->library->ncclCommDestroy(c->comm);
    lr_free(c);
}

static void comm_abort(lr_nccl_comm *c)
{
    (void)c->library->ncclCommAbort(c->comm);
    lr_free(c);
}

static lr_status comm_exchange(lr_nccl_comm *c, const lr_link_message *messages, size_t n, void *stream, lr_error *err)
{
    const lr_nccl_library *l = c->library;
    ncclResult_t result = l->ncclGroupStart();
    if (result != ncclSuccess) return failed(l, c->comm, result, "beginning a group", err);
    for (size_t i = 0; i < n && went_well(result); i++) {
        void *at = (void *)(uintptr_t)messages[i].at; /* NCCL has device addresses as pointers */
        if (messages[i].bytes == 0) continue;
        result = messages[i].send ? l->ncclSend(at, messages[i].bytes, ncclInt8, messages[i].peer, c->comm, stream)
                                  : l->ncclRecv(at, messages[i].bytes, ncclInt8, messages[i].peer, c->comm, stream);
    }
    ncclResult_t ended = l->ncclGroupEnd();
    if (!went_well(result)) return failed(l, c->comm, result, "a message", err);
    return went_well(ended) ? LR_OK : failed(l, c->comm, ended, "ending a group", err);
}

/* ------------------------------------------------------------------ what the plugin exports */

const lr_nccl *lr_nccl_get(unsigned abi);

__attribute__((visibility("default"))) const lr_nccl *lr_nccl_get(unsigned abi)
{
    static const lr_nccl table = {.abi = LR_NCCL_ABI,
                                  .struct_size = sizeof table,
                                  .open = library_open,
                                  .close = library_close,
                                  .unique_id = unique_id,
                                  .start = comm_start,
                                  .split = comm_split,
                                  .exchange = comm_exchange,
                                  .state = comm_state,
                                  .finish = comm_finish,
                                  .destroy = comm_destroy,
                                  .abort = comm_abort};
    return abi == LR_NCCL_ABI ? &table : NULL;
}
