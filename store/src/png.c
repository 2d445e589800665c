/* Pictures as PNG. */
#include <limits.h>
#include <string.h>

#include <png.h>

#include <longreel/store.h>

#include "files.h"

lr_status lr_png_write(const char *path, const uint8_t *rgb, size_t stride, int width, int height,
                       lr_error *err) {
    png_image image;
    if (width <= 0 || height <= 0 || stride > INT_MAX) {
        return lr_fail(err, LR_E_USAGE, "%s: no PNG can have %d x %d pixels", path, width, height);
    }
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.format = PNG_FORMAT_RGB;
    image.width = (png_uint_32)width;
    image.height = (png_uint_32)height;
    image.flags = PNG_IMAGE_FLAG_FAST;
    lr_out out = {0};
    lr_status st = lr_out_open_aside(&out, path, err);
    if (st != LR_OK) return st;
    if (png_image_write_to_stdio(&image, out.file, 0, rgb, (png_int_32)stride, NULL)) {
        return lr_out_close(&out, err);
    }
    st = lr_fail(err, LR_E_IO, "%s: cannot be written: %s", path, image.message);
    png_image_free(&image);
    lr_out_discard(&out);
    return st;
}
