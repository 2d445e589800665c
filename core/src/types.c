#include <longreel/types.h>

#include <longreel/memory.h>

void lr_layout_free(lr_layout *layout)
{
    if (!layout) return;
    lr_free(layout->ids);
    lr_free(layout->spans);
    lr_free(layout->windows);
    lr_free(layout);
}

const lr_span *lr_layout_span_at(const lr_layout *layout, uint64_t token)
{
    /* The first span that ends past the token; spans stand in order, without gaps. */
    size_t low = 0, high = layout->n_spans;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const lr_span *span = &layout->spans[middle];
        if (span->first + span->count > token) high = middle;
        else low = middle + 1;
    }
    if (low == layout->n_spans || layout->spans[low].first > token) return NULL;
    return &layout->spans[low];
}

typedef struct dtype_traits {
    const char *name;
    size_t size;
} dtype_traits;

static const dtype_traits traits[] = {
    [LR_F32] = {"F32", 4}, [LR_F64] = {"F64", 8}, [LR_BF16] = {"BF16", 2}, [LR_F16] = {"F16", 2},
    [LR_I16] = {"I16", 2}, [LR_I32] = {"I32", 4}, [LR_I64] = {"I64", 8}, [LR_U8] = {"U8", 1},
};

static const dtype_traits *traits_of(lr_dtype dtype)
{
    static const dtype_traits unknown = {"unknown", 0};
    size_t i = (size_t)dtype;
    return i < sizeof traits / sizeof traits[0] ? &traits[i] : &unknown;
}

size_t lr_dtype_size(lr_dtype dtype)
{
    return traits_of(dtype)->size;
}

const char *lr_dtype_name(lr_dtype dtype)
{
    return traits_of(dtype)->name;
}

int64_t lr_layout_frame(const lr_layout *layout, const lr_span *span, uint64_t part)
{
    if (layout->n_grid >= layout->frame_parts) return span->index + (int64_t)part;
    return (int64_t)(((uint64_t)span->index * layout->frame_parts + part) % layout->n_grid);
}
