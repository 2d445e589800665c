/* How a family loads weights: names with the family's optional prefix, checked shapes, copies as fp32
 * and linear layers that are packed together at the end. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "weights.h"

#define NAME LR_WEIGHT_NAME
#define MOST_PARTS LR_WEIGHT_PARTS

/* ------------------------------------------------------------------ names and shapes */

static lr_status format_name(char *out, const char *format, va_list args, lr_error *err)
{
    int n = vsnprintf(out, NAME, format, args);
    if (n < 0 || n >= NAME) return lr_fail(err, LR_E_INTERNAL, "a tensor name is too long: %s", format);
    return LR_OK;
}

/* Expands the one {a,b,...} of a name: part i into out; false when there is no part i. */
static bool name_part(const char *name, size_t i, char *out)
{
    const char *open = strchr(name, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) {
        (void)snprintf(out, NAME, "%s", name);
        return i == 0;
    }
    const char *word = open + 1;
    for (; i > 0; i--) {
        word = strchr(word, ',');
        if (!word || word > close) return false;
        word++;
    }
    const char *comma = strchr(word, ',');
    const char *end = comma && comma < close ? comma : close;
    (void)snprintf(out, NAME, "%.*s%.*s%s", (int)(open - name), name, (int)(end - word), word,
                   close + 1);
    return true;
}

static void describe_shape(size_t n_dims, const size_t *dims, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i <= n_dims && used < size; i++) {
        int n = i == n_dims ? snprintf(out + used, size - used, "%s", n_dims ? "]" : "[]")
                            : snprintf(out + used, size - used, "%s%zu", i ? ", " : "[", dims[i]);
        if (n < 0) return;
        used += (size_t)n;
    }
}

const lr_tensor *lr_weights_find(const lr_model *model, const char *name)
{
    char prefixed[NAME + 8];
    const lr_tensor *tensor = lr_checkpoint_find(model->checkpoint, name);
    if (tensor) return tensor;
    (void)snprintf(prefixed, sizeof prefixed, "%s%s", model->family->prefix, name);
    return lr_checkpoint_find(model->checkpoint, prefixed);
}

static bool is_real(lr_dtype dtype)
{
    return dtype == LR_F32 || dtype == LR_BF16 || dtype == LR_F16;
}

static lr_status find_checked(const lr_model *model, const char *name, size_t n_dims,
                              const size_t *dims, const lr_tensor **out, lr_error *err)
{
    char found[128], wanted[128];
    const lr_tensor *tensor = lr_weights_find(model, name);
    describe_shape(n_dims, dims, wanted, sizeof wanted);
    if (!tensor)
        return lr_fail(err, LR_E_MODEL, "%s: tensor %s is missing (wanted: shape %s)",
                       model->directory, name, wanted);
    if (!is_real(tensor->dtype))
        return lr_fail(err, LR_E_MODEL, "%s: tensor %s has type %s, must be F32, BF16 or F16",
                       model->directory, name, lr_dtype_name(tensor->dtype));
    bool same = tensor->n_dims == n_dims;
    for (size_t i = 0; same && i < n_dims; i++) same = tensor->dims[i] == dims[i];
    if (!same) {
        describe_shape(tensor->n_dims, tensor->dims, found, sizeof found);
        return lr_fail(err, LR_E_MODEL, "%s: tensor %s has shape %s, must be %s", model->directory,
                       name, found, wanted);
    }
    *out = tensor;
    return LR_OK;
}

lr_status lr_weights_tensor(const lr_model *model, const lr_tensor **out, size_t n_dims,
                            const size_t *dims, lr_error *err, const char *name, ...)
{
    char full[NAME];
    va_list args;
    va_start(args, name);
    lr_status st = format_name(full, name, args, err);
    va_end(args);
    return st == LR_OK ? find_checked(model, full, n_dims, dims, out, err) : st;
}

/* ------------------------------------------------------------------ values */

void lr_to_f32(const lr_kernels *kernels, lr_dtype dtype, const void *data, size_t count, float *out)
{
    if (dtype == LR_BF16) kernels->bf16_to_f32(out, data, count);
    else if (dtype == LR_F16) kernels->f16_to_f32(out, data, count);
    else memcpy(out, data, count * sizeof *out);
}

/* `first_row`: where the tensor's rows begin in the one that the file holds. */
static lr_status check_finite(const lr_model *model, const lr_tensor *tensor, const char *name,
                              size_t first_row, lr_error *err)
{
    size_t count = 1, width = tensor->n_dims ? tensor->dims[tensor->n_dims - 1] : 1;
    for (size_t i = 0; i < tensor->n_dims; i++) count *= tensor->dims[i];
    size_t at = lr_first_not_finite(tensor->dtype, tensor->data, count);
    if (at == count) return LR_OK;
    return lr_fail(err, LR_E_MODEL,
                   "%s: tensor %s has a value that is not finite (row %zu, column %zu)",
                   model->directory, name, first_row + at / width, at % width);
}

lr_status lr_weights_finite(const lr_model *model, const lr_tensor *tensor, lr_error *err,
                            const char *name, ...)
{
    char full[NAME];
    va_list args;
    va_start(args, name);
    lr_status st = format_name(full, name, args, err);
    va_end(args);
    return st == LR_OK ? check_finite(model, tensor, full, 0, err) : st;
}

lr_status lr_weights_vector(lr_model *model, const float **out, size_t n_dims, const size_t *dims,
                            lr_error *err, const char *name, ...)
{
    lr_status st = LR_OK;
    char full[NAME], part[NAME];
    const lr_tensor *tensor = NULL;
    float *values = NULL;
    size_t count = 1, n_parts = 0;
    va_list args;
    va_start(args, name);
    st = format_name(full, name, args, err);
    va_end(args);
    if (st != LR_OK) return st;
    for (; name_part(full, n_parts, part); n_parts++)
        LR_TRY(find_checked(model, part, n_dims, dims, &tensor, err));
    for (size_t i = 0; i < n_dims; i++) count *= dims[i]; /* fits: it equals a tensor in the file */
    LR_TRY(LR_MODEL_NEW(model, &values, count * n_parts, full, err));
    for (size_t i = 0; i < n_parts; i++) {
        (void)name_part(full, i, part);
        tensor = lr_weights_find(model, part);
        LR_TRY(check_finite(model, tensor, part, 0, err));
        lr_to_f32(model->kernels, tensor->dtype, tensor->data, count, values + i * count);
    }
    *out = values;
done:
    return st;
}

static lr_status find_scalar(const lr_model *model, const char *name, const lr_tensor **out,
                             lr_error *err)
{
    const size_t one[] = {1};
    const lr_tensor *tensor = lr_weights_find(model, name);
    return find_checked(model, name, tensor && tensor->n_dims == 0 ? 0 : 1, one, out, err);
}

lr_status lr_weights_scalar(const lr_model *model, float *out, lr_error *err, const char *name, ...)
{
    char full[NAME];
    const lr_tensor *tensor = NULL;
    va_list args;
    va_start(args, name);
    lr_status st = format_name(full, name, args, err);
    va_end(args);
    if (st == LR_OK) st = find_scalar(model, full, &tensor, err);
    if (st == LR_OK) st = check_finite(model, tensor, full, 0, err);
    if (st == LR_OK) lr_to_f32(model->kernels, tensor->dtype, tensor->data, 1, out);
    return st;
}

/* One bound of a clipped layer. `none` is the infinity that bounds nothing, as the published library
 * has it before it has seen data; the other one would make every value infinite. */
static lr_status read_bound(const lr_model *model, float *out, float none, const char *layer,
                            const char *bound, lr_error *err)
{
    char name[NAME + 16];
    const lr_tensor *tensor = NULL;
    (void)snprintf(name, sizeof name, "%s.%s", layer, bound);
    lr_status st = find_scalar(model, name, &tensor, err);
    if (st != LR_OK) return st;
    lr_to_f32(model->kernels, tensor->dtype, tensor->data, 1, out);
    if (isfinite(*out) || *out == none) return LR_OK;
    return lr_fail(err, LR_E_MODEL, "%s: tensor %s is %g, must be a number or %g", model->directory,
                   name, (double)*out, (double)none);
}

/* ------------------------------------------------------------------ linear layers */

static lr_status new_job(lr_model *model, lr_linear **out, const char *name, lr_weight_job **job,
                         lr_error *err)
{
    lr_status st = LR_GROW(&model->jobs, &model->jobs_capacity, model->n_jobs + 1,
                           "the list of linear layers", err);
    if (st != LR_OK) return st;
    *out = NULL;
    *job = &model->jobs[model->n_jobs];
    **job = (lr_weight_job){.out = out};
    (void)snprintf((*job)->name, NAME, "%s", name);
    return LR_OK;
}

static lr_status queue_linear(lr_model *model, lr_linear **out, size_t n, size_t k, const char *name,
                              lr_error *err)
{
    lr_status st = LR_OK;
    char part[NAME];
    lr_weight_job *job = NULL;
    const lr_tensor *tensor = NULL;
    const size_t dims[] = {n, k};
    LR_TRY(new_job(model, out, name, &job, err));
    for (size_t i = 0; name_part(name, i, part); i++) {
        if (i == MOST_PARTS) LR_FAIL(LR_E_INTERNAL, "too many parts: %s", name);
        LR_TRY(find_checked(model, part, 2, dims, &tensor, err));
        job->parts[job->n_parts++].weight = *tensor;
    }
    model->n_jobs++;
done:
    return st;
}

lr_status lr_weights_linear(lr_model *model, lr_linear **out, size_t n, size_t k, lr_error *err,
                            const char *name, ...)
{
    char full[NAME];
    va_list args;
    va_start(args, name);
    lr_status st = format_name(full, name, args, err);
    va_end(args);
    return st == LR_OK ? queue_linear(model, out, n, k, full, err) : st;
}

lr_status lr_weights_linear_rows(lr_model *model, lr_linear **out, size_t first, size_t n,
                                 size_t total, size_t k, lr_error *err, const char *name, ...)
{
    lr_status st = LR_OK;
    char full[NAME];
    lr_weight_job *job = NULL;
    const lr_tensor *tensor = NULL;
    const size_t dims[] = {total, k};
    va_list args;
    va_start(args, name);
    st = format_name(full, name, args, err);
    va_end(args);
    if (st != LR_OK) return st;
    if (first > total || n > total - first)
        LR_FAIL(LR_E_INTERNAL, "%s: rows %zu to %zu of %zu", full, first, first + n, total);
    LR_TRY(find_checked(model, full, 2, dims, &tensor, err));
    LR_TRY(new_job(model, out, full, &job, err));
    lr_tensor rows = *tensor;
    rows.dims[0] = n;
    rows.data = (const unsigned char *)tensor->data + first * k * lr_dtype_size(tensor->dtype);
    job->parts[job->n_parts++].weight = rows;
    job->first_row = first;
    model->n_jobs++;
done:
    return st;
}

lr_status lr_weights_linear_values(lr_model *model, lr_linear **out, const float *values, size_t n,
                                   size_t k, const char *name, lr_error *err)
{
    lr_weight_job *job = NULL;
    lr_status st = new_job(model, out, name, &job, err);
    if (st != LR_OK) return st;
    job->parts[job->n_parts++].weight =
        (lr_tensor){.dtype = LR_F32, .n_dims = 2, .dims = {n, k}, .data = values};
    model->n_jobs++;
    return LR_OK;
}

lr_status lr_weights_dense(lr_model *model, lr_dense *out, bool clipped, size_t n, size_t k,
                           lr_error *err, const char *name, ...)
{
    lr_status st = LR_OK;
    char full[NAME], weight[NAME + 16];
    va_list args;
    va_start(args, name);
    st = format_name(full, name, args, err);
    va_end(args);
    if (st != LR_OK) return st;
    *out = (lr_dense){.clipped = clipped};
    (void)snprintf(weight, sizeof weight, "%s.linear.weight", full);
    LR_TRY(queue_linear(model, &out->weight, n, k, weight, err));
    if (!clipped) goto done;
    LR_TRY(read_bound(model, &out->in_min, -INFINITY, full, "input_min", err));
    LR_TRY(read_bound(model, &out->in_max, INFINITY, full, "input_max", err));
    LR_TRY(read_bound(model, &out->out_min, -INFINITY, full, "output_min", err));
    LR_TRY(read_bound(model, &out->out_max, INFINITY, full, "output_max", err));
done:
    return st;
}

typedef struct prepare_loop {
    lr_model *model;
    lr_status (*other)(lr_model *model, lr_error *err);
    pthread_mutex_t lock;
    lr_status st; /* under lock, with err */
    lr_error *err;
} prepare_loop;

void lr_weight_job_release(const lr_model *model, const lr_weight_job *job)
{
    for (size_t i = 0; i < job->n_parts; i++) {
        size_t bytes = 0;
        if (lr_tensor_bytes(&job->parts[i].weight, &bytes))
            lr_checkpoint_release(model->checkpoint, job->parts[i].weight.data, bytes);
    }
}

lr_status lr_weight_job_check(const lr_model *model, const lr_weight_job *job, lr_error *err)
{
    char part[NAME];
    for (size_t i = 0; i < job->n_parts; i++) {
        (void)name_part(job->name, i, part);
        lr_status st = check_finite(model, &job->parts[i].weight, part, job->first_row, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

static lr_status create_linear(const lr_model *model, const lr_weight_job *job, lr_linear **out,
                               lr_error *err)
{
    lr_error cause;
    lr_status st = lr_weight_job_check(model, job, err);
    if (st != LR_OK) return st;
    lr_error_clear(&cause);
    st = model->kernels->linear_create(out, job->parts, job->n_parts, &cause);
    if (st == LR_OK) return LR_OK;
    return lr_fail(err, st, "%s: %s: %s", model->directory, job->name, cause.text);
}

static lr_status prepare_layer(lr_model *model, size_t index, lr_error *err)
{
    lr_weight_job *job = &model->jobs[index];
    lr_linear *linear = NULL;
    lr_status st = create_linear(model, job, &linear, err);
    if (st != LR_OK) return st;
    *job->out = linear;
    model->linears[index] = linear;
    lr_weight_job_release(model, job);
    return LR_OK;
}

/* Index 0 is `other`, which takes longest, the layers follow. */
static void prepare_one(void *arg, size_t index, size_t worker)
{
    (void)worker;
    prepare_loop *loop = arg;
    lr_error err;
    lr_error_clear(&err);
    lr_status st = LR_OK;
    if (index > 0) st = prepare_layer(loop->model, index - 1, &err);
    else if (loop->other) st = loop->other(loop->model, &err);
    if (st == LR_OK) return;
    pthread_mutex_lock(&loop->lock);
    if (loop->st == LR_OK) {
        loop->st = st;
        (void)lr_fail(loop->err, st, "%s", err.text);
    }
    pthread_mutex_unlock(&loop->lock);
}

lr_status lr_weights_prepare(lr_model *model, lr_pool *pool, lr_status (*other)(lr_model *model, lr_error *err),
                             lr_error *err)
{
    prepare_loop loop = {.model = model, .other = other, .st = LR_OK, .err = err};
    lr_status st = LR_NEW(&model->linears, model->n_jobs, "the list of linear layers", err);
    if (st != LR_OK) return st;
    model->n_linears = model->n_jobs;
    int code = pthread_mutex_init(&loop.lock, NULL);
    if (code != 0) return lr_fail_errno(err, LR_E_NOMEM, code, "a lock");
    lr_pool_for(pool, model->n_jobs + 1, prepare_one, &loop);
    pthread_mutex_destroy(&loop.lock);
    lr_free(model->jobs);
    model->jobs = NULL;
    model->n_jobs = model->jobs_capacity = 0;
    return loop.st;
}
