#include <math.h>

#include "model.h"

lr_status lr_project(const lr_model *model, const double *sum, uint64_t count, size_t dim, float *out,
                     lr_error *err)
{
    lr_status st = LR_OK;
    size_t hidden = model->info.hidden, full = model->info.dim;
    double *mean = NULL, *vector = NULL, square = 0;
    if (dim == 0 || dim > full)
        LR_FAIL(LR_E_USAGE, "%s gives vectors of at most %zu values, not %zu", model->name, full, dim);
    if (count == 0) LR_FAIL(LR_E_INTERNAL, "a mean over no tokens");
    LR_TRY(LR_NEW(&mean, hidden, "a mean", err));
    LR_TRY(LR_NEW(&vector, full, "a vector", err));
    for (size_t i = 0; i < hidden; i++) mean[i] = sum[i] / (double)count;
    model->family->project(model, mean, vector);
    for (size_t i = 0; i < dim; i++) square += vector[i] * vector[i];
    if (!isfinite(square) || square == 0)
        LR_FAIL(LR_E_MODEL, "%s: the vector of %llu tokens is %s; the weights may be damaged",
                model->directory, (unsigned long long)count, square == 0 ? "zero" : "not finite");
    double scale = 1 / sqrt(square);
    for (size_t i = 0; i < dim; i++) out[i] = (float)(vector[i] * scale);
done:
    lr_free(mean);
    lr_free(vector);
    return st;
}
