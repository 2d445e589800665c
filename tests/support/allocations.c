#include "lr_test.h"

static void check_live(uint64_t k, size_t before)
{
    size_t after = lr_alloc_live();
    if (after != before)
        fail_msg("allocation %llu: %zu bytes live before, %zu after", (unsigned long long)k, before,
                 after);
}

uint64_t lrt_fail_each_allocation(lrt_work work, void *arg)
{
    for (uint64_t k = 1;; k++) {
        lr_error err = {0};
        size_t live = lr_alloc_live();
        uint64_t count = lr_alloc_count();
        lr_alloc_fail_at(k);
        lr_status st = work(arg, &err);
        lr_alloc_fail_at(0);
        count = lr_alloc_count() - count;
        check_live(k, live);
        if (count < k) {
            lrt_assert_ok(st, &err);
            return count;
        }
        if (st != LR_E_NOMEM || err.status != LR_E_NOMEM || err.text[0] == '\0')
            fail_msg("allocation %llu failed, but the result is \"%s\" with the error \"%s\" (%s)",
                     (unsigned long long)k, lr_status_name(st), err.text,
                     lr_status_name(err.status));
    }
}
