/* The image that nvcc makes for several architectures. */
#ifndef STANDIN_FATBIN_H
#define STANDIN_FATBIN_H

#include <stddef.h>

/* The PTX text inside, NULL when there is none or it is compressed. */
const char *fatbin_ptx(const void *image, size_t *bytes);

#endif
