# SPDX-License-Identifier: Apache-2.0
"""Distributed locks on Redis and Valkey, byte-compatible with Redisson.

    with rlock.Client("redis://localhost") as client:
        with client.reentrant("orders") as hold:
            ... while hold.is_valid(): ...

Codes, options and what each kind promises stand in the library's rlock.h.
"""

from ._async_lock import AsyncLock
from ._callbacks import Call, Loss, Trace
from ._client import AsyncClient, BaseClient, Client, multi, redlock
from ._errors import (
    AuthFailed, Busy, Canceled, Closed, Code, Deadlock, Error, Forked, InDoubt, Invalid, Lost, NoConnection, NoMemory,
    NoPermission, NoQuorum, NoResources, NotOwner, NotReplicated, NotSupported, Reacquired, Reason, Refused, Restarted,
    TimedOut, TLSFailed, WrongType, string,
)  # fmt: skip
from ._hold import AsyncHold, BaseHold, Hold
from ._latch import AsyncLatch, BaseLatch, Latch
from ._leader import Leader, Term, TermEvent
from ._lock import BaseLock, Info, Lock, ReadWrite
from ._options import ClientOptions, LockOptions
from ._rlock import lib
from ._stats import Histogram, Stats, metrics

__version__: str = string(lib.rlock_version())

ACKS_OFF: int = lib.RLOCK_ACKS_OFF
ACKS_ALL: int = lib.RLOCK_ACKS_ALL

__all__ = [
    "ACKS_ALL", "ACKS_OFF",
    "AsyncClient", "AsyncLock", "BaseClient", "BaseLock", "Client", "ClientOptions", "Lock", "LockOptions",
    "AsyncLatch", "BaseLatch", "Latch", "Leader", "Term", "TermEvent",
    "AsyncHold", "BaseHold", "Hold", "Info", "Loss", "Reason", "ReadWrite", "multi", "redlock",
    "Call", "Histogram", "Stats", "Trace", "metrics",
    "AuthFailed", "Busy", "Canceled", "Closed", "Code", "Deadlock", "Error", "Forked", "InDoubt", "Invalid", "Lost",
    "NoConnection", "NoMemory", "NoPermission", "NoQuorum", "NoResources", "NotOwner", "NotReplicated", "NotSupported",
    "Reacquired", "Refused", "Restarted", "TLSFailed", "TimedOut", "WrongType",
]  # fmt: skip
