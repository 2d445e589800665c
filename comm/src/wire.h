/* What a world asks of the library that moves bytes between processes: MPI, or a stand-in for tests.
 * This is also what a plugin exports (lr_wire_get), so it is versioned.
 *
 * One thread makes all calls; none of them waits for another process but open and close. Messages of
 * one sender, receiver and tag arrive in the order of sending, and meet receives in the order of
 * posting. All functions return 0 or an error code for error_text. */
#ifndef LR_COMM_WIRE_H
#define LR_COMM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LR_WIRE_ABI 1u
#define LR_WIRE_ANY (-1)
/* No message is longer. */
#define LR_WIRE_MOST_BYTES ((size_t)1 << 30)

typedef uintptr_t lr_wire_request;

typedef struct lr_wire_place {
    int rank, size, node_size;
    int last_tag; /* tags are 0..last_tag */
} lr_wire_place;

typedef struct lr_wire_result { /* of a receive */
    int peer;
    size_t bytes;
    bool too_long;  /* the message did not fit; bytes is unknown */
    bool cancelled;
} lr_wire_result;

typedef struct lr_wire {
    unsigned abi;
    size_t struct_size;
    const char *name;
    int (*open)(void *ctx, lr_wire_place *place);
    int (*send)(void *ctx, int peer, int tag, const void *data, size_t bytes, lr_wire_request *out);
    int (*recv)(void *ctx, int peer, int tag, void *data, size_t bytes, lr_wire_request *out);
    /* A request that is done exists no longer. */
    int (*test)(void *ctx, lr_wire_request *request, bool *done, lr_wire_result *result);
    /* Of a receive; test then says whether it was cancelled or came first. */
    int (*cancel)(void *ctx, lr_wire_request *request);
    /* Is there a message that no receive was posted for? */
    int (*probe)(void *ctx, int peer, int tag, bool *there, size_t *bytes);
    void (*error_text)(void *ctx, int code, char *text, size_t size);
    int (*close)(void *ctx);
    /* Ends all processes; does not return where there is a launcher. */
    void (*abort)(void *ctx, int code);
} lr_wire;

typedef const lr_wire *(*lr_wire_get_function)(unsigned abi);
#define LR_WIRE_GET "lr_wire_get"

#endif
