/* Any bytes as a tokenizer.json; what loads must encode. */
#include <stdlib.h>
#include <string.h>

#include <longreel/tokenize.h>

#include "fuzz.h"

static const char *const texts[] = {
    "",
    " ",
    "a",
    "00:01 ",
    "Hello, world!  Two  spaces\n\n\xE2\x96\x81\xE2\x96\x81x<bos><eos> ab abab",
    "\xF0\x9F\x8E\xAC \xC3\xA9t\xC3\xA9 \xE2\x82\xAC <|image> <a>b</a>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\0x",
};
static const size_t lengths[] = {0, 1, 1, 6, 44, 31, 95, 2};

static void make_seeds(void)
{
    size_t bytes;
    char *text = fz_slurp(LR_FIXTURES "/sound/tokenizer.json", &bytes);
    fz_seed("sound", NULL, 0, text, bytes);
    free(text);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_seeds(make_seeds);
    return 0;
}

static void encode(const lr_tokenizer *tokenizer, const char *text, size_t bytes, size_t *count)
{
    lr_error err = {0};
    lr_ids plain = {0}, again = {0}, framed = {0};
    FZ_CHECK(fz_succeeded(lr_tokenizer_encode(tokenizer, text, bytes, false, &plain, &err), &err));
    FZ_CHECK(fz_succeeded(lr_tokenizer_encode(tokenizer, text, bytes, false, &again, &err), &err));
    FZ_CHECK(fz_succeeded(lr_tokenizer_encode(tokenizer, text, bytes, true, &framed, &err), &err));
    FZ_CHECK(plain.count == again.count);
    FZ_CHECK(plain.count == 0 ||
             memcmp(plain.ids, again.ids, plain.count * sizeof *plain.ids) == 0);
    FZ_CHECK(framed.count >= plain.count);
    for (size_t i = 0; i < plain.count; i++)
        FZ_CHECK(plain.ids[i] >= 0 && (size_t)plain.ids[i] < lr_tokenizer_size(tokenizer));
    *count = framed.count;
    lr_ids_free(&plain);
    lr_ids_free(&again);
    lr_ids_free(&framed);
}

/* The same through a layout, which splits the template's ends off. */
static void lay_out(const lr_tokenizer *tokenizer, const char *text, size_t bytes, size_t count)
{
    lr_error err = {0};
    lr_layout *layout = NULL;
    if (fz_succeeded(lr_layout_text(&layout, tokenizer, text, bytes, &err), &err)) {
        uint64_t at = 0;
        for (size_t i = 0; i < layout->n_spans; i++) {
            FZ_CHECK(layout->spans[i].first == at);
            at += layout->spans[i].count;
        }
        FZ_CHECK(at == layout->n_tokens && at == count && layout->n_windows == 1);
        FZ_CHECK(layout->windows[0].count == at);
    } else {
        FZ_CHECK(!layout);
    }
    lr_layout_free(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lr_error err = {0};
    lr_tokenizer *tokenizer = NULL;
    const char *path = fz_write("tokenizer.json", data, size);
    fz_begin();
    if (fz_succeeded(lr_tokenizer_load(&tokenizer, path, &err), &err)) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            size_t count = 0;
            encode(tokenizer, texts[i], lengths[i], &count);
            lay_out(tokenizer, texts[i], lengths[i], count);
        }
        FZ_CHECK(lr_tokenizer_id(tokenizer, "a") < (int32_t)lr_tokenizer_size(tokenizer));
    } else {
        FZ_CHECK(!tokenizer);
    }
    lr_tokenizer_free(tokenizer);
    /* An id below 2^31 costs a bit in the table of ids seen. */
    fz_end((size_t)512 << 20);
    return 0;
}
