#include "made_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* First code points of runs from which characters are taken, and how many. */
static const uint32_t alphabets[][2] = {
    {'a', 26},    {'a', 12}, {'A', 26},   {'0', 10},     {0x2581, 1}, {0x430, 32},  {0x4e00, 40},
    {0x3041, 40}, {'!', 14}, {0x905, 40}, {0x1f600, 20}, {0x627, 30}, {0xac00, 40}, {0x300, 5},
};
#define N_ALPHABETS (sizeof alphabets / sizeof alphabets[0])

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | c);
    return n;
}

size_t made_character(lrt_random *random, char *out)
{
    if (lrt_below(random, 20) == 0) /* outside the alphabet */
        return put_utf8(lrt_below(random, 2) ? 0xe9 : 0x1f680 + (uint32_t)lrt_below(random, 3),
                        out);
    const uint32_t *run = alphabets[lrt_below(random, lrt_below(random, 2) ? 3 : N_ALPHABETS)];
    return put_utf8(run[0] + (uint32_t)lrt_below(random, run[1]), out);
}

/* ------------------------------------------------------------------ texts */

static size_t slot_of(const made_tokenizer *made, const char *text, size_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    size_t slot = (size_t)(hash ^ hash >> 32) & made->table_mask;
    for (;; slot = (slot + 1) & made->table_mask) {
        if (made->table[slot] == 0) return slot;
        const char *held = made->texts[made->table[slot] - 1];
        if (strncmp(held, text, bytes) == 0 && held[bytes] == '\0') return slot;
    }
}

int32_t made_find(const made_tokenizer *made, const char *text, size_t bytes)
{
    return (int32_t)made->table[slot_of(made, text, bytes)] - 1;
}

/* False when it is there already. */
static bool add_text(made_tokenizer *made, const char *text, size_t bytes)
{
    size_t slot = slot_of(made, text, bytes);
    if (made->table[slot]) return false;
    made->texts[made->count] = strndup(text, bytes);
    assert_non_null(made->texts[made->count]);
    made->table[slot] = (uint32_t)++made->count;
    return true;
}

static void add_base_texts(made_tokenizer *made, bool byte_tokens)
{
    static const char *const specials[] = {"<pad>", "<eos>", "<bos>", "<unk>"};
    char text[8];
    for (size_t i = 0; i < 4; i++)
        assert_true(add_text(made, specials[i], strlen(specials[i])));
    for (unsigned b = 0; b < 256; b++) {
        made->byte_ids[b] = byte_tokens ? (int32_t)made->count : -1;
        (void)snprintf(text, sizeof text, "<0x%02X>", b);
        if (byte_tokens) assert_true(add_text(made, text, 6));
    }
    for (size_t a = 0; a < N_ALPHABETS; a++)
        for (uint32_t i = 0; i < alphabets[a][1]; i++)
            (void)add_text(made, text, put_utf8(alphabets[a][0] + i, text));
    assert_true(add_text(made, "\"", 1) | add_text(made, "\\", 1) | add_text(made, "\n", 1));
}

/* ------------------------------------------------------------------ merges */

static void add_merge(made_tokenizer *made, size_t *capacity, int32_t left, int32_t right,
                      int32_t result)
{
    if (made->n_merges == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 1024;
        made->merges = realloc(made->merges, *capacity * sizeof *made->merges);
        assert_non_null(made->merges);
    }
    made->merges[made->n_merges] = (made_merge){left, right, result, (uint32_t)made->n_merges};
    made->n_merges++;
}

static void add_splits(made_tokenizer *made, size_t *capacity, int32_t id)
{
    const char *text = made->texts[id];
    for (size_t cut = 1; text[cut]; cut++) {
        if (((unsigned char)text[cut] & 0xc0) == 0x80) continue;
        int32_t left = made_find(made, text, cut),
                right = made_find(made, text + cut, strlen(text + cut));
        if (left >= 0 && right >= 0) add_merge(made, capacity, left, right, id);
    }
}

/* Below n, mostly small: tokens are made of short, early ones, as a trained vocabulary's are, and
 * half of them of few letters, so that about as many can be split in several ways. */
static size_t early(lrt_random *random, size_t n)
{
    if (lrt_below(random, 2)) return lrt_below(random, 8);
    return lrt_below(random, 1 + lrt_below(random, 1 + lrt_below(random, n)));
}

static void add_made_texts(made_tokenizer *made, const made_options *options, size_t base,
                           lrt_random *random)
{
    size_t capacity = 0;
    while (made->count < options->entries) {
        size_t a = base + early(random, made->count - base),
               b = base + early(random, made->count - base);
        size_t n = strlen(made->texts[a]), m = strlen(made->texts[b]);
        char text[64];
        if (n + m >= 32) continue;
        memcpy(text, made->texts[a], n);
        memcpy(text + n, made->texts[b], m);
        if (!add_text(made, text, n + m)) continue;
        if (!options->all_merges)
            add_merge(made, &capacity, (int32_t)a, (int32_t)b, (int32_t)made->count - 1);
    }
    for (size_t id = base; options->all_merges && id < made->count; id++)
        add_splits(made, &capacity, (int32_t)id);
    for (size_t i = made->n_merges; options->shuffled && i > 1; i--) {
        size_t j = lrt_below(random, i);
        made_merge swapped = made->merges[i - 1];
        made->merges[i - 1] = made->merges[j];
        made->merges[j] = swapped;
    }
    for (size_t i = 0; i < made->n_merges; i++)
        made->merges[i].rank = (uint32_t)i;
}

static int compare_pairs(const void *a, const void *b)
{
    const made_merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

static const made_merge *find_merge(const made_tokenizer *made, int32_t left, int32_t right)
{
    made_merge key = {.left = left, .right = right};
    return made->n_merges == 0
               ? NULL
               : bsearch(&key, made->merges, made->n_merges, sizeof key, compare_pairs);
}

/* ------------------------------------------------------------------ the file */

static void put_string(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '"' || *s == '\\')
            (void)fprintf(file, "\\%c", *s);
        else if (*s < 0x20 || *s == 'z') /* z: so that escapes stand among letters */
            (void)fprintf(file, "\\u%04x", *s);
        else if (s[0] == 0xf0 && s[1] == 0x9f && s[2] == 0x98 && s[3] == 0x80) {
            (void)fputs("\\ud83d\\uDE00", file); /* U+1F600, a surrogate pair */
            s += 3;
        } else
            (void)fputc(*s, file);
    }
    (void)fputc('"', file);
}

static void put_model(FILE *file, const made_tokenizer *made, const made_options *options)
{
    (void)fprintf(file,
                  "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":\"<unk>\","
                  "\"fuse_unk\":%s,\"byte_fallback\":%s,\"ignore_merges\":false,\n\"vocab\":{",
                  options->fuse_unk ? "true" : "false", options->byte_tokens ? "true" : "false");
    for (size_t i = 0; i < made->count; i++) {
        (void)fputs(i ? ",\n" : "\n", file);
        put_string(file, made->texts[i]);
        (void)fprintf(file, ": %zu", i);
    }
    (void)fputs("},\n\"merges\":[", file);
    for (size_t i = 0; i < made->n_merges; i++) {
        const char *left = made->texts[made->merges[i].left],
                   *right = made->texts[made->merges[i].right];
        (void)fputs(i ? ",\n" : "\n", file);
        if (options->string_merges) {
            char joined[80];
            (void)snprintf(joined, sizeof joined, "%s %s", left, right);
            put_string(file, joined);
        } else {
            (void)fputs("[\n ", file);
            put_string(file, left);
            (void)fputs(",\n ", file);
            put_string(file, right);
            (void)fputs("]", file);
        }
    }
    (void)fputs("]}", file);
}

static void put_file(const char *path, const made_tokenizer *made, const made_options *options)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    (void)fputs("{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[",
                file);
    for (size_t i = 0; i < 4; i++)
        (void)fprintf(file,
                      "%s{\"id\":%zu,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                      "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                      i ? "," : "", i, made->texts[i]);
    (void)fputs("],\n\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                "\"content\":\"\xe2\x96\x81\"},\"pre_tokenizer\":null,\"post_processor\":null,"
                "\"decoder\":null,\n",
                file);
    put_model(file, made, options);
    (void)fputs("}", file);
    assert_int_equal(ferror(file), 0);
    assert_int_equal(fclose(file), 0);
}

/* ------------------------------------------------------------------ all of it */

made_tokenizer *made_create(const char *path, const made_options *options, lrt_random *random)
{
    made_tokenizer *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->fuse_unk = options->fuse_unk;
    made->unk = 3;
    made->table_mask = 1023;
    while (made->table_mask < 2 * options->entries + 2048)
        made->table_mask = 2 * made->table_mask + 1;
    made->table = calloc(made->table_mask + 1, sizeof *made->table);
    made->texts = calloc(options->entries + 1024, sizeof *made->texts);
    assert_true(made->table && made->texts);
    add_base_texts(made, options->byte_tokens);
    size_t base = options->byte_tokens ? 260 : 4;
    add_made_texts(made, options, base, random);
    put_file(path, made, options);
    if (made->n_merges) qsort(made->merges, made->n_merges, sizeof *made->merges, compare_pairs);
    return made;
}

void made_free(made_tokenizer *made)
{
    for (size_t i = 0; i < made->count; i++)
        free(made->texts[i]);
    free(made->texts);
    free(made->merges);
    free(made->table);
    free(made);
}

/* ------------------------------------------------------------------ the oracle */

static void push_id(lr_ids *ids, int32_t id)
{
    assert_true(ids->count < ids->capacity);
    ids->ids[ids->count++] = id;
}

static void push_character(const made_tokenizer *made, lr_ids *ids, const char *text, size_t bytes)
{
    int32_t id = made_find(made, text, bytes);
    if (id >= 0)
        push_id(ids, id);
    else if (made->byte_ids[0] >= 0)
        for (size_t i = 0; i < bytes; i++)
            push_id(ids, made->byte_ids[(unsigned char)text[i]]);
    else if (!(made->fuse_unk && ids->count > 0 && ids->ids[ids->count - 1] == made->unk))
        push_id(ids, made->unk);
}

lr_ids made_encode(const made_tokenizer *made, const char *text, size_t bytes)
{
    lr_ids ids = {.capacity = bytes};
    ids.ids = lr_alloc(bytes * sizeof *ids.ids);
    assert_non_null(ids.ids);
    for (size_t i = 0, end; i < bytes; i = end) {
        for (end = i + 1; end < bytes && ((unsigned char)text[end] & 0xc0) == 0x80;)
            end++;
        push_character(made, &ids, text + i, end - i);
    }
    for (;;) {
        const made_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < ids.count; i++) {
            const made_merge *merge = find_merge(made, ids.ids[i], ids.ids[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                at = i;
            }
        }
        if (!best) return ids;
        ids.ids[at] = best->result;
        memmove(ids.ids + at + 1, ids.ids + at + 2, (ids.count - at - 2) * sizeof *ids.ids);
        ids.count--;
    }
}
