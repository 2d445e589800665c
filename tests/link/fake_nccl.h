/* A library in NCCL's place, for devices that are stand-ins (tests/cuda/standin): messages go through shared memory,
 * between threads and between processes. It has the calls that Longreel makes, and is stricter than NCCL:
 *
 * - a send ends when its receive has all of it (no hidden buffers), and a communicator's groups come one after another;
 * - nothing is done at once: communicators begin, groups are enqueued and ends come about only as one asks for the
 *   state;
 * - sizes that differ are a fault at both ends; calls at the wrong time or with handles that are gone are counted, with
 *   a line on stderr.
 *
 * From the environment, when a communicator begins:
 *   FAKE_NCCL_VERSION=21700         what ncclGetVersion says (22800)
 *   FAKE_NCCL_FAIL=ncclSend:1       this call fails at this rank
 *   FAKE_NCCL_FAULT=3:1             rank 1 finds a fault after its third group was enqueued */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

/* Calls that NCCL forbids, since the process began, and communicators that are still there. */
int fake_nccl_misuses(void);
int fake_nccl_live(void);

#endif
