/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/run.h"

/* A file's text, for good. */
static char *read_whole(const char *directory, const char *name)
{
    enum { MOST = 65536 };
    char path[1024];
    char *text = calloc(1, MOST);
    FILE *file;

    test_text(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "re");
    if (text == NULL || file == NULL || fread(text, 1, MOST - 1, file) == 0) {
        test_die("%s: cannot be read", path);
    }
    (void)fclose(file);
    return text;
}

const struct peer_script *recorded_scripts(void)
{
    static struct peer_script scripts[PEER_VERBS];
    const char *directory = getenv("RLOCK_REDISSON_SCRIPTS");

    for (int i = 0; i < PEER_VERBS && directory != NULL && scripts[i].body == NULL; i++) {
        char *body = read_whole(directory, peer_verbs[i]);

        scripts[i].words = strsep(&body, "\n");
        TEST_CHECK(body != NULL && body[0] != '\0');
        scripts[i].body = body;
    }
    return directory != NULL ? scripts : NULL;
}

enum peer_age recorded_age(void)
{
    char *version = read_whole(getenv("RLOCK_REDISSON_SCRIPTS"), "version"), *rest = NULL;
    long major = strtol(version, &rest, 10), minor = strtol(rest + 1, NULL, 10);

    free(version);
    return major > 3 || (major == 3 && minor >= 32) ? PEER_NEW : PEER_OLD;
}
