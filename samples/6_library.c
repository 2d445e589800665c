/* Encodes a recording and searches it through the library.
 *
 *   cc 6_library.c -o library $(pkg-config --cflags --libs longreel)
 *   ./library MODEL RECORDING "TEXT"
 */
#include <stdio.h>

#include <longreel/longreel.h>

static void show_progress(void *arg, const lr_progress *p) {
    (void)arg;
    fprintf(stderr, "\r%3.0f%% of stage %d ", 100 * p->done, (int)p->stage + 1);
}

static lr_status open_model(lr_model **model, const char *directory, lr_error *err) {
    lr_model_options options = {.vision = true, .audio = true};
    lr_status st = lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &options.kernels, err);
    return st == LR_OK ? lr_model_open(model, directory, &options, err) : st;
}

static lr_status search(lr_model *model, const char *set_path, const char *text, lr_error *err) {
    lr_status st = LR_OK;
    lr_set *set = NULL;
    lr_hit *hits = NULL;
    size_t count = 0;
    lr_embed_input input = {.kind = LR_INPUT_TEXT, .value = text};
    lr_query_options options = lr_query_defaults();
    options.task = "search-query";
    LR_TRY(lr_set_open(&set, set_path, err));
    LR_TRY(lr_query(model, &set, 1, &input, &options, &hits, &count, err));
    for (size_t i = 0; i < count; i++) {
        printf("%7.4f  %.1f s to %.1f s\n", (double)hits[i].score, hits[i].start, hits[i].end);
    }
done:
    lr_free(hits);
    lr_set_close(set);
    return st;
}

int main(int argc, char **argv) {
    lr_status st = LR_OK;
    lr_error error = {0}, *err = &error;
    lr_model *model = NULL;
    lr_encode_result result = {0};
    lr_encode_options options = lr_encode_defaults();
    options.ranks = 2; /* the vectors do not depend on it */
    options.force = true;
    options.progress = show_progress;
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL RECORDING TEXT\n", argv[0]);
        return 2;
    }
    LR_TRY(open_model(&model, argv[1], err));
    LR_TRY(lr_encode_recording(model, argv[2], "library-set", &options, &result, err));
    printf("\n%llu tokens, %llu segments\n", (unsigned long long)result.tokens,
           (unsigned long long)result.segments);
    LR_TRY(search(model, "library-set", argv[3], err));
done:
    if (st != LR_OK) fprintf(stderr, "%s: %s\n", argv[0], err->text);
    lr_encode_result_free(&result);
    lr_model_close(model);
    return st == LR_OK ? 0 : 1;
}
