/* A gather to one rank in pieces, over sends and receives of any back end. */
#include <longreel/comm.h>
#include <longreel/core.h>

static lr_status send_mine(lr_comm *comm, int root, const unsigned char *mine, size_t bytes,
                           size_t piece, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t at = 0; st == LR_OK && at < bytes; at += piece) {
        lr_transfer *transfer = NULL;
        size_t n = bytes - at < piece ? bytes - at : piece;
        st = lr_comm_send_start(comm, root, mine + at, n, &transfer, err);
        if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
        lr_comm_release(comm, transfer);
        if (bytes - at <= piece) break; /* at + piece may not fit in a size_t */
    }
    return st;
}

typedef struct gather_sink {
    lr_gather_sink take;
    void *arg;
} gather_sink;

/* One piece to the sink. A root that gives up tells the ranks that would wait for it. */
static lr_status hand_on(lr_comm *comm, const gather_sink *sink, int rank, const void *data,
                         size_t bytes, lr_error *err)
{
    lr_status st = sink->take(sink->arg, rank, data, bytes, err);
    if (st != LR_OK) lr_comm_abort(comm, err && err->text[0] ? err->text : lr_status_name(st));
    return st;
}

static lr_status take_piece(lr_comm *comm, int rank, void *buffer, size_t bytes,
                            const gather_sink *sink, lr_error *err)
{
    lr_transfer *transfer = NULL;
    const void *data = NULL;
    lr_status st = lr_comm_recv_start(comm, rank, buffer, bytes, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, &data, err);
    if (st == LR_OK) st = hand_on(comm, sink, rank, data, bytes, err);
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status take_from(lr_comm *comm, int rank, const unsigned char *mine, size_t bytes,
                           size_t piece, void *buffer, const gather_sink *sink, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t at = 0; st == LR_OK && at < bytes; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        if (rank == comm->rank)
            st = hand_on(comm, sink, rank, mine + at, n, err);
        else
            st = take_piece(comm, rank, buffer, n, sink, err);
        if (bytes - at <= piece) break;
    }
    return st;
}

static lr_status take_all(lr_comm *comm, const unsigned char *mine, const size_t *sizes,
                          size_t piece, const gather_sink *sink, lr_error *err)
{
    lr_status st = LR_OK;
    void *buffer = NULL;
    size_t most = 0;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && sizes[r] > most) most = sizes[r];
    if (most > piece) most = piece;
    if (!comm->shares_memory && most > 0) {
        buffer = lr_alloc(most);
        if (!buffer) LR_FAIL(LR_E_NOMEM, "out of memory: a gather buffer (%zu bytes)", most);
    }
    for (int r = 0; r < comm->size; r++)
        LR_TRY(take_from(comm, r, mine, sizes[r], piece, buffer, sink, err));
done:
    if (st == LR_E_NOMEM) lr_comm_abort(comm, "out of memory");
    lr_free(buffer);
    return st;
}

lr_status lr_comm_gather(lr_comm *comm, int root, const void *mine, const size_t *sizes,
                         size_t piece, lr_gather_sink sink, void *arg, lr_error *err)
{
    if (piece == 0 || root < 0 || root >= comm->size)
        return lr_fail(err, LR_E_INTERNAL, "a gather at rank %d of %d in pieces of %zu bytes",
                       root, comm->size, piece);
    if (comm->rank != root)
        return send_mine(comm, root, mine, sizes[comm->rank], piece, err);
    const gather_sink to = {sink, arg};
    return take_all(comm, mine, sizes, piece, &to, err);
}
