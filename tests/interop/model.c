/* The model of the fair lock (tests/fair), in programs of its own. */
#include "interop.h"

#include "support/run.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool interop_succeeds(const char *programs, const char *const *argv, const char *log)
{
    const char *words[16];
    char stall_run[320];
    size_t n = 0;

    test_text(stall_run, sizeof(stall_run), "%sstall_run", programs);
    words[n++] = stall_run;
    do {
        TEST_CHECK(n < sizeof(words) / sizeof(words[0]));
        words[n++] = *argv;
    } while (*argv++ != NULL);
    fflush(stdout);
    const pid_t parent = getpid(), pid = test_must(fork(), "fork");
    if (pid == 0) {
        test_die_with_parent(parent);
        if (log != NULL && (freopen(log, "w", stdout) == NULL || dup2(1, 2) < 0)) {
            _exit(126);
        }
        test_exec(words[0], words, NULL);
    }
    return test_reap(pid) == 0;
}

bool interop_model(const char *programs, const char *name)
{
    char path[320], log[320], line[1024];
    bool is_whole;
    FILE *file;

    test_text(path, sizeof(path), "%s%s", programs, name);
    test_text(log, sizeof(log), "%s/%s.log", test_dir(), name);
    is_whole = interop_succeeds(programs, (const char *const[]){path, NULL}, log);
    file = fopen(log, "re");
    TEST_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        is_whole = is_whole && strstr(line, "SKIPPED") == NULL;
        if (isdigit((unsigned char)line[0])) { /* what it has counted */
            printf("%s", line);
        }
    }
    (void)fclose(file);
    printf("%-29s %s\n", name, is_whole ? "ok" : "FAIL");
    if (!is_whole) {
        test_show_file(log);
    }
    return is_whole;
}
