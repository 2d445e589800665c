/* Assertions inside a rank's thread, where cmocka's are not allowed: they fail the rank. */
#ifndef LR_RANK_CHECK_H
#define LR_RANK_CHECK_H

#include <longreel/status.h>

#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            LR_FAIL(LR_E_INTERNAL, "%s:%d: not so: %s", __FILE__, __LINE__, #condition);           \
    } while (0)

#endif
