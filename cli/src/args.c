/* Arguments by table: parsing with getopt_long, and the help text. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define MAX_OPTIONS 64
#define HELP_COLUMN 26 /* where the explanations stand */
#define HELP_WIDTH 80
#define HELP_VALUE 1000 /* getopt's values: HELP_VALUE is --help, FIRST_VALUE + i the i-th option */
#define FIRST_VALUE 1001

/* ------------------------------------------------------------------ help */

/* Prints text wrapped at HELP_WIDTH; lines after the first begin at `indent`, the first at `column`.
 * A newline in the text begins a new line; one that begins with a space is printed as it is. */
static void print_wrapped(FILE *out, const char *text, int indent, int column) {
    while (*text) {
        if (*text == '\n') {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            text++;
            if (*text == ' ') { /* a line that is laid out already */
                int line = (int)strcspn(text, "\n");
                column += fprintf(out, "%.*s", line, text);
                text += line;
            }
            continue;
        }
        int word = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        while (*text == ' ') text++;
    }
    fputc('\n', out);
}

static bool table_ends(const cli_option *option) {
    return !option->name && !option->help && option->kind != CLI_TABLE;
}

static void print_option(const cli_option *option, FILE *out) {
    if (option->kind == CLI_HEADING) {
        fprintf(out, "\n%s\n", option->help);
        return;
    }
    int column = option->letter ? fprintf(out, "  -%c, --%s", option->letter, option->name)
                                : fprintf(out, "      --%s", option->name);
    if (option->value) column += fprintf(out, " %s", option->value);
    if (column > HELP_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    print_wrapped(out, option->help, HELP_COLUMN, HELP_COLUMN);
}

static void print_options(const cli_option *option, FILE *out) {
    for (; !table_ends(option); option++) {
        if (option->kind == CLI_TABLE) {
            print_options(option->table, out);
        } else {
            print_option(option, out);
        }
    }
}

void cli_print_help(const cli_command *command, FILE *out) {
    fprintf(out, "Usage: longreel %s %s\n\n", command->name, command->usage);
    print_wrapped(out, command->text, 0, 0);
    cli_kind first = command->options->kind;
    if (first != CLI_HEADING && first != CLI_TABLE) fprintf(out, "\nOptions\n");
    print_options(command->options, out);
    fprintf(out, "%s      --help              print this and stop\n",
            first == CLI_HEADING || first == CLI_TABLE ? "\n" : "");
    fprintf(out, "\nExamples\n%s", command->examples);
}

int cli_wrong_usage(const cli_command *command, const char *format, ...) {
    char text[LR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_report(LR_OK, NULL, text);
    if (!cli_is_silent()) {
        fprintf(stderr, "longreel: 'longreel %s --help' lists the options\n", command->name);
    }
    return CLI_WRONG_USAGE;
}

/* ------------------------------------------------------------------ values */

static lr_status parse_number(const cli_option *option, const char *text, uint64_t *out, lr_error *err) {
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno == ERANGE || value < option->low ||
        value > option->high) {
        if (option->high == UINT64_MAX) {
            return lr_fail(err, LR_E_USAGE, "'%s' is no whole number of at least %llu", text,
                           (unsigned long long)option->low);
        }
        return lr_fail(err, LR_E_USAGE, "'%s' is no whole number from %llu to %llu", text,
                       (unsigned long long)option->low, (unsigned long long)option->high);
    }
    *out = value;
    return LR_OK;
}

static lr_status parse_word(const cli_option *option, const char *text, int *out, lr_error *err) {
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; option->words[i]; i++) {
        if (strcmp(option->words[i], text) == 0) {
            *out = i;
            return LR_OK;
        }
        int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", option->words[i]);
        if (n > 0 && used + (size_t)n < sizeof known) used += (size_t)n;
    }
    return lr_fail(err, LR_E_USAGE, "'%s' is none of %s", text, known);
}

static lr_status take_value(const cli_option *option, void *options, const char *text, lr_error *err) {
    void *target = (char *)options + option->offset;
    uint64_t number = 0;
    lr_status st = LR_OK;
    switch (option->kind) {
    case CLI_SET: *(bool *)target = true; break;
    case CLI_CLEAR: *(bool *)target = false; break;
    case CLI_TEXT:
        if (text[0] == '\0') st = lr_fail(err, LR_E_USAGE, "the value is empty");
        *(const char **)target = text;
        break;
    case CLI_WORD: st = parse_word(option, text, target, err); break;
    case CLI_INT:
        st = parse_number(option, text, &number, err);
        if (st == LR_OK) *(int *)target = (int)number;
        break;
    case CLI_SIZE:
        st = parse_number(option, text, &number, err);
        if (st == LR_OK) *(size_t *)target = (size_t)number;
        break;
    case CLI_COUNT: st = parse_number(option, text, target, err); break;
    case CLI_TIME: st = lr_parse_time(text, target, err); break;
    case CLI_RATIONAL: st = lr_parse_rational(text, target, err); break;
    case CLI_CALL: st = option->call(options, text, err); break;
    case CLI_HEADING:
    case CLI_TABLE: break;
    }
    if (st != LR_OK) lr_error_context(err, "--%s", option->name);
    return st;
}

/* ------------------------------------------------------------------ parsing */

typedef struct parser {
    const cli_option *known[MAX_OPTIONS];
    struct option longs[MAX_OPTIONS + 2];
    char shorts[2 * MAX_OPTIONS + 2];
    size_t count, n_shorts;
} parser;

static void add_options(parser *p, const cli_option *option) {
    for (; !table_ends(option); option++) {
        if (option->kind == CLI_TABLE) add_options(p, option->table);
        if (option->kind == CLI_TABLE || option->kind == CLI_HEADING) continue;
        p->known[p->count] = option;
        p->longs[p->count] = (struct option){
            .name = option->name,
            .has_arg = option->value ? required_argument : no_argument,
            .val = FIRST_VALUE + (int)p->count,
        };
        if (option->letter) {
            p->shorts[p->n_shorts++] = option->letter;
            if (option->value) p->shorts[p->n_shorts++] = ':';
        }
        p->count++;
    }
}

static const cli_option *option_of(const parser *p, int got) {
    if (got >= FIRST_VALUE) return p->known[got - FIRST_VALUE];
    for (size_t i = 0; i < p->count; i++) {
        if (p->known[i]->letter == got) return p->known[i];
    }
    return NULL;
}

/* getopt returns '?' or ':' for the argument before optind; optopt is the letter, or the value of the
 * long option, or 0. */
static int report_mistake(const cli_command *command, const parser *p, int got, char **argv) {
    const cli_option *option = optopt ? option_of(p, optopt) : NULL;
    const char *argument = argv[optind > 1 ? optind - 1 : 1];
    if (option && got == ':') {
        return cli_wrong_usage(command, "--%s needs a value: %s", option->name, option->value);
    }
    if (option) return cli_wrong_usage(command, "--%s takes no value: %s", option->name, argument);
    if (optopt && argument[0] == '-' && argument[1] == '-') {
        return cli_wrong_usage(command, "--help takes no value");
    }
    if (optopt) return cli_wrong_usage(command, "there is no option -%c", optopt);
    return cli_wrong_usage(command, "there is no option %s, or it is cut too short", argument);
}

bool cli_parse(const cli_command *command, int argc, char **argv, void *options, char ***rest,
               size_t *n_rest, int *code) {
    parser p = {.shorts = ":", .n_shorts = 1};
    lr_error err = {0};
    int got;
    add_options(&p, command->options);
    p.longs[p.count] = (struct option){.name = "help", .val = HELP_VALUE};
    opterr = 0;
    optind = 1;
    while ((got = getopt_long(argc, argv, p.shorts, p.longs, NULL)) != -1) {
        if (got == HELP_VALUE) {
            if (!cli_is_silent()) cli_print_help(command, stdout);
            *code = cli_finish_output(CLI_DONE);
            return false;
        }
        if (got == '?' || got == ':') {
            *code = report_mistake(command, &p, got, argv);
            return false;
        }
        if (take_value(option_of(&p, got), options, optarg, &err) != LR_OK) {
            *code = cli_wrong_usage(command, "%s", err.text);
            return false;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (argv[i][0] != '\0') continue;
        *code = cli_wrong_usage(command, "argument %d is empty", i - optind + 1);
        return false;
    }
    *rest = argv + optind;
    *n_rest = (size_t)(argc - optind);
    return true;
}
