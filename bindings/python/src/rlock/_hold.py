# SPDX-License-Identifier: Apache-2.0
"""Holds: objects that unlock themselves."""

from __future__ import annotations

import weakref
import warnings
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar

from ._callbacks import call, log
from ._errors import Error, check, string
from ._operation import DROPPED, Level, already_over
from ._rlock import ffi, lib
from ._times import Seconds, detached_ms, lease_ms

if TYPE_CHECKING:
    from ._async_lock import AsyncLock
    from ._lock import BaseLock, Lock

B = TypeVar("B", bound="BaseLock")

# The collector ends what a cycle holds in any order. So it must not find a level, whose handle it would free, before
# it has ended the hold.
_levels: set[Level] = set()


class BaseHold(Generic[B]):
    """What its owner has of a lock. Any thread or task may use it.

    The program keeps it until the unlock. A hold that the collector finds is unlocked, and reported as lost.
    """

    def __init__(self, lock: B, level: Level) -> None:
        self._level = level
        _levels.add(level)
        self.lock = lock
        self.owner = level.owner
        self.token: int = 0  # of a fenced lock
        self.lease: float = 0  # seconds

    def _granted(self, grant: Any) -> None:
        self.token = grant.token
        self.lease = grant.lease_ms / 1000

    def is_valid(self) -> bool:
        """Whether the program may rely on it now. Local."""
        return self._level.is_live() and bool(lib.rlock_is_valid_as(self._level.handle, self.owner))

    def validity(self) -> float:
        """For how many seconds the program may rely on it if it is not renewed. Local."""
        return lib.rlock_valid_ms_as(self._level.handle, self.owner) / 1000 if self._level.is_live() else 0.0

    def text(self) -> str:
        """A text for a hold that goes on, if this process should die. Local. Its adoption requires from_dead."""
        if not self._level.is_live():
            raise already_over()
        text = ffi.new("char[]", lib.RLOCK_TEXT_SIZE)
        check(lib.rlock_hold_text(self._level.handle, self.owner, text))
        return string(text)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.lock!r}, owner {self.owner}>"

    def __del__(self) -> None:
        level = self._level
        level.is_dropped = True
        if level.is_owed() and not level.events.over():
            warnings.warn(f"{self!r} was not unlocked", ResourceWarning, stacklevel=2, source=self)
            level.drop(DROPPED)
        _levels.discard(level)

    def _failed(self, problem: Error, body_failed: bool) -> None:
        """The exception of a with statement's body says more than the failure of its unlock."""
        if not body_failed:
            raise problem
        log.warning("%r, after an exception: %s", self.lock, problem)


class Hold(BaseHold["Lock"]):
    """A hold of a Lock. Its owner is the thread that took it, or an id that was given."""

    def extend(self, lease: Optional[Seconds] = None) -> None:
        """Has it last at least so many seconds from now. None: it is renewed from now on. It never gets shorter."""
        if not self._level.is_live():
            raise already_over()
        check(call(lib.rlock_extend, self._level.handle, self.owner, lease_ms(lease), ffi.NULL))

    def detach(self, lease: Seconds) -> str:
        """Hands the hold over: Lock.adopt() takes it over with the text. The lock stays taken for that lease.

        Then the hold is over, as after an unlock. If the call fails, the program detaches again, or unlocks.
        """
        text = ffi.new("char[]", lib.RLOCK_TEXT_SIZE)
        try:
            code = self._level.detach(detached_ms(lease), text)
            if code > 0:
                raise already_over()
            check(code)
            return string(text)
        except BaseException:
            if text[0] != b"\0":  # a signal handler has raised
                self._level.unseen(ffi.string(text))
            raise

    def unlock(self) -> None:
        """Gives up this level, in any thread. Once."""
        code = self._level.unlock()
        if code > 0:
            raise already_over()
        check(code)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if self._level.is_detached:
            return
        try:
            self.unlock()
        except Error as problem:
            self._failed(problem, kind is not None)


class AsyncHold(BaseHold["AsyncLock"]):
    """A hold of an AsyncLock. It is its own owner: tasks may pass it on."""

    _task: Optional[weakref.ref[Any]] = None  # the task that took it
    _rows: tuple[object, ...] = ()  # keeps its places in what the clients know of their names

    async def extend(self, lease: Optional[Seconds] = None) -> None:
        """Has it last at least so many seconds from now. None: it is renewed from now on. It never gets shorter."""
        if not self._level.is_live():
            raise already_over()
        await self.lock._extend(self._level, lease_ms(lease))

    async def detach(self, lease: Seconds) -> str:
        """Hands the hold over: AsyncLock.adopt() takes it over with the text. The lock stays taken for that lease.

        Then the hold is over, as after an unlock. If the call fails, the program detaches again, or unlocks.

        If the task is cancelled meanwhile, the detach goes on, and its text is lost. The program detaches again, or
        unlocks. The hold is not valid until such a call takes it back, or the detach fails.
        """
        return await self.lock._detach(self._level, detached_ms(lease))

    async def unlock(self) -> None:
        """Gives up this level, also if the task is cancelled meanwhile. Once."""
        await self.lock._unlock(self._level)

    async def __aenter__(self) -> AsyncHold:
        return self

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        if self._level.is_detached:
            return
        try:
            await self.unlock()
        except Error as problem:
            self._failed(problem, kind is not None)


class ThreadState:
    """What a client has of one thread: it ends with the thread, or with the client."""

    def __init__(self, owner: int, end: Callable[[int], None]) -> None:
        self.owner = owner
        self._end = end
        self.levels: weakref.WeakSet[Level] = weakref.WeakSet()
        self.entered: list[Hold] = []  # by with lock, and by acquire()

    def leave(self, lock: Lock) -> Hold:
        """The latest hold that the thread entered of the lock, through any handle."""
        for i in range(len(self.entered) - 1, -1, -1):
            if self.entered[i].lock._key == lock._key:
                return self.entered.pop(i)
        raise already_over()

    def __del__(self) -> None:
        live = [level for level in list(self.levels) if level.is_live()]
        for level in live:
            level.end()
        if live:
            self._end(self.owner)
