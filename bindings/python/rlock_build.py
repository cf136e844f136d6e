# SPDX-License-Identifier: Apache-2.0
"""Builds rlock._rlock: the library, and what cffi makes of its header.

RLOCK_SOURCE  the library's sources; default those in library/, which an sdist has, or the checkout of this directory
RLOCK_BUILD   where librlock.a has been built from it; default it is built now, by CMake
"""
import os
import pathlib
import subprocess

import cffi

HERE = pathlib.Path(__file__).resolve().parent
INSIDE = HERE / "library"
CHECKOUT = pathlib.Path(os.environ.get("RLOCK_SOURCE", INSIDE if INSIDE.exists() else HERE.parent.parent)).resolve()
WORK = CHECKOUT / "build" / "python" if HERE.is_relative_to(CHECKOUT / "bindings") else HERE / "build"

OURS = """
#define RLOCK_TEXT_SIZE ...
enum { OVER, LIVE, UNSEEN };
int rlock_py_lock(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take, struct rlock_grant *grant,
                  int *live);
int rlock_py_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *take,
                   struct rlock_grant *grant, int *live);
int rlock_py_unlock(struct rlock_handle *lock, uint64_t owner, int *live);
int rlock_py_detach(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms, char *text, int *live);
int rlock_py_detach_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms, int *live, rlock_done_fn *done,
                          void *payload, struct rlock_op **ret_op);
int rlock_py_unlock_async(struct rlock_handle *lock, uint64_t owner, int *live, rlock_done_fn *done, void *payload,
                          struct rlock_op **ret_op);
int rlock_py_take_back(struct rlock_handle *lock, uint64_t owner, const char *text, int *live);
int rlock_py_take_back_async(struct rlock_handle *lock, uint64_t owner, const char *text, int *live,
                             rlock_done_fn *done, void *payload, struct rlock_op **ret_op);
void rlock_py_drop(struct rlock_op **op);
struct rlock_py_leader { ...; };
int rlock_py_leader_new(struct rlock_handle *lock, const struct rlock_leader_opts *opts, struct rlock_py_leader *holder);
bool rlock_py_leader_is_leading(struct rlock_py_leader *holder);
int rlock_py_leader_resign(struct rlock_py_leader *holder);
void rlock_py_leader_free(struct rlock_py_leader *holder);
extern "Python" void rlock_py_done(struct rlock_op *op, void *payload);
extern "Python" void rlock_py_lost(const struct rlock_loss *loss, void *payload);
extern "Python" void rlock_py_log(const struct rlock_log_line *line, void *payload);
extern "Python" int rlock_py_login(struct rlock_login *login, void *payload);
extern "Python" void rlock_py_address(struct rlock_address *address, void *payload);
extern "Python" void rlock_py_trace(const struct rlock_trace *trace, void *payload);
extern "Python" void rlock_py_term(const struct rlock_term *term, void *payload);
"""

# These steps are in C because a signal handler of Python, or another thread, could come between them in Python.
# live: LIVE from the grant of a level until the first unlock of it. That unlock alone reaches the library. A detach ends the
# level too. While it goes on no other call can give the level up; a detach that fails makes the level live again. UNSEEN: the
# program did not receive the text of the detach. Then the adoption of this text takes the level back.
SOURCE = """
#include <pthread.h>
#include <rlock/latch.h>
#include <rlock/leader.h>
#include <rlock/rlock.h>
#include <rlock/stats.h>

/* A signal handler of Python, or another thread, may free the candidate at any moment. */
struct rlock_py_leader {
    pthread_mutex_t mutex;
    struct rlock_leader *leader; /* NULL: it is freed */
};

static int rlock_py_leader_new(struct rlock_handle *lock, const struct rlock_leader_opts *opts,
                               struct rlock_py_leader *holder)
{
    (void)pthread_mutex_init(&holder->mutex, NULL);
    return rlock_leader_new(lock, opts, &holder->leader);
}

static bool rlock_py_leader_is_leading(struct rlock_py_leader *holder)
{
    (void)pthread_mutex_lock(&holder->mutex);
    bool is_leading = rlock_leader_is_leading(holder->leader);
    (void)pthread_mutex_unlock(&holder->mutex);
    return is_leading;
}

static int rlock_py_leader_resign(struct rlock_py_leader *holder)
{
    (void)pthread_mutex_lock(&holder->mutex);
    int code = rlock_leader_resign(holder->leader);
    (void)pthread_mutex_unlock(&holder->mutex);
    return code;
}

static void rlock_py_leader_free(struct rlock_py_leader *holder)
{
    (void)pthread_mutex_lock(&holder->mutex);
    struct rlock_leader *leader = holder->leader;
    holder->leader = NULL;
    (void)pthread_mutex_unlock(&holder->mutex);
    rlock_leader_free(leader);
}

enum { OVER, LIVE, UNSEEN };

/* If the level is in this state, ends it. Returns whether it was. */
static int ends(int *live, int state)
{
    return __atomic_compare_exchange_n(live, &state, OVER, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static int rlock_py_lock(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take,
                         struct rlock_grant *grant, int *live)
{
    int code = rlock_lock_for(lock, wait_ms, take, grant);

    __atomic_store_n(live, code == 0 ? LIVE : OVER, __ATOMIC_RELEASE);
    return code;
}

static int rlock_py_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *take,
                          struct rlock_grant *grant, int *live)
{
    int code = rlock_adopt(lock, text, take, grant);

    __atomic_store_n(live, code == 0 ? LIVE : OVER, __ATOMIC_RELEASE);
    return code;
}

static int rlock_py_detach(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms, char *text, int *live)
{
    int code;

    if (!ends(live, LIVE)) {
        return 1;
    }
    code = rlock_detach(lock, owner, lease_ms, text);
    __atomic_store_n(live, code != 0 ? LIVE : OVER, __ATOMIC_RELEASE);
    return code;
}

static int rlock_py_detach_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms, int *live,
                                 rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    int code;

    if (!ends(live, LIVE)) {
        return 1;
    }
    code = rlock_detach_async(lock, owner, lease_ms, done, payload, ret_op);
    if (code != 0) { /* it has not begun */
        __atomic_store_n(live, LIVE, __ATOMIC_RELEASE);
    }
    return code;
}

static int rlock_py_unlock(struct rlock_handle *lock, uint64_t owner, int *live)
{
    return ends(live, LIVE) ? rlock_unlock_as(lock, owner) : 1;
}

static int rlock_py_unlock_async(struct rlock_handle *lock, uint64_t owner, int *live, rlock_done_fn *done,
                                 void *payload, struct rlock_op **ret_op)
{
    int code;

    if (!ends(live, LIVE)) {
        return 1;
    }
    code = rlock_unlock_async(lock, owner, done, payload, ret_op);
    if (code == RLOCK_ENOMEM || code == RLOCK_ERESOURCE) { /* nothing has changed */
        __atomic_store_n(live, LIVE, __ATOMIC_RELEASE);
    }
    return code;
}

/* Returns 1 if there is nothing to take back. */
static int rlock_py_take_back(struct rlock_handle *lock, uint64_t owner, const char *text, int *live)
{
    int code;

    if (!ends(live, UNSEEN)) {
        return 1;
    }
    code = rlock_adopt(lock, text, RLOCK_TAKE(.owner = owner), NULL);
    __atomic_store_n(live, code == 0 ? LIVE : UNSEEN, __ATOMIC_RELEASE);
    return code;
}

static int rlock_py_take_back_async(struct rlock_handle *lock, uint64_t owner, const char *text, int *live,
                                    rlock_done_fn *done, void *payload, struct rlock_op **ret_op)
{
    int code;

    if (!ends(live, UNSEEN)) {
        return 1;
    }
    code = rlock_adopt_async(lock, text, RLOCK_TAKE(.owner = owner), done, payload, ret_op);
    if (code != 0) { /* it has not begun */
        __atomic_store_n(live, UNSEEN, __ATOMIC_RELEASE);
    }
    return code;
}

static void rlock_py_drop(struct rlock_op **op)
{
    (void)rlock_op_unref(*op);
}
"""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def built() -> pathlib.Path:
    """Where the static library is."""
    if "RLOCK_BUILD" in os.environ:
        return pathlib.Path(os.environ["RLOCK_BUILD"])
    build = WORK / "library"
    parts = [f"-DRLOCK_BUILD_{part}=OFF" for part in ("SHARED", "CLI", "EXAMPLES")]
    run("cmake", "-S", str(CHECKOUT), "-B", str(build), "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *parts)
    run("cmake", "--build", str(build), "--target", "rlock_static", "--parallel", "2")
    return build


def needs(build: pathlib.Path) -> list:
    """The libraries that the static one wants beside it, as its file for pkg-config names them."""
    for line in (build / "rlock.pc").read_text().splitlines():
        if line.startswith("Requires.private:"):
            return [word[3:] if word.startswith("lib") else word for word in line.split()[1:]]
    raise RuntimeError(f"{build}/rlock.pc does not say what it needs")


def declarations(includes: list) -> str:
    flags = [f"-I{directory}" for directory in includes]
    headers = ("-include", "rlock/rlock.h", "-include", "rlock/latch.h", "-include", "rlock/leader.h", "-include", "rlock/stats.h", "-x", "c", "/dev/null")
    return run(os.environ.get("CC", "cc"), "-E", "-P", "-DRLOCK_PLAIN", *flags, *headers)


def builder() -> cffi.FFI:
    build = built()
    includes = [str(CHECKOUT / "include"), str(build / "include")]
    ffi = cffi.FFI()
    ffi.cdef(declarations(includes))
    ffi.cdef(OURS)
    ffi.set_source(
        "rlock._rlock",
        SOURCE,
        include_dirs=includes,
        extra_objects=[str(build / "librlock.a")],
        libraries=needs(build),
        # Nobody else meets these symbols; and threads of the library may outlive the module.
        extra_link_args=["-pthread", "-Wl,--exclude-libs,ALL", "-Wl,-z,nodelete"],
    )
    return ffi
