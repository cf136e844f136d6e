/* SPDX-License-Identifier: Apache-2.0 */
#include "net/login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void wipe(char **inout_secret)
{
    if (*inout_secret != NULL) {
        explicit_bzero(*inout_secret, strlen(*inout_secret));
        free(*inout_secret);
        *inout_secret = NULL;
    }
}

int rlock__login_ask(struct rlock_login *login, const struct rlock__conn_opts *opts)
{
    int code;

    rlock__login_fini(login);
    login->opts = opts;
    if (opts->on_login == NULL) {
        return 0;
    }
    if (opts->uri->path != NULL) {
        (void)snprintf(login->server, sizeof(login->server), "%s", opts->uri->path);
    } else {
        rlock__uri_address(opts->uri, login->server, sizeof(login->server));
    }
    code = opts->on_login(login, opts->payload);
    return code == 0 ? 0 : rlock__fail(RLOCK_EAUTH, "on_login returned %d", code);
}

void rlock__login_fini(struct rlock_login *login)
{
    wipe(&login->user);
    wipe(&login->password);
}

int rlock_login_set(struct rlock_login *login, const char *user, const char *password)
{
    char *new_user = user != NULL ? strdup(user) : NULL;
    char *new_password = password != NULL ? strdup(password) : NULL;

    if ((user != NULL && new_user == NULL) || (password != NULL && new_password == NULL)) {
        wipe(&new_user);
        wipe(&new_password);
        return RLOCK_ENOMEM;
    }
    rlock__login_fini(login);
    login->user = new_user;
    login->password = new_password;
    return 0;
}

const char *rlock_login_server(const struct rlock_login *login)
{
    return login->server;
}

bool rlock_login_is_sentinel(const struct rlock_login *login)
{
    return login->opts->is_sentinel;
}
