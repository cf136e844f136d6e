#include "server_files.h"

#include "run.h"
#include "side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct server_program {
    const char *name;
    const char *argv0;
    const char *variable;
    const char *system_path; /* NULL: look in PATH */
} programs[] = {
    {"redis", "redis-server", "RLOCK_REDIS_SERVER", "/usr/bin/redis-server"},
    /* Debian's redis-tools has the whole server under this name; it looks at argv[0] to know what
       it is. */
    {"redis", "redis-server", "RLOCK_REDIS_SERVER", "/usr/bin/redis-check-rdb"},
    {"valkey", "valkey-server", "RLOCK_VALKEY_SERVER", NULL},
};

enum { N_PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

static bool take_if_executable(const char *dir, const char *name, char *ret_path, size_t size)
{
    const int n = snprintf(ret_path, size, "%s/%s", dir, name);

    return n > 0 && (size_t)n < size && access(ret_path, X_OK) == 0;
}

static bool take_path(const char *path, char *ret_path, size_t size)
{
    const int n = snprintf(ret_path, size, "%s", path);

    return path[0] == '/' && (size_t)n < size && access(ret_path, X_OK) == 0;
}

static bool find_in_path(const char *name, char *ret_path, size_t size)
{
    const char *list = getenv("PATH");
    char *copy = strdup(list != NULL ? list : "");
    char *rest = copy;
    bool found = false;

    TEST_CHECK(copy != NULL);
    for (char *dir = strsep(&rest, ":"); dir != NULL && !found; dir = strsep(&rest, ":")) {
        found = take_if_executable(dir, name, ret_path, size);
    }
    free(copy);
    return found;
}

static bool find_in_deps(const char *name, char *ret_path, size_t size)
{
    const char *root = test_root();
    char dir[288];

    if (root == NULL) {
        return false;
    }
    test_text(dir, sizeof(dir), "%s/.deps/bin", root);
    return take_if_executable(dir, name, ret_path, size);
}

/* What the variable names is meant: when it is not there, nothing else will do. */
static bool find_binary(const struct server_program *program, char *ret_path, size_t size)
{
    const char *given = getenv(program->variable);

    if (given != NULL) {
        return take_path(given, ret_path, size);
    }
    if (find_in_deps(program->argv0, ret_path, size)) {
        return true;
    }
    if (program->system_path != NULL) {
        return take_path(program->system_path, ret_path, size);
    }
    return find_in_path(program->argv0, ret_path, size);
}

static const char *program_name(const char *asked)
{
    const char *set = getenv("RLOCK_TEST_SERVER");

    if (asked != NULL) {
        return asked;
    }
    return set != NULL ? set : "redis";
}

static const char *find_program(const char *name, char *ret_path, size_t size)
{
    for (size_t i = 0; i < N_PROGRAMS; i++) {
        if (strcmp(programs[i].name, name) == 0 && find_binary(&programs[i], ret_path, size)) {
            return programs[i].argv0;
        }
    }
    return NULL;
}

bool test_server_available(const char *program)
{
    char path[256];

    return find_program(program_name(program), path, sizeof(path)) != NULL;
}

static enum test_transport transport_of(enum test_transport asked)
{
    static const char *const names[] = {
        [TEST_UNIX] = "unix", [TEST_TCP] = "tcp", [TEST_TLS] = "tls"};
    const char *set = getenv("RLOCK_TEST_TRANSPORT");

    if (asked != TEST_DEFAULT) {
        return asked;
    }
    for (int i = TEST_UNIX; i <= TEST_TLS; i++) {
        if (strcmp(set != NULL ? set : "unix", names[i]) == 0) {
            return (enum test_transport)i;
        }
    }
    test_die("RLOCK_TEST_TRANSPORT=%s: unix, tcp or tls", set);
}

static void make_data_dir(const struct server_files *files)
{
    test_must(mkdir(files->data, 0700), files->data);
}

void server_files_make(struct server_files *files, const struct test_server_opts *opts)
{
    const char *name = program_name(opts->program);

    files->argv0 = find_program(name, files->program, sizeof(files->program));
    if (files->argv0 == NULL) {
        test_die(
            "no %s-server: run scripts/setup, or set RLOCK_REDIS_SERVER or RLOCK_VALKEY_SERVER",
            name);
    }
    test_dir_make(files->dir, sizeof(files->dir));
    test_text(files->conf, sizeof(files->conf), "%s/server.conf", files->dir);
    test_text(files->log, sizeof(files->log), "%s/server.log", files->dir);
    test_text(files->socket, sizeof(files->socket), "%s/socket", files->dir);
    test_text(files->data, sizeof(files->data), "%s/data", files->dir);
    test_text(files->unix_url, sizeof(files->unix_url), "unix://%s", files->socket);
    files->transport = transport_of(opts->transport);
    files->aof = opts->aof;
    files->sentinel = opts->sentinel;
    make_data_dir(files);
}

void server_files_remove(const struct server_files *files)
{
    if (getenv("RLOCK_TEST_KEEP") == NULL) {
        test_dir_remove(files->dir);
    }
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    int c;

    TEST_CHECK(in != NULL && out != NULL);
    while ((c = getc(in)) != EOF) {
        (void)putc(c, out);
    }
    TEST_CHECK(fclose(in) == 0 && fclose(out) == 0);
}

void server_files_keep_conf(const struct server_files *files)
{
    char kept[sizeof(files->conf) + 8];

    test_text(kept, sizeof(kept), "%s.kept", files->conf);
    copy_file(files->conf, kept);
}

void server_files_restore_conf(const struct server_files *files)
{
    char kept[sizeof(files->conf) + 8];

    test_text(kept, sizeof(kept), "%s.kept", files->conf);
    copy_file(kept, files->conf);
}

/* A server of a cluster stays the node that it was. */
void server_files_empty_data(const struct server_files *files)
{
    char nodes[sizeof(files->data) + 16], kept[sizeof(files->data) + 16];

    test_text(nodes, sizeof(nodes), "%s/nodes.conf", files->data);
    test_text(kept, sizeof(kept), "%s-nodes.conf", files->data);
    const bool is_node = rename(nodes, kept) == 0;
    test_dir_remove(files->data);
    make_data_dir(files);
    if (is_node) {
        test_must(rename(kept, nodes), "rename");
    }
}

static void choose_address(struct server_files *files)
{
    switch (files->transport) {
    case TEST_TCP:
        files->port = test_free_port();
        test_text(files->url, sizeof(files->url), "redis://127.0.0.1:%d", files->port);
        break;
    case TEST_TLS:
        files->port = test_free_port();
        test_text(files->url, sizeof(files->url), "rediss://localhost:%d", files->port);
        break;
    case TEST_DEFAULT:
    case TEST_UNIX:
        memcpy(files->url, files->unix_url, sizeof(files->url));
    }
}

static void print_tls(FILE *out, const struct server_files *files,
                      const struct test_server_opts *opts)
{
    fprintf(out, "tls-port %d\n", files->port);
    fprintf(out, "tls-ca-cert-file %s\n", test_ca());
    fprintf(out, "tls-cert-file %s\n", test_cert_file(opts->cert));
    fprintf(out, "tls-key-file %s\n", test_cert_key(opts->cert));
    fprintf(out, "tls-auth-clients %s\n", opts->tls_auth_clients ? "yes" : "no");
}

static void print_conf(FILE *out, const struct server_files *files,
                       const struct test_server_opts *opts)
{
    fprintf(out, "bind 127.0.0.1\nprotected-mode no\ndaemonize no\nsave \"\"\n");
    fprintf(out, "port %d\n", files->transport == TEST_TCP ? files->port : 0);
    fprintf(out, "unixsocket %s\nunixsocketperm 700\ndir %s\n", files->socket, files->data);
    fprintf(out,
            "repl-diskless-sync-delay 0\n"   /* or a new replica waits 5 s for its first copy */
            "repl-ping-replica-period 1\n"); /* or 10 s until there is something to acknowledge */
    fprintf(out, "user " SIDE_USER " on nopass ~* &* +@all\n");
    if (files->aof) {
        fprintf(out, "appendonly yes\nappendfsync always\n");
    }
    if (files->transport == TEST_TLS) {
        print_tls(out, files, opts);
    }
    for (size_t i = 0; opts->conf != NULL && opts->conf[i] != NULL; i++) {
        fprintf(out, "%s\n", opts->conf[i]);
    }
}

void server_files_configure(struct server_files *files, const struct test_server_opts *opts)
{
    choose_address(files);
    FILE *out = fopen(files->conf, "we");
    if (out == NULL) {
        test_die("%s: %s", files->conf, strerror(errno));
    }
    print_conf(out, files, opts);
    TEST_CHECK(fclose(out) == 0);
}

bool server_files_port_was_taken(const struct server_files *files)
{
    char line[512];
    bool taken = false;
    FILE *log = fopen(files->log, "re");

    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        taken = taken || strstr(line, strerror(EADDRINUSE)) != NULL;
    }
    if (log != NULL) {
        fclose(log);
    }
    return taken;
}

void server_files_show_log(const struct server_files *files)
{
    test_show_file(files->log);
}
