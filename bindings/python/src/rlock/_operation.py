# SPDX-License-Identifier: Apache-2.0
"""Async calls of the library, and levels of holds."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Union

from ._callbacks import Events, Loss, call, failed, log, outside, raise_kept
from ._errors import Code, Error, Failure, Reason, error, failure_of, last_error
from ._rlock import ffi, lib

_under_way: set[Any] = set()  # handles that the library has, until it calls back
_waiting_mutex = threading.RLock()  # guards _waiting of all levels; the collector may come here again
DROPPED = "the program dropped the hold without unlocking it"


class Operation:
    """One async call of a handle. wake() runs when it is complete: on the dispatcher thread, or in the loop."""

    is_abandoned = False  # no caller waits for it: it need not begin

    def __init__(self, handle: Any, wake: Callable[[], None]) -> None:
        self.handle = handle  # the struct rlock_handle, which lives as long as this
        self.code: int = lib.RLOCK_EINVAL  # until it is complete
        self.failure = Failure(self.code)
        self.op: Any = ffi.gc(ffi.new("struct rlock_op **"), lib.rlock_py_drop)
        self._wake = wake
        self._self: Any = None

    def begin(self, function: Callable[..., int], *arguments: Any) -> None:
        self._self = ffi.new_handle(self)
        _under_way.add(self._self)
        code = function(self.handle, *arguments, lib.rlock_py_done, self._self, self.op)
        if code != 0:
            self.forget()
            raise last_error(code) if code < 0 else already_over()

    def end(self, op: Any) -> None:
        self.forget()
        self.failure = failure_of(lambda got: int(lib.rlock_op_failure(op, got)))
        self.code = self.failure.code
        self.settle(op)
        self._wake()

    def settle(self, op: Any) -> None:
        """What completion means to the kind of operation."""

    def fail(self, problem: Error) -> None:
        """It cannot begin."""
        self.failure = Failure(
            problem.code, problem.detail, problem.reason, problem.free_in, problem.holder, problem.server
        )
        self.code = self.failure.code
        self._wake()

    def check(self) -> None:
        if self.code != 0:
            raise error(*self.failure)

    def forget(self) -> None:
        _under_way.discard(self._self)
        self._self = None  # no cycle is left for the collector


class Level:
    """One successful take, until its unlock. It knows neither the Hold nor the client: they may be dropped.

    If the program does not receive the text of a detach, the level is unseen: the server has the hold under that text. An
    unlock or another detach first takes the hold back from the text. Meanwhile, and while such a detach goes on, later unlocks
    and detaches wait.
    """

    def __init__(self, handle: Any, name: str, kind: str, owner: int, events: Events) -> None:
        self.handle = handle
        self.name = name
        self.kind = kind
        self.owner = owner
        self.events = events
        self.is_detached = False
        self.is_dropped = False  # the program has no hold of it any more
        self._live: Any = ffi.new("int *")
        self._text = b""  # of a detach, and the program did not receive it
        self._waiting: Optional[list[tuple[Operation, Callable[[], None]]]] = None  # None: calls need not wait

    def is_live(self) -> bool:
        """It was granted, and not unlocked since. False during a detach."""
        return bool(self._live[0] == lib.LIVE)

    def is_owed(self) -> bool:
        """An unlock is still to come."""
        return bool(self._live[0] != lib.OVER) or self.is_waiting()

    def is_waiting(self) -> bool:
        """Unlocks and detaches have to wait."""
        return self._waiting is not None

    def grant(self) -> None:
        self._live[0] = lib.LIVE

    def end(self) -> None:
        """Nobody unlocks it any more."""
        self._live[0] = lib.OVER

    def unseen(self, text: bytes) -> None:
        """A detach has succeeded, and the program does not receive its text."""
        self.is_detached = False
        self._text = text
        self._live[0] = lib.UNSEEN

    def take(self, function: Callable[..., int], what: Union[int, bytes], take: Any, grant: Any) -> int:
        return int(function(self.handle, what, take, grant, self._live))

    def detach(self, milliseconds: int, text: Any) -> int:
        self._take_back(True)
        code = int(call(lib.rlock_py_detach, self.handle, self.owner, milliseconds, text, self._live))
        self.is_detached |= code == 0
        return code

    def unlock(self) -> int:
        self._take_back(False)
        return int(call(lib.rlock_py_unlock, self.handle, self.owner, self._live))

    def _take_back(self, is_for_detach: bool) -> None:
        code = int(lib.rlock_py_take_back(self.handle, self.owner, self._text, self._live))
        if code < 0:
            problem = last_error(code)
            self.not_taken_back(is_for_detach, code)
            raise_kept()
            raise self.lost() if code == Code.ENOTOWNER else problem

    def not_taken_back(self, is_for_detach: bool, code: int) -> None:
        """The unlock of a lost hold ends it. Otherwise the program tries again."""
        self._live[0] = lib.OVER if code == Code.ENOTOWNER and not is_for_detach else lib.UNSEEN

    def lost(self) -> Error:
        """The text has no hold any more."""
        detail = f"lock {self.name}: the hold ended after a detach. The program did not receive its text"
        return error(Code.ELOST, detail, Reason.DELETED)

    def detach_async(self, operation: Detaching, milliseconds: int) -> None:
        function = lib.rlock_py_detach_async
        self._begin(operation, lambda: operation.begin(function, self.owner, milliseconds, self._live))

    def unlock_async(self, operation: Operation) -> None:
        self._begin(operation, lambda: operation.begin(lib.rlock_py_unlock_async, self.owner, self._live))

    def _begin(self, operation: Operation, begin: Callable[[], None]) -> None:
        """Begins it when it need not wait."""
        with _waiting_mutex:
            if self._waiting is not None:
                self._waiting.append((operation, begin))
                return
            is_unseen = self._live[0] == lib.UNSEEN
            if is_unseen:
                self._waiting = []
        if not is_unseen:
            begin()
            return
        try:
            TakingBack(self, operation, begin).begin(
                lib.rlock_py_take_back_async, self.owner, self._text, self._live
            )
        except BaseException:
            self.proceed()
            raise

    def wait(self) -> None:
        """Later unlocks and detaches wait until proceed()."""
        with _waiting_mutex:
            if self._waiting is None:
                self._waiting = []

    def proceed(self) -> bool:
        """Begins what waits. Returns whether anything did."""
        with _waiting_mutex:
            waiting = [each for each in self._waiting or [] if not each[0].is_abandoned]
            self._waiting = None
        for operation, begin in waiting:
            try:
                self._begin(operation, begin)
            except Error as problem:
                operation.fail(problem)
        return bool(waiting)

    def drop(self, why: Optional[str]) -> None:
        """Unlocks in the background, if nobody has. why: the text of the loss to be reported; None: no loss."""
        outside(self._drop, why)

    def _drop(self, why: Optional[str]) -> None:
        if not self.is_owed() or self.events.over():
            return
        operation = _Dropped(self, why)
        try:
            self.unlock_async(operation)
        except Error as problem:
            operation.fail(problem)


class Taking(Operation):
    """The take of a level. The caller may give it up at any time: then a grant is given back."""

    def __init__(self, level: Level, wake: Callable[[], None]) -> None:
        super().__init__(level.handle, wake)
        self._level = level
        self._given_up = False

    def settle(self, op: Any) -> None:
        if self.code == 0:
            self._level.grant()
        if self._given_up:
            self._level.drop(None)

    def give_up(self) -> None:
        """settle() may run at the same time in another thread: the level ends once, whoever comes second."""
        self._given_up = True
        if self.op[0] == ffi.NULL:  # it did not begin
            self.forget()
        lib.rlock_op_cancel(self.op[0])
        self._level.drop(None)


class Detaching(Operation):
    """The detach of a level. If it fails, the level goes on; and if its hold was dropped meanwhile, it is unlocked."""

    def __init__(self, level: Level, wake: Callable[[], None]) -> None:
        super().__init__(level.handle, wake)
        self.text = b""
        self._level = level
        self._is_settled = False

    def begin(self, function: Callable[..., int], *arguments: Any) -> None:
        if not self.is_abandoned:  # while it waited
            super().begin(function, *arguments)

    def settle(self, op: Any) -> None:
        with _waiting_mutex:
            self._is_settled = True
            if self.code == 0:
                text = ffi.new("char[]", lib.RLOCK_TEXT_SIZE)
                lib.rlock_op_text(op, text)
                self.text = ffi.string(text)
                self._level.is_detached = True
            else:
                self._level.grant()
            is_abandoned = self.is_abandoned
            if is_abandoned and self.text:
                self._level.unseen(self.text)
        has_gone_on = is_abandoned and self._level.proceed()
        if self._level.is_dropped and not has_gone_on:
            self._level.drop(DROPPED)

    def abandon(self) -> None:
        """The task was cancelled, so the program does not receive the text. settle() may run at the same time in another thread."""
        with _waiting_mutex:
            self.is_abandoned = True
            if self.text:
                self._level.unseen(self.text)
            elif self.op[0] != ffi.NULL and not self._is_settled:
                self._level.wait()


class TakingBack(Operation):
    """The owner of a hold adopts a text that the program did not receive. Then its unlock or detach begins."""

    def __init__(self, level: Level, operation: Operation, begin: Callable[[], None]) -> None:
        super().__init__(level.handle, lambda: None)
        self._level = level
        self._operation = operation
        self._begin = begin

    def settle(self, op: Any) -> None:
        level = self._level
        if self.code == 0:
            level.grant()
            try:
                self._begin()
            except Error as problem:
                self._operation.fail(problem)
        else:
            level.not_taken_back(isinstance(self._operation, Detaching), self.code)
            self._operation.fail(level.lost() if self.code == Code.ENOTOWNER else error(*self.failure))
        level.proceed()


class _Dropped(Operation):
    """The unlock of a level whose owner is gone."""

    def __init__(self, level: Level, why: Optional[str]) -> None:
        super().__init__(level.handle, lambda: None)
        self._level = level
        self._why = why

    def settle(self, op: Any) -> None:
        if self.code not in (Code.ELOST, Code.ENOTOWNER, Code.ECLOSED):  # it was reported, or it was over before
            self._report()

    def fail(self, problem: Error) -> None:
        level = self._level
        if problem.code in (Code.ECLOSED, Code.ENOTOWNER):
            return
        if problem.code != Code.ELOST:
            log.error("%s lock %r: %s, and its unlock failed: %s", level.kind, level.name, self._why, problem)
        self._report()

    def _report(self) -> None:
        level = self._level
        if self._why is not None:
            level.events.lost(Loss(level.name, level.kind, level.owner, Reason.OWNER_ENDED, self._why, 1))


def already_over() -> Error:
    return error(Code.ENOTOWNER, "this hold was unlocked or detached before, or it ended with its owner")


def rlock_py_done(op: Any, payload: Any) -> None:
    ffi.from_handle(payload).end(op)


ffi.def_extern(onerror=failed)(rlock_py_done)
