/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hello.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/time.h"
#include "net/refused.h"

#define COMMANDS_MAX 10  /* besides those for each earlier connection */
#define COMMAND_ROOM 512 /* bytes that commands have besides their arguments */
#define KILL_ROOM 64     /* and that the one for an earlier connection has */
#define GONE UINT64_MAX  /* in place of the id of an earlier connection that is no more */

/* ---- Saying ---- */

/* Appends a command of n arguments, and notes what takes its reply. */
static void say(struct rlock__hello *hello, rlock__hello_fn *take, size_t n,
                const char *const *args)
{
    (void)rlock__buf_add_head(&hello->out, '*', n);
    for (size_t i = 0; i < n; i++) {
        (void)rlock__buf_add_bulk(&hello->out, rlock__bytes_of(args[i]));
    }
    hello->takes[hello->n_takes++] = take;
}

#define SAY(hello, take, ...)                                                                      \
    say(hello, take, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                       \
        (const char *[]){__VA_ARGS__})

/* ---- Replies; each takes one and returns 0 or a negative code ---- */

static int not_redis(void)
{
    return rlock__fail(RLOCK_ECONN, "not a Redis server: unexpected reply");
}

static bool is_text(const struct rlock__reply *reply, size_t i, const char *text)
{
    return rlock__bytes_equal(rlock__reply_str(reply, i), rlock__bytes_of(text));
}

/* The version of the protocol that the connection asks for. */
static int version(const struct rlock__hello *hello)
{
    return hello->manner == RLOCK__HELLO_PUSHES ? 3 : 2;
}

/* The fields of HELLO's reply are name and value in turn; ours come before "modules", whose value
 * is a list. */
static int take_fields(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    bool has_proto = false;

    for (size_t i = 0; i + 1 < reply->n && !is_text(reply, i, "modules"); i += 2) {
        if (is_text(reply, i, "proto")) {
            has_proto = rlock__reply_int(reply, i + 1, 0) == version(hello);
        } else if (is_text(reply, i, "id")) {
            hello->got.client_id = (uint64_t)rlock__max(0, rlock__reply_int(reply, i + 1, 0));
        }
    }
    /* An echo service, or a socket connected to itself, would send our own command back. */
    return has_proto ? 0 : not_redis();
}

/* Somebody else's by its name: ours is gone. Where the server does not tell, the kill is worth more
 * than the connection of somebody else that it might hit. */
static int take_look(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    struct rlock__bytes text = rlock__reply_str(reply, 0);
    uint64_t *id = &hello->unfenced[hello->looked++];

    if (!rlock__reply_is_error(reply) && !rlock__bytes_have(text, hello->opts->client_name)) {
        *id = GONE;
    }
    return 0;
}

static int take_kill(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    int64_t killed = rlock__reply_int(reply, 0, -1);

    /* Not permitted, for example: the connection is of use all the same. What it lacks is told. */
    hello->got.fenced = hello->got.fenced && (killed == 0 || killed == 1);
    return 0;
}

static int take_ok(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    if (rlock__reply_is_error(reply)) {
        return rlock__refused(hello, reply);
    }
    return is_text(reply, 0, "OK") ? 0 : not_redis();
}

static int take_pong(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    if (rlock__reply_is_error(reply)) {
        return rlock__refused(hello, reply);
    }
    return is_text(reply, 0, "PONG") ? 0 : not_redis();
}

static int take_info(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    struct rlock__bytes info = rlock__reply_str(reply, 0);
    struct rlock__bytes run_id = rlock__info_field(info, "\nrun_id:");
    struct rlock__bytes uptime = rlock__info_field(info, "\nuptime_in_seconds:");

    if (rlock__reply_is_error(reply) || run_id.len >= sizeof(hello->got.run_id)) {
        return 0;
    }
    memcpy(hello->got.run_id, run_id.at, run_id.len);
    hello->got.run_id[run_id.len] = '\0';
    hello->got.uptime_s = rlock__bytes_number(uptime, hello->got.uptime_s);
    hello->got.version = rlock__bytes_number(rlock__info_field(info, "\nredis_version:"), 0);
    return 0;
}

/* Where ROLE is not permitted the Sentinels' word has to do. */
static int take_role(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    (void)hello;
    return rlock__reply_is_error(reply) || is_text(reply, 0, "master")
               ? 0
               : rlock__fail(RLOCK_ECONN, "the server is a replica");
}

static int take_id(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    hello->got.client_id = (uint64_t)rlock__max(0, rlock__reply_int(reply, 0, 0));
    return 0;
}

/* Where it is refused, `rlock info` shows less: that is all. */
static int take_named(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    hello->named = !rlock__reply_is_error(reply);
    return 0;
}

/* Without version 3 of the protocol the server would tell nobody. */
static int take_tracking(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    hello->got.tracks = hello->got.pushes && is_text(reply, 0, "OK");
    return 0;
}

/* ---- What is said ---- */

static void say_auth(struct rlock__hello *hello)
{
    const char *user = rlock__login_user(&hello->login);
    const char *password = rlock__login_password(&hello->login);

    if (user != NULL) {
        SAY(hello, take_ok, "AUTH", user, password != NULL ? password : "");
    } else if (password != NULL) {
        SAY(hello, take_ok, "AUTH", password);
    }
}

/* What HELLO does at once, for servers and proxies that do not know it. */
static void say_hello_in_parts(struct rlock__hello *hello)
{
    const struct rlock__conn_opts *opts = hello->opts;

    say_auth(hello);
    if (opts->client_name != NULL) {
        SAY(hello, take_named, "CLIENT", "SETNAME", opts->client_name);
    }
    SAY(hello, take_id, "CLIENT", "ID");
}

static int take_hello(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    struct rlock__bytes error = rlock__reply_str(reply, 0);

    if (!rlock__reply_is_error(reply)) {
        hello->named = hello->opts->client_name != NULL;
        hello->got.pushes = hello->manner == RLOCK__HELLO_PUSHES;
        return take_fields(hello, reply);
    }
    if (rlock__refused_finally(reply)) {
        return rlock__refused(hello, reply);
    }
    if (!rlock__refused_secretly(hello, error)) {
        (void)rlock__text(error, hello->refused_hello, sizeof(hello->refused_hello));
    }
    for (size_t i = hello->at; i < hello->n_takes; i++) {
        hello->takes[i] = NULL; /* it is asked again, behind what HELLO should have done */
    }
    hello->phase = RLOCK__HELLO_WHO;
    say_hello_in_parts(hello);
    return 0;
}

static void say_hello(struct rlock__hello *hello)
{
    const char *user = rlock__login_user(&hello->login);
    const char *password = rlock__login_password(&hello->login);
    const char *args[7] = {"HELLO", version(hello) == 3 ? "3" : "2"};
    size_t n = 2;

    if (password != NULL || user != NULL) {
        args[n++] = "AUTH";
        args[n++] = user != NULL ? user : "default";
        args[n++] = password != NULL ? password : "";
    }
    if (hello->opts->client_name != NULL) {
        args[n++] = "SETNAME";
        args[n++] = hello->opts->client_name;
    }
    say(hello, take_hello, n, args);
}

/*
 * Drops the earlier connections that are known to be gone. Ids only grow while a server runs: one
 * that is not below ours belonged to a server that has ended; killing it would hit somebody else
 * who got the same number since.
 */
static void drop_gone(struct rlock__hello *hello)
{
    size_t n = 0;

    for (size_t i = 0; i < hello->n_unfenced; i++) {
        uint64_t id = hello->unfenced[i];

        if (id == 0) {
            hello->got.fenced = false;
        } else if (id != GONE && (hello->got.client_id == 0 || id < hello->got.client_id)) {
            hello->unfenced[n++] = id;
        }
    }
    hello->n_unfenced = n;
}

/* Says "CLIENT verb ID n" for each earlier connection. */
static void say_each(struct rlock__hello *hello, rlock__hello_fn *take, const char *verb)
{
    char id[24];

    for (size_t i = 0; i < hello->n_unfenced; i++) {
        (void)snprintf(id, sizeof(id), "%" PRIu64, hello->unfenced[i]);
        SAY(hello, take, "CLIENT", verb, "ID", id);
    }
}

static void say_database(struct rlock__hello *hello)
{
    char db[16];

    if (hello->opts->uri->db != 0) {
        (void)snprintf(db, sizeof(db), "%d", hello->opts->uri->db);
        SAY(hello, take_ok, "SELECT", db);
    }
}

static void say_rest(struct rlock__hello *hello)
{
    say_each(hello, take_kill, "KILL");
    say_database(hello);
    if (hello->opts->want_info) {
        SAY(hello, take_info, "INFO", "server");
    }
    if (hello->opts->want_role) {
        SAY(hello, take_role, "ROLE");
    }
    if (hello->manner == RLOCK__HELLO_PUSHES) {
        SAY(hello, take_tracking, "CLIENT", "TRACKING", "ON");
    }
}

/* Goes on to what is said next, until something is, or all is said. */
static void say_more(struct rlock__hello *hello)
{
    while (hello->at == hello->n_takes && hello->phase != RLOCK__HELLO_REST) {
        drop_gone(hello);
        hello->phase++;
        if (hello->phase == RLOCK__HELLO_REST) {
            say_rest(hello);
        } else if (hello->named) {
            /* Are the ids still ours? A server that was started anew gives them to others. */
            say_each(hello, take_look, "LIST");
        }
    }
}

/* ---- The handshake ---- */

static bool prepare(struct rlock__hello *hello, size_t n)
{
    const struct rlock__conn_opts *opts = hello->opts;
    const char *user = rlock__login_user(&hello->login);
    const char *password = rlock__login_password(&hello->login);
    size_t room = COMMAND_ROOM + 2 * KILL_ROOM * n;

    room += user != NULL ? 2 * strlen(user) : 0;
    room += password != NULL ? 2 * strlen(password) : 0;
    room += opts->client_name != NULL ? 2 * strlen(opts->client_name) : 0;
    /* All there will be: growing would leave copies of the password behind. */
    hello->out.data = malloc(room);
    hello->unfenced = calloc(n + 1, sizeof(*hello->unfenced));
    hello->takes = (rlock__hello_fn **)calloc(2 * n + COMMANDS_MAX, sizeof(rlock__hello_fn *));
    hello->out.cap = hello->out.data != NULL ? room : 0;
    return hello->out.data != NULL && hello->unfenced != NULL && hello->takes != NULL;
}

/*
 * Says nothing that is not needed. Nothing is killed, so earlier connections may live on. The
 * server is not asked for its age. It closed two connections, perhaps while it was shut down and
 * started again, so its uptime counts as 0.
 */
static void say_bare(struct rlock__hello *hello)
{
    hello->phase = RLOCK__HELLO_REST;
    hello->got.uptime_s = 0;
    hello->got.fenced = hello->n_unfenced == 0;
    say_auth(hello);
    say_database(hello);
    SAY(hello, take_pong, "PING");
}

static int said(const struct rlock__hello *hello)
{
    return hello->out.failed ? rlock__fail(RLOCK_ENOMEM, "no memory") : 0;
}

int rlock__hello_begin(struct rlock__hello *hello, const struct rlock__conn_opts *opts,
                       enum rlock__hello_manner manner, const uint64_t *unfenced, size_t n)
{
    int code;

    rlock__hello_fini(hello);
    *hello = (struct rlock__hello){
        .opts = opts, .manner = manner, .got = {.fenced = true, .uptime_s = RLOCK__UNKNOWN}};
    code = rlock__login_ask(&hello->login, opts);
    if (code != 0) {
        return code;
    }
    if (!prepare(hello, n)) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    if (n != 0) {
        memcpy(hello->unfenced, unfenced, n * sizeof(*unfenced));
    }
    hello->n_unfenced = n;
    if (manner == RLOCK__HELLO_BARE) {
        say_bare(hello);
        return said(hello);
    }
    if (manner == RLOCK__HELLO_IN_PARTS) {
        say_hello_in_parts(hello);
    } else {
        say_hello(hello);
    }
    if (n == 0) { /* nobody to look for first, whose ids compare with ours: all in one packet */
        hello->phase = RLOCK__HELLO_REST;
        say_rest(hello);
    }
    return said(hello);
}

int rlock__hello_reply(struct rlock__hello *hello, const struct rlock__reply *reply)
{
    rlock__hello_fn *take = hello->takes[hello->at++];
    int r = 0;

    if (take != NULL) {
        r = rlock__refused_all(reply) ? rlock__refused(hello, reply) : take(hello, reply);
    }
    if (r == 0) {
        say_more(hello);
    }
    if (r == 0 && hello->out.failed) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    return r != 0 ? r : hello->at == hello->n_takes;
}

void rlock__hello_fini(struct rlock__hello *hello)
{
    if (hello->out.data != NULL) {
        explicit_bzero(hello->out.data, hello->out.cap);
    }
    rlock__buf_fini(&hello->out);
    rlock__login_fini(&hello->login);
    free(hello->unfenced);
    free(hello->takes);
    hello->unfenced = NULL;
    hello->takes = NULL;
    hello->n_takes = hello->at = 0;
}
