#include "mutate_json.h"

#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include <longreel/core.h>

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(next(state) % n);
}

/* ------------------------------------------------------------------ values */

static json_t *other_number(const json_t *old, uint64_t *state)
{
    static const double reals[] = {0, 1, -1, 0.5, 1e-300, 1e300, 1e-7, -1e9, 4096.5};
    static const json_int_t integers[] = {0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 1024, 65536, -1, INT32_MAX,
                                          INT64_C(1) << 32, INT64_MAX, INT64_MIN};
    json_int_t value = json_integer_value(old);
    switch (below(state, 6)) {
    case 0: return json_integer(value < INT64_MAX ? value + 1 : 0);
    case 1: return json_integer(value > 0 ? value - 1 : 1);
    case 2: return json_integer(value / 2);
    case 3: return json_integer(value > -INT32_MAX && value < INT32_MAX ? value * 2 : value);
    case 4: return json_real(reals[below(state, sizeof reals / sizeof *reals)]);
    default: return json_integer(integers[below(state, sizeof integers / sizeof *integers)]);
    }
}

static json_t *other_value(json_t *old, json_t *root, uint64_t *state)
{
    if (json_is_number(old) && below(state, 8) != 0) return other_number(old, state);
    switch (below(state, 9)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_false();
    case 3: return json_string("");
    case 4: return json_array();
    case 5: return json_object();
    case 6: return json_integer((json_int_t)below(state, 100));
    case 7: return json_is_array(old) ? json_deep_copy(json_array_get(old, 0)) : json_pack("[O]", old);
    default: { /* a value from elsewhere at the top */
        size_t left = below(state, json_object_size(root) + 1);
        const char *key;
        json_t *value;
        json_object_foreach(root, key, value) if (left-- == 0) return json_deep_copy(value);
        return json_null();
    }
    }
}

/* ------------------------------------------------------------------ places */

static void mutate_object(json_t *object, json_t *root, uint64_t *state);

static void mutate_array(json_t *array, json_t *root, uint64_t *state)
{
    size_t n = json_array_size(array), i = below(state, n + 1);
    json_t *value = json_array_get(array, i);
    size_t what = below(state, 8);
    if (!value || what == 0) {
        (void)json_array_append_new(array, other_value(json_array_get(array, 0), root, state));
    } else if (what == 1) {
        (void)json_array_remove(array, i);
    } else if (what == 2) {
        (void)json_array_insert(array, i, value);
    } else if (json_is_object(value)) {
        mutate_object(value, root, state);
    } else {
        (void)json_array_set_new(array, i, other_value(value, root, state));
    }
}

/* Deeper with two chances in three, else here. */
static void mutate_object(json_t *object, json_t *root, uint64_t *state)
{
    const char *key;
    json_t *value;
    size_t n = json_object_size(object), left = below(state, n > 0 ? n : 1);
    json_object_foreach(object, key, value)
    {
        if (left-- > 0) continue;
        size_t what = below(state, 9);
        if (json_is_object(value) && what < 6) mutate_object(value, root, state);
        else if (json_is_array(value) && what < 6) mutate_array(value, root, state);
        else if (what == 6) (void)json_object_del(object, key);
        else (void)json_object_set_new(object, key, other_value(value, root, state));
        return;
    }
}

size_t fz_mutate_json(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    uint64_t state = seed;
    json_t *root = below(&state, 5) ? json_loadb((const char *)data, size, 0, NULL) : NULL;
    size_t bytes = 0;
    if (json_is_object(root)) {
        for (size_t times = 1 + below(&state, 3); times > 0; times--) mutate_object(root, root, &state);
        char *text = json_dumps(root, JSON_COMPACT);
        bytes = text ? strlen(text) : 0;
        if (bytes > 0 && bytes <= max_size) memcpy(data, text, bytes);
        else bytes = 0;
        lr_free(text);
    }
    json_decref(root);
    return bytes > 0 ? bytes : LLVMFuzzerMutate(data, size, max_size);
}
