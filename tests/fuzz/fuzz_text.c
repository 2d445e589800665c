/* Any bytes as a text for the fixtures' tokenizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <longreel/tokenize.h>

#include "fuzz.h"

/* A tokenizer and, for each id, the bytes that it stands for. */
typedef struct known_tokenizer {
    lr_tokenizer *tokenizer;
    char **texts; /* [size] what the id is in the vocabulary; NULL: nothing */
    size_t size;
} known_tokenizer;

static known_tokenizer known[2];

static void keep_text(known_tokenizer *k, json_int_t id, const char *text)
{
    FZ_CHECK(id >= 0 && (size_t)id < k->size);
    free(k->texts[id]);
    k->texts[id] = strdup(text);
    FZ_CHECK(k->texts[id]);
}

static void learn(known_tokenizer *k, const char *path)
{
    lr_error err = {0};
    json_error_t why;
    const char *text;
    json_t *id, *root = json_load_file(path, 0, &why);
    FZ_CHECK(root);
    FZ_CHECK(fz_succeeded(lr_tokenizer_load(&k->tokenizer, path, &err), &err));
    k->size = lr_tokenizer_size(k->tokenizer);
    k->texts = calloc(k->size, sizeof *k->texts);
    FZ_CHECK(k->texts);
    json_object_foreach(json_object_get(json_object_get(root, "model"), "vocab"), text, id)
        keep_text(k, json_integer_value(id), text);
    json_t *added = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        keep_text(k, json_integer_value(json_object_get(token, "id")),
                  json_string_value(json_object_get(token, "content")));
    }
    json_decref(root);
}

static void make_seeds(void)
{
    static const char *const seeds[] = {
        "00:01 <|image><|video|><image|> 00:02 ", " two  spaces,   three; tab\tnewline\nend ",
        "<bos>a<eos><unk><mask><pad>\n\n\n</table>", "\xE2\x96\x81x\xE2\x96\x81\xE2\x96\x81",
        "\xF0\x9F\x8E\xAC\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\xC2\x80", "\xFF\xC0\x80\xED\xA0\x80",
        "<0x41><0x0A>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababababababab"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%zu", i);
        fz_seed(name, NULL, 0, seeds[i], strlen(seeds[i]));
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    learn(&known[0], LR_FIXTURES "/regular/tokenizer.json");
    learn(&known[1], LR_FIXTURES "/tokenizer/tokenizer.json");
    fz_seeds(make_seeds);
    return 0;
}

/* RFC 3629, independent of the library's own check. */
static bool is_utf8(const uint8_t *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t lead = s[i], more = lead < 0x80 ? 0 : lead < 0xC2 ? 9 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2
                                                                    : lead < 0xF5   ? 3 : 9;
        if (more == 9 || n - i <= more) return false;
        for (uint32_t k = 1; k <= more; k++)
            if ((s[i + k] & 0xC0) != 0x80) return false;
        uint32_t second = more ? s[i + 1] : 0;
        if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
            (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
            return false;
        i += more + 1;
    }
    return true;
}

/* "<0xAB>" is that byte; "\xE2\x96\x81" (U+2581) a space. Returns the number of bytes. */
static size_t spell(const char *token, char *out)
{
    unsigned byte;
    size_t n = 0;
    if (strlen(token) == 6 && sscanf(token, "<0x%2X>", &byte) == 1) {
        out[0] = (char)byte;
        return 1;
    }
    for (; *token; token++) {
        if (strncmp(token, "\xE2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            token += 2;
        } else {
            out[n++] = *token;
        }
    }
    return n;
}

/* The ids spell the text again, U+2581 and a space being one; tokens that take spaces away with them do
 * not occur in these tokenizers. */
static void check_spelling(const known_tokenizer *k, const lr_ids *ids, const char *text, size_t bytes)
{
    char piece[1024];
    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        FZ_CHECK(ids->ids[i] >= 0 && (size_t)ids->ids[i] < k->size && k->texts[ids->ids[i]]);
        FZ_CHECK(strlen(k->texts[ids->ids[i]]) < sizeof piece);
        size_t n = spell(k->texts[ids->ids[i]], piece);
        for (size_t b = 0; b < n; b++) {
            bool mark = bytes - at >= 3 && memcmp(text + at, "\xE2\x96\x81", 3) == 0;
            FZ_CHECK(at < bytes);
            FZ_CHECK(mark ? piece[b] == ' ' : piece[b] == text[at]);
            at += mark ? 3 : 1;
        }
    }
    FZ_CHECK(at == bytes);
}

static void try_one(const known_tokenizer *k, const char *text, size_t bytes)
{
    lr_error err = {0};
    lr_ids plain = {0}, framed = {0};
    lr_status st = lr_tokenizer_encode(k->tokenizer, text, bytes, false, &plain, &err);
    bool good = is_utf8((const uint8_t *)text, bytes);
    FZ_CHECK(st == (good ? LR_OK : LR_E_FORMAT));
    if (fz_succeeded(st, &err)) {
        FZ_CHECK(plain.count <= bytes);
        check_spelling(k, &plain, text, bytes);
        FZ_CHECK(fz_succeeded(lr_tokenizer_encode(k->tokenizer, text, bytes, true, &framed, &err), &err));
        FZ_CHECK(framed.count == plain.count + 2);
        FZ_CHECK(plain.count == 0 ||
                 memcmp(framed.ids + 1, plain.ids, plain.count * sizeof *plain.ids) == 0);
    } else {
        FZ_CHECK(plain.count == 0);
    }
    lr_ids_free(&plain);
    lr_ids_free(&framed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        fz_begin();
        try_one(&known[i], (const char *)data, size);
        fz_end(4096 + 512 * size);
    }
    return 0;
}
