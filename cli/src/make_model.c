/* longreel make-model: a checkpoint with random weights. */
#include <string.h>

#include "cli.h"

typedef struct make_options {
    int size;   /* lr_made_size */
    int family; /* an index into families */
    uint64_t seed;
} make_options;

static const char *const sizes[] = {"small", "deep", "full", NULL}; /* as lr_made_size */

static const char *const families[] = {"embeddinggemma2", "vjepa2", NULL};

static const cli_option table[] = {
    {CLI_WORD, "family", 0, "embeddinggemma2|vjepa2", "whose layout (default embeddinggemma2)",
     .offset = offsetof(make_options, family), .words = families},
    {CLI_WORD, "size", 0, "small|deep|full", "small: the published structure with few and narrow layers "
     "(default); deep: narrow ones, but all 24; full: the published sizes, 1.5 GB; of V-JEPA 2 its ViT-L, 0.6 GB",
     .offset = offsetof(make_options, size), .words = sizes},
    {CLI_COUNT, "seed", 0, "N", "of the random numbers (default 1); the same seed gives the same bytes",
     .offset = offsetof(make_options, seed), .high = UINT64_MAX},
    {0},
};

static int run(const cli_command *command, int argc, char **argv) {
    make_options options = {.size = 0, .seed = 1};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "one directory for the checkpoint must be given");
    lr_made_size size = (lr_made_size)options.size;
    if (lr_make_model(rest[0], families[options.family], size, options.seed, &err) != LR_OK) {
        return cli_fail(&err);
    }
    cli_printf("%s: a checkpoint with random weights; its vectors mean nothing\n", rest[0]);
    return cli_finish_output(CLI_DONE);
}

const cli_command cli_make_model = {
    .name = "make-model",
    .summary = "a checkpoint with random weights, to try things out",
    .usage = "DIR [OPTION]...",
    .text = "Writes a checkpoint in the layout of EmbeddingGemma 2 or V-JEPA 2 with seeded random weights. "
            "Everything runs with it, but its vectors mean nothing: searches find nothing sensible.",
    .examples = "  longreel make-model random\n"
                "  longreel make-model random-full --size full --seed 7\n"
                "  longreel make-model random-vjepa --family vjepa2\n",
    .options = table,
    .run = run,
};
