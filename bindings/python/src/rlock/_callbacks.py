# SPDX-License-Identifier: Apache-2.0
"""The callbacks of a client, and the functions that the library calls for them."""

from __future__ import annotations

import _thread
import enum
import itertools
import logging
import os
import signal
import threading
from typing import Any, Callable, NamedTuple, Optional, Union

from ._errors import Code, Reason, string
from ._rlock import ffi, lib

log = logging.getLogger("rlock")
log.addHandler(logging.NullHandler())
_levels = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_numbers = itertools.count(1)
_longest_host = 255


class Loss(NamedTuple):
    """A hold that was lost."""

    name: str
    kind: str
    owner: int
    reason: Reason
    text: str
    levels: int  # levels that were not unlocked yet


class Call(enum.IntEnum):
    """The calls that traces report."""

    LOCK = 1  # lock(), try_lock(), acquire()
    UNLOCK = 2
    EXTEND = 3
    FORCE_UNLOCK = 4
    INSPECT = 5
    DETACH = 6
    ADOPT = 7


class Trace(NamedTuple):
    """A call that has ended: struct rlock_trace. Times are in seconds."""

    call: Call
    name: str  # of the lock
    kind: str  # of the lock: "reentrant", …
    server: str  # the address of the server that it asked last; "" for a multi-lock or RedLock
    owner: int  # 0: a call without an owner
    token: int  # fenced locks: the number of the hold
    code: Optional[Code]  # None: the call succeeded
    total: float  # from the call's begin to its end
    waited: float  # of this, the wait for the holder, for earlier calls and so on
    server_time: float  # the rest: the wait for the server, or for a connection to it
    held: Optional[float]  # UNLOCK, DETACH: how long the owner had the hold; None: unknown
    requests: int  # how often it asked a server; for a multi-lock or RedLock its number of calls for members
    levels: int  # how many levels the owner holds now


Login = tuple[Union[str, bytes, None], Union[str, bytes, None]]


class Callbacks(NamedTuple):
    """What the program gave: None for nothing."""

    on_lost: Optional[Callable[[Loss], object]] = None
    on_login: Optional[Callable[[str, bool], Login]] = None
    on_address: Optional[Callable[[str, int, bool], tuple[str, int]]] = None
    on_trace: Optional[Callable[[Trace], object]] = None


class Events:
    """What a client reports unasked. It does not know the client, so the collector can find the client."""

    def __init__(self, callbacks: Callbacks) -> None:
        for name, given in callbacks._asdict().items():
            if given is not None and not callable(given):
                raise TypeError(f"{name} cannot be called")
        self.callbacks = callbacks
        self.pid = os.getpid()
        self.closed = False
        self._number = next(_numbers)

    def register(self, opts: Any) -> None:
        """Has the library call back. The number is unknown once the client is closed: a call may outlive it."""
        given = self.callbacks
        opts.payload = ffi.cast("void *", self._number)
        opts.on_lost, opts.on_log_line = lib.rlock_py_lost, lib.rlock_py_log
        opts.on_login = ffi.NULL if given.on_login is None else lib.rlock_py_login
        opts.on_address = ffi.NULL if given.on_address is None else lib.rlock_py_address
        opts.on_trace = ffi.NULL if given.on_trace is None else lib.rlock_py_trace
        events_by_number[self._number] = self

    def forget(self) -> None:
        events_by_number.pop(self._number, None)

    def lost(self, loss: Loss) -> None:
        if self.callbacks.on_lost is not None:
            self.callbacks.on_lost(loss)

    def over(self) -> bool:
        """No hold is left: the client is closed, or this is a child of fork."""
        return self.closed or os.getpid() != self.pid


events_by_number: dict[int, Events] = {}  # of clients that may still call back


def _callbacks_of(payload: Any) -> Callbacks:
    events = events_by_number.get(int(ffi.cast("uintptr_t", payload)))
    return Callbacks() if events is None else events.callbacks


class _Inside(threading.local):
    """Whether this thread runs a callback that must not call the library."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


_inside = _Inside()


def outside(function: Callable[..., object], *arguments: Any) -> None:
    """Calls the library for an object that is gone. The collector may find that in a callback that must not call it."""
    if _inside.depth == 0:
        function(*arguments)
    else:
        _thread.start_new_thread(function, arguments)


# Python runs signal handlers in the main thread, in the middle of a callback too. An exception cannot pass through the
# library. So what a handler raised there is kept until the library has returned.
_kept: list[BaseException] = []


def failed(kind: Any, value: Any, trace: Any) -> None:
    """Keeps or logs the exception that ended a callback."""
    try:
        if in_main_thread() and (not isinstance(value, Exception) or _is_of_a_handler(trace)):
            _kept.append(value)
        else:
            log.error("a callback failed", exc_info=(kind, value, trace))
    except BaseException as later:  # of a handler that ran here
        _kept.append(later)


def in_main_thread() -> bool:
    return _thread.get_ident() == threading.main_thread().ident


def _is_of_a_handler(trace: Any) -> bool:
    """Whether a signal handler of the program raised it, as far as the code of handlers tells."""
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> Any:
    """None: it is not in Python."""
    function = handler if hasattr(handler, "__code__") else getattr(handler, "__call__", None)
    return getattr(function, "__code__", None)


def raise_kept() -> None:
    if _kept and in_main_thread():
        raise _kept.pop(0)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the library, and then raises what a signal handler raised in a callback."""
    result = function(*arguments)
    raise_kept()
    return result


def rlock_py_lost(loss: Any, payload: Any) -> None:
    on_lost = _callbacks_of(payload).on_lost
    if on_lost is not None:
        text = string(lib.rlock_reason_text(loss.reason))
        on_lost(Loss(_name(loss), string(loss.kind), loss.owner, Reason(loss.reason), text, loss.levels))


def rlock_py_log(line: Any, payload: Any) -> None:
    log.log(_levels.get(line.level, logging.DEBUG), "%s", string(line.text))


def rlock_py_login(login: Any, payload: Any) -> int:
    on_login = _callbacks_of(payload).on_login
    if on_login is None:
        return 0
    with _inside:
        server, is_sentinel = string(lib.rlock_login_server(login)), bool(lib.rlock_login_is_sentinel(login))
        user, password = on_login(server, is_sentinel)
        return int(lib.rlock_login_set(login, _secret(user), _secret(password)))


def rlock_py_address(address: Any, payload: Any) -> None:
    on_address = _callbacks_of(payload).on_address
    if on_address is None:
        return
    with _inside:
        host, port = on_address(string(address.host), address.port, bool(address.is_sentinel))
        raw = host.encode("utf-8", "surrogateescape")
        if not 0 < len(raw) <= _longest_host or b"\0" in raw or not 0 < port < 1 << 16:
            raise ValueError(f"on_address returned {(host, port)!r}")
        address.host, address.port = raw, port


def rlock_py_trace(trace: Any, payload: Any) -> None:
    on_trace = _callbacks_of(payload).on_trace
    if on_trace is not None:
        with _inside:
            on_trace(_trace_of(trace))


def _trace_of(trace: Any) -> Trace:
    return Trace(
        call=Call(trace.call),
        name=_name(trace),
        kind=string(trace.kind),
        server=string(trace.server),
        owner=trace.owner,
        token=trace.token,
        code=Code(trace.code) if trace.code else None,
        total=trace.total_us / 1e6,
        waited=trace.waited_us / 1e6,
        server_time=trace.server_us / 1e6,
        held=trace.held_us / 1e6 if trace.held_us else None,
        requests=trace.requests,
        levels=trace.levels,
    )


def _name(of: Any) -> str:
    raw: bytes = ffi.buffer(of.name, of.name_len)[:]
    return raw.decode("utf-8", "surrogateescape")


def _secret(text: Union[str, bytes, None]) -> Any:
    """No exception shows it, because the log shows exceptions."""
    if text is None:
        return ffi.NULL
    if not isinstance(text, (str, bytes)):
        raise TypeError("on_login must return a user and a password, each as text or None")
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:  # C would not see what follows it
        raise ValueError("on_login returned a text with a NUL")
    return raw


for function in (rlock_py_lost, rlock_py_log, rlock_py_address, rlock_py_trace):
    ffi.def_extern(onerror=failed)(function)
ffi.def_extern(error=lib.RLOCK_EAUTH, onerror=failed)(rlock_py_login)
