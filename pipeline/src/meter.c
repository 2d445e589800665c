/* Progress: units done in the stage at hand, and the time left from the predicted weights of the
 * stages. The callback is called at most every 0.1 s, and at each stage's begin and end. */
#include <time.h>

#include "job.h"

lr_status lr_meter_init(lr_meter *meter, const lr_encode_options *options, const char *recording,
                        lr_error *err) {
    meter->callback = options->progress;
    meter->arg = options->progress_arg;
    meter->last = (lr_progress){.recording = recording, .remaining = -1};
    clock_gettime(CLOCK_MONOTONIC, &meter->begin);
    if (pthread_mutex_init(&meter->lock, NULL) != 0) {
        return lr_fail(err, LR_E_NOMEM, "no mutex for the progress");
    }
    meter->ready = true;
    return LR_OK;
}

void lr_meter_free(lr_meter *meter) {
    if (meter->ready) pthread_mutex_destroy(&meter->lock);
    meter->ready = false;
}

/* With the lock held. */
static void report(lr_meter *meter, double done, bool always) {
    lr_progress *p = &meter->last;
    double elapsed = lr_seconds_since(&meter->begin);
    if (!always && elapsed - p->elapsed < 0.1) return;
    p->elapsed = elapsed;
    p->done = done;
    if (p->stage >= LR_STAGE_TOWERS) {
        double of_window = p->stage == LR_STAGE_TOWERS ? done : 1;
        p->recording_seconds = ((double)meter->window + of_window) / (double)meter->windows * p->duration;
    }
    double spent = meter->spent_weight + done * meter->stage_weight;
    double share = meter->weight > 0 ? spent / meter->weight : 0;
    if (share > 1) share = 1; /* by rounding */
    p->remaining = share > 0.02 ? elapsed * (1 - share) / share : -1;
    if (meter->callback) meter->callback(meter->arg, p);
}

void lr_meter_window(lr_meter *meter, size_t w, size_t n) {
    pthread_mutex_lock(&meter->lock);
    meter->window = w;
    meter->windows = n;
    pthread_mutex_unlock(&meter->lock);
}

void lr_meter_stage(lr_meter *meter, lr_stage stage, uint64_t units, double weight) {
    pthread_mutex_lock(&meter->lock);
    meter->spent_weight += meter->stage_weight;
    meter->stage_weight = weight;
    meter->last.stage = stage;
    meter->units = units;
    atomic_store(&meter->units_done, 0);
    report(meter, 0, true);
    pthread_mutex_unlock(&meter->lock);
}

void lr_meter_add(lr_meter *meter, uint64_t units) {
    uint64_t now = atomic_fetch_add(&meter->units_done, units) + units;
    if (!meter->callback || meter->units == 0) return;
    if (now < meter->units && pthread_mutex_trylock(&meter->lock) != 0) return;
    if (now >= meter->units) pthread_mutex_lock(&meter->lock);
    double done = (double)atomic_load(&meter->units_done) / (double)meter->units;
    report(meter, done < 1 ? done : 1, now >= meter->units);
    pthread_mutex_unlock(&meter->lock);
}
