/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance KIND CASE          runs a case with a kind
 * conformance --registered FILE  whether FILE has a line for each kind, and one for each case
 */
#include "cases.h"

#include "support/async_calls.h"

#include <unistd.h>

struct row {
    const char *name;
    case_fn *fn;
    unsigned int needs;
};

#define ROW(name, needs) {#name, name, needs},
static const struct row cases[] = {CONF_CASES(ROW, ROW, ROW)};
#undef ROW

#define ROW(name, make, make_rival, can) {#name, make, make_rival, can},
static const struct kind kinds[] = {CONF_KINDS(ROW)};
#undef ROW

enum { N_CASES = sizeof(cases) / sizeof(cases[0]), N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct {
    unsigned int bit;
    const char *lack;
} lacks[] = {
    {CAN_NEST, "cannot be nested"},
    {REFUSES_AGAIN, "can be nested"},
    {EXCLUDES_ITSELF, "is shared"},
    {CAN_BE_ASKED, "cannot be inspected or forced"},
    {HAS_ONE_KEY, "is not one key under its own name"},
    {IS_PLAIN_HASH, "is not a plain hash under its own name"},
    {ANNOUNCES, "does not announce its release on redisson_lock__channel"},
    {LISTENS, "listens to no channel while it waits"},
    {IS_QUIET, "polls while it waits"},
    {LINES_UP, "lets all its waiters ask the server"},
    {COSTS_TWO_SCRIPTS, "costs other than two scripts"},
    {HAS_TOKEN, "has no token"},
    {QUEUES, "has no queue on the server"},
    {NAMES_HOLDER, "does not name its holder"},
    {LEASES, "has no leases of the caller's choice"},
    {CALLS_WAIT, "is taken by async calls"},
};

struct chosen {
    const struct kind *kind;
    const struct row *row;
};

static void run(void **state)
{
    const struct chosen *chosen = *state;
    const unsigned int calls = test_calls() == TEST_CALLS_BLOCKING ? CALLS_WAIT : 0;
    const unsigned int missing = chosen->row->needs & ~(chosen->kind->can | calls);
    struct fixture f;

    for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
        if ((missing & lacks[i].bit) != 0) {
            print_message("a %s lock %s\n", chosen->kind->name, lacks[i].lack);
            skip();
        }
    }
    fixture_open(&f, &(struct fixture_opts){.kind = chosen->kind});
    chosen->row->fn(&f);
    fixture_close(&f);
}

static bool has_line(const char *text, const char *name)
{
    const size_t len = strlen(name);

    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
        if ((at == text || at[-1] == '\n') && at[len] == '\n') {
            return true;
        }
    }
    return false;
}

/* A case that CMake did not see would never run. */
static int check_registered(const char *path)
{
    static char text[64 * 1024];
    FILE *file = fopen(path, "re");
    const size_t n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    int status = n > 0 ? 0 : 1;

    if (file != NULL) {
        (void)fclose(file);
    }
    for (size_t i = 0; i < N_CASES + N_KINDS; i++) {
        const char *name = i < N_CASES ? cases[i].name : kinds[i - N_CASES].name;

        if (!has_line(text, name)) {
            printf("%s is not registered\n", name);
            status = 1;
        }
    }
    return status;
}

static int find(const char *kind, const char *name, struct chosen *ret_chosen)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        ret_chosen->kind = strcmp(kinds[i].name, kind) == 0 ? &kinds[i] : ret_chosen->kind;
    }
    for (size_t i = 0; i < N_CASES; i++) {
        ret_chosen->row = strcmp(cases[i].name, name) == 0 ? &cases[i] : ret_chosen->row;
    }
    return ret_chosen->kind != NULL && ret_chosen->row != NULL ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct chosen chosen = {NULL, NULL};
    struct CMUnitTest test = {.test_func = run, .initial_state = &chosen};

    if (argc == 3 && strcmp(argv[1], "--registered") == 0) {
        return check_registered(argv[2]);
    }
    if (argc != 3 || find(argv[1], argv[2], &chosen) != 0) {
        (void)fprintf(stderr, "usage: conformance KIND CASE | conformance --registered FILE\n");
        return 64;
    }
    test.name = chosen.row->name;
    return _cmocka_run_group_tests(chosen.kind->name, &test, 1, NULL, NULL);
}
