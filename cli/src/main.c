/* longreel: the commands. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static const cli_command *const commands[] = {
    &cli_encode, &cli_plan, &cli_query, &cli_embed, &cli_inspect, &cli_status, &cli_verify, &cli_repool,
    &cli_report_sheet, &cli_export, &cli_make_model, &cli_bench,
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void print_overview(FILE *out) {
    fputs("Usage: longreel COMMAND ...\n\n"
          "Turns recordings into embeddings, each recording as one sequence of tokens, and searches\n"
          "them.\n\nCommands\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "  %-12s%s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n"
          "'longreel COMMAND --help' tells more; 'longreel --version' names the version.\n\n"
          "Exit status: 0 done, perhaps with warnings; 1 some recordings failed, the others are\n"
          "saved; 2 wrong usage, model or configuration, nothing done; 3 interrupted: run the same\n"
          "command again.\n",
          out);
}

static int print_version(void) {
    const lr_kernels *kernels = NULL;
    lr_error err = {0};
    printf("longreel %s\n", lr_version());
    if (lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, &err) != LR_OK) return cli_fail(&err);
    printf("kernels: %s, linear layers: %s\n", kernels->isa, kernels->gemm);
    return cli_finish_output(CLI_DONE);
}

static const cli_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    }
    return NULL;
}

static int help(const char *name) {
    const cli_command *command = name ? find_command(name) : NULL;
    if (command) {
        cli_print_help(command, stdout);
    } else {
        print_overview(stdout);
    }
    return cli_finish_output(CLI_DONE);
}

/* A launcher ends the job when the first of its processes fails, though another has still to say why. */
static int let_others_speak(int code) {
    const struct timespec a_while = {.tv_sec = 1};
    if (code == CLI_WRONG_USAGE && cli_is_silent()) (void)nanosleep(&a_while, NULL);
    return code;
}

int main(int argc, char **argv) {
    json_set_alloc_funcs(lr_alloc, lr_free);
    setvbuf(stderr, NULL, _IOLBF, 1 << 14); /* whole lines, where several processes write */
    signal(SIGPIPE, SIG_IGN); /* a failed write is reported like any other */
    signal(SIGXFSZ, SIG_IGN);
    lr_log_set(cli_log, NULL, LR_LOG_WARNING);
    if (argc < 2) {
        print_overview(stderr);
        return CLI_WRONG_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) return print_version();
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help(NULL);
    if (strcmp(argv[1], "help") == 0 && (argc == 2 || find_command(argv[2]))) return help(argv[2]);
    const cli_command *command = find_command(argv[1]);
    if (!command) {
        cli_note("there is no command '%s'", argv[1]);
        cli_note("'longreel --help' lists them");
        return CLI_WRONG_USAGE;
    }
    return let_others_speak(command->run(command, argc - 1, argv + 1));
}
