#include "link_cases.h"

#include <string.h>

#include <longreel/core.h>

#include "rank_check.h"

enum { BLOCK = 10000, MOST_RANKS = 8 };

lr_status link_case_open(const link_case_setting *setting, lr_comm *comm, lr_link **out, lr_error *err)
{
    const lr_link_options options = {.kind = setting->kind, .peer_timeout = setting->peer_timeout};
    return lr_link_open(out, comm, setting->device, &options, err);
}

static unsigned char byte_of(int rank, size_t at)
{
    return (unsigned char)((size_t)rank * 37 + at * 7 + at / 251);
}

static void fill(unsigned char *out, int rank, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) out[i] = byte_of(rank, i);
}

/* ------------------------------------------------------------------ ring */

typedef struct ring {
    lr_link *link;
    lr_stream *work;
    lr_event *filled, *came, *read;
    lr_device_at at; /* [2, BLOCK]: what is sent, and what comes */
    unsigned char host[BLOCK], seen[MOST_RANKS][BLOCK];
} ring;

static lr_status go_round(ring *r, const lr_device_ops *ops, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    fill(r->host, comm->rank, BLOCK);
    ops->upload(r->work, r->at, r->host, BLOCK);
    ops->record(r->work, r->filled);
    ops->wait_for(lr_link_stream(r->link), r->filled);
    for (int hop = 1; hop < comm->size; hop++) {
        lr_device_at out = r->at + (hop % 2 ? 0 : BLOCK), in = r->at + (hop % 2 ? BLOCK : 0);
        const lr_link_message messages[] = {{next, true, out, BLOCK}, {before, false, in, BLOCK}};
        LR_TRY(lr_link_exchange(r->link, messages, 2, "a hop", err));
        ops->record(lr_link_stream(r->link), r->came);
        ops->wait_for(r->work, r->came);
        ops->download(r->work, r->seen[(comm->rank + comm->size - hop) % comm->size], in, BLOCK);
        ops->record(r->work, r->read);
        ops->wait_for(lr_link_stream(r->link), r->read); /* the next hop but one comes to the same place */
    }
    LR_TRY(lr_link_wait(r->link, r->read, err));
    LR_TRY(ops->wait(r->work, err));
    for (int rank = 0; rank < comm->size; rank++)
        for (size_t i = 0; i < BLOCK && rank != comm->rank; i++)
            RANK_CHECK(r->seen[rank][i] == byte_of(rank, i));
done:
    return st;
}

/* The same blocks by the communicator between hosts. */
static lr_status compare_with_hosts(const ring *r, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    unsigned char *all = NULL;
    LR_TRY(LR_NEW(&all, (size_t)comm->size * BLOCK, "blocks", err));
    LR_TRY(lr_comm_all_gather(comm, r->host, BLOCK, all, err));
    for (int rank = 0; rank < comm->size; rank++)
        RANK_CHECK(rank == comm->rank || memcmp(all + (size_t)rank * BLOCK, r->seen[rank], BLOCK) == 0);
done:
    lr_free(all);
    return st;
}

lr_status link_case_ring(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    const link_case_setting *setting = arg;
    const lr_device_ops *ops = setting->device->ops;
    ring *r = NULL;
    LR_TRY(LR_NEW(&r, 1, "a ring", err));
    LR_TRY(ops->alloc(setting->device, 2 * BLOCK, "blocks of a ring", &r->at, err));
    LR_TRY(ops->stream_create(setting->device, &r->work, err));
    LR_TRY(ops->event_create(setting->device, &r->filled, err));
    LR_TRY(ops->event_create(setting->device, &r->came, err));
    LR_TRY(ops->event_create(setting->device, &r->read, err));
    LR_TRY(link_case_open(setting, comm, &r->link, err));
    if (comm->size > 1) LR_TRY(go_round(r, ops, comm, err));
    LR_TRY(compare_with_hosts(r, comm, err));
done:
    if (r) {
        lr_link_free(r->link);
        ops->event_destroy(r->read);
        ops->event_destroy(r->came);
        ops->event_destroy(r->filled);
        ops->stream_destroy(r->work);
        ops->release(setting->device, r->at);
    }
    lr_free(r);
    return st;
}

/* ------------------------------------------------------------------ many at once */

enum { OF_A_PAIR = 3, SPACE = 30000, ITEMS = MOST_RANKS * OF_A_PAIR };

static size_t mesh_bytes(int from, int to, int i)
{
    static const size_t sizes[] = {1, 0, 4096, 12345, 8, 29999, 4097};
    return sizes[(size_t)(from * 5 + to * 3 + i) % (sizeof sizes / sizeof *sizes)];
}

typedef struct mesh {
    lr_link *link;
    lr_device_at out, in; /* [MOST_RANKS, OF_A_PAIR, SPACE] */
    unsigned char host[ITEMS][SPACE];
} mesh;

static size_t list_mesh(mesh *m, lr_comm *comm, lr_link_message *messages)
{
    size_t n = 0;
    for (int i = 0; i < OF_A_PAIR; i++)
        for (int peer = comm->size - 1; peer >= 0; peer--) {
            size_t item = (size_t)(peer * OF_A_PAIR + i);
            if (peer == comm->rank) continue;
            size_t bytes = mesh_bytes(comm->rank, peer, i);
            fill(m->host[item], comm->rank * 64 + peer * 8 + i, bytes);
            messages[n++] = (lr_link_message){peer, true, m->out + item * SPACE, bytes};
            messages[n++] = (lr_link_message){peer, false, m->in + item * SPACE, mesh_bytes(peer, comm->rank, i)};
        }
    return n;
}

static lr_status check_mesh(const mesh *m, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    for (int peer = 0; peer < comm->size; peer++)
        for (int i = 0; i < OF_A_PAIR && peer != comm->rank; i++) {
            const unsigned char *got = m->host[peer * OF_A_PAIR + i];
            size_t bytes = mesh_bytes(peer, comm->rank, i);
            for (size_t at = 0; at < bytes; at++)
                RANK_CHECK(got[at] == byte_of(peer * 64 + comm->rank * 8 + i, at));
            for (size_t at = bytes; at < SPACE; at++) RANK_CHECK(got[at] == 0xee);
        }
done:
    return st;
}

lr_status link_case_mesh(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    const link_case_setting *setting = arg;
    const lr_device_ops *ops = setting->device->ops;
    lr_link_message messages[2 * ITEMS];
    mesh *m = NULL;
    LR_TRY(LR_NEW(&m, 1, "a mesh", err));
    LR_TRY(ops->alloc(setting->device, ITEMS * SPACE, "what is sent", &m->out, err));
    LR_TRY(ops->alloc(setting->device, ITEMS * SPACE, "what comes", &m->in, err));
    LR_TRY(link_case_open(setting, comm, &m->link, err));
    lr_stream *stream = lr_link_stream(m->link);
    size_t n = list_mesh(m, comm, messages);
    ops->upload(stream, m->out, m->host, sizeof m->host);
    ops->fill(stream, m->in, 0xee, sizeof m->host);
    LR_TRY(lr_link_exchange(m->link, messages, n, "a mesh", err));
    LR_TRY(lr_link_exchange(m->link, messages, 0, "nothing", err));
    LR_TRY(lr_link_wait(m->link, NULL, err));
    ops->download(stream, m->host, m->in, sizeof m->host);
    LR_TRY(lr_link_wait(m->link, NULL, err));
    LR_TRY(check_mesh(m, comm, err));
done:
    if (m) {
        lr_link_free(m->link);
        ops->release(setting->device, m->in);
        ops->release(setting->device, m->out);
    }
    lr_free(m);
    return st;
}

/* ------------------------------------------------------------------ halo */

enum { EDGE = 500, ROWS = 3 };

/* host, at [ROWS, EDGE] */
static lr_status meet_neighbours(const link_case_setting *setting, lr_link *link, unsigned char *host, lr_device_at at,
                                 lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_device_ops *ops = setting->device->ops;
    lr_stream *stream = lr_link_stream(link);
    lr_link_message messages[4];
    size_t n = 0;
    for (int side = -1; side <= 1; side += 2) {
        int peer = comm->rank + side;
        if (peer < 0 || peer >= comm->size) continue;
        messages[n++] = (lr_link_message){peer, true, at + EDGE, EDGE};
        messages[n++] = (lr_link_message){peer, false, at + (side < 0 ? 0 : 2 * EDGE), EDGE};
    }
    for (int layer = 0; layer < 20; layer++) { /* more than are remembered */
        ops->fill(stream, at, 0xff, ROWS * EDGE);
        ops->fill(stream, at + EDGE, (unsigned char)(comm->rank * 20 + layer), EDGE);
        LR_TRY(lr_link_exchange(link, messages, n, "a halo", err));
        ops->download(stream, host, at, ROWS * EDGE);
        LR_TRY(lr_link_wait(link, NULL, err));
        for (size_t i = 0; i < ROWS * EDGE; i++) {
            int from = comm->rank + (int)(i / EDGE) - 1;
            bool there = from >= 0 && from < comm->size;
            RANK_CHECK(host[i] == (there ? (unsigned char)(from * 20 + layer) : 0xff));
        }
    }
done:
    return st;
}

static lr_status with_place(const link_case_setting *setting, lr_link *link, lr_comm *comm, lr_error *err)
{
    const lr_device_ops *ops = setting->device->ops;
    lr_device_at at = 0;
    unsigned char *host = NULL;
    lr_status st = LR_NEW(&host, ROWS * EDGE, "rows", err);
    if (st == LR_OK) st = ops->alloc(setting->device, ROWS * EDGE, "rows", &at, err);
    if (st == LR_OK) st = meet_neighbours(setting, link, host, at, comm, err);
    if (st != LR_OK) lr_link_abort(link, err->text);
    (void)lr_link_wait(link, NULL, NULL);
    (void)ops->wait(lr_link_stream(link), NULL); /* nothing reaches into the rows any more */
    ops->release(setting->device, at);
    lr_free(host);
    return st;
}

lr_status link_case_halo(void *arg, lr_comm *comm, lr_error *err)
{
    lr_link *link = NULL;
    lr_status st = link_case_open(arg, comm, &link, err);
    if (st == LR_OK) st = with_place(arg, link, comm, err);
    lr_link_free(link);
    return st;
}

/* ------------------------------------------------------------------ groups */

static lr_status use_part(const link_case_setting *setting, lr_link *whole, lr_comm *comm, int first, int count,
                          lr_error *err)
{
    lr_status st = LR_OK;
    lr_comm *group = NULL;
    lr_link *part = NULL;
    LR_TRY(lr_comm_split(comm, first, count, &group, err));
    LR_TRY(lr_link_split(whole, group, &part, err));
    RANK_CHECK(strcmp(lr_link_name(part), lr_link_name(whole)) == 0);
    LR_TRY(with_place(setting, part, group, err));
done:
    lr_link_free(part);
    if (group) lr_comm_free(group);
    return st;
}

lr_status link_case_split(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_link *whole = NULL;
    int pair = comm->rank / 2 * 2;
    LR_TRY(link_case_open(arg, comm, &whole, err));
    LR_TRY(use_part(arg, whole, comm, comm->rank, 1, err));
    LR_TRY(use_part(arg, whole, comm, pair, comm->size - pair < 2 ? 1 : 2, err));
    LR_TRY(use_part(arg, whole, comm, comm->rank == 0 ? 0 : 1, comm->rank == 0 ? 1 : comm->size - 1, err));
    LR_TRY(with_place(arg, whole, comm, err));
done:
    lr_link_free(whole);
    return st;
}

lr_status link_case_wrong_peer(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_link *link = NULL;
    const int peers[] = {-1, comm->rank, comm->size};
    LR_TRY(link_case_open(arg, comm, &link, err));
    for (size_t i = 0; i < 3; i++) {
        const lr_link_message message = {peers[i], true, 0, 1};
        lr_error mine = {0};
        RANK_CHECK(lr_link_exchange(link, &message, 1, "nobody", &mine) == LR_E_INTERNAL && mine.text[0]);
    }
    RANK_CHECK(lr_link_exchange(link, NULL, LR_LINK_MOST_MESSAGES + 1, "too many", NULL) == LR_E_INTERNAL);
    LR_TRY(with_place(arg, link, comm, err));
done:
    lr_link_free(link);
    return st;
}

const link_case link_cases[] = {
    {"ring", link_case_ring},   {"mesh", link_case_mesh},           {"halo", link_case_halo},
    {"split", link_case_split}, {"wrong peer", link_case_wrong_peer}, {NULL, NULL},
};
