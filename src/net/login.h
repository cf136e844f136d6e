/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user and the password of one connection: those of the options, unless the program's callback
 * sets others. The copies of what the program sets are wiped with the login. Threads: one caller at
 * a time.
 */
#ifndef RLOCK_NET_LOGIN_H
#define RLOCK_NET_LOGIN_H

#include "net/conn.h"

/* All zero is one that nobody has asked for. */
struct rlock_login {
    const struct rlock__conn_opts *opts;
    char server[300];      /* its address, for the callback */
    char *user, *password; /* what the callback set; NULL: as the options say */
};

/* Asks the program, if it has a callback. Returns 0, RLOCK_EAUTH or RLOCK_ENOMEM. */
int rlock__login_ask(struct rlock_login *login, const struct rlock__conn_opts *opts);
/* Wipes and frees the copies. */
void rlock__login_fini(struct rlock_login *login);

static inline const char *rlock__login_user(const struct rlock_login *login)
{
    return login->user != NULL ? login->user : login->opts->user;
}

static inline const char *rlock__login_password(const struct rlock_login *login)
{
    return login->password != NULL ? login->password : login->opts->password;
}

#endif
