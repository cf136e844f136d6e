/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS is a module, RLOCK__TLS_FILE below a library directory; see
 * docs/decisions/0011-tls-is-a-module.md. Compiled for the shared library, and once more for the
 * command (RLOCK__TLS_FOR_PROGRAM).
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "net/tls.h"
#include "net/tls_place.h"

/* The text is cut where a path is too long: such a file is not there. */
#define PATH_SIZE (PATH_MAX + 64)

/* Writes the file that this code is in. A name that is not absolute would be another file's by now,
 * and a program is called whatever its caller likes. */
static bool own_file(char out[static PATH_SIZE])
{
#ifdef RLOCK__TLS_FOR_PROGRAM
    const ssize_t len = readlink("/proc/self/exe", out, PATH_SIZE - 1);

    out[len > 0 ? len : 0] = '\0';
#else
    static const char here;
    Dl_info info = {.dli_fname = NULL};
    const bool is_known = dladdr(&here, &info) != 0;

    (void)snprintf(out, PATH_SIZE, "%s", is_known && info.dli_fname != NULL ? info.dli_fname : "");
#endif
    return out[0] == '/';
}

/* Whether the file is there, `below` the directory of the file that we are in. */
static bool is_near(const char *below, char out[static PATH_SIZE])
{
    char *end = own_file(out) ? strrchr(out, '/') + 1 : NULL;

    if (end == NULL) {
        return false;
    }
    (void)snprintf(end, (size_t)(out + PATH_SIZE - end), "%s" RLOCK__TLS_FILE, below);
    return access(out, F_OK) == 0;
}

/* Beside us, as for the library, and as all is in a build's directory; or where the command has it
 * when it was installed; or where it was to be installed. */
static void find_file(char out[static PATH_SIZE])
{
    if (!is_near("", out) && !is_near(RLOCK__TLS_FROM_BIN "/", out)) {
        (void)snprintf(out, PATH_SIZE, "%s", RLOCK__TLS_LIBDIR "/" RLOCK__TLS_FILE);
    }
}

/* dlerror() says which file, ours or one of OpenSSL's. */
static int fail_load(void)
{
    const char *why = dlerror();

    return rlock__fail(RLOCK_ETLS,
                       "TLS needs rlock's module " RLOCK__TLS_FILE " and OpenSSL 3 installed: %s",
                       why != NULL ? why : "no reason given");
}

static int check(const char *path, const struct rlock__tls_table *table)
{
    return table->number == RLOCK__TLS_INTERFACE
               ? 0
               : rlock__fail(RLOCK_ETLS,
                             "%s is of rlock %s (interface %d), this is rlock %s (interface %d): "
                             "install the module of this version",
                             path, table->version, table->number, RLOCK_VERSION,
                             RLOCK__TLS_INTERFACE);
}

/* It stays loaded: connections and threads of ours may outlive the client. */
static int load(const struct rlock__tls_table **ret_table)
{
    const struct rlock__tls_table *const *symbol;
    char path[PATH_SIZE];
    void *module;
    int code;

    find_file(path);
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == NULL) {
        return fail_load();
    }
    symbol = dlsym(module, RLOCK__TLS_SYMBOL);
    if (symbol == NULL) {
        return rlock__fail(RLOCK_ETLS, "%s is no module of rlock", path);
    }
    code = check(path, *symbol);
    if (code == 0) {
        *ret_table = *symbol;
    }
    return code;
}

/* Threads that come here at once load the same. There is no mutex, which a fork could find
 * locked. */
int rlock__tls_find(const struct rlock__tls_table **ret_table)
{
    static _Atomic(const struct rlock__tls_table *) found;
    const struct rlock__tls_table *table = atomic_load(&found);
    const int code = table == NULL ? load(&table) : 0;

    if (code == 0) {
        atomic_store(&found, table);
        *ret_table = table;
    }
    return code;
}
