/* SPDX-License-Identifier: Apache-2.0 */
/* The command's options: the first byte says which verb, the rest are words, a line each. */
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "fuzz/fuzz.h"

#define WORDS 32

/* Files are read on demand of an option; the fuzzer is not to read those of the machine. */
static bool names_a_file(const char *words)
{
    return strstr(words, "-file") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum cli_verb verbs[] = {CLI_RUN, CLI_INFO, CLI_LS, CLI_BREAK, CLI_DOCTOR};
    char words[2048], first[] = "rlock", *argv[WORDS + 2] = {first}, *next = words;
    struct cli_options opts;
    int argc = 1;

    if (size < 1 || size > sizeof(words) - 1) {
        return 0;
    }
    memcpy(words, data + 1, size - 1);
    words[size - 1] = '\0';
    if (names_a_file(words)) {
        return 0;
    }
    while (argc <= WORDS && (argv[argc] = strsep(&next, "\n")) != NULL) {
        argc++;
    }
    argv[argc] = NULL;
    optind = 0; /* glibc: getopt begins again */
    (void)cli_options_parse(&opts, verbs[data[0] % 5], argc, argv);
    cli_options_fini(&opts);
    return 0;
}
