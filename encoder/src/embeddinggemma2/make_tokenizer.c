/* A tokenizer.json of the Gemma kind: byte fallback, space as U+2581, BPE merges that build words from
 * left to right: common English words first, then made-up ones of random syllables until the
 * vocabulary is full. Digits stand alone, so that a time stamp costs the same everywhere. */
#include <errno.h>
#include <string.h>

#include <xxhash.h>

#include "make.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */
#define LONGEST 48           /* bytes of a token, NUL included */
#define NONE UINT32_MAX

static const char common_words[] =
    "the of and a to in is you that it he was for on are as with his they I at be this have from or "
    "one had by word but not what all were we when your can said there use an each which she do how "
    "their if will up other about out many then them these so some her would make like him into time "
    "has look two more write go see number no way could people my than first water been call who oil "
    "its now find long down day did get come made may part task search result query title none text "
    "document question answering classification clustering sentence similarity fact checking code "
    "retrieval video sound picture frame second minute hour speaker talk music red green blue yellow "
    "circle square triangle car house tree river window garden paper school street friend family";

static const char singles[] =
    "\n!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
    SPACE "\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F\xC3\xA9\xC3\xA8\xC3\xA0\xC3\xA7\xC3\xB1\xC3\xA5\xC3\xB8"
    "\xE2\x80\x93\xE2\x80\x94\xE2\x80\x98\xE2\x80\x99\xE2\x80\x9C\xE2\x80\x9D\xE2\x80\xA6\xE2\x82\xAC";

typedef struct token {
    char text[LONGEST];
    uint32_t left, right; /* the merge that makes it; NONE for a single character or special */
} token;

typedef struct vocabulary {
    token *tokens;      /* [size], by id */
    size_t size, next;  /* next: the next id to try */
    uint32_t *merges;   /* [n_merges] ids in the order of their merges */
    size_t n_merges;
    uint32_t *slots;    /* open addressing, [n_slots] */
    size_t n_slots;
} vocabulary;

static uint32_t *slot_of(const vocabulary *v, const char *text)
{
    size_t i = XXH3_64bits(text, strlen(text)) % v->n_slots;
    while (v->slots[i] != NONE && strcmp(v->tokens[v->slots[i]].text, text) != 0)
        i = (i + 1) % v->n_slots;
    return &v->slots[i];
}

static void put(vocabulary *v, uint32_t id, const char *text, uint32_t left, uint32_t right)
{
    token *t = &v->tokens[id];
    (void)snprintf(t->text, sizeof t->text, "%s", text);
    t->left = left;
    t->right = right;
    *slot_of(v, text) = id;
}

/* The next id that no special token holds; NONE when the vocabulary is full. */
static uint32_t next_id(vocabulary *v)
{
    while (v->next < v->size && v->tokens[v->next].text[0] != '\0') v->next++;
    return v->next < v->size ? (uint32_t)v->next : NONE;
}

static void add_single(vocabulary *v, const char *text)
{
    uint32_t id = next_id(v);
    if (id != NONE && *slot_of(v, text) == NONE) put(v, id, text, NONE, NONE);
}

/* Bytes of the UTF-8 character at text (which is ours, so well formed). */
static size_t character(const char *text)
{
    unsigned char c = (unsigned char)text[0];
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Merges that build the word character by character; stops when the vocabulary is full. */
static void add_word(vocabulary *v, const char *word)
{
    char so_far[LONGEST], one[5] = "";
    size_t used = character(word);
    (void)snprintf(so_far, sizeof so_far, "%.*s", (int)used, word);
    uint32_t left = *slot_of(v, so_far);
    while (left != NONE && word[used] != '\0') {
        size_t bytes = character(word + used);
        memcpy(one, word + used, bytes);
        one[bytes] = '\0';
        used += bytes;
        if (used >= LONGEST) return;
        (void)snprintf(so_far, sizeof so_far, "%.*s", (int)used, word);
        uint32_t whole = *slot_of(v, so_far), right = *slot_of(v, one);
        if (whole == NONE) {
            whole = next_id(v);
            if (whole == NONE || right == NONE) return;
            put(v, whole, so_far, left, right);
            v->merges[v->n_merges++] = whole;
        }
        left = whole;
    }
}

/* ------------------------------------------------------------------ words */

static void add_common_words(vocabulary *v)
{
    char word[LONGEST];
    for (const char *start = common_words; *start;) {
        size_t bytes = strcspn(start, " ");
        (void)snprintf(word, sizeof word, SPACE "%.*s", (int)bytes, start);
        add_word(v, word);
        add_word(v, word + strlen(SPACE));
        start += bytes + (start[bytes] == ' ');
    }
}

static void add_made_words(vocabulary *v, uint64_t seed)
{
    static const char *const onsets[] = {"b",  "c",  "d",  "f",  "g",  "h",  "k",  "l",  "m",  "n", "p",
                                         "r",  "s",  "t",  "v",  "w",  "st", "tr", "pl", "gr", "sh",
                                         "ch", "br", "cl"};
    static const char *const vowels[] = {"a", "e", "i", "o", "u", "ai", "ea", "ou"};
    static const char *const codas[] = {"", "", "", "n", "r", "s", "t", "l", "m", "nd"};
    for (uint64_t n = 0; next_id(v) != NONE; n++) {
        char word[LONGEST] = SPACE;
        uint64_t bits = lr_made_bits(seed, n);
        size_t syllables = 2 + bits % 3;
        bits /= 3;
        for (size_t i = 0; i < syllables; i++) {
            const char *onset = onsets[bits % 24], *vowel = vowels[bits / 24 % 8];
            const char *coda = codas[bits / 192 % 10];
            bits /= 1920;
            (void)strncat(word, onset, sizeof word - strlen(word) - 1);
            (void)strncat(word, vowel, sizeof word - strlen(word) - 1);
            (void)strncat(word, coda, sizeof word - strlen(word) - 1);
        }
        add_word(v, word);
    }
}

typedef struct special {
    uint32_t id;
    const char *text;
} special;

#define N_SPECIALS 12

static void list_specials(const eg2_made *made, special *out)
{
    const special all[N_SPECIALS] = {
        {0, "<pad>"}, {1, "<eos>"}, {2, "<bos>"}, {3, "<unk>"}, {4, "<mask>"},
        {(uint32_t)made->begin_image, "<|image>"}, {(uint32_t)made->begin_audio, "<|audio>"},
        {(uint32_t)made->end_image, "<image|>"},   {(uint32_t)made->end_audio, "<audio|>"},
        {(uint32_t)made->image, "<|image|>"},      {(uint32_t)made->audio, "<|audio|>"},
        {(uint32_t)made->video, "<|video|>"},
    };
    memcpy(out, all, sizeof all);
}

static void fill(vocabulary *v, const eg2_made *made, uint64_t seed)
{
    special specials[N_SPECIALS];
    char text[8];
    list_specials(made, specials);
    for (size_t i = 0; i < N_SPECIALS; i++)
        put(v, specials[i].id, specials[i].text, NONE, NONE);
    for (unsigned byte = 0; byte < 256; byte++) {
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        add_single(v, text);
    }
    for (const char *at = singles; *at; at += character(at)) {
        (void)snprintf(text, sizeof text, "%.*s", (int)character(at), at);
        add_single(v, text);
    }
    add_common_words(v);
    add_made_words(v, seed);
}

/* ------------------------------------------------------------------ the file */

static void write_text(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (; *text; text++) {
        if (*text == '\n') (void)fputs("\\n", file);
        else if (*text == '"' || *text == '\\') (void)fprintf(file, "\\%c", *text);
        else (void)fputc(*text, file);
    }
    (void)fputc('"', file);
}

static void write_head(FILE *file, const eg2_made *made)
{
    special specials[N_SPECIALS];
    list_specials(made, specials);
    (void)fputs("{\n\"version\": \"1.0\",\n\"truncation\": null,\n\"padding\": null,\n"
                "\"added_tokens\": [\n", file);
    /* in the order of ids, as the `tokenizers` library writes them */
    for (uint32_t id = 0, seen = 0; seen < N_SPECIALS; id++)
        for (size_t i = 0; i < N_SPECIALS; i++) {
            if (specials[i].id != id) continue;
            (void)fprintf(file, "{\"id\": %u, \"content\": \"%s\", \"single_word\": false, "
                          "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
                          "\"special\": true}%s\n", id, specials[i].text,
                          seen + 1 < N_SPECIALS ? "," : "");
            seen++;
        }
    (void)fputs(
        "],\n"
        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
        "\"content\": \"" SPACE "\"},\n"
        "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, "
        "\"behavior\": \"MergedWithPrevious\", \"invert\": false},\n"
        "\"post_processor\": {\"type\": \"TemplateProcessing\",\n"
        "\"single\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
        "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
        "{\"SpecialToken\": {\"id\": \"<eos>\", \"type_id\": 0}}],\n"
        "\"pair\": [{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 0}}, "
        "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
        "{\"SpecialToken\": {\"id\": \"<eos>\", \"type_id\": 0}}, "
        "{\"SpecialToken\": {\"id\": \"<bos>\", \"type_id\": 1}}, "
        "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}, "
        "{\"SpecialToken\": {\"id\": \"<eos>\", \"type_id\": 1}}],\n"
        "\"special_tokens\": {\"<bos>\": {\"id\": \"<bos>\", \"ids\": [2], \"tokens\": [\"<bos>\"]}, "
        "\"<eos>\": {\"id\": \"<eos>\", \"ids\": [1], \"tokens\": [\"<eos>\"]}}},\n"
        "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
        "\"pattern\": {\"String\": \"" SPACE "\"}, \"content\": \" \"}, {\"type\": "
        "\"ByteFallback\"}, {\"type\": \"Fuse\"}]},\n", file);
}

static void write_model(FILE *file, const vocabulary *v)
{
    (void)fputs("\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": \"<unk>\", "
                "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
                "\"fuse_unk\": true, \"byte_fallback\": true, \"ignore_merges\": false,\n"
                "\"vocab\": {\n", file);
    for (size_t id = 0; id < v->size; id++) {
        write_text(file, v->tokens[id].text);
        (void)fprintf(file, ": %zu%s\n", id, id + 1 < v->size ? "," : "");
    }
    (void)fputs("},\n\"merges\": [\n", file);
    for (size_t i = 0; i < v->n_merges; i++) {
        const token *t = &v->tokens[v->merges[i]];
        (void)fputc('[', file);
        write_text(file, v->tokens[t->left].text);
        (void)fputs(", ", file);
        write_text(file, v->tokens[t->right].text);
        (void)fprintf(file, "]%s\n", i + 1 < v->n_merges ? "," : "");
    }
    (void)fputs("]}\n}\n", file);
}

lr_status eg2_make_tokenizer(const char *path, const eg2_made *made, uint64_t seed, lr_error *err)
{
    lr_status st = LR_OK;
    vocabulary v = {.size = made->vocab, .n_slots = 4 * made->vocab};
    FILE *file = NULL;
    LR_TRY(LR_NEW(&v.tokens, v.size, "a made vocabulary", err));
    LR_TRY(LR_NEW(&v.merges, v.size, "a made vocabulary", err));
    LR_TRY(LR_NEW(&v.slots, v.n_slots, "a made vocabulary", err));
    memset(v.slots, 0xff, v.n_slots * sizeof *v.slots);
    fill(&v, made, seed);
    file = fopen(path, "wb");
    if (!file) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be created", path);
        goto done;
    }
    write_head(file, made);
    write_model(file, &v);
    bool written = fflush(file) == 0 && !ferror(file);
    if (!written) st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
done:
    if (file) (void)fclose(file);
    lr_free(v.tokens);
    lr_free(v.merges);
    lr_free(v.slots);
    return st;
}
