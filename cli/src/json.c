/* Documents on standard output. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "cli.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

json_t *cli_json_text(const char *text) {
    json_t *whole = json_string(text);
    if (whole) return whole;
    size_t bytes = strlen(text), used = 0;
    char *fixed = lr_alloc(3 * bytes + 1);
    if (!fixed) return NULL;
    /* A byte is kept with those after it that make a character with it. */
    for (size_t i = 0; i < bytes;) {
        size_t n = 1;
        json_t *one = NULL;
        while (n <= 4 && i + n <= bytes && !(one = json_stringn(text + i, n))) n++;
        if (one) {
            memcpy(fixed + used, text + i, n);
            used += n;
            i += n;
        } else {
            memcpy(fixed + used, replacement, 3);
            used += 3;
            i++;
        }
        json_decref(one);
    }
    whole = json_stringn(fixed, used);
    lr_free(fixed);
    return whole;
}

json_t *cli_json_seconds(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

int cli_finish_output(int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    lr_error err = {0};
    lr_fail_errno(&err, LR_E_IO, errno, "standard output cannot be written");
    cli_report(LR_E_IO, NULL, err.text);
    return code == CLI_DONE ? CLI_SOME_FAILED : code;
}

int cli_print_json(json_t *document, int code) {
    if (!document) {
        cli_report(LR_E_NOMEM, NULL, "out of memory: the JSON document");
        return code == CLI_DONE ? CLI_SOME_FAILED : code;
    }
    /* 15 digits: a decimal of a file name's fps or time comes out as it went in */
    json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    fputc('\n', stdout);
    json_decref(document);
    return cli_finish_output(code);
}
