#include "made.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors.h"

/* splitmix64, Steele, Lea, Flood 2014 */
uint64_t lr_made_bits(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* ------------------------------------------------------------------ weights */

void lr_maker_add(lr_maker *m, float mean, float spread, size_t n_dims, const size_t *dims,
                  const char *format, ...)
{
    va_list args;
    if (m->st == LR_OK)
        m->st = LR_GROW(&m->tensors, &m->tensors_capacity, m->count + 1, "made tensors", m->err);
    if (m->st == LR_OK)
        m->st = LR_GROW(&m->named, &m->named_capacity, m->count + 1, "made tensors", m->err);
    if (m->st != LR_OK) return;
    lr_made_tensor *made = &m->tensors[m->count];
    lr_named_tensor *named = &m->named[m->count++];
    *made = (lr_made_tensor){.mean = mean, .spread = spread};
    va_start(args, format);
    (void)vsnprintf(made->name, LR_MADE_NAME, format, args);
    va_end(args);
    *named = (lr_named_tensor){.tensor = {.dtype = LR_BF16, .n_dims = n_dims}};
    if (n_dims > 0) memcpy(named->tensor.dims, dims, n_dims * sizeof *dims);
}

/* The nearest bf16, ties to even. */
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Four 16-bit uniforms have variance 4/12 together: scaled by sqrt(3), 1. */
static float unit_value(uint64_t bits)
{
    int64_t sum = (int64_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) +
                            (bits >> 48)) - 131070;
    return (float)sum * (1.7320508f / 65536);
}

static void fill_values(void *arg, size_t i, size_t at, void *out, size_t bytes)
{
    const lr_maker *m = arg;
    const lr_made_tensor *made = &m->tensors[i];
    uint16_t *values = out;
    uint64_t stream = lr_made_bits(m->seed, i), first = at / sizeof *values;
    for (size_t j = 0; j < bytes / sizeof *values; j++)
        values[j] = to_bf16(made->mean + made->spread * unit_value(lr_made_bits(stream, first + j)));
}

lr_status lr_maker_write(lr_maker *m, const char *path)
{
    for (size_t i = 0; i < m->count; i++) m->named[i].name = m->tensors[i].name;
    if (m->st == LR_OK) m->st = lr_safetensors_write_made(path, m->named, m->count, fill_values, m, m->err);
    lr_free(m->tensors);
    lr_free(m->named);
    m->tensors = NULL;
    m->named = NULL;
    return m->st;
}

/* ------------------------------------------------------------------ files */

static lr_status write_json(const char *directory, const lr_made_file *file, const void *made,
                            lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *content = file->content(made);
    if (!content) LR_FAIL(LR_E_NOMEM, "out of memory: %s", file->name);
    LR_TRY(lr_format(&path, err, "%s/%s", directory, file->name));
    if (json_dump_file(content, path, JSON_INDENT(2)) != 0)
        LR_FAIL(LR_E_IO, "%s: cannot be written", path);
done:
    lr_free(path);
    json_decref(content);
    return st;
}

/* A note for whoever finds the directory. */
static lr_status write_readme(const char *directory, const lr_family *family, uint64_t seed, lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    FILE *file = NULL;
    LR_TRY(lr_format(&path, err, "%s/README.md", directory));
    file = fopen(path, "wb");
    if (!file || fprintf(file, "# A made model\n\nThe layout of %s with random weights (seed %llu): its "
                               "vectors mean nothing.\n", family->layout, (unsigned long long)seed) < 0)
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
    if (file && fclose(file) != 0 && st == LR_OK)
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
done:
    lr_free(path);
    return st;
}

static lr_status make_directory(const char *path, lr_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return LR_OK;
    return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be created", path);
}

static lr_status make_folders(const lr_made_model *model, const char *directory, lr_error *err)
{
    lr_status st = make_directory(directory, err);
    for (const char *const *name = model->folders; st == LR_OK && name && *name; name++) {
        char *path = NULL;
        st = lr_format(&path, err, "%s/%s", directory, *name);
        if (st == LR_OK) st = make_directory(path, err);
        lr_free(path);
    }
    return st;
}

static lr_status write_files(const lr_made_model *model, const char *directory, uint64_t seed, lr_error *err)
{
    lr_status st = LR_OK;
    char *weights = NULL;
    lr_maker maker = {.seed = seed, .err = err, .st = LR_OK};
    LR_TRY(lr_format(&weights, err, "%s/model.safetensors", directory));
    LR_TRY(make_folders(model, directory, err));
    for (size_t i = 0; i < model->n_files; i++)
        LR_TRY(write_json(directory, &model->files[i], model->made, err));
    LR_TRY(write_readme(directory, model->family, seed, err));
    if (model->others) LR_TRY(model->others(directory, model->made, seed, err));
    model->weights(&maker, model->made);
    LR_TRY(lr_maker_write(&maker, weights));
done:
    lr_free(weights);
    return st;
}

/* What write_files may have left. Allocates nothing: it is called when something is short. */
static void remove_files(const lr_made_model *model, const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    for (size_t i = 0; i < model->n_files; i++) (void)unlinkat(fd, model->files[i].name, 0);
    for (const char *const *name = model->other_names; name && *name; name++) (void)unlinkat(fd, *name, 0);
    (void)unlinkat(fd, "README.md", 0);
    (void)unlinkat(fd, "model.safetensors", 0);
    for (const char *const *name = model->folders; name && *name; name++)
        (void)unlinkat(fd, *name, AT_REMOVEDIR);
    (void)close(fd);
    (void)rmdir(directory);
}

lr_status lr_made_write(const lr_made_model *model, const char *directory, uint64_t seed, lr_error *err)
{
    lr_status st = LR_OK;
    char *aside = NULL;
    if (access(directory, F_OK) == 0) LR_FAIL(LR_E_EXISTS, "%s: is there already", directory);
    LR_TRY(lr_format(&aside, err, "%s.partial", directory));
    st = write_files(model, aside, seed, err);
    if (st == LR_OK && rename(aside, directory) != 0)
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be renamed to %s", aside, directory);
    if (st != LR_OK) remove_files(model, aside);
done:
    lr_free(aside);
    return st;
}
