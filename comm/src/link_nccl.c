/* Links over NCCL: the bootstrap through the communicator, and waiting for what NCCL does by itself. */
#include "link.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <longreel/plugin.h>

#define PLUGIN "liblongreel_nccl.so"

/* ------------------------------------------------------------------ the plugin */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const lr_nccl *loaded; /* never closed: NCCL leaves threads behind */

static lr_status load(lr_error *err)
{
    char tried[LR_ERROR_TEXT];
    lr_nccl_get_function get = NULL;
    if (loaded) return LR_OK;
    void *plugin = lr_plugin_open(PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, tried, sizeof tried);
    if (!plugin && tried[0]) return lr_fail(err, LR_E_UNSUPPORTED, "NCCL cannot be used: %s", tried);
    if (!plugin)
        return lr_fail(err, LR_E_UNSUPPORTED,
                       PLUGIN " is missing: Longreel was built without NCCL, or LONGREEL_PLUGIN_PATH must name "
                              "its directory");
    *(void **)&get = dlsym(plugin, LR_NCCL_GET);
    const lr_nccl *nccl = get ? get(LR_NCCL_ABI) : NULL;
    if (!nccl || nccl->abi != LR_NCCL_ABI || nccl->struct_size != sizeof *nccl) {
        (void)dlclose(plugin);
        return lr_fail(err, LR_E_UNSUPPORTED, PLUGIN " is of another version of Longreel");
    }
    loaded = nccl;
    return LR_OK;
}

lr_status lr_link_load_nccl(const lr_nccl **out, lr_error *err)
{
    (void)pthread_mutex_lock(&lock);
    lr_status st = load(err);
    *out = loaded;
    (void)pthread_mutex_unlock(&lock);
    return st;
}

void lr_link_use_nccl(const lr_nccl *nccl)
{
    (void)pthread_mutex_lock(&lock);
    loaded = nccl;
    (void)pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ what is under way */

/* NCCL has done what was asked of it; what it enqueued need not have happened. */
static bool is_idle(lr_link *link, const void *other)
{
    bool busy = true;
    const lr_link *parent = other;
    if (link->nccl->state(link->nccl_comm, &busy, NULL) != LR_OK || busy) return false;
    return !parent || (parent->nccl->state(parent->nccl_comm, &busy, NULL) == LR_OK && !busy);
}

static lr_status nccl_poll(lr_link *link, lr_error *err)
{
    bool busy;
    return link->nccl_comm ? link->nccl->state(link->nccl_comm, &busy, err) : LR_OK;
}

static void nccl_give_up(lr_link *link)
{
    if (link->nccl_comm) link->nccl->abort(link->nccl_comm);
    link->nccl_comm = NULL;
}

/* ------------------------------------------------------------------ life */

/* The library, at every rank, before the first waits for another inside NCCL. */
static lr_status take_library(lr_link *link, const lr_link_options *options, lr_error *err)
{
    lr_status st = lr_link_load_nccl(&link->nccl, err);
    if (st == LR_OK) st = link->nccl->open(&link->library, options->nccl, err);
    if (st == LR_OK) link->owns_library = true;
    if (st == LR_OK && !link->device->ops->native(link->stream)) st = link->device->ops->wait(link->stream, err);
    return lr_comm_agree(link->own, st, err);
}

static lr_status nccl_open(lr_link *link, const lr_link_options *options, lr_error *err)
{
    unsigned char id[LR_NCCL_ID_BYTES] = {0};
    lr_status st = take_library(link, options, err);
    if (st != LR_OK) return st;
    if (link->own->rank == 0) st = link->nccl->unique_id(link->library, id, err);
    LR_TRY(lr_comm_agree(link->own, st, err));
    LR_TRY(lr_comm_broadcast(link->own, 0, id, sizeof id, err));
    LR_TRY(link->nccl->start(link->library, id, link->own->size, link->own->rank, &link->nccl_comm, err));
    LR_TRY(lr_link_until(link, is_idle, NULL, "for NCCL to connect the ranks", err));
done:
    return st;
}

static lr_status nccl_split(lr_link *link, lr_link *parent, lr_error *err)
{
    lr_status st = LR_OK;
    int first = parent->own->rank - link->own->rank;
    link->nccl = parent->nccl;
    link->library = parent->library;
    if (!link->device->ops->native(link->stream)) LR_TRY(link->device->ops->wait(link->stream, err));
    LR_TRY(link->nccl->split(parent->nccl_comm, first, link->own->rank, &link->nccl_comm, err));
    LR_TRY(lr_link_until(link, is_idle, parent, "for NCCL to split the ranks", err));
done:
    return st;
}

static void nccl_close(lr_link *link, bool well)
{
    if (well && link->nccl_comm && link->nccl->finish(link->nccl_comm, NULL) == LR_OK &&
        lr_link_until(link, is_idle, NULL, "for NCCL to end", NULL) == LR_OK) {
        link->nccl->destroy(link->nccl_comm);
        link->nccl_comm = NULL;
    }
    nccl_give_up(link);
    if (link->owns_library) link->nccl->close(link->library);
    link->owns_library = false;
}

/* ------------------------------------------------------------------ exchanges */

static lr_status nccl_exchange(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    void *stream = link->device->ops->native(link->stream);
    if (!stream) return link->device->ops->wait(link->stream, err);
    LR_TRY(link->nccl->exchange(link->nccl_comm, messages, n, stream, err));
    /* The first messages to a peer wait until it has connected; later ones are enqueued at once. */
    LR_TRY(lr_link_until(link, is_idle, NULL, "for it to be enqueued", err));
done:
    return st;
}

const link_ops lr_link_nccl = {.name = "nccl",
                               .open = nccl_open,
                               .split = nccl_split,
                               .exchange = nccl_exchange,
                               .poll = nccl_poll,
                               .give_up = nccl_give_up,
                               .close = nccl_close};
