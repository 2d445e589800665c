/* longreel embed: one vector for each text, picture, sound or clip. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

typedef struct embed_options {
    const char *model, *output, *device;
    lr_embed_options embed;
    bool save_tokens, save_stages;
    lr_embed_input *inputs;
    char **texts; /* read from files, one for each input or NULL */
    const char **files; /* of the inputs, or NULL */
    size_t count, capacity, texts_capacity, files_capacity;
} embed_options;

/* ------------------------------------------------------------------ inputs */

#define TEXT_LIMIT ((size_t)64 << 20)

static lr_status read_stream(const char *path, FILE *file, char **out, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    size_t capacity = 0, length = 0, got = 0;
    do {
        length += got;
        if (length >= TEXT_LIMIT) LR_FAIL(LR_E_USAGE, "%s: is too long for a text", path);
        LR_TRY(LR_GROW(&text, &capacity, length + 4096, "a text", err));
        got = fread(text + length, 1, capacity - length - 1, file);
    } while (got > 0);
    if (ferror(file)) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    text[length] = '\0';
    if (strlen(text) != length) LR_FAIL(LR_E_FORMAT, "%s: is no text: it holds a zero byte", path);
    *out = text;
    text = NULL;
done:
    lr_free(text);
    return st;
}

static lr_status read_text(const char *path, char **out, lr_error *err) {
    if (strcmp(path, "-") == 0) return read_stream("standard input", stdin, out, err);
    FILE *file = fopen(path, "re");
    if (!file) return lr_fail_errno(err, LR_E_USAGE, errno, "%s: cannot be opened", path);
    lr_status st = read_stream(path, file, out, err);
    fclose(file);
    return st;
}

static lr_status add_input(embed_options *o, lr_input_kind kind, const char *value, const char *file,
                           char *text, lr_error *err) {
    lr_status st = LR_GROW(&o->inputs, &o->capacity, o->count + 1, "inputs", err);
    if (st == LR_OK) st = LR_GROW(&o->files, &o->files_capacity, o->count + 1, "inputs", err);
    if (st == LR_OK) st = LR_GROW(&o->texts, &o->texts_capacity, o->count + 1, "inputs", err);
    if (st != LR_OK) {
        lr_free(text);
        return st;
    }
    o->inputs[o->count] = (lr_embed_input){.kind = kind, .value = value};
    o->files[o->count] = file;
    o->texts[o->count++] = text;
    return LR_OK;
}

static lr_status take_text(void *options, const char *value, lr_error *err) {
    char *text = NULL;
    lr_status st = LR_OK;
    if (value[0] != '@') {
        LR_TRY(cli_check_utf8("the text", value, err));
        return add_input(options, LR_INPUT_TEXT, value, NULL, NULL, err);
    }
    LR_TRY(read_text(value + 1, &text, err));
    LR_TRY(cli_check_utf8(strcmp(value, "@-") == 0 ? "standard input" : value + 1, text, err));
    return add_input(options, LR_INPUT_TEXT, text, value + 1, text, err);
done:
    lr_free(text);
    return st;
}

static lr_status take_image(void *options, const char *value, lr_error *err) {
    return add_input(options, LR_INPUT_IMAGE, value, value, NULL, err);
}

static lr_status take_audio(void *options, const char *value, lr_error *err) {
    return add_input(options, LR_INPUT_AUDIO, value, value, NULL, err);
}

static lr_status take_video(void *options, const char *value, lr_error *err) {
    return add_input(options, LR_INPUT_VIDEO, value, value, NULL, err);
}

static lr_status take_save(void *options, const char *value, lr_error *err) {
    embed_options *o = options;
    if (strcmp(value, "tokens") == 0) {
        o->save_tokens = true;
    } else if (strcmp(value, "stages") == 0) {
        o->save_stages = true;
    } else {
        return lr_fail(err, LR_E_USAGE, "'%s' is none of tokens, stages", value);
    }
    return LR_OK;
}

static const cli_option table[] = {
    {CLI_HEADING, .help = "Inputs, in the order of their rows"},
    {CLI_CALL, "text", 0, "T", "a text; @FILE: the UTF-8 text of that file as it is, with its last newline (@-: "
     "standard input)",
     .call = take_text},
    {CLI_CALL, "image", 0, "F", "a picture file", .call = take_image},
    {CLI_CALL, "audio", 0, "F", "a sound file, or the sound of a film", .call = take_audio},
    {CLI_CALL, "video", 0, "F", "a clip: the vector that encode gives a whole recording", .call = take_video},
    {CLI_RATIONAL, "fps", 0, "F", "frames a second of clips, such as 2 or 1/5 (default 1)",
     .offset = offsetof(embed_options, embed.fps)},
    {CLI_HEADING, .help = "Model"},
    {CLI_TEXT, "model", 'm', "DIR", "the checkpoint: a directory as Hugging Face publishes it",
     .offset = offsetof(embed_options, model)},
    {CLI_TEXT, "task", 0, "NAME", "put the model's published prompt for a task before texts: search-query, "
     "search-document, ... (default: none)", .offset = offsetof(embed_options, embed.task)},
    {CLI_SIZE, "dim", 0, "N", "values of a vector, for models whose vectors can be cut (Matryoshka); "
     "default: the model's full width", .offset = offsetof(embed_options, embed.dim), .low = 1,
     .high = 1 << 20},
    {CLI_INT, "soft-tokens", 0, "N", "at most so many tokens a picture, one of the model's choices "
     "(default: the model's for pictures, and for clips that for video)", .offset = offsetof(embed_options, embed.soft_tokens),
     .low = 1, .high = 1 << 20},
    {CLI_INT, "threads", 0, "N", "threads (default: the processors)",
     .offset = offsetof(embed_options, embed.threads), .low = 1, .high = 4096},
    {CLI_TEXT, "device", 0, "auto|cpu|cuda[:N]", CLI_DEVICE_HELP, .offset = offsetof(embed_options, device)},
    {CLI_HEADING, .help = "Output"},
    {CLI_TEXT, "output", 'o', "V.npy", "float32 [inputs, dim], rows of length 1",
     .offset = offsetof(embed_options, output)},
    {CLI_CALL, "save", 0, "tokens|stages", "beside V.npy, the hidden state of every token "
     "(tokens.safetensors), or all intermediate results (stages/); may be given twice", .call = take_save},
    {0},
};

/* ------------------------------------------------------------------ output */

/* Written aside and renamed: V.npy is whole or as it was. */
static lr_status write_rows(const char *path, const float *rows, size_t count, size_t dim, lr_error *err) {
    lr_status st = LR_OK;
    lr_npy_writer *npy = NULL;
    char *part = NULL;
    const size_t dims[] = {count, dim};
    LR_TRY(lr_format(&part, err, "%s.part-%ld", path, (long)getpid()));
    LR_TRY(lr_npy_create(&npy, part, LR_F32, dims, 2, err));
    LR_TRY(lr_npy_write(npy, rows, count * dim * sizeof *rows, err));
    st = lr_npy_finish(npy, err);
    npy = NULL;
    if (st == LR_OK && rename(part, path) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
    }
done:
    lr_npy_discard(npy);
    if (st != LR_OK && part) (void)unlink(part);
    lr_free(part);
    return st;
}

static lr_status beside(char **out, const char *output, const char *name, lr_error *err) {
    const char *slash = strrchr(output, '/');
    return lr_format(out, err, "%.*s%s", slash ? (int)(slash - output) + 1 : 0, output, name);
}

static lr_status refuse_inputs(const embed_options *o, const char *output, lr_error *err) {
    lr_status st = LR_OK;
    for (size_t i = 0; output && i < o->count; i++) {
        if (o->files[i]) LR_TRY(lr_refuse_input(output, o->files[i], err));
    }
done:
    return st;
}

static lr_status embed_inputs(lr_model *model, embed_options *o, lr_error *err) {
    lr_status st = LR_OK;
    float *rows = NULL;
    char *tokens = NULL, *stages = NULL;
    size_t dim = o->embed.dim ? o->embed.dim : lr_model_info_of(model)->dim, values;
    if (!lr_mul_size(o->count, dim, &values)) LR_FAIL(LR_E_NOMEM, "too many inputs");
    LR_TRY(LR_NEW(&rows, values, "vectors", err));
    if (o->save_tokens) LR_TRY(beside(&tokens, o->output, "tokens.safetensors", err));
    if (o->save_stages) LR_TRY(beside(&stages, o->output, "stages", err));
    LR_TRY(refuse_inputs(o, o->output, err));
    LR_TRY(refuse_inputs(o, tokens, err));
    o->embed.tokens_path = tokens;
    o->embed.stages_directory = stages;
    o->embed.cancel = cli_cancel();
    LR_TRY(lr_embed(model, o->inputs, o->count, &o->embed, rows, err));
    LR_TRY(write_rows(o->output, rows, o->count, dim, err));
    cli_printf("%s: %zu vector%s of %zu value%s\n", o->output, o->count, cli_plural(o->count), dim, cli_plural(dim));
done:
    lr_free(stages);
    lr_free(tokens);
    lr_free(rows);
    return st;
}

static bool any_of(const embed_options *o, lr_input_kind kind) {
    for (size_t i = 0; i < o->count; i++) {
        if (o->inputs[i].kind == kind) return true;
    }
    return false;
}

static int run_embed(embed_options *o) {
    lr_model *model = NULL;
    lr_error err = {0};
    int code;
    bool clips = any_of(o, LR_INPUT_VIDEO);
    if (cli_open_model(&model, o->model, o->device, clips || any_of(o, LR_INPUT_IMAGE), clips || any_of(o, LR_INPUT_AUDIO),
                       o->embed.threads, &err) != LR_OK) {
        return cli_fail_model(&err);
    }
    if (cli_check_task(model, o->embed.task, &err) != LR_OK || embed_inputs(model, o, &err) != LR_OK) {
        code = cli_fail(&err);
    } else {
        code = cli_finish_output(CLI_DONE);
    }
    lr_model_close(model);
    return code;
}

static int run(const cli_command *command, int argc, char **argv) {
    embed_options options = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) goto done;
    if (n_rest > 0) {
        code = cli_wrong_usage(command, "what is '%s'? Inputs are --text, --image, --audio and --video", rest[0]);
    } else if (options.count == 0) {
        code = cli_wrong_usage(command, "there is no input: --text, --image, --audio or --video");
    } else if (!options.model) {
        code = cli_wrong_usage(command, "the model is missing: -m DIR");
    } else if (!options.output) {
        code = cli_wrong_usage(command, "the output is missing: -o V.npy");
    } else {
        cli_catch_signals();
        code = run_embed(&options);
    }
done:
    for (size_t i = 0; i < options.count; i++) lr_free(options.texts[i]);
    lr_free(options.texts);
    lr_free(options.files);
    lr_free(options.inputs);
    return code;
}

const cli_command cli_embed = {
    .name = "embed",
    .summary = "texts, pictures, sounds and clips to vectors",
    .usage = "-m MODEL -o V.npy (--text T | --image F | --audio F | --video F)... [OPTION]...",
    .text = "Writes one row for each input, in order. Texts, pictures, sounds and recordings of one model "
            "lie in one space: compare rows by their dot product.",
    .examples = "  longreel embed -m embeddinggemma-2 -o v.npy --text 'a red car' --image car.jpg\n"
                "  longreel embed -m embeddinggemma-2 -o q.npy --task search-query --text @question.txt\n",
    .options = table,
    .run = run,
};
