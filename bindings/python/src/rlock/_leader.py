# SPDX-License-Identifier: Apache-2.0
"""Candidates for a lock: leader.h."""

from __future__ import annotations

import enum
import itertools
import os
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, NamedTuple, Optional

from ._callbacks import call, failed, outside
from ._errors import Code, Reason, check, error
from ._lock import BaseLock
from ._rlock import ffi, lib
from ._times import Seconds, option_ms

_numbers = itertools.count(1)


class TermEvent(enum.IntEnum):
    """What happens to a candidate."""

    ELECTED = 1
    DEPOSED = 2
    RESIGNED = 3


class Term(NamedTuple):
    """A term of a candidate: struct rlock_term."""

    event: TermEvent
    name: str  # of the lock
    number: int  # counts the candidate's own terms
    token: int  # of a fenced lock; else 0
    owner: int
    reason: Optional[Reason]  # DEPOSED: why


OnTerm = Callable[[Term], object]
_on_terms: dict[int, Optional[OnTerm]] = {}  # of candidates that are not closed


class Leader:
    """A candidate for a lock, which leads while it holds the lock.

    with Leader(lock, on_term) as leader: … while leader.is_leading(): …
    """

    def __init__(
        self,
        lock: BaseLock,
        on_term: Optional[OnTerm] = None,
        *,
        margin: Seconds = 0,
        rest: Seconds = 1,
    ) -> None:
        """Begins the candidature. It goes on until close().

        on_term gets a Term on the client's dispatcher thread, or in the loop. It may unlock and resign, and must not
        wait. After DEPOSED the lock is released when it returns.
        margin: a term ends this much earlier than the validity of its hold. rest: how long the candidate pauses after a
        term before it waits for the lock again.
        """
        if on_term is not None and not callable(on_term):
            raise TypeError("on_term cannot be called")
        self._lock = lock  # and so its client, which stays open
        self._pid = os.getpid()
        number = next(_numbers)
        opts = ffi.new("struct rlock_leader_opts *")
        lib.rlock_init(opts, ffi.sizeof(opts[0]))
        opts.margin_ms, opts.rest_ms = option_ms(margin, "margin"), option_ms(rest, "rest") or 1
        opts.payload = ffi.cast("void *", number)
        opts.on_term = ffi.NULL if on_term is None else lib.rlock_py_term
        self._holder = ffi.new("struct rlock_py_leader *")
        _on_terms[number] = on_term
        # first: a signal handler may raise as soon as there is a candidate
        self._close = weakref.finalize(self, outside, _free, number, self._holder, self._pid)
        check(call(lib.rlock_py_leader_new, lock._lock, opts, self._holder))
        self._unclosed = weakref.finalize(self, _warn, repr(self))  # it runs first
        self._unclosed.atexit = False

    def __repr__(self) -> str:
        return f"<Leader {self._lock.kind} {self._lock.name!r}>"

    def is_leading(self) -> bool:
        """Whether it is the leader now. Asks no server."""
        return os.getpid() == self._pid and bool(lib.rlock_py_leader_is_leading(self._holder))

    def resign(self) -> None:
        """Ends the term: rlock.NotOwner if it is not the leader."""
        if os.getpid() != self._pid:  # before the mutex, which another thread of the parent may have had
            raise error(Code.EFORKED)
        check(call(lib.rlock_py_leader_resign, self._holder))

    def close(self) -> None:
        """Ends the candidature. A leader gives the lock back."""
        self._unclosed.detach()
        self._close()

    def __enter__(self) -> Leader:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def _warn(which: str) -> None:
    warnings.warn(f"{which} was not closed", ResourceWarning, stacklevel=2)


def _free(number: int, holder: Any, pid: int) -> None:
    if os.getpid() == pid:
        lib.rlock_py_leader_free(holder)
    _on_terms.pop(number, None)


def rlock_py_term(term: Any, payload: Any) -> None:
    on_term = _on_terms.get(int(ffi.cast("uintptr_t", payload)))
    if on_term is not None:
        reason = Reason(term.reason) if term.reason else None
        name = ffi.string(term.name).decode("utf-8", "surrogateescape")
        on_term(Term(TermEvent(term.event), name, term.number, term.token, term.owner, reason))


ffi.def_extern(onerror=failed)(rlock_py_term)
