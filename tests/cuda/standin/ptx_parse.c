/* A PTX module's text: entries with their parameters, registers, shared variables and labels. */
#include "ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *ptx_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return array;
    size_t n = *capacity ? *capacity : 64;
    while (n < need) n *= 2;
    array = realloc(array, n * size);
    if (!array) abort();
    *capacity = n;
    return array;
}

/* ------------------------------------------------------------------ statements */

typedef enum piece { PIECE_END, PIECE_STATEMENT, PIECE_LABEL, PIECE_OPEN, PIECE_CLOSE } piece;

typedef struct scanner {
    char *at, *end;
    int line, start_line;
    char *text; /* of the last statement or label, or what stands before an opening brace */
} scanner;

/* Comments become blanks; lines stay lines. */
static void blank_comments(char *text)
{
    for (char *p = text; *p; p++) {
        if (p[0] == '/' && p[1] == '/') {
            while (*p && *p != '\n') *p++ = ' ';
        } else if (p[0] == '/' && p[1] == '*') {
            for (; *p && !(p[0] == '*' && p[1] == '/'); p++)
                if (*p != '\n') *p = ' ';
            if (*p) p[0] = p[1] = ' ';
        }
        if (!*p) break;
    }
}

static bool is_name(const char *from, const char *end)
{
    if (from == end) return false;
    for (; from < end; from++)
        if (!isalnum((unsigned char)*from) && *from != '_' && *from != '$' && *from != '%') return false;
    return true;
}

/* A brace inside a statement is a vector or an initializer, one before any text a scope; one behind the
 * head of an entry opens its body. */
static piece next_piece(scanner *s)
{
    int depth = 0;
    while (s->at < s->end && isspace((unsigned char)*s->at)) s->line += *s->at++ == '\n';
    s->text = s->at;
    s->start_line = s->line;
    for (; s->at < s->end; s->at++) {
        char c = *s->at;
        if (c == '\n') s->line++;
        bool head = strncmp(s->text, ".visible .entry", 15) == 0 || strncmp(s->text, ".func", 5) == 0 ||
                    strncmp(s->text, ".visible .func", 14) == 0 || strncmp(s->text, ".weak .func", 11) == 0;
        piece kind = PIECE_END;
        if (c == ';' && depth == 0) kind = PIECE_STATEMENT;
        else if (c == '{' && (s->at == s->text || head)) kind = PIECE_OPEN;
        else if (c == '}' && s->at == s->text) kind = PIECE_CLOSE;
        else if (c == ':' && depth == 0 && is_name(s->text, s->at)) kind = PIECE_LABEL;
        else if (c == '\n' && strncmp(s->text, ".version", 8) == 0) kind = PIECE_STATEMENT;
        else if (c == '\n' && strncmp(s->text, ".target", 7) == 0) kind = PIECE_STATEMENT;
        else if (c == '\n' && strncmp(s->text, ".address_size", 13) == 0) kind = PIECE_STATEMENT;
        if (kind != PIECE_END) {
            *s->at++ = '\0';
            return kind;
        }
        depth += (c == '{' || c == '(') - (c == '}' || c == ')');
    }
    return PIECE_END;
}

/* ------------------------------------------------------------------ declarations */

static bool fail(char *message, size_t size, int line, const char *what, const char *text)
{
    (void)snprintf(message, size, "PTX line %d: %s: %.200s", line, what, text);
    return false;
}

static size_t number_after(const char *text, const char *word, size_t otherwise)
{
    const char *found = strstr(text, word);
    return found ? (size_t)strtoull(found + strlen(word), NULL, 10) : otherwise;
}

static void declare(ptx_names *names, ptx_space space, const char *name, size_t length, uint64_t address)
{
    names->variables = ptx_grow(names->variables, &names->variables_capacity, names->n_variables + 1,
                                sizeof *names->variables);
    ptx_variable *v = &names->variables[names->n_variables++];
    *v = (ptx_variable){.address = address, .space = space};
    (void)snprintf(v->name, sizeof v->name, "%.*s", (int)length, name);
}

/* ".shared .align 16 .b8 name[64]" or ".param .u64 name": reserves room at *used. */
static bool declare_variable(ptx_names *names, ptx_space space, const char *text, size_t *used)
{
    const char *name = text, *type = NULL;
    for (const char *p = text; *p; p++)
        if (isspace((unsigned char)*p)) name = p + 1;
    for (const char *p = text; p < name; p++)
        if (*p == '.' && ptx_type_of(p + 1) != PTX_NONE) type = p + 1;
    if (!type) return false;
    size_t length = strcspn(name, "["), element = ptx_type_bytes(ptx_type_of(type));
    size_t align = number_after(text, ".align", element), bytes = element;
    if (name[length] == '[') bytes = element * (size_t)strtoull(name + length + 1, NULL, 10);
    *used = (*used + align - 1) / align * align;
    declare(names, space, name, length, *used);
    *used += bytes;
    return true;
}

static bool declare_params(ptx_kernel *kernel, ptx_names *names, char *list)
{
    char *save = NULL;
    for (char *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        while (isspace((unsigned char)*one)) one++;
        char *end = one + strlen(one);
        while (end > one && isspace((unsigned char)end[-1])) *--end = '\0';
        if (*one && !declare_variable(names, PTX_PARAM, one, &kernel->param_bytes)) return false;
    }
    return true;
}

/* ".reg .b32 %r<9>" or ".reg .pred p, q" */
static bool declare_registers(ptx_kernel *kernel, ptx_names *names, char *text)
{
    char *save = NULL, *list = strchr(text + 1, '.');
    list = list ? strpbrk(list, " \t") : NULL;
    if (!list) return false;
    for (char *one = strtok_r(list, ", \t\n", &save); one; one = strtok_r(NULL, ", \t\n", &save)) {
        char *count = strchr(one, '<');
        if (count) {
            if (names->n_ranges == sizeof names->ranges / sizeof *names->ranges) return false;
            struct ptx_range *range = &names->ranges[names->n_ranges++];
            range->first = (int32_t)kernel->n_registers;
            range->count = atoi(count + 1);
            (void)snprintf(range->prefix, sizeof range->prefix, "%.*s", (int)(count - one), one);
            kernel->n_registers += (size_t)range->count;
            continue;
        }
        names->named = ptx_grow(names->named, &names->named_capacity, names->n_named + 1,
                                sizeof *names->named);
        struct ptx_named *named = &names->named[names->n_named++];
        named->reg = (int32_t)kernel->n_registers++;
        (void)snprintf(named->name, sizeof named->name, "%s", one);
    }
    return true;
}

/* ------------------------------------------------------------------ a kernel's body */

typedef struct edit_state {
    const ptx_edit *edit;
    size_t seen;
    bool begun, done;
    char text[2 * PTX_NAME]; /* the edited instruction: there is at most one */
} edit_state;

static char *edited(edit_state *state, const ptx_kernel *kernel, char *text)
{
    const ptx_edit *edit = state->edit;
    if (!edit || state->done || strcmp(kernel->name, edit->kernel)) return text;
    char *found = strstr(text, edit->from);
    if (!state->begun && edit->after[0] != '-') {
        state->begun = strstr(text, edit->after) != NULL;
        return text;
    }
    if (!found || state->seen++ != edit->which) return text;
    state->done = true;
    (void)snprintf(state->text, sizeof state->text, "%.*s%s%s", (int)(found - text), text, edit->to,
                   found + strlen(edit->from));
    return strdup(state->text); /* lives as long as the process: one edit a process */
}

static bool add_instruction(ptx_kernel *kernel, ptx_names *names, char *text, int line, char *message,
                            size_t size)
{
    char why[256] = "";
    kernel->code = ptx_grow(kernel->code, &kernel->code_capacity, kernel->n_code + 1, sizeof *kernel->code);
    ptx_ins *ins = &kernel->code[kernel->n_code];
    *ins = (ptx_ins){.line = line, .text = text, .guard = -1};
    if (!ptx_decode(kernel, names, text, ins, why, sizeof why)) return fail(message, size, line, why, text);
    kernel->n_code++;
    return true;
}

static bool body_statement(ptx_kernel *kernel, ptx_names *names, edit_state *edit, const scanner *s,
                           char *message, size_t size)
{
    char *text = s->text;
    if (strncmp(text, ".reg", 4) == 0)
        return declare_registers(kernel, names, text) ||
               fail(message, size, s->start_line, "unknown registers", text);
    if (strncmp(text, ".shared", 7) == 0)
        return declare_variable(names, PTX_SHARED, text, &kernel->shared_bytes) ||
               fail(message, size, s->start_line, "unknown variable", text);
    if (strncmp(text, ".pragma", 7) == 0) return true;
    if (text[0] == '.') return fail(message, size, s->start_line, "unknown directive", text);
    text = edited(edit, kernel, text);
    if (!*text) return true; /* edited away */
    return add_instruction(kernel, names, text, s->start_line, message, size);
}

static void add_label(ptx_kernel *kernel, ptx_names *names, const char *name)
{
    names->labels = ptx_grow(names->labels, &names->labels_capacity, names->n_labels + 1,
                             sizeof *names->labels);
    struct ptx_label *label = &names->labels[names->n_labels++];
    label->at = kernel->n_code;
    (void)snprintf(label->name, sizeof label->name, "%s", name);
}

static bool resolve_jumps(ptx_kernel *kernel, const ptx_names *names, char *message, size_t size)
{
    for (size_t j = 0; j < names->n_jumps; j++) {
        ptx_ins *ins = &kernel->code[names->jumps[j].at];
        ins->target = -1;
        for (size_t l = 0; l < names->n_labels; l++)
            if (!strcmp(names->labels[l].name, names->jumps[j].label))
                ins->target = (int32_t)names->labels[l].at;
        if (ins->target < 0) return fail(message, size, ins->line, "no such label", names->jumps[j].label);
    }
    return true;
}

static bool parse_body(ptx_kernel *kernel, ptx_names *names, scanner *s, edit_state *edit, char *message,
                       size_t size)
{
    for (int depth = 1; depth > 0;) {
        piece kind = next_piece(s);
        bool good = true;
        if (kind == PIECE_OPEN) depth++;
        else if (kind == PIECE_CLOSE) depth--;
        else if (kind == PIECE_LABEL) add_label(kernel, names, s->text);
        else if (kind == PIECE_STATEMENT) good = body_statement(kernel, names, edit, s, message, size);
        else good = fail(message, size, s->line, "the text ends inside a kernel", kernel->name);
        if (!good) return false;
    }
    /* running off the end is a return */
    static char end[] = "ret";
    return add_instruction(kernel, names, end, s->line, message, size) &&
           resolve_jumps(kernel, names, message, size);
}

/* ------------------------------------------------------------------ the module */

/* ".visible .entry name( params ) directives" */
static bool parse_head(ptx_kernel *kernel, ptx_names *names, char *head)
{
    char *open = strchr(head, '('), *close = strrchr(head, ')');
    char *name = strstr(head, ".entry");
    if (!open || !close || !name || close < open) return false;
    *open = *close = '\0';
    for (name += 6; isspace((unsigned char)*name); name++) continue;
    (void)snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)strcspn(name, " \t\n"), name);
    kernel->most_threads = (unsigned)number_after(close + 1, ".maxntid", 0);
    return declare_params(kernel, names, open + 1);
}

static void free_names(ptx_names *names)
{
    free(names->named);
    free(names->variables);
    free(names->labels);
    free(names->jumps);
}

static bool parse_entry(ptx_module *module, const ptx_names *outside, scanner *s, edit_state *edit,
                        char *message, size_t size)
{
    ptx_kernel *kernel = calloc(1, sizeof *kernel);
    ptx_names names = {0};
    if (!kernel) abort();
    kernel->next = module->kernels;
    module->kernels = kernel;
    for (size_t i = 0; i < PTX_N_SPECIALS; i++) kernel->special[i] = -1;
    bool good = parse_head(kernel, &names, s->text) ||
                fail(message, size, s->start_line, "unknown entry", s->text);
    /* dynamic shared memory begins behind the kernel's own, at a multiple of 128 */
    for (size_t i = 0; i < outside->n_variables; i++)
        declare(&names, PTX_SHARED, outside->variables[i].name, strlen(outside->variables[i].name), 0);
    good = good && parse_body(kernel, &names, s, edit, message, size);
    if (good && outside->n_variables > 0 && kernel->shared_bytes > 0)
        good = fail(message, size, s->line, "both static and dynamic shared memory", kernel->name);
    free_names(&names);
    return good;
}

static bool parse_all(ptx_module *module, scanner *s, edit_state *edit, char *message, size_t size)
{
    ptx_names outside = {0};
    bool good = true;
    for (piece kind; good && (kind = next_piece(s)) != PIECE_END;) {
        const char *text = s->text;
        if (kind == PIECE_OPEN && strstr(text, ".entry"))
            good = parse_entry(module, &outside, s, edit, message, size);
        else if (kind == PIECE_STATEMENT && strncmp(text, ".extern .shared", 15) == 0)
            good = declare_variable(&outside, PTX_SHARED, text, &(size_t){0});
        else if (kind != PIECE_STATEMENT || (strncmp(text, ".version", 8) && strncmp(text, ".target", 7) &&
                                             strncmp(text, ".address_size 64", 16)))
            good = fail(message, size, s->start_line, "unknown at the level of a module", text);
    }
    free_names(&outside);
    if (good && *s->text) good = fail(message, size, s->start_line, "the text ends inside of", s->text);
    for (const ptx_kernel *kernel = module->kernels; good && edit->edit && kernel; kernel = kernel->next)
        if (!edit->done && !strcmp(kernel->name, edit->edit->kernel))
            good = fail(message, size, 0, "no instruction to edit", edit->edit->from);
    return good;
}

ptx_module *ptx_parse(const char *text, size_t bytes, const ptx_edit *edit, char *message, size_t size)
{
    ptx_module *module = calloc(1, sizeof *module);
    edit_state state = {.edit = edit};
    if (!module || !(module->text = calloc(1, bytes + 1))) abort();
    memcpy(module->text, text, bytes);
    blank_comments(module->text);
    scanner s = {.at = module->text, .end = module->text + strlen(module->text), .line = 1};
    if (parse_all(module, &s, &state, message, size)) return module;
    ptx_free(module);
    return NULL;
}

void ptx_free(ptx_module *module)
{
    while (module->kernels) {
        ptx_kernel *kernel = module->kernels;
        module->kernels = kernel->next;
        free(kernel->code);
        free(kernel->constants);
        free(kernel);
    }
    free(module->text);
    free(module);
}
