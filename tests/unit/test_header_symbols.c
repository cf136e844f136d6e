/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public surface: what the headers declare, what librlock.sym lists, and what the shared
 * library exports are the same names. This program is linked to the shared library alone.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rlock/admin.h>
#include <rlock/latch.h>
#include <rlock/leader.h>
#include <rlock/stats.h>

#include "symbols.h"

#include <cmocka.h>

typedef void any_fn(void);

/* Each name of librlock.sym, as CMake read it. */
static const struct {
    const char *name;
    any_fn *address;
} symbols[] = {
#define ROW(name) {#name, (any_fn *)(name)},
    SYMBOLS(ROW)
#undef ROW
};

enum { N = sizeof(symbols) / sizeof(symbols[0]) };

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < N; i++) {
        if (strcmp(symbols[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void each_listed_name_can_be_linked(void **state)
{
    (void)state;
    for (size_t i = 0; i < N; i++) {
        assert_true(symbols[i].address != NULL);
    }
    assert_true(N > 20);
}

/* Copies the name that a declaration declares: the one before its bracket. */
static void declared_name(const char *declaration, char name[static 64])
{
    const char *end = strchr(declaration, '('), *at = end;
    size_t len;

    assert_non_null(end);
    while (at > declaration && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) {
        at--;
    }
    len = (size_t)(end - at);
    assert_in_range(len, 1, 63);
    memcpy(name, at, len);
    name[len] = '\0';
}

/* Returns how many names a header declares, each of which is listed. */
static size_t count_declared(const char *header)
{
    static char text[128 * 1024];
    FILE *file = fopen(header, "re");
    size_t n = 0;

    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    for (const char *at = strstr(text, "\nRLOCK_API "); at != NULL;
         at = strstr(at + 1, "\nRLOCK_API ")) {
        char name[64];

        declared_name(at, name);
        if (!is_listed(name)) {
            fail_msg("%s is declared and not listed", name);
        }
        n++;
    }
    return n;
}

static void each_declared_name_is_listed_and_each_listed_one_declared(void **state)
{
    (void)state;
    assert_int_equal(
        count_declared(RLOCK_HEADERS "/rlock.h") + count_declared(RLOCK_HEADERS "/stats.h") +
            count_declared(RLOCK_HEADERS "/admin.h") + count_declared(RLOCK_HEADERS "/leader.h") +
            count_declared(RLOCK_HEADERS "/latch.h"),
        N);
}

static void the_library_exports_what_is_listed_and_nothing_else(void **state)
{
    FILE *names = popen(RLOCK_NM " -D --defined-only " RLOCK_LIBRARY, "re");
    char line[256], name[200], type;
    size_t n = 0;

    (void)state;
    assert_non_null(names);
    while (fgets(line, sizeof(line), names) != NULL) {
        if (sscanf(line, "%*s %c %199[^@\n]", &type, name) == 2 && type != 'A') {
            if (!is_listed(name)) {
                fail_msg("%s is exported and not listed", name);
            }
            n++;
        }
    }
    assert_int_equal(pclose(names), 0);
    assert_int_equal(n, N);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_listed_name_can_be_linked),
        cmocka_unit_test(each_declared_name_is_listed_and_each_listed_one_declared),
        cmocka_unit_test(the_library_exports_what_is_listed_and_nothing_else),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("header_symbols", tests, NULL, NULL);
}
