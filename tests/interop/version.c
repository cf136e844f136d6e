#include "version.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void version_read(struct version *ret_version, const char *argument)
{
    const char *equals = strchr(argument, '=');
    char path[1024];
    char paths[15000];

    if (equals == NULL) {
        test_die("%s: a Redisson version, = and its directory", argument);
    }
    ret_version->argument = argument;
    test_text(ret_version->name, sizeof(ret_version->name), "%.*s", (int)(equals - argument),
              argument);
    test_text(ret_version->directory, sizeof(ret_version->directory), "%s", equals + 1);
    test_text(path, sizeof(path), "%s/classpath", equals + 1);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(paths, sizeof(paths), file) == NULL) {
        test_die("%s: not built", path);
    }
    fclose(file);
    paths[strcspn(paths, "\n")] = '\0';
    test_text(ret_version->classpath, sizeof(ret_version->classpath), "%s/classes:%s", equals + 1,
              paths);
}

/* The words of a command, kept as long as the process runs. */
static const char *const *keep(const char *const *words, size_t size)
{
    const char **copy = calloc(1, size);

    TEST_CHECK(copy != NULL);
    memcpy(copy, words, size);
    return copy;
}

const char *const *version_argv(const struct version *version)
{
    const char *const argv[] = {"java",
                                "-Xmx96m",
                                "-Xss512k",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "-cp",
                                version->classpath,
                                "rlock.interop.Agent",
                                NULL};

    return keep(argv, sizeof(argv));
}

static const char *const *our_argv(const char *programs)
{
    static char path[320];
    const char *const argv[] = {path, NULL};

    test_text(path, sizeof(path), "%sinterop_agent", programs);
    return keep(argv, sizeof(argv));
}

struct party party_start(const char *label, const struct version *version, const char *programs,
                         const struct deployment *deployment)
{
    static unsigned int n;
    char log[320];

    test_text(log, sizeof(log), "%s/agent-%u.log", test_dir(), ++n);
    struct party party = {
        .peer =
            peer_start(label, log, version != NULL ? version_argv(version) : our_argv(programs)),
        .is_ours = version == NULL,
        .n_servers = deployment->n_urls};
    for (size_t i = 0; i < deployment->n_urls; i++) {
        party.urls[i] = deployment->urls[i];
    }
    return party;
}
