/* tokens.safetensors of embed: small, kept in memory. */
#include <string.h>

#include "job.h"

lr_status lr_named_rows_add(lr_named_rows *rows, const lr_layout *layout, const float *hidden,
                            size_t width, lr_error *err) {
    lr_status st = LR_OK;
    uint64_t n = rows->n + layout->n_tokens;
    LR_TRY(LR_GROW(&rows->ids, &rows->ids_capacity, n, "saved tokens", err));
    LR_TRY(LR_GROW(&rows->times, &rows->times_capacity, n, "saved tokens", err));
    LR_TRY(LR_GROW(&rows->hidden, &rows->hidden_capacity, n * width, "saved tokens", err));
    memcpy(rows->ids + rows->n, layout->ids, layout->n_tokens * sizeof *rows->ids);
    memcpy(rows->hidden + rows->n * width, hidden, layout->n_tokens * width * sizeof *hidden);
    for (size_t i = 0; i < layout->n_spans; i++) {
        const lr_span *span = &layout->spans[i];
        for (uint64_t t = 0; t < span->count; t++) {
            rows->times[rows->n + span->first + t] = lr_time_seconds(span->time);
        }
    }
    rows->n = n;
    rows->width = width;
done:
    return st;
}

lr_status lr_named_rows_write(const lr_named_rows *rows, const char *path, lr_error *err) {
    const lr_named_tensor tensors[] = {
        {"input_ids", {.dtype = LR_I32, .n_dims = 1, .dims = {rows->n}, .data = rows->ids}},
        {"hidden", {.dtype = LR_F32, .n_dims = 2, .dims = {rows->n, rows->width}, .data = rows->hidden}},
        {"time", {.dtype = LR_F64, .n_dims = 1, .dims = {rows->n}, .data = rows->times}},
    };
    return lr_safetensors_write(path, tensors, sizeof tensors / sizeof *tensors, err);
}

void lr_named_rows_free(lr_named_rows *rows) {
    lr_free(rows->ids);
    lr_free(rows->times);
    lr_free(rows->hidden);
    memset(rows, 0, sizeof *rows);
}
