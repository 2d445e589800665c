#include "rank_cases.h"

#include <stdint.h>
#include <string.h>

#include <longreel/core.h>

#include "rank_check.h"

/* ------------------------------------------------------------------ transfers */

/* Message i from a to b holds bytes that follow from (a, b, i), and so does its length. */
enum { MESSAGES = 40, MOST_BYTES = 300 };

static size_t message_bytes(int from, int to, int i)
{
    return (size_t)((from * 131 + to * 31 + i * 17) % MOST_BYTES);
}

static unsigned char message_byte(int from, int to, int i, size_t at)
{
    return (unsigned char)((size_t)(from * 7 + to * 3 + i) + at);
}

typedef struct mesh {
    unsigned char *data; /* [size, MESSAGES, MOST_BYTES] */
    unsigned char *buffers; /* the same, for receives where memory is not shared */
    lr_transfer **sends, **receives; /* [size, MESSAGES] */
} mesh;

static size_t mesh_at(int peer, int i)
{
    return (size_t)peer * MESSAGES + (size_t)i;
}

static lr_status start_mesh(mesh *m, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    for (int i = 0; i < MESSAGES; i++) {
        for (int peer = 0; peer < comm->size; peer++) {
            if (peer == comm->rank) continue;
            unsigned char *data = m->data + mesh_at(peer, i) * MOST_BYTES;
            size_t bytes = message_bytes(comm->rank, peer, i);
            for (size_t at = 0; at < bytes; at++)
                data[at] = message_byte(comm->rank, peer, i, at);
            LR_TRY(lr_comm_send_start(comm, peer, data, bytes, &m->sends[mesh_at(peer, i)], err));
            LR_TRY(lr_comm_recv_start(comm, peer, m->buffers + mesh_at(peer, i) * MOST_BYTES,
                                      message_bytes(peer, comm->rank, i),
                                      &m->receives[mesh_at(peer, i)], err));
        }
    }
done:
    return st;
}

/* Waits in an order of its own: the data does not depend on it. */
static lr_status check_mesh(mesh *m, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    for (int step = 0; step < MESSAGES * comm->size; step++) {
        int k = (step * 7 + comm->rank) % (MESSAGES * comm->size);
        int peer = k / MESSAGES, i = k % MESSAGES;
        if (peer == comm->rank || !m->receives[k]) continue;
        const void *data = NULL;
        LR_TRY(lr_comm_wait(comm, m->receives[k], &data, err));
        for (size_t at = 0; at < message_bytes(peer, comm->rank, i); at++)
            RANK_CHECK(((const unsigned char *)data)[at] == message_byte(peer, comm->rank, i, at));
        lr_comm_release(comm, m->receives[k]);
        m->receives[k] = NULL;
    }
    for (size_t k = 0; k < (size_t)(MESSAGES * comm->size); k++)
        if (m->sends[k]) LR_TRY(lr_comm_wait(comm, m->sends[k], NULL, err));
done:
    return st;
}

lr_status rank_case_mesh(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    mesh m = {0};
    const lr_comm_stats before = comm->stats;
    size_t n = (size_t)comm->size * MESSAGES;
    LR_TRY(LR_NEW(&m.data, n * MOST_BYTES, "data", err));
    LR_TRY(LR_NEW(&m.buffers, n * MOST_BYTES, "buffers", err));
    LR_TRY(LR_NEW(&m.sends, n, "sends", err));
    LR_TRY(LR_NEW(&m.receives, n, "receives", err));
    LR_TRY(start_mesh(&m, comm, err));
    LR_TRY(check_mesh(&m, comm, err));
    RANK_CHECK(comm->stats.messages_sent - before.messages_sent ==
               (uint64_t)(comm->size - 1) * MESSAGES);
    RANK_CHECK(comm->stats.messages_received - before.messages_received ==
               (uint64_t)(comm->size - 1) * MESSAGES);
done:
    if (st != LR_OK) lr_comm_abort(comm, err->text);
    for (size_t k = 0; k < n; k++) {
        if (m.receives) lr_comm_release(comm, m.receives[k]);
        if (m.sends) lr_comm_release(comm, m.sends[k]);
    }
    lr_free(m.receives);
    lr_free(m.sends);
    lr_free(m.buffers);
    lr_free(m.data);
    return st;
}

lr_status rank_case_wrong_peer(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_transfer *transfer;
    const int peers[] = {-1, comm->rank, comm->size};
    for (size_t i = 0; i < 3; i++) {
        lr_error mine = {0};
        RANK_CHECK(lr_comm_send_start(comm, peers[i], "x", 1, &transfer, &mine) == LR_E_INTERNAL);
        RANK_CHECK(!transfer && mine.text[0]);
        RANK_CHECK(lr_comm_recv_start(comm, peers[i], NULL, 1, &transfer, NULL) == LR_E_INTERNAL);
    }
done:
    return st;
}

/* ------------------------------------------------------------------ collectives */

lr_status rank_case_collectives(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    int values[LR_LOCAL_MAX];
    uint64_t before = comm->stats.messages_sent;
    for (int round = 0; round < 20; round++) {
        int root = round % comm->size, text[3] = {0, 0, 0};
        if (comm->rank == root) text[0] = text[1] = text[2] = round;
        LR_TRY(lr_comm_broadcast(comm, root, text, sizeof text, err));
        RANK_CHECK(text[0] == round && text[1] == round && text[2] == round);
        int mine = comm->rank * 100 + round;
        LR_TRY(lr_comm_all_gather(comm, &mine, sizeof mine, values, err));
        for (int r = 0; r < comm->size; r++) RANK_CHECK(values[r] == r * 100 + round);
        LR_TRY(lr_comm_barrier(comm, err));
        LR_TRY(lr_comm_broadcast(comm, root, NULL, 0, err));
        LR_TRY(lr_comm_all_gather(comm, NULL, 0, NULL, err));
    }
    RANK_CHECK(comm->stats.messages_sent == before);
done:
    return st;
}

lr_status rank_case_broadcast_between_messages(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_transfer *send = NULL, *receive = NULL;
    int arrived = 0, mine = comm->rank + 10, from_root = comm->rank == 0 ? 7 : 0;
    const void *data = NULL;
    if (comm->rank > 1) return lr_comm_broadcast(comm, 0, &from_root, sizeof from_root, err);
    if (comm->size == 1) return LR_OK;
    LR_TRY(lr_comm_recv_start(comm, 1 - comm->rank, &arrived, sizeof mine, &receive, err));
    LR_TRY(lr_comm_broadcast(comm, 0, &from_root, sizeof from_root, err));
    RANK_CHECK(from_root == 7);
    LR_TRY(lr_comm_send_start(comm, 1 - comm->rank, &mine, sizeof mine, &send, err));
    LR_TRY(lr_comm_wait(comm, receive, &data, err));
    RANK_CHECK(*(const int *)data == 11 - comm->rank);
    lr_comm_release(comm, receive);
    receive = NULL;
    LR_TRY(lr_comm_wait(comm, send, NULL, err));
done:
    lr_comm_release(comm, receive);
    lr_comm_release(comm, send);
    return st;
}

/* ------------------------------------------------------------------ gather */

typedef struct gathered {
    size_t piece;
    size_t bytes; /* taken so far */
    int rank;     /* of the last piece */
    size_t of_rank;
} gathered;

static size_t gather_bytes(int rank)
{
    return (size_t)(rank % 3 == 2 ? 0 : 1000 + rank * 77);
}

static lr_status check_piece(void *arg, int rank, const void *data, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    gathered *g = arg;
    RANK_CHECK(rank >= g->rank && bytes > 0 && bytes <= g->piece);
    if (rank != g->rank) g->of_rank = 0;
    g->rank = rank;
    for (size_t at = 0; at < bytes; at++)
        RANK_CHECK(((const unsigned char *)data)[at] ==
                   (unsigned char)(g->of_rank + at + (size_t)rank));
    g->of_rank += bytes;
    g->bytes += bytes;
    RANK_CHECK(g->of_rank <= gather_bytes(rank));
done:
    return st;
}

lr_status rank_case_gather(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    static const size_t pieces[] = {1, 77, 1000, SIZE_MAX};
    lr_status st = LR_OK;
    size_t bytes[LR_LOCAL_MAX], total = 0;
    unsigned char mine[4000];
    for (int r = 0; r < comm->size; r++) total += bytes[r] = gather_bytes(r);
    for (size_t at = 0; at < bytes[comm->rank]; at++)
        mine[at] = (unsigned char)(at + (size_t)comm->rank);
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        gathered g = {.piece = pieces[p]};
        int root = comm->size / 2;
        LR_TRY(lr_comm_gather(comm, root, mine, bytes, g.piece, check_piece, &g, err));
        RANK_CHECK(g.bytes == (comm->rank == root ? total : 0));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ reduce-scatter */

enum { MOST_VALUES = 60 };

static size_t block_values(int rank, int round)
{
    return (size_t)((rank * 7 + round * 5) % MOST_VALUES);
}

/* Of very different sizes and both signs, so that another order gives other bits. */
static double term(int from, int to, size_t i)
{
    uint64_t x = ((uint64_t)from * 1000003 + (uint64_t)to * 10007 + i + 1) * 0x9e3779b97f4a7c15u;
    double value = (double)(x >> 40) / 3.0;
    for (int halvings = (int)(x >> 8 & 31); halvings > 0; halvings--) value /= 2;
    return x & 1 ? value : -value;
}

static lr_status check_sums(lr_comm *comm, int round, bool wide, lr_error *err)
{
    lr_status st = LR_OK;
    size_t counts[LR_LOCAL_MAX], total = 0, n = block_values(comm->rank, round), at = 0;
    double *wide_mine = NULL, wide_out[MOST_VALUES];
    float *mine = NULL, out[MOST_VALUES];
    for (int r = 0; r < comm->size; r++) total += counts[r] = block_values(r, round);
    LR_TRY(LR_NEW(&wide_mine, total, "terms", err));
    LR_TRY(LR_NEW(&mine, total, "terms", err));
    for (int r = 0; r < comm->size; r++)
        for (size_t i = 0; i < counts[r]; i++, at++)
            mine[at] = (float)(wide_mine[at] = term(comm->rank, r, i));
    LR_TRY(lr_comm_reduce_scatter(comm, wide ? LR_F64 : LR_F32, wide ? (void *)wide_mine : mine, counts,
                                  wide ? (void *)wide_out : out, err));
    for (size_t i = 0; i < n; i++) {
        double wide_sum = term(0, comm->rank, i);
        float sum = (float)wide_sum;
        for (int r = 1; r < comm->size; r++) {
            wide_sum += term(r, comm->rank, i);
            sum += (float)term(r, comm->rank, i);
        }
        RANK_CHECK(wide ? memcmp(&wide_sum, &wide_out[i], sizeof wide_sum) == 0
                        : memcmp(&sum, &out[i], sizeof sum) == 0);
    }
done:
    lr_free(mine);
    lr_free(wide_mine);
    return st;
}

lr_status rank_case_reduce_scatter(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    size_t counts[LR_LOCAL_MAX] = {0};
    RANK_CHECK(lr_comm_reduce_scatter(comm, LR_I32, "", counts, counts, NULL) == LR_E_INTERNAL);
    LR_TRY(lr_comm_reduce_scatter(comm, LR_F32, "", counts, counts, err));
    for (int round = 0; round < 6; round++) {
        uint64_t before = comm->stats.bytes_sent, values = 0;
        LR_TRY(check_sums(comm, round, false, err));
        LR_TRY(check_sums(comm, round, true, err));
        for (int r = 0; r < comm->size; r++) values += r == comm->rank ? 0 : block_values(r, round);
        RANK_CHECK(comm->stats.bytes_sent - before == values * (sizeof(float) + sizeof(double)));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ split */

static lr_status use_group(lr_comm *group, int first, lr_error *err)
{
    lr_status st = LR_OK;
    int all[LR_LOCAL_MAX], mine = first + group->rank;
    LR_TRY(lr_comm_all_gather(group, &mine, sizeof mine, all, err));
    for (int r = 0; r < group->size; r++) RANK_CHECK(all[r] == first + r);
    LR_TRY(rank_case_mesh(NULL, group, err));
    LR_TRY(lr_comm_barrier(group, err));
done:
    return st;
}

static lr_status split_in(lr_comm *comm, int each, int base, lr_error *err)
{
    lr_status st = LR_OK;
    lr_comm *group = NULL;
    int first = comm->rank / each * each;
    int count = comm->size - first < each ? comm->size - first : each;
    LR_TRY(lr_comm_split(comm, first, count, &group, err));
    RANK_CHECK(group->rank == comm->rank - first && group->size == count);
    LR_TRY(use_group(group, base + first, err));
    if (count > 2) LR_TRY(split_in(group, 2, base + first, err));
done:
    if (st != LR_OK && group) lr_comm_abort(group, err ? err->text : "failed");
    lr_comm_free(group);
    return st;
}

lr_status rank_case_split(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_comm *group = NULL;
    RANK_CHECK(lr_comm_split(comm, comm->rank + 1, 1, &group, NULL) == LR_E_INTERNAL && !group);
    RANK_CHECK(lr_comm_split(comm, comm->rank, comm->size - comm->rank + 1, &group, NULL) ==
               LR_E_INTERNAL);
    for (int each = 1; each <= comm->size; each += each < 3 ? 1 : comm->size)
        LR_TRY(split_in(comm, each, 0, err));
    LR_TRY(split_in(comm, comm->size, 0, err));
done:
    return st;
}

/* ------------------------------------------------------------------ abort */

typedef lr_status (*one_call)(lr_comm *comm, lr_error *err);

static lr_status call_receive(lr_comm *comm, lr_error *err)
{
    lr_transfer *transfer = NULL;
    char byte;
    lr_status st = lr_comm_recv_start(comm, 0, &byte, 1, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status call_barrier(lr_comm *comm, lr_error *err)
{
    return lr_comm_barrier(comm, err);
}

static lr_status call_broadcast(lr_comm *comm, lr_error *err)
{
    char data;
    return lr_comm_broadcast(comm, 0, &data, 1, err);
}

static lr_status call_all_gather(lr_comm *comm, lr_error *err)
{
    char data[LR_LOCAL_MAX];
    return lr_comm_all_gather(comm, "x", 1, data, err);
}

static lr_status call_split(lr_comm *comm, lr_error *err)
{
    lr_comm *group;
    return lr_comm_split(comm, 0, comm->size, &group, err);
}

static const one_call calls[] = {call_receive, call_barrier, call_broadcast, call_all_gather,
                                 call_split};
#define N_CALLS (sizeof calls / sizeof *calls)

enum { ABANDONED = 3000000 };

/* Rank 0 leaves a large message and a small one that nobody takes, and a receive that nobody serves. */
static lr_status abort_with_messages(lr_comm *group, unsigned char *memory, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *t[3] = {NULL};
    int last = group->size - 1;
    if (last > 0) {
        LR_TRY(lr_comm_send_start(group, last, memory, ABANDONED, &t[0], err));
        LR_TRY(lr_comm_send_start(group, last, memory, 10, &t[1], err));
        LR_TRY(lr_comm_recv_start(group, 1, memory + ABANDONED, 10, &t[2], err));
    }
    lr_comm_abort(group, "the disk is full");
    lr_comm_abort(group, "a second reason");
done:
    for (int i = 0; i < 3; i++) lr_comm_release(group, t[i]);
    memset(memory, 0, 2 * ABANDONED);
    return st;
}

static lr_status be_told(lr_comm *group, one_call call, lr_error *err)
{
    lr_status st = LR_OK;
    lr_error mine = {0};
    /* The last rank's receive of a byte would meet the large message: its size is another case. */
    if (call == call_receive && group->rank == group->size - 1) call = call_barrier;
    RANK_CHECK(call(group, &mine) == LR_E_PEER);
    RANK_CHECK(strcmp(mine.text, "rank 0 stopped the run: the disk is full") == 0);
    for (size_t i = 0; i < N_CALLS; i++) RANK_CHECK(calls[i](group, NULL) == LR_E_PEER);
    RANK_CHECK(lr_comm_check(group, NULL) == LR_E_PEER);
done:
    return st;
}

lr_status rank_case_abort_of_a_part(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_comm *group = NULL;
    unsigned char *memory = NULL;
    LR_TRY(LR_NEW(&memory, 2 * ABANDONED, "memory", err));
    for (size_t i = 0; i < N_CALLS; i++) {
        LR_TRY(lr_comm_split(comm, 0, comm->size, &group, err));
        if (comm->rank == 0)
            LR_TRY(abort_with_messages(group, memory, err));
        else
            LR_TRY(be_told(group, calls[i], err));
        lr_comm_free(group);
        group = NULL;
        LR_TRY(rank_case_mesh(NULL, comm, err));
    }
done:
    if (st != LR_OK && group) lr_comm_abort(group, err ? err->text : "failed");
    lr_comm_free(group);
    lr_free(memory);
    return st;
}

/* ------------------------------------------------------------------ large messages */

enum { LARGE_WORDS = 1 << 20, LARGE_ROUNDS = 3 };

static uint32_t word_of(int rank, int round, size_t at)
{
    return (uint32_t)at * 2654435761u + (uint32_t)rank * 97u + (uint32_t)round;
}

static lr_status send_round(lr_comm *comm, int round, uint32_t *mine, uint32_t *buffer, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *send = NULL, *receive = NULL;
    const void *data = NULL;
    const size_t bytes = LARGE_WORDS * sizeof *mine;
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    for (size_t i = 0; i < LARGE_WORDS; i++) mine[i] = word_of(comm->rank, round, i);
    LR_TRY(lr_comm_send_start(comm, next, mine, bytes, &send, err));
    LR_TRY(lr_comm_recv_start(comm, before, buffer, bytes, &receive, err));
    LR_TRY(lr_comm_wait(comm, receive, &data, err));
    for (size_t i = 0; i < LARGE_WORDS; i++)
        RANK_CHECK(((const uint32_t *)data)[i] == word_of(before, round, i));
    lr_comm_release(comm, receive);
    receive = NULL;
    LR_TRY(lr_comm_wait(comm, send, NULL, err));
done:
    if (st != LR_OK) lr_comm_abort(comm, err ? err->text : "failed");
    lr_comm_release(comm, send);
    lr_comm_release(comm, receive);
    return st;
}

lr_status rank_case_large(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    uint32_t *mine = NULL, *buffer = NULL;
    if (comm->size == 1) return LR_OK;
    LR_TRY(LR_NEW(&mine, LARGE_WORDS, "a large message", err));
    LR_TRY(LR_NEW(&buffer, LARGE_WORDS, "a large message", err));
    for (int round = 0; round < LARGE_ROUNDS; round++)
        LR_TRY(send_round(comm, round, mine, buffer, err));
done:
    if (st != LR_OK) lr_comm_abort(comm, err ? err->text : "failed");
    lr_free(buffer);
    lr_free(mine);
    return st;
}

const rank_case rank_cases[] = {
    {"messages of a pair arrive in order", rank_case_mesh},
    {"a peer outside of the group is refused", rank_case_wrong_peer},
    {"broadcast, all-gather and barrier reach every rank", rank_case_collectives},
    {"a broadcast passes messages under way", rank_case_broadcast_between_messages},
    {"a gather brings all bytes in pieces", rank_case_gather},
    {"sums are those of a loop over the ranks", rank_case_reduce_scatter},
    {"groups of ranks work by themselves", rank_case_split},
    {"an abort ends only the group it is made in", rank_case_abort_of_a_part},
    {"large messages go round the ring", rank_case_large},
    {NULL, NULL},
};
