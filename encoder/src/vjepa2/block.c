/* V-JEPA 2's own part of a layer. Every step works row by row:
 *   h += attention(norm(h)); h += fc2(gelu(fc1(norm(h))))
 * with LayerNorm and the GELU of erf; q and k are turned by the place of their patch. */
#include <math.h>

#include "vjepa2.h"

/* ------------------------------------------------------------------ positions
 *
 * Token n of a window is patch (row, column) of tubelet t: n = (t grid + row) grid + column. A head has three
 * parts of equal width d, d = 2 ((head_dim / 3) / 2), for t, row and column; what is left of it stays as it is.
 * A part at position pos, with d / 2 angles a_j = pos 10000^(-j / (d / 2)):
 *   z'_e = z_e cos(a_(e mod d/2)) + y_e sin(a_(e mod d/2)),  y_2m = -z_(2m+1),  y_(2m+1) = z_2m
 * The pairs are neighbours, but the angles are tiled: the two values of a pair turn by different angles. So
 * it is no rotation; but the published weights are trained with it. */

void vj2_spread_angles(const float *cos_in, const float *sin_in, size_t rows, size_t half, size_t width, size_t at,
                       float *cos_out, float *sin_out)
{
    size_t d = 2 * half;
    for (size_t r = 0; r < rows; r++)
        for (size_t e = 0; e < d; e++) {
            size_t j = r * half + e % half, to = r * width + at + e;
            cos_out[to] = cos_in[j];
            sin_out[to] = e % 2 == 0 ? -sin_in[j] : sin_in[j];
        }
}

/* Of the tile's rows into work->cos and work->sin, [rows, 3 * d]. The angles of one part pass through
 * work->norm, which has 2 * rows * d / 2 floats and more: d is at most a third of the model's width. */
static void place_angles(const lr_tile *tile, size_t d)
{
    const lr_tile_work *work = tile->work;
    size_t half = d / 2, grid = tile->backbone->grid, rows = tile->rows;
    float *cosines = work->norm, *sines = work->norm + rows * half;
    int32_t positions[LR_ROW_TILE] = {0};
    for (size_t axis = 0; axis < 3; axis++) {
        for (size_t r = 0; r < rows; r++) {
            uint64_t n = tile->first + r, in_tubelet = n % (grid * grid);
            positions[r] = axis == 0   ? (int32_t)(n / (grid * grid))
                           : axis == 1 ? (int32_t)(in_tubelet / grid)
                                       : (int32_t)(in_tubelet % grid);
        }
        lr_rope_angles_at(tile->layer->rope, positions, rows, cosines, sines);
        vj2_spread_angles(cosines, sines, rows, half, 3 * d, axis * d, work->cos, work->sin);
    }
}

static void heads(const lr_tile *tile, lr_heads kind, float *x, size_t ld)
{
    const lr_layer *layer = tile->layer;
    const lr_kernels *kernels = tile->kernels;
    const lr_tile_work *work = tile->work;
    size_t head_dim = layer->head_dim, width = layer->n_heads * head_dim, d = tile->backbone->place_width;
    if (kind == LR_HEADS_V) return;
    if (d > 0) {
        place_angles(tile, d);
        kernels->rope_pairs(x, ld, head_dim, layer->n_heads, work->cos, work->sin, tile->rows, 3 * d);
    }
    if (kind == LR_HEADS_K) return;
    float scale = (float)(1 / sqrt((double)head_dim));
    for (size_t r = 0; r < tile->rows; r++) kernels->scale(x + r * ld, x + r * ld, scale, width);
}

/* ------------------------------------------------------------------ the rest of the layer */

static void rest(const lr_tile *tile, const float *attended, const float *e, float *h)
{
    const lr_layer *layer = tile->layer;
    const lr_backbone *backbone = tile->backbone;
    const lr_kernels *kernels = tile->kernels;
    const lr_tile_work *work = tile->work;
    size_t d = backbone->hidden, m = backbone->mlp, rows = tile->rows;
    (void)e;
    lr_tile_linear(tile, layer->o, layer->o_bias, attended, layer->n_heads * layer->head_dim, work->update);
    kernels->add(h, h, work->update, rows * d);
    lr_norm_rows(kernels, backbone, work->norm, h, layer->pre_mlp_norm, layer->pre_mlp_norm_bias, rows);
    lr_tile_linear(tile, layer->gate_up, layer->gate_up_bias, work->norm, d, work->wide);
    kernels->gelu_erf(work->wide, work->wide, rows * m);
    lr_tile_linear(tile, layer->down, layer->down_bias, work->wide, m, work->update);
    kernels->add(h, h, work->update, rows * d);
}

const lr_block vj2_block = {.heads = heads, .rest = rest, .angle_each = true};
