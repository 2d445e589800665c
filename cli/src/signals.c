/* SIGINT, SIGTERM and SIGHUP ask the stages to stop; the unfinished set is then removed. */
#include <signal.h>
#include <string.h>

#include "cli.h"

static lr_cancel cancel;
static lr_stop stop = {.cancel = &cancel};

static void ask(int number) {
    (void)number;
    lr_stop_ask(&stop);
}

void cli_catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ask;
    action.sa_flags = (int)(SA_RESTART | SA_RESETHAND); /* the second one kills */
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        bool ignored = sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (numbers[i] == SIGHUP && ignored) continue; /* nohup */
        (void)sigaction(numbers[i], &action, NULL);
    }
}

lr_cancel *cli_cancel(void) {
    return &cancel;
}

lr_stop *cli_stop(double grace) {
    stop.grace = grace;
    return &stop;
}

bool cli_cancelled(void) {
    return atomic_load(&stop.asked) != 0;
}
