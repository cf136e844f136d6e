# SPDX-License-Identifier: Apache-2.0
"""Clients: one with threads of its own, and one that asyncio's loop runs."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterator, Optional

from ._async_lock import AsyncLock
from ._callbacks import Callbacks, Events, Login, Loss, Trace, call, outside, raise_kept
from ._errors import Code, Error, check, error
from ._greenlets import refuse_greenlets
from ._hold import AsyncHold, ThreadState
from ._latch import AsyncLatch, Latch
from ._lock import L, Lock, ReadWrite
from ._options import ClientOptions, LockOptions, Name, encoded, fill
from ._rlock import ffi, lib
from ._stats import Stats, stats_of

if TYPE_CHECKING:
    from typing_extensions import Unpack



class _Open:
    """The library's client, until it is closed. It does not know the Python one, which is collected without it."""

    def __init__(self, url: Optional[str], flags: int, callbacks: Callbacks, options: ClientOptions) -> None:
        self.pid = os.getpid()
        self.mutex = threading.RLock()  # signal handlers may come here again
        self.pins = 0  # of the thread that has the mutex
        self.events = Events(callbacks)
        keep: list[Any] = [ffi.NULL if url is None else ffi.new("char[]", encoded(url))]
        opts = ffi.new("struct rlock_client_opts *")
        lib.rlock_init(opts, ffi.sizeof(opts[0]))
        opts.url, opts.flags = keep[0], flags
        fill(opts, options, keep)
        client = ffi.new("struct rlock_client **")
        self.events.register(opts)
        code = lib.rlock_client_open(opts, client)
        if code != 0:
            self.events.forget()
            raise_kept()
        check(code)
        self.clients = [client[0]]

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls it with the client, which cannot be closed meanwhile: nothing that waits."""
        with self.pinned() as client:
            return call(function, client, *arguments)

    @contextlib.contextmanager
    def pinned(self) -> Iterator[Any]:
        """The library's client, which cannot be closed meanwhile."""
        self._refuse_fork()
        with self.mutex:
            self.pins += 1
            try:
                yield self._client()
            finally:
                self.pins -= 1

    def _refuse_fork(self) -> None:
        """Before the mutex, which another thread of the parent may have had."""
        if os.getpid() != self.pid:
            raise error(Code.EFORKED)

    def _client(self) -> Any:
        if not self.clients:
            raise error(Code.ECLOSED)
        return self.clients[0]

    def end_owner(self, owner: int) -> None:
        """The library reports what it held as lost, and gives it back."""
        outside(self._end_owner, owner)

    def _end_owner(self, owner: int) -> None:
        try:
            with self.pinned() as client:
                check(lib.rlock_owner_end(client, owner))
        except Error:
            pass  # nothing is held any more: the client is closed, or this is a child of fork

    def close(self) -> None:
        is_pinned = False
        try:
            if os.getpid() == self.pid:
                with self.mutex:
                    client = self.clients.pop()
                    is_pinned = self.pins != 0
            else:
                client = self.clients.pop()
        except IndexError:
            return
        self.events.closed = True
        if is_pinned:  # a signal handler of the thread that uses the client
            threading.Thread(target=self._close_later, args=(client,)).start()
        else:
            outside(self._close, client)

    def _close_later(self, client: Any) -> None:
        with self.mutex:
            pass  # the last pin has ended
        self._close(client)

    def _close(self, client: Any) -> None:
        if not self._end(client):  # in a callback of the library
            threading.Thread(target=self._end, args=(client,)).start()

    def _end(self, client: Any) -> bool:
        if lib.rlock_client_close(client) != ffi.NULL:
            return False
        self.events.forget()
        return True


def _warn(text: str) -> None:
    warnings.warn(text, ResourceWarning, stacklevel=2)


class BaseClient(Generic[L]):
    """This process's handle on one deployment, and the locks there."""

    _lock_class: type[L]
    _flags = 0

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        on_lost: Optional[Callable[[Loss], object]] = None,
        on_login: Optional[Callable[[str, bool], Login]] = None,
        on_address: Optional[Callable[[str, int, bool], tuple[str, int]]] = None,
        on_trace: Optional[Callable[[Trace], object]] = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        """Opens it. The callbacks, except on_lost, must neither wait nor call this package. Several threads may run them.

        on_login(server, is_sentinel) returns the user and the password of each connection, as a pair. If one of them is
        None, the client uses the one in its options. An exception fails the connection, and the client tries again.
        on_address(host, port, is_sentinel) returns the host and the port where this client reaches that server. After
        an exception the address stays as it is.
        on_trace(trace) receives each call that asked a server, before the call returns.
        """
        self._prepare()
        self._open = _Open(url, self._flags, Callbacks(on_lost, on_login, on_address, on_trace), options)
        self._close = weakref.finalize(self, self._open.close)  # at the end of the program as well
        self.uuid: str = self._open.call(lambda client: ffi.string(lib.rlock_client_uuid(client)).decode())
        self._unclosed = weakref.finalize(self, _warn, f"{self!r} was not closed")  # it runs first
        self._unclosed.atexit = False
        self._begin()

    def _prepare(self) -> None:
        """What comes before the opening."""

    def _begin(self) -> None:
        """What comes after it."""

    def new_owner(self) -> int:
        """An owner id that no client of this process gives to anybody else."""
        return int(self._open.call(lib.rlock_owner_new))

    def stats(self) -> Stats:
        """What the client has counted since it was opened. Local."""
        stats: Stats = self._open.call(stats_of)
        return stats

    def reentrant(self, name: Name, **options: Unpack[LockOptions]) -> L:
        return self._make(lib.rlock_reentrant_new, name, options)

    def nonreentrant(self, name: Name, **options: Unpack[LockOptions]) -> L:
        return self._make(lib.rlock_nonreentrant_new, name, options)

    def spin(self, name: Name, **options: Unpack[LockOptions]) -> L:
        return self._make(lib.rlock_spin_new, name, options)

    def setnx(self, name: Name, **options: Unpack[LockOptions]) -> L:
        """The lock of redis-py, redsync and others: one string key, which is the name."""
        return self._make(lib.rlock_setnx_new, name, options)

    def permits(self, name: Name, units: int, **options: Unpack[LockOptions]) -> L:
        """A semaphore of so many permits, if the server has no number of them. Redisson's RPermitExpirableSemaphore."""
        options["units"] = units
        return self._make(lib.rlock_permits_new, name, options)

    def semaphore(self, name: Name, units: int, **options: Unpack[LockOptions]) -> L:
        """Like permits, but its units have no lease, and cannot be extended. Redisson's RSemaphore."""
        options["units"] = units
        return self._make(lib.rlock_semaphore_new, name, options)

    def fenced(self, name: Name, **options: Unpack[LockOptions]) -> L:
        return self._make(lib.rlock_fenced_new, name, options)

    def fair(self, name: Name, **options: Unpack[LockOptions]) -> L:
        return self._make(lib.rlock_fair_new, name, options)

    def read_write(self, name: Name, **options: Unpack[LockOptions]) -> ReadWrite[L]:
        read = self._make(lib.rlock_read_new, name, options)
        return ReadWrite(read, self._make(lib.rlock_write_new, name, options))

    def _new_latch(self, name: Name) -> Any:
        raw = encoded(name)
        opts = _lock_options({})
        opts.name_len = len(raw)
        ret_latch = ffi.new("struct rlock_latch **")
        check(self._open.call(lib.rlock_latch_new, raw, opts, ret_latch))
        return ret_latch[0]

    def _make(self, new: Callable[..., int], name: Name, options: LockOptions) -> L:
        raw = encoded(name)
        opts = _lock_options(options)
        opts.name_len = len(raw)
        ret_lock = ffi.new("struct rlock_handle **")
        check(self._open.call(new, raw, opts, ret_lock))
        return self._lock_class(self, ret_lock[0])


class Client(BaseClient[Lock]):
    """A client for threads, which has two of its own. Each thread is an owner.

    with Client("redis://localhost") as client: …
    """

    _lock_class = Lock

    def _prepare(self) -> None:
        refuse_greenlets()
        self._thread = threading.local()

    def _known_thread(self) -> Optional[ThreadState]:
        """None: the calling thread has taken nothing yet."""
        return getattr(self._thread, "state", None)

    def _thread_state(self) -> ThreadState:
        state = self._known_thread()
        if state is None:
            state = self._thread.state = ThreadState(self.new_owner(), self._open.end_owner)
        return state

    def latch(self, name: Name) -> Latch:
        """A latch: threads and processes wait until a number of parties have counted down. Redisson's RCountDownLatch."""
        return Latch(self, name, self._new_latch(name))

    def close(self) -> None:
        """Releases what it holds, and ends the waits on it: rlock.Closed."""
        self._unclosed.detach()
        self._close()
        raise_kept()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()


class AsyncClient(BaseClient[AsyncLock]):
    """A client that asyncio's running loop runs, and which has no thread. Each hold is an owner.

    async with AsyncClient("redis://localhost") as client: …
    """

    _lock_class = AsyncLock
    _flags = lib.RLOCK_CLIENT_USER_LOOP

    def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = _thread.get_ident()
        self._entered_by: weakref.WeakKeyDictionary[asyncio.Task[Any], list[AsyncHold]] = (
            weakref.WeakKeyDictionary()
        )
        self._holds: weakref.WeakValueDictionary[str, weakref.WeakSet[AsyncHold]] = (
            weakref.WeakValueDictionary()
        )

    def _begin(self) -> None:
        self._fd: int = self._open.call(lib.rlock_client_fd)
        self._loop.add_reader(self._fd, self._dispatch)

    def _entered(self) -> list[AsyncHold]:
        """The holds that the current task has by async with lock."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task is running")
        return self._entered_by.setdefault(task, [])

    def _holds_of(self, name: str) -> weakref.WeakSet[AsyncHold]:
        """The holds of this client on the name, as long as there are any."""
        return self._holds.setdefault(name, weakref.WeakSet())

    def latch(self, name: Name) -> AsyncLatch:
        """A latch: see Client.latch()."""
        return AsyncLatch(self, name, self._new_latch(name))

    async def close(self) -> None:
        """Releases what it holds, and ends the waits on it: rlock.Closed."""
        self._unclosed.detach()
        if self._close.alive and os.getpid() == self._open.pid:
            self._loop.remove_reader(self._fd)
            await asyncio.shield(self._loop.run_in_executor(None, self._close))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        await self.close()

    def _future(self) -> tuple[asyncio.Future[None], Callable[[], None]]:
        """What a task waits for, and what ends that: in the loop, or in the thread that closes the client."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("the client belongs to another event loop")
        future: asyncio.Future[None] = loop.create_future()
        thread = self._thread  # not self: a call that never ends, as its loop did, keeps no client

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def wake() -> None:
            if _thread.get_ident() == thread:
                settle()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        return future, wake

    def _dispatch(self) -> None:
        if self._open.clients:
            call(lib.rlock_client_dispatch, self._open.clients[0])


def _lock_options(options: LockOptions) -> Any:
    opts = ffi.new("struct rlock_opts *")
    lib.rlock_init(opts, ffi.sizeof(opts[0]))
    fill(opts, options, [])
    return opts


def _group(new: Callable[..., int], members: tuple[L, ...], options: LockOptions) -> L:
    if len({type(member) for member in members}) != 1:
        raise TypeError("members are locks of one sort, and one at least")
    first = members[0]
    handles = ffi.new("struct rlock_handle *[]", [member._lock for member in members])
    ret_lock = ffi.new("struct rlock_handle **")
    check(new(handles, len(members), _lock_options(options), ret_lock))
    return type(first)(first._client_of_any, ret_lock[0], members)


def multi(*members: L) -> L:
    """A lock that is held while all members are."""
    return _group(lib.rlock_multi_new, members, {})


def redlock(*members: L, **options: Unpack[LockOptions]) -> L:
    """A lock that is held while most members are, each on a server of its own."""
    return _group(lib.rlock_redlock_new, members, options)
