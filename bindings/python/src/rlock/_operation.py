# SPDX-License-Identifier: Apache-2.0
"""Async calls of the library, and the functions that it calls."""

from __future__ import annotations

import _thread
import logging
from typing import Any, Callable, NamedTuple, Optional

from ._errors import Reason, check, error, string
from ._rlock import ffi, lib

log = logging.getLogger("rlock")
_levels = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_under_way: set[Any] = set()  # handles that the library has, until it calls back


class Loss(NamedTuple):
    """A hold that was lost."""

    name: str
    kind: str
    owner: int
    reason: Reason
    text: str


class Operation:
    """One async call. Who waits for it may give it up: then what it gets is given back.

    Its end and the giving up may come at once, in two threads, or in a signal handler. There is no
    mutex: whoever of the two comes second finds True.
    """

    def __init__(self, lock: Any, owner: int, wake: Callable[[], None]) -> None:
        self.lock = lock  # the struct rlock_handle, which the caller's handle keeps
        self.owner = owner  # 0: it takes nothing
        self.code = 1
        self.detail = ""
        self.op: Any = ffi.gc(ffi.new("struct rlock_op **"), lib.rlock_py_drop)
        self._wake = wake
        self._second = [True, False]
        self._handle: Any = ffi.new_handle(self)

    def begin(self, function: Callable[..., int], *arguments: Any) -> None:
        _under_way.add(self._handle)
        code = function(self.lock, *arguments, lib.rlock_py_done, self._handle, self.op)
        if code != 0:
            self._forget()
        check(code)

    def end(self, op: Any) -> None:
        self._forget()
        self.detail = string(lib.rlock_op_detail(op))
        self.code = lib.rlock_op_code(op)
        if self._second.pop():
            self._give_back()
        else:
            self._wake()

    def give_up(self) -> None:
        if self.op[0] == ffi.NULL:  # it did not begin
            self._forget()
            return
        lib.rlock_op_cancel(self.op[0])
        if self._second.pop():
            self._give_back()

    def check(self) -> None:
        if self.code != 0:
            raise error(self.code, self.detail)

    def _forget(self) -> None:
        _under_way.discard(self._handle)
        self._handle = None  # no cycle is left for the collector

    def _give_back(self) -> None:
        if self.code == 0 and self.owner != 0:
            lib.rlock_unlock_async(self.lock, self.owner, ffi.NULL, ffi.NULL, ffi.NULL)


class Events:
    """What a client tells without being asked. It does not know the client, so the client can be collected."""

    def __init__(self, on_lost: Optional[Callable[[Loss], object]]) -> None:
        self.on_lost = on_lost


def _failed(kind: Any, value: Any, trace: Any) -> None:
    """An exception cannot pass through the library."""
    if isinstance(value, Exception):
        log.error("a callback failed", exc_info=(kind, value, trace))
    else:
        _thread.interrupt_main()  # it was a signal's: once more, outside


def rlock_py_done(op: Any, payload: Any) -> None:
    ffi.from_handle(payload).end(op)


def rlock_py_lost(loss: Any, payload: Any) -> None:
    events = ffi.from_handle(payload)
    name = ffi.buffer(loss.name, loss.name_len)[:].decode("utf-8", "surrogateescape")
    reason = Reason(loss.reason)
    if events.on_lost is not None:
        text = string(lib.rlock_reason_text(loss.reason))
        events.on_lost(Loss(name, string(loss.kind), loss.owner, reason, text))


def rlock_py_log(level: int, text: Any, payload: Any) -> None:
    log.log(_levels.get(level, logging.DEBUG), "%s", string(text))


for function in (rlock_py_done, rlock_py_lost, rlock_py_log):
    ffi.def_extern(onerror=_failed)(function)
