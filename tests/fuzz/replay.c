/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a fuzz target each file of a directory: a fault that was found once stays found, with every
 * compiler. */
#include <dirent.h>
#include <string.h>

#include "fuzz/fuzz.h"

static void replay(const char *path)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(path, "re");
    uint8_t *input;
    size_t len;

    FUZZ_CHECK(file != NULL);
    len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    input = malloc(len + 1); /* of its own size, so that a sanitizer sees what goes beyond */
    FUZZ_CHECK(input != NULL);
    memcpy(input, bytes, len);
    (void)LLVMFuzzerTestOneInput(input, len);
    free(input);
}

int main(int argc, char **argv)
{
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;
    char path[1024];
    int n = 0;

    if (dir == NULL) {
        (void)fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 64;
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
            replay(path);
            n++;
        }
    }
    (void)closedir(dir);
    (void)printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
