#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

const char *lr_version(void) {
    return LR_VERSION;
}

int lr_processors(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

/* A launcher may have bound this process to processors of its own, or left all to all. */
int lr_process_threads(int processes) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int mine = lr_processors(), each = online > 0 ? (int)online / processes : 1;
    return mine < each ? mine : each;
}

double lr_seconds_since(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + 1e-9 * (double)(now.tv_nsec - begin->tv_nsec);
}

void lr_error_about(lr_error *err, const char *path) {
    if (err && strncmp(err->text, path, strlen(path)) != 0) lr_error_context(err, "%s", path);
}

lr_encode_options lr_encode_defaults(void) {
    lr_encode_options options = {
        .fps = {1, 1},
        .segment = 10 * LR_TIME_SECOND,
        .hop = 10 * LR_TIME_SECOND,
        .start = LR_TIME_NONE,
        .end = LR_TIME_NONE,
        .video = true,
        .audio = true,
        .stamps = true,
        .audio_track = -1,
        .ranks = 1,
        .chunk = 1024,
    };
    return options;
}

/* "768, 512 or 256" */
static void list_numbers(char *text, size_t size, const int *numbers, size_t count) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int n = snprintf(text + used, size - used, "%s%d", between, numbers[i]);
        if (n > 0) used += (size_t)n;
    }
}

void lr_device_text(const lr_device_info *device, char text[LR_DEVICE_TEXT]) {
    snprintf(text, LR_DEVICE_TEXT, "%s, sm_%d%d", device->name, device->major, device->minor);
}

lr_status lr_check_model_options(const lr_encode_options *options, const lr_model_info *info,
                                 lr_error *err) {
    if (options->dim != 0) {
        bool known = false;
        for (size_t i = 0; i < info->n_dims; i++) known |= (size_t)info->dims[i] == options->dim;
        if (!known) {
            char widths[128];
            list_numbers(widths, sizeof widths, info->dims, info->n_dims);
            return lr_fail(err, LR_E_USAGE, "--dim %zu: %s gives vectors of %s values", options->dim,
                           info->name, widths);
        }
    }
    if (options->soft_tokens != 0) {
        bool known = false;
        for (size_t i = 0; i < info->n_budgets; i++) known |= info->budgets[i] == options->soft_tokens;
        if (!known) {
            char budgets[128];
            list_numbers(budgets, sizeof budgets, info->budgets, info->n_budgets);
            return lr_fail(err, LR_E_USAGE, "--soft-tokens %d: %s takes %s", options->soft_tokens,
                           info->name, budgets);
        }
    }
    return LR_OK;
}

/* Is there anything in a recording that the model can encode? */
static lr_status check_towers(const lr_encode_options *options, const lr_model_info *info,
                              lr_error *err) {
    if (!options->video && !options->audio) {
        return lr_fail(err, LR_E_USAGE, "--no-video together with --no-audio leaves nothing to encode");
    }
    if (!info->has_vision && !info->has_audio) {
        return lr_fail(err, LR_E_USAGE, "%s has neither a vision nor a sound tower: it cannot encode "
                       "recordings", info->name);
    }
    if (!options->audio && !info->has_vision) {
        return lr_fail(err, LR_E_USAGE, "--no-audio: %s has no vision tower, which leaves nothing to encode",
                       info->name);
    }
    if (!options->video && !info->has_audio) {
        return lr_fail(err, LR_E_USAGE, "--no-video: %s has no sound tower, which leaves nothing to encode",
                       info->name);
    }
    return LR_OK;
}

lr_status lr_encode_check(const lr_encode_options *options, const lr_model *model, lr_error *err) {
    if (options->fps.num <= 0 || options->fps.den <= 0) {
        return lr_fail(err, LR_E_USAGE, "--fps must be greater than 0");
    }
    if (options->fps.num > INT32_MAX || options->fps.den > INT32_MAX) {
        return lr_fail(err, LR_E_USAGE, "--fps: numerator and denominator must be below 2147483648");
    }
    if (options->segment <= 0) return lr_fail(err, LR_E_USAGE, "--segment must be greater than 0");
    if (options->hop <= 0) return lr_fail(err, LR_E_USAGE, "--hop must be greater than 0");
    if (options->chunk == 0 || options->chunk > (UINT64_C(1) << 24)) {
        return lr_fail(err, LR_E_USAGE, "--chunk must be between 1 and 16777216 tokens");
    }
    int ranks = options->comm ? options->comm->size : options->ranks;
    if (options->comm && options->ranks > 1) {
        return lr_fail(err, LR_E_USAGE, "--ranks %d: the launcher has started %d ranks", options->ranks, ranks);
    }
    if (options->ranks < 0 || options->ranks > LR_LOCAL_MAX) {
        return lr_fail(err, LR_E_USAGE, "--ranks must be between 1 and %d", LR_LOCAL_MAX);
    }
    if (options->threads < 0 || options->threads > 4096) {
        return lr_fail(err, LR_E_USAGE, "--threads must be between 1 and 4096");
    }
    if ((int)options->schedule < 0 || options->schedule > LR_SCHEDULE_TWO_LEVEL ||
        options->schedule == LR_SCHEDULE_HALO) {
        return lr_fail(err, LR_E_USAGE, "--schedule must be auto, ring, all-gather or two-level");
    }
    if (options->ring_node < 0) return lr_fail(err, LR_E_USAGE, "--node-ranks must be at least 1");
    if (!(options->peer_timeout >= 0) || isinf(options->peer_timeout)) {
        return lr_fail(err, LR_E_USAGE, "--peer-timeout must be 0 (none) or a number of seconds");
    }
    if (options->decode < LR_DECODE_AUTO || options->decode > LR_DECODE_VAAPI) {
        return lr_fail(err, LR_E_USAGE, "--decode must be auto, cpu, cuda or vaapi");
    }
    if (options->audio_track < -1) {
        return lr_fail(err, LR_E_USAGE, "--audio-track must be a number from 0 on, or -1 for the default");
    }
    if (options->start != LR_TIME_NONE && options->start < 0) {
        return lr_fail(err, LR_E_USAGE, "--start must not be negative");
    }
    if (options->end != LR_TIME_NONE && options->end <= 0) {
        return lr_fail(err, LR_E_USAGE, "--end must be greater than 0");
    }
    if (options->start != LR_TIME_NONE && options->end != LR_TIME_NONE &&
        options->start >= options->end) {
        return lr_fail(err, LR_E_USAGE, "--start must lie before --end");
    }
    if (options->save_stages && ranks > 1) {
        return lr_fail(err, LR_E_USAGE, "--save stages looks into one rank; use --ranks 1 with it");
    }
    lr_status st = check_towers(options, lr_model_info_of(model), err);
    return st == LR_OK ? lr_check_model_options(options, lr_model_info_of(model), err) : st;
}

void lr_encode_result_free(lr_encode_result *result) {
    if (!result) return;
    for (size_t i = 0; i < result->n_run_warnings; i++) lr_free(result->run_warnings[i].text);
    lr_free(result->run_warnings);
    lr_free(result->work);
    result->run_warnings = NULL;
    result->n_run_warnings = 0;
    result->work = NULL;
}
