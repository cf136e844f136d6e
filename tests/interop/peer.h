/*
 * A process that takes and gives locks as it is told: Redisson in Java, or rlock in C. Both speak
 * one protocol, so a scenario does not know which it has.
 *
 * Requests, a line each, of words with percent signs for spaces and the like:
 *
 *     <id> <client> <owner> <kind> <name> <verb> [argument…]
 *
 * Each owner of a client is a thread that carries out its requests in turn. A multi or redlock is
 * named by its members, as "<client>/<kind>/<name>,…". Verbs of a lock; times are in ms, lease 0 is
 * a renewed one:
 *     lock <lease>   try <wait> <lease>   unlock   force   locked   held   count   ttl
 *     who            C only: the first holder and its count, as "uuid:number=count"
 *     loop <threads> <hold> <run> [<pause> [<cells> <slot>]]   so many threads take the lock, hold
 *                    it, give it back and pause; the value is the number of their grants, and the
 *                    longest wait for one. A file of cells (cells.h) witnesses exclusion
 * Verbs of a client, with - for kind and name:
 *     open <url> <renewed lease> <fair slot> <timeout> [<key prefix>]   its value is the client's
 *                    UUID; timeout 0 is the side's own
 *     awake          Redisson only: how many owners have something to do and do not yet sleep until
 *                    a message comes
 *     version   stress … (agent_stress.c)
 *
 * Answers come when they are known, in any order: "<id> ok [<value>]" or "<id> fail <code> <text>".
 * Lines that start with * are events: "* lost <name> <reason>", "* overlap …", "* error …".
 *
 * Threads: one.
 */
#ifndef RLOCK_INTEROP_PEER_H
#define RLOCK_INTEROP_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer;

/* An answer; its value, or code and text of a failure. Without an answer in time, or of a process
 * that has ended, `ok` is false and the text says so. */
struct peer_answer {
    bool ok;
    char text[256];
    int64_t at_us; /* when it was read, by test_now_us() */
};

/* Starts the program; its standard error goes to the file `log`. argv[0] is looked up in PATH. */
struct peer *peer_start(const char *label, const char *log, const char *const *argv);
/* SIGKILL, waited for. It answers nothing until it is started again. NULL ok; returns NULL. */
void peer_kill(struct peer *peer);
void peer_restart(struct peer *peer);
struct peer *peer_free(struct peer *peer);

const char *peer_label(const struct peer *peer);
const char *peer_log(const struct peer *peer);
pid_t peer_pid(const struct peer *peer);

/* Sends a request without its id; gives the id. */
int peer_tell(struct peer *peer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct peer_answer peer_wait(struct peer *peer, int id, int64_t timeout_ms);
/* Whether the answer has come. */
bool peer_has_answered(struct peer *peer, int id);

/* For a program with another protocol: sends a line; waits for a line that begins with `start`;
 * waits for the program's end, and says whether it exited with 0. */
void peer_say(struct peer *peer, const char *text);
bool peer_says(struct peer *peer, const char *start, int64_t timeout_ms);
bool peer_ends(struct peer *peer, int64_t timeout_ms);

/* The first event that begins with `start` and was not taken yet: what follows, for good until the
 * next call, or NULL after the time. */
const char *peer_event(struct peer *peer, const char *start, int64_t timeout_ms);

/* A word for a request, valid until the fourth call from now. */
const char *peer_word(const char *text);

#endif
