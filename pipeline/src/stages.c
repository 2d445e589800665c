#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <longreel/store.h>

#include "stages.h"

typedef struct stage {
    char name[32];
    int n_layers; /* 0: rows of no layer */
    lr_dtype dtype;
    size_t n_dims, dims[LR_MAX_DIMS]; /* of one row: without the leading axis */
    size_t row_bytes;
    uint64_t rows, item; /* item: rows before the item at hand */
    struct {
        unsigned char *data;
        size_t capacity; /* bytes */
    } layer[256];
} stage;

#define MAX_LAYERS 256

struct lr_stage_store {
    pthread_mutex_t lock;
    stage **stages;
    size_t count, capacity;
};

lr_status lr_stage_store_create(lr_stage_store **out, lr_error *err) {
    lr_status st = LR_NEW(out, 1, "the stages to be saved", err);
    if (st == LR_OK) pthread_mutex_init(&(*out)->lock, NULL);
    return st;
}

void lr_stage_store_free(lr_stage_store *store) {
    if (!store) return;
    for (size_t i = 0; i < store->count; i++) {
        for (int l = 0; l < MAX_LAYERS; l++) lr_free(store->stages[i]->layer[l].data);
        lr_free(store->stages[i]);
    }
    lr_free(store->stages);
    pthread_mutex_destroy(&store->lock);
    lr_free(store);
}

static stage *find(const lr_stage_store *store, const char *name) {
    for (size_t i = 0; i < store->count; i++) {
        if (strcmp(store->stages[i]->name, name) == 0) return store->stages[i];
    }
    return NULL;
}

static lr_status find_or_add(lr_stage_store *store, const char *name, const lr_tensor *rows,
                             stage **out, lr_error *err) {
    lr_status st = LR_OK;
    stage *s = find(store, name);
    if (!s) {
        LR_TRY(LR_GROW(&store->stages, &store->capacity, store->count + 1, "saved stages", err));
        LR_TRY(LR_NEW(&s, 1, "a saved stage", err));
        snprintf(s->name, sizeof s->name, "%s", name);
        s->dtype = rows->dtype;
        s->row_bytes = lr_dtype_size(rows->dtype);
        s->n_dims = rows->n_dims - 1;
        for (size_t d = 0; d < s->n_dims; d++) {
            s->dims[d] = rows->dims[d + 1];
            s->row_bytes *= s->dims[d];
        }
        store->stages[store->count++] = s;
    }
    size_t row_bytes = lr_dtype_size(rows->dtype);
    for (size_t d = 1; d < rows->n_dims; d++) row_bytes *= rows->dims[d];
    if (row_bytes != s->row_bytes) {
        LR_FAIL(LR_E_INTERNAL, "stage %s: rows of %zu and of %zu bytes", name, s->row_bytes, row_bytes);
    }
    *out = s;
done:
    return st;
}

lr_status lr_stage_store_put(lr_stage_store *store, const char *name, int layer, uint64_t first,
                             const lr_tensor *rows, lr_error *err) {
    lr_status st = LR_OK;
    stage *s = NULL;
    pthread_mutex_lock(&store->lock);
    LR_TRY(find_or_add(store, name, rows, &s, err));
    int slot = layer < 0 ? 0 : layer;
    if (slot >= MAX_LAYERS) LR_FAIL(LR_E_UNSUPPORTED, "stage %s: more than %d layers", name, MAX_LAYERS);
    if (layer >= s->n_layers) s->n_layers = layer + 1;
    size_t end, bytes;
    if (!lr_add_size(first, rows->dims[0], &end) || !lr_mul_size(end, s->row_bytes, &bytes)) {
        LR_FAIL(LR_E_NOMEM, "stage %s does not fit in memory", name);
    }
    LR_TRY(LR_GROW(&s->layer[slot].data, &s->layer[slot].capacity, bytes, "a saved stage", err));
    if (rows->dims[0] > 0) {
        memcpy(s->layer[slot].data + first * s->row_bytes, rows->data, rows->dims[0] * s->row_bytes);
    }
    if (end > s->rows) s->rows = end;
done:
    pthread_mutex_unlock(&store->lock);
    return st;
}

uint64_t lr_stage_store_rows(const lr_stage_store *store, const char *name) {
    const stage *s = find(store, name);
    return s ? s->rows : 0;
}

void lr_stage_store_item(lr_stage_store *store) {
    if (!store) return;
    for (size_t i = 0; i < store->count; i++) store->stages[i]->item = store->stages[i]->rows;
}

static lr_status tap_sink(void *arg, const char *name, int layer, uint64_t first,
                          const lr_tensor *rows, lr_error *err) {
    const lr_stage_base *base = arg;
    uint64_t from = base->base + first;
    if (base->by_item) {
        pthread_mutex_lock(&base->store->lock);
        const stage *s = find(base->store, name);
        if (s) from += s->item;
        pthread_mutex_unlock(&base->store->lock);
    }
    return lr_stage_store_put(base->store, name, layer, from, rows, err);
}

lr_stage_tap lr_stage_tap_of(lr_stage_base *base) {
    lr_stage_tap tap = {0};
    if (base->store) tap = (lr_stage_tap){.sink = tap_sink, .arg = base};
    return tap;
}

static lr_status write_stage(const stage *s, const char *directory, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    lr_npy_writer *npy = NULL;
    size_t dims[LR_MAX_DIMS], n_dims = 0;
    if (s->n_layers > 0) dims[n_dims++] = (size_t)s->n_layers;
    dims[n_dims++] = s->rows;
    for (size_t d = 0; d < s->n_dims; d++) dims[n_dims++] = s->dims[d];
    LR_TRY(lr_format(&path, err, "%s/%s.npy", directory, s->name));
    LR_TRY(lr_npy_create(&npy, path, s->dtype, dims, n_dims, err));
    int layers = s->n_layers > 0 ? s->n_layers : 1;
    for (int l = 0; l < layers; l++) {
        if (s->layer[l].capacity < s->rows * s->row_bytes) {
            LR_FAIL(LR_E_INTERNAL, "stage %s: layer %d has fewer rows than others", s->name, l);
        }
        LR_TRY(lr_npy_write(npy, s->layer[l].data, s->rows * s->row_bytes, err));
    }
    st = lr_npy_finish(npy, err);
    npy = NULL;
done:
    lr_npy_discard(npy);
    lr_free(path);
    return st;
}

lr_status lr_stage_store_write(const lr_stage_store *store, const char *directory, lr_error *err) {
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot make the directory", directory);
    }
    for (size_t i = 0; i < store->count; i++) {
        lr_status st = write_stage(store->stages[i], directory, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}
