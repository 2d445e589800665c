/* Inside of links: what the three kinds share, and what the NCCL plugin exports. */
#ifndef LR_COMM_LINK_H
#define LR_COMM_LINK_H

#include <longreel/core.h>
#include <longreel/link.h>

/* ------------------------------------------------------------------ the plugin
 *
 * NCCL's calls and what they mean; bootstrap, time limits and aborts are ours (link_nccl.c). No call waits. */

#define LR_NCCL_ABI 1u
#define LR_NCCL_ID_BYTES 128

typedef struct lr_nccl_library lr_nccl_library;
typedef struct lr_nccl_comm lr_nccl_comm;

typedef struct lr_nccl {
    unsigned abi;
    size_t struct_size;
    lr_status (*open)(lr_nccl_library **out, const char *file, lr_error *err);
    void (*close)(lr_nccl_library *library);
    lr_status (*unique_id)(lr_nccl_library *library, unsigned char id[LR_NCCL_ID_BYTES], lr_error *err);
    /* These three begin something; state tells when it is done. The device is current in the thread. */
    lr_status (*start)(lr_nccl_library *library, const unsigned char id[LR_NCCL_ID_BYTES], int size, int rank,
                       lr_nccl_comm **out, lr_error *err);
    lr_status (*split)(lr_nccl_comm *parent, int color, int key, lr_nccl_comm **out, lr_error *err);
    lr_status (*exchange)(lr_nccl_comm *comm, const lr_link_message *messages, size_t n, void *stream, lr_error *err);
    /* Fails once NCCL has found a fault. */
    lr_status (*state)(lr_nccl_comm *comm, bool *busy, lr_error *err);
    lr_status (*finish)(lr_nccl_comm *comm, lr_error *err); /* begins the end; then destroy */
    void (*destroy)(lr_nccl_comm *comm);
    /* Ends what is under way, at this rank, whatever its state; also frees. */
    void (*abort)(lr_nccl_comm *comm);
} lr_nccl;

typedef const lr_nccl *(*lr_nccl_get_function)(unsigned abi);
#define LR_NCCL_GET "lr_nccl_get"

/* ------------------------------------------------------------------ links */

typedef struct link_ops {
    const char *name;
    /* Collective; link->own is there. */
    lr_status (*open)(lr_link *link, const lr_link_options *options, lr_error *err);
    lr_status (*split)(lr_link *link, lr_link *parent, lr_error *err);
    lr_status (*exchange)(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err);
    lr_status (*poll)(lr_link *link, lr_error *err); /* may be NULL */
    void (*give_up)(lr_link *link);                  /* ends what is under way; may be NULL */
    void (*close)(lr_link *link, bool well);
} link_ops;

#define LINK_WHAT 64
enum { LINK_KEPT = 16 };

/* An exchange that may be under way: for messages. */
typedef struct link_exchange {
    uint64_t number;
    char what[LINK_WHAT];
    char peers[48]; /* "1, 2" */
    lr_event *done;
} link_exchange;

/* What ranks that copy tell each other: first (send) where the data lies, and when it is there; back, when it was
 * taken. */
typedef struct link_note {
    bool taken;
    lr_device_at at;
    size_t bytes;
    lr_event *event;
} link_note;

typedef struct link_item { /* of a message at hand */
    lr_transfer *note, *answer;
    link_note mine, in;
    void *staging;
} link_item;

struct lr_link {
    const link_ops *ops;
    lr_comm *comm; /* the caller's */
    lr_comm *own;  /* the link's: its abort is its own */
    lr_link *parent; /* while this one is split off: all of its ranks take part */
    lr_device *device;
    lr_stream *stream;
    lr_event *ready, *taken, *end;
    double peer_timeout;
    uint64_t n_exchanges;
    link_exchange kept[LINK_KEPT]; /* the latest; number % LINK_KEPT */
    lr_error failure;              /* the status is LR_OK while there is none */
    /* copies, staged */
    link_item *items;
    size_t items_capacity;
    unsigned char *staging;
    size_t staging_capacity;
    /* NCCL */
    const lr_nccl *nccl;
    lr_nccl_library *library;
    bool owns_library;
    lr_nccl_comm *nccl_comm;
};

extern const link_ops lr_link_copies, lr_link_staged, lr_link_nccl;

/* Waits until `done` is true; fails as soon as a rank aborted or is lost, the link's own poll fails, or the time
 * limit is over. `waiting_for`: "for exchange 3 (...) with ranks 1, 2". */
typedef bool (*link_condition)(lr_link *link, const void *arg);
lr_status lr_link_until(lr_link *link, link_condition done, const void *arg, const char *waiting_for, lr_error *err);

/* Once a process, from the plugin's file. */
lr_status lr_link_load_nccl(const lr_nccl **out, lr_error *err);
/* Tests: use this one instead. */
void lr_link_use_nccl(const lr_nccl *nccl);

#endif
