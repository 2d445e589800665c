/* Which way keys and values take: what the user said, or the cost model. */
#include <math.h>

#include <longreel/ring_sim.h>

#include "job.h"

/* A cost model needs no more than the order of magnitude: of a thread's attention, of messages between
 * processes of a machine and over a network, of the checksum. */
#define THREAD_FLOPS 20e9
#define LINK_WITHIN 4e9
#define LINK_BETWEEN 1e9
#define LATENCY_WITHIN 20e-6
#define LATENCY_BETWEEN 60e-6
#define CHECKSUM 8e9
/* Beyond, the simulation would take seconds itself: the exchange's own rule is good enough. */
#define MOST_PAIRS ((uint64_t)1 << 17)

const char *lr_schedule_name(lr_schedule schedule) {
    switch (schedule) {
    case LR_SCHEDULE_RING: return "ring";
    case LR_SCHEDULE_ALL_GATHER: return "all-gather";
    case LR_SCHEDULE_HALO: return "halo";
    case LR_SCHEDULE_TWO_LEVEL: return "two-level";
    case LR_SCHEDULE_AUTO: break;
    }
    return "auto";
}

lr_status lr_job_schedule(const lr_job *job, uint64_t n_tokens, lr_schedule *out, lr_error *err) {
    const lr_encode_options *o = job->options;
    lr_sim_layer layer = {.n_tokens = n_tokens, .chunk = o->chunk, .n_ranks = job->ranks,
                          .value_bytes = sizeof(float)};
    lr_sim_machine machine = {.flops = THREAD_FLOPS * job->threads, .link = LINK_WITHIN,
                              .link_between = LINK_BETWEEN, .latency = LATENCY_WITHIN,
                              .latency_between = LATENCY_BETWEEN, .check = CHECKSUM,
                              .node_ranks = job->ring_node};
    *out = o->schedule;
    if (job->ranks == 1 || o->schedule != LR_SCHEDULE_AUTO) return LR_OK;
    if (!lr_model_full_layer(job->model, &layer.n_heads, &layer.shape)) return LR_OK;
    if ((n_tokens / o->chunk + 1) * (uint64_t)job->ranks > MOST_PAIRS) return LR_OK;
    if (!job->comm) { /* nothing is copied */
        machine.shares_memory = true;
        machine.link = machine.link_between = INFINITY;
        machine.latency_between = machine.latency;
    }
    return lr_sim_choose(&layer, &machine, out, err);
}
