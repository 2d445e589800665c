/* How much work a forward pass is: 2 for each multiply-accumulate of matrix products and attention. */
#include "model.h"

double lr_linear_macs(const lr_linear *linear) {
    return linear ? (double)lr_linear_n(linear) * (double)lr_linear_k(linear) : 0;
}

/* Keys that the rows of a sequence of n tokens see, all together. */
static double keys_seen(const lr_mask *mask, uint64_t n) {
    double keys = 0, dn = (double)n;
    switch (mask->kind) {
    case LR_MASK_FULL: keys = dn * dn; break;
    case LR_MASK_CAUSAL: keys = dn * (dn + 1) / 2; break;
    case LR_MASK_WINDOW: {
        double r = mask->radius < n ? (double)mask->radius : dn - 1;
        keys = dn * (2 * r + 1) - r * (r + 1); /* both ends cut a triangle off */
        break;
    }
    }
    return keys;
}

/* Of a token in a layer's matrices, by their shapes: they may lie on a device. */
static double layer_macs(const lr_backbone *b, const lr_layer *l) {
    size_t heads = 2 * (l->n_heads + l->n_kv_heads) * l->head_dim, mlp = (b->gated ? 3 : 2) * b->mlp;
    return (double)b->hidden * (double)(heads + mlp + 3 * b->ple);
}

double lr_layers_flop(const lr_model *model, uint64_t n_tokens, size_t layers, double *full_attention) {
    double macs = 0, full = 0;
    for (size_t i = 0; i < model->backbone.n_layers && (layers == 0 || i < layers); i++) {
        const lr_layer *l = &model->backbone.layers[i];
        macs += layer_macs(&model->backbone, l) * (double)n_tokens;
        double attention = 2 * keys_seen(&l->mask, n_tokens) * (double)(l->n_heads * l->head_dim);
        macs += attention;
        if (l->mask.kind != LR_MASK_WINDOW) full += attention;
    }
    if (full_attention) *full_attention = 2 * full;
    return 2 * macs;
}

size_t lr_full_layers(const lr_model *model, size_t layers) {
    size_t count = 0;
    for (size_t i = 0; i < model->backbone.n_layers && (layers == 0 || i < layers); i++) {
        count += model->backbone.layers[i].mask.kind != LR_MASK_WINDOW;
    }
    return count;
}

double lr_backbone_flop(const lr_model *model, uint64_t n_tokens) {
    return lr_layers_flop(model, n_tokens, 0, NULL);
}

bool lr_model_full_layer(const lr_model *model, size_t *n_heads, lr_kv_shape *shape) {
    for (size_t i = 0; i < model->backbone.n_layers; i++) {
        const lr_layer *l = &model->backbone.layers[i];
        if (l->mask.kind == LR_MASK_WINDOW) continue;
        *n_heads = l->n_heads;
        *shape = (lr_kv_shape){.n_kv_heads = l->n_kv_heads, .head_dim = l->head_dim};
        return true;
    }
    return false;
}
