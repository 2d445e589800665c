/* The wire over MPI: a plugin, built once against each MPI that is there.
 *
 * Only the thread that opened it calls MPI, so MPI_THREAD_FUNNELED is all that is asked for. */
#include "wire.h"

#include <mpi.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(lr_wire_request), "a request fits in a word");

static MPI_Comm messages = MPI_COMM_NULL;

static MPI_Request request_of(const lr_wire_request *word)
{
    MPI_Request request;
    memcpy(&request, word, sizeof request);
    return request;
}

static void store(lr_wire_request *word, MPI_Request request)
{
    *word = 0;
    memcpy(word, &request, sizeof request);
}

static int count_node(int *size)
{
    MPI_Comm node = MPI_COMM_NULL;
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(node, size);
    if (code == MPI_SUCCESS) code = MPI_Comm_free(&node);
    return code;
}

static int wire_open(void *ctx, lr_wire_place *place)
{
    (void)ctx;
    int level, found = 0, *last = NULL, code;
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &messages);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(messages, &place->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(messages, &place->size);
    if (code == MPI_SUCCESS) code = MPI_Comm_get_attr(messages, MPI_TAG_UB, &last, &found);
    if (code == MPI_SUCCESS) code = count_node(&place->node_size);
    place->last_tag = found ? *last : 32767; /* what the standard promises */
    return code;
}

static int wire_send(void *ctx, int peer, int tag, const void *data, size_t bytes,
                     lr_wire_request *out)
{
    (void)ctx;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, messages, &request);
    store(out, request);
    return code;
}

static int wire_recv(void *ctx, int peer, int tag, void *data, size_t bytes, lr_wire_request *out)
{
    (void)ctx;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, peer == LR_WIRE_ANY ? MPI_ANY_SOURCE : peer,
                         tag, messages, &request);
    store(out, request);
    return code;
}

static int wire_test(void *ctx, lr_wire_request *word, bool *done, lr_wire_result *result)
{
    (void)ctx;
    MPI_Request request = request_of(word);
    MPI_Status status;
    int flag = 0, count = 0, cancelled = 0, kind = MPI_SUCCESS;
    int code = MPI_Test(&request, &flag, &status);
    store(word, request);
    if (code != MPI_SUCCESS) (void)MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE) {
        *done = true;
        *result = (lr_wire_result){.peer = status.MPI_SOURCE, .too_long = true};
        return 0;
    }
    *done = flag != 0;
    if (code != MPI_SUCCESS || !flag) return code;
    code = MPI_Test_cancelled(&status, &cancelled);
    if (code == MPI_SUCCESS && !cancelled) code = MPI_Get_count(&status, MPI_BYTE, &count);
    *result = (lr_wire_result){.peer = status.MPI_SOURCE,
                               .bytes = count > 0 ? (size_t)count : 0,
                               .cancelled = cancelled != 0};
    return code;
}

static int wire_cancel(void *ctx, lr_wire_request *word)
{
    (void)ctx;
    MPI_Request request = request_of(word);
    int code = MPI_Cancel(&request);
    store(word, request);
    return code;
}

static int wire_probe(void *ctx, int peer, int tag, bool *there, size_t *bytes)
{
    (void)ctx;
    MPI_Status status;
    int flag = 0, count = 0;
    int code = MPI_Iprobe(peer, tag, messages, &flag, &status);
    if (code == MPI_SUCCESS && flag) code = MPI_Get_count(&status, MPI_BYTE, &count);
    *there = flag != 0;
    *bytes = count > 0 ? (size_t)count : 0;
    return code;
}

static void wire_error_text(void *ctx, int code, char *text, size_t size)
{
    (void)ctx;
    char whole[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, whole, &length) != MPI_SUCCESS)
        (void)snprintf(whole, sizeof whole, "error %d", code);
    whole[strcspn(whole, "\n")] = '\0';
    (void)snprintf(text, size, "%s", whole);
}

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40200000
/* MPI_Finalize of MPICH before 4.2 may not return over UCX and TCP: ranks wait in it for others that look
 * after their connections no more (they sit in a barrier of the launcher). So these ranks take leave of
 * the launcher themselves, in its protocol (PMI 1), and the process ends without it. False: no such
 * launcher. */
static bool take_leave(void)
{
    static const char message[] = "cmd=finalize\n";
    const char *text = getenv("PMI_FD");
    char answer = 0, *end = NULL;
    long fd = text && *text ? strtol(text, &end, 10) : -1;
    if (fd < 0 || fd > INT_MAX || *end) return false;
    if (write((int)fd, message, sizeof message - 1) != (ssize_t)sizeof message - 1) return false;
    while (answer != '\n' && read((int)fd, &answer, 1) == 1) continue;
    return answer == '\n';
}
#else
static bool take_leave(void)
{
    return false;
}
#endif

static int wire_close(void *ctx)
{
    (void)ctx;
    int code = MPI_Barrier(messages); /* nobody goes while others still talk */
    if (code != MPI_SUCCESS || take_leave()) return code;
    code = MPI_Comm_free(&messages);
    return code == MPI_SUCCESS ? MPI_Finalize() : code;
}

static void wire_abort(void *ctx, int exit_status)
{
    (void)ctx;
    (void)MPI_Abort(MPI_COMM_WORLD, exit_status);
}

static const lr_wire wire = {
    .abi = LR_WIRE_ABI,
    .struct_size = sizeof(lr_wire),
    .name = LR_MPI_NAME,
    .open = wire_open,
    .send = wire_send,
    .recv = wire_recv,
    .test = wire_test,
    .cancel = wire_cancel,
    .probe = wire_probe,
    .error_text = wire_error_text,
    .close = wire_close,
    .abort = wire_abort,
};

const lr_wire *lr_wire_get(unsigned abi);

__attribute__((visibility("default"))) const lr_wire *lr_wire_get(unsigned abi)
{
    return abi == LR_WIRE_ABI ? &wire : NULL;
}
