/* Positions (t, row, column) on a device: a table of the angles of every number that one of the three may be, made
 * on the host in double, and which of them each token takes. Blocks gather a batch's angles from it. */
#include "device_pass.h"

typedef struct places {
    float *cos, *sin;   /* [n, place_width] */
    int32_t *number[3]; /* [local] */
} places;

static lr_status make_places(const lr_pass *pass, places *out, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_backbone *b = pass->backbone;
    size_t n = pass->places.n, grid = b->grid, all;
    if (!lr_mul_size(n, b->place_width, &all)) LR_FAIL(LR_E_NOMEM, "the positions of a rank do not fit");
    LR_TRY(LR_NEW(&out->cos, all, "angles of positions", err));
    LR_TRY(LR_NEW(&out->sin, all, "angles of positions", err));
    for (size_t axis = 0; axis < 3; axis++) LR_TRY(LR_NEW(&out->number[axis], pass->local, "positions", err));
    b->device_block->place_angles(b, n, out->cos, out->sin);
    for (size_t i = 0; i < pass->local; i++) {
        uint64_t token = pass->first + i, in_picture = token % (grid * grid);
        out->number[0][i] = (int32_t)(token / (grid * grid));
        out->number[1][i] = (int32_t)(in_picture / grid);
        out->number[2][i] = (int32_t)(in_picture % grid);
    }
done:
    return st;
}

lr_status lr_pass_upload_places(lr_pass *pass, lr_error *err)
{
    places made = {0};
    const lr_device_ops *ops = pass->ops;
    size_t table = pass->places.n * pass->backbone->place_width * sizeof(float);
    lr_status st = make_places(pass, &made, err);
    if (st == LR_OK) {
        ops->upload(pass->stream, pass->places.cos, made.cos, table);
        ops->upload(pass->stream, pass->places.sin, made.sin, table);
        for (size_t axis = 0; axis < 3; axis++)
            ops->upload(pass->stream, pass->places.number[axis], made.number[axis], pass->local * sizeof(int32_t));
        st = ops->wait(pass->stream, err); /* they are given back */
    }
    for (size_t axis = 0; axis < 3; axis++) lr_free(made.number[axis]);
    lr_free(made.sin);
    lr_free(made.cos);
    return st;
}
