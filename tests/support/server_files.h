/* What a test server has on disk: which binary, its directory, configuration, log and data. For
 * server.c alone. */
#ifndef RLOCK_TEST_SERVER_FILES_H
#define RLOCK_TEST_SERVER_FILES_H

#include "server.h"

#include <stddef.h>

struct server_files {
    char program[256]; /* what to execute */
    const char *argv0; /* as what */
    char dir[128];
    char conf[160];
    char log[160];
    char socket[160];
    char data[160];
    enum test_transport transport; /* never TEST_DEFAULT */
    int port;
    bool sentinel;
    bool aof;
    char url[192];
    char unix_url[192];
};

/* Finds the binary and makes the directory. */
void server_files_make(struct server_files *files, const struct test_server_opts *opts);
void server_files_remove(const struct server_files *files);

/* Picks a port and writes the configuration; again with another port when that one was taken. */
void server_files_configure(struct server_files *files, const struct test_server_opts *opts);

/* Keeps the configuration as it is now; and puts it back, where a Sentinel has written it anew. */
void server_files_keep_conf(const struct server_files *files);
void server_files_restore_conf(const struct server_files *files);

void server_files_empty_data(const struct server_files *files);
bool server_files_port_was_taken(const struct server_files *files);
void server_files_show_log(const struct server_files *files);

/* Defined in server.c: sends whole commands over the side connection, gives the one reply as text
 * to be freed. */
char *server_call(struct test_server *server, const char *commands, size_t len);

#endif
