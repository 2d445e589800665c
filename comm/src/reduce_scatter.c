/* Sums over ranks, each rank getting its part, over sends and receives of any back end. Every block goes
 * straight to the rank that it is for, which adds them in the order of the ranks: sums that grow on
 * their way round a ring would begin at another rank for each block. */
#include <longreel/comm.h>
#include <longreel/core.h>

#include <string.h>

#define RECEIVES_AHEAD 2

typedef struct reduction {
    lr_comm *comm;
    const unsigned char *mine;
    const size_t *counts;
    lr_dtype type;
    size_t value_bytes, n; /* n: of this rank's block */
    unsigned char *out;
    void *buffers[RECEIVES_AHEAD];
    lr_transfer *receives[RECEIVES_AHEAD];
    lr_transfer **sends; /* [size] */
} reduction;

static void add_block(const reduction *r, const void *block)
{
    if (r->type == LR_F64) {
        double *sum = (double *)(void *)r->out;
        for (size_t i = 0; i < r->n; i++) sum[i] += ((const double *)block)[i];
    } else {
        float *sum = (float *)(void *)r->out;
        for (size_t i = 0; i < r->n; i++) sum[i] += ((const float *)block)[i];
    }
}

static void take_block(const reduction *r, int from, const void *block)
{
    if (from == 0)
        memcpy(r->out, block, r->n * r->value_bytes);
    else
        add_block(r, block);
}

/* Starts all sends; *own is where this rank's own block begins. */
static lr_status send_blocks(reduction *r, const unsigned char **own, lr_error *err)
{
    const unsigned char *block = r->mine;
    for (int peer = 0; peer < r->comm->size; peer++) {
        size_t bytes = r->counts[peer] * r->value_bytes;
        if (peer == r->comm->rank) {
            *own = block;
        } else if (bytes > 0) {
            lr_status st = lr_comm_send_start(r->comm, peer, block, bytes, &r->sends[peer], err);
            if (st != LR_OK) return st;
        }
        block += bytes;
    }
    return LR_OK;
}

static lr_status take_blocks(reduction *r, const unsigned char *own, lr_error *err)
{
    lr_status st = LR_OK;
    int posted = 0; /* the next rank to be received from */
    size_t bytes = r->n * r->value_bytes, n_posted = 0, n_taken = 0;
    for (int from = 0; from < r->comm->size && bytes > 0; from++) {
        for (; posted < r->comm->size && n_posted < n_taken + RECEIVES_AHEAD; posted++) {
            if (posted == r->comm->rank) continue;
            size_t slot = n_posted++ % RECEIVES_AHEAD;
            LR_TRY(lr_comm_recv_start(r->comm, posted, r->buffers[slot], bytes, &r->receives[slot],
                                      err));
        }
        if (from == r->comm->rank) {
            take_block(r, from, own);
            continue;
        }
        const void *block = NULL;
        size_t slot = n_taken++ % RECEIVES_AHEAD;
        LR_TRY(lr_comm_wait(r->comm, r->receives[slot], &block, err));
        take_block(r, from, block);
        lr_comm_release(r->comm, r->receives[slot]);
        r->receives[slot] = NULL;
    }
done:
    return st;
}

static lr_status take_buffers(reduction *r, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(&r->sends, (size_t)r->comm->size, "a sum's sends", err));
    for (int i = 0; i < RECEIVES_AHEAD && !r->comm->shares_memory && r->comm->size > i + 1; i++)
        LR_TRY(lr_new_array(&r->buffers[i], r->n, r->value_bytes, "a block to be added", err));
done:
    return st;
}

lr_status lr_comm_reduce_scatter(lr_comm *comm, lr_dtype type, const void *mine,
                                 const size_t *counts, void *out, lr_error *err)
{
    lr_status st = LR_OK;
    lr_error own_err = {0};
    const unsigned char *own = NULL;
    reduction r = {.comm = comm,
                   .mine = mine,
                   .counts = counts,
                   .type = type,
                   .value_bytes = type == LR_F64 ? sizeof(double) : sizeof(float),
                   .n = counts[comm->rank],
                   .out = out};
    if (type != LR_F32 && type != LR_F64)
        return lr_fail(err, LR_E_INTERNAL, "sums are of fp32 or fp64");
    st = take_buffers(&r, &own_err);
    if (st == LR_OK) st = send_blocks(&r, &own, &own_err);
    if (st == LR_OK) st = take_blocks(&r, own, &own_err);
    for (int peer = 0; st == LR_OK && peer < comm->size; peer++)
        if (r.sends[peer]) st = lr_comm_wait(comm, r.sends[peer], NULL, &own_err);
    if (st != LR_OK) {
        lr_comm_abort(comm, own_err.text);
        (void)lr_fail(err, st, "%s", own_err.text);
    }
    for (int i = 0; i < RECEIVES_AHEAD; i++) {
        lr_comm_release(comm, r.receives[i]);
        lr_free(r.buffers[i]);
    }
    for (int peer = 0; r.sends && peer < comm->size; peer++) lr_comm_release(comm, r.sends[peer]);
    lr_free(r.sends);
    return st;
}
