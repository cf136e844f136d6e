# SPDX-License-Identifier: Apache-2.0
"""Codes, and the exceptions that carry them."""

from __future__ import annotations

import enum
from typing import Any, Callable, NamedTuple, Optional

from ._rlock import ffi, lib


class Code(enum.IntEnum):
    """The result of a call: rlock.h says what each means."""

    EBUSY = -1
    ETIMEDOUT = -2
    ENOTOWNER = -3
    ELOST = -4
    EINDOUBT = -5
    ECONN = -6
    ETLS = -7
    EAUTH = -8
    EPERM = -9
    EREFUSED = -10
    EWRONGTYPE = -11
    ENOQUORUM = -12
    ENOTREPLICATED = -13
    EDEADLOCK = -14
    EREACQUIRE = -15
    ECANCELED = -16
    ECLOSED = -17
    EFORKED = -18
    EINVAL = -19
    ENOTSUP = -20
    ENOMEM = -21
    ERESOURCE = -22
    ERESTARTED = -23


class Reason(enum.IntEnum):
    """Why a hold was lost."""

    EXPIRED = 1
    TAKEN = 2
    DELETED = 3
    NOT_REPLICATED = 4
    CLOCK_STEPPED = 5
    FORKED = 6
    CLOSED = 7
    THREAD_EXITED = 8
    FORCED = 9
    RESTARTED = 10
    OWNER_ENDED = 11  # the thread ended, or the program dropped the Hold


class Failure(NamedTuple):
    """struct rlock_failure: what Error is made of."""

    code: int
    detail: str = ""
    reason: Optional[Reason] = None
    free_in: Optional[float] = None
    holder: str = ""
    server: str = ""


class Error(Exception):
    """A call that failed. Each code has a class of its own. The text and the detail are for logs.

    reason: why the hold was lost, for Lost.
    free_in: seconds. Busy, TimedOut: the rest of the holder's lease. InDoubt, Canceled: the lock is free after it if a
    request of the call still takes effect. None: unknown.
    holder: the holder of the lock, as "uuid:number". server: the address of its server. Empty: unknown.
    """

    def __init__(
        self,
        code: int,
        detail: str = "",
        reason: Optional[Reason] = None,
        free_in: Optional[float] = None,
        holder: str = "",
        server: str = "",
    ) -> None:
        self.code = Code(code)
        self.detail = detail
        self.reason = reason
        self.free_in = free_in
        self.holder = holder
        self.server = server
        self.text = string(lib.rlock_strerror(code))
        super().__init__(code, detail, reason, free_in, holder, server)

    def __str__(self) -> str:
        return self.detail or self.text


class Busy(Error):
    """Another owner holds the lock."""


class TimedOut(Error, TimeoutError):
    """The lock was not acquired within the wait."""


class NotOwner(Error, RuntimeError):
    """The caller does not hold the lock."""


class Lost(Error):
    """The hold had ended before its unlock. reason says why."""


class InDoubt(Error):
    """The server did not answer. After free_in seconds the lock is free, whatever the server did."""


class NoConnection(Error, ConnectionError):
    """There is no connection to the server."""


class TLSFailed(Error):
    """TLS failed."""


class AuthFailed(Error):
    """The server does not accept the user or the password."""


class NoPermission(Error):
    """The user has no permission on the server."""


class Refused(Error):
    """The server refused the command."""


class WrongType(Error):
    """The key holds something that is not a lock."""


class NoQuorum(Error):
    """Too few servers of a RedLock answered."""


class NotReplicated(Error):
    """Too few replicas confirmed the lock."""


class Deadlock(Error, RuntimeError):
    """The call would wait for itself."""


class Reacquired(Error, RuntimeError):
    """The owner holds the lock already, and the lock is not reentrant."""


class Canceled(Error):
    """The call was canceled."""


class Closed(Error):
    """The client is closed."""


class Forked(Error):
    """The client belongs to the parent process."""


class Invalid(Error, ValueError):
    """An argument is wrong."""


class NotSupported(Error):
    """The server, this build or this environment does not support the call."""


class NoMemory(Error, MemoryError):
    """There is no memory."""


class NoResources(Error):
    """The system has no more threads or file descriptors."""


class Restarted(Error):
    """The server restarted too recently to count for a RedLock."""


_classes: dict[int, type[Error]] = {
    Code.EBUSY: Busy,
    Code.ETIMEDOUT: TimedOut,
    Code.ENOTOWNER: NotOwner,
    Code.ELOST: Lost,
    Code.EINDOUBT: InDoubt,
    Code.ECONN: NoConnection,
    Code.ETLS: TLSFailed,
    Code.EAUTH: AuthFailed,
    Code.EPERM: NoPermission,
    Code.EREFUSED: Refused,
    Code.EWRONGTYPE: WrongType,
    Code.ENOQUORUM: NoQuorum,
    Code.ENOTREPLICATED: NotReplicated,
    Code.EDEADLOCK: Deadlock,
    Code.EREACQUIRE: Reacquired,
    Code.ECANCELED: Canceled,
    Code.ECLOSED: Closed,
    Code.EFORKED: Forked,
    Code.EINVAL: Invalid,
    Code.ENOTSUP: NotSupported,
    Code.ENOMEM: NoMemory,
    Code.ERESOURCE: NoResources,
    Code.ERESTARTED: Restarted,
}


def string(text: Any) -> str:
    raw: bytes = ffi.string(text)
    return raw.decode("utf-8", "surrogateescape")


def error(code: int, *facts: Any) -> Error:
    return _classes[code](code, *facts)


def failure_of(get: Callable[[Any], int]) -> Failure:
    """What rlock_last_failure() or rlock_op_failure() says."""
    got = ffi.new("struct rlock_failure *")
    lib.rlock_init(got, ffi.sizeof(got[0]))
    get(got)
    return Failure(
        got.code,
        "" if got.detail == ffi.NULL else string(got.detail),
        Reason(got.reason) if got.reason else None,
        got.free_ms / 1000 if got.free_ms >= 0 else None,
        string(got.holder),
        string(got.server),
    )


def last_error(code: int) -> Error:
    """The failure of this thread's latest call, which returned the code."""
    failure = failure_of(lib.rlock_last_failure)
    # The collector and signal handlers may have called the library in this thread since: that says nothing about this.
    return error(*failure) if failure.code == code else error(code)


def check(code: int) -> None:
    """Raises the failure of this thread's latest call."""
    if code != 0:
        raise last_error(code)
