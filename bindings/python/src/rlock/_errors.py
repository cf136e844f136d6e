# SPDX-License-Identifier: Apache-2.0
"""Codes, and the exceptions that carry them."""

from __future__ import annotations

import enum
from typing import Any

from ._rlock import ffi, lib


class Code(enum.IntEnum):
    """What a call came to: rlock.h says what each means."""

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


class Error(Exception):
    """A call that failed. Decide by its class or its code; what it says is for logs."""

    def __init__(self, code: int, detail: str = "") -> None:
        self.code = code
        self.detail = detail
        self.text = string(lib.rlock_strerror(code))
        super().__init__(code, detail)

    def __str__(self) -> str:
        return self.detail or self.text


class Busy(Error):
    """Another owner holds it."""


class TimedOut(Error, TimeoutError):
    """It was not got within the wait."""


class NotOwner(Error):
    """This owner does not hold it."""


class Lost(Error):
    """The hold had ended before its unlock."""


class InDoubt(Error):
    """No answer: it may have happened. The text says by when it is over."""


class Closed(Error):
    """The client is closed."""


class Forked(Error):
    """The client belongs to the parent process."""


_classes: dict[int, type[Error]] = {
    Code.EBUSY: Busy,
    Code.ETIMEDOUT: TimedOut,
    Code.ENOTOWNER: NotOwner,
    Code.ELOST: Lost,
    Code.EINDOUBT: InDoubt,
    Code.ECLOSED: Closed,
    Code.EFORKED: Forked,
}


def string(text: Any) -> str:
    raw: bytes = ffi.string(text)
    return raw.decode("utf-8", "surrogateescape")


def error(code: int, detail: str = "") -> Error:
    return _classes.get(code, Error)(code, detail)


def check(code: int) -> None:
    """Raises what the call before it, in this thread, came to."""
    if code != 0:
        raise error(code, string(lib.rlock_detail()))
