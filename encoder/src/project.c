#include <math.h>

#include "model.h"

lr_projection lr_model_projection(const lr_model *model)
{
    return (lr_projection){.matrix = model->family->projection ? model->family->projection(model) : NULL,
                           .dim = model->info.dim,
                           .hidden = model->info.hidden,
                           .source = model->directory};
}

/* mean [hidden] -> vector [n], the first n values of matrix mean. */
static void multiply(const lr_projection *projection, const double *mean, size_t n, double *vector)
{
    size_t hidden = projection->hidden;
    if (!projection->matrix) {
        for (size_t i = 0; i < n; i++) vector[i] = mean[i];
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const float *row = projection->matrix + i * hidden;
        double sum = 0;
        for (size_t j = 0; j < hidden; j++) sum += (double)row[j] * mean[j];
        vector[i] = sum;
    }
}

lr_status lr_projection_apply(const lr_projection *projection, const double *sum, uint64_t count,
                              size_t dim, float *out, lr_error *err)
{
    lr_status st = LR_OK;
    size_t hidden = projection->hidden;
    double *mean = NULL, *vector = NULL, square = 0;
    if (dim == 0 || dim > projection->dim)
        LR_FAIL(LR_E_USAGE, "%s gives vectors of at most %zu values, not %zu", projection->source,
                projection->dim, dim);
    if (count == 0) LR_FAIL(LR_E_INTERNAL, "a mean over no tokens");
    LR_TRY(LR_NEW(&mean, hidden, "a mean", err));
    LR_TRY(LR_NEW(&vector, dim, "a vector", err));
    for (size_t i = 0; i < hidden; i++) mean[i] = sum[i] / (double)count;
    multiply(projection, mean, dim, vector);
    for (size_t i = 0; i < dim; i++) square += vector[i] * vector[i];
    if (!isfinite(square) || square == 0)
        LR_FAIL(LR_E_MODEL, "%s: the vector of %llu tokens is %s; the weights may be damaged",
                projection->source, (unsigned long long)count, square == 0 ? "zero" : "not finite");
    double scale = 1 / sqrt(square);
    for (size_t i = 0; i < dim; i++) out[i] = (float)(vector[i] * scale);
done:
    lr_free(mean);
    lr_free(vector);
    return st;
}

lr_status lr_project(const lr_model *model, const double *sum, uint64_t count, size_t dim, float *out,
                     lr_error *err)
{
    lr_projection projection = lr_model_projection(model);
    return lr_projection_apply(&projection, sum, count, dim, out, err);
}
