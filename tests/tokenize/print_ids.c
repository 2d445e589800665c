/* For tests/peers/tokenizer.py: print_ids TOKENIZER.JSON template|plain. Reads texts from stdin (a
 * u32 of bytes, then the bytes) and writes for each a u32 of ids, then the ids as i32; 0xffffffff:
 * refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/tokenize.h>

static int answer(const lr_tokenizer *tokenizer, const char *text, size_t bytes, bool template,
                  lr_ids *ids)
{
    lr_error err = {0};
    ids->count = 0;
    lr_status st = lr_tokenizer_encode(tokenizer, text, bytes, template, ids, &err);
    uint32_t count = st == LR_OK ? (uint32_t)ids->count : UINT32_MAX;
    if (fwrite(&count, sizeof count, 1, stdout) != 1) return 1;
    return fwrite(ids->ids, sizeof *ids->ids, ids->count, stdout) == ids->count ? 0 : 1;
}

int main(int argc, char **argv)
{
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lr_ids ids = {0};
    char *text = NULL;
    uint32_t bytes;
    int failed = 0;
    if (argc != 3) return 2;
    if (lr_tokenizer_load(&tokenizer, argv[1], &err) != LR_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while (!failed && fread(&bytes, sizeof bytes, 1, stdin) == 1) {
        char *grown = realloc(text, (size_t)bytes + 1);
        if (!grown) break;
        text = grown;
        failed = fread(text, 1, bytes, stdin) != bytes ||
                 answer(tokenizer, text, bytes, strcmp(argv[2], "template") == 0, &ids);
    }
    free(text);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
    return failed || fflush(stdout) != 0;
}
