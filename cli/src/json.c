/* Documents on standard output. */
#include <errno.h>
#include <math.h>

#include "cli.h"

json_t *cli_json_text(const char *text) {
    char *copy = lr_utf8_copy(text);
    json_t *json = copy ? json_string(copy) : NULL;
    lr_free(copy);
    return json;
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
    if (cli_is_silent()) {
        json_decref(document);
        return code;
    }
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
