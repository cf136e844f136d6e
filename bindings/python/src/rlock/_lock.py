# SPDX-License-Identifier: Apache-2.0
"""Handles of locks: what all have, those that wait in a thread, and those of an event loop."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import dataclasses
import threading
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generic, Iterator, Optional, TypeVar

from ._errors import Busy, Error, check, string
from ._operation import Operation, log
from ._rlock import ffi, lib

if TYPE_CHECKING:
    from ._client import AsyncClient, BaseClient

FOREVER = -1


@dataclasses.dataclass(frozen=True)
class Info:
    """What the server says of a lock: struct rlock_info."""

    locked: bool
    mine: bool
    ttl_ms: int
    holders: int
    count: int
    holder: str
    host: str
    pid: int
    token: int
    waiters: int
    mode: str


class Hold:
    """What an owner has of a lock. It can be asked in any thread or task."""

    def __init__(self, lock: BaseLock, owner: int, grant: Any) -> None:
        self.lock = lock
        self.owner = owner
        self.token: int = grant.token  # of a fenced lock, else 0
        self.lease_ms: int = grant.lease_ms

    def is_valid(self) -> bool:
        """Whether it may be relied on now. Local."""
        return self.lock.is_valid(self.owner)

    def valid_ms(self) -> int:
        """For how long, if it is not renewed. Local."""
        return self.lock.valid_ms(self.owner)


class BaseLock:
    """A name and a kind of a client. The functions that ask nobody are the same for threads and tasks."""

    def __init__(self, client: BaseClient[Any], handle: Any) -> None:
        self._client_of_any: BaseClient[Any] = client
        self._members: object = None
        self._lock: Any = ffi.gc(handle, lib.rlock_free)
        size = ffi.new("size_t *")
        raw: bytes = ffi.buffer(lib.rlock_name(self._lock, size), size[0])[:]
        self.name = raw.decode("utf-8", "surrogateescape")
        self.kind = string(lib.rlock_kind(self._lock))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} {self.name!r}>"

    def is_valid(self, owner: Optional[int] = None) -> bool:
        """Whether the owner holds it, and may rely on that now. Local."""
        return bool(self._ask(lib.rlock_is_valid_as, owner))

    def valid_ms(self, owner: Optional[int] = None) -> int:
        """For how many ms the owner may rely on it if it is not renewed. Local."""
        return self._ask(lib.rlock_valid_ms_as, owner)

    def hold_count(self, owner: Optional[int] = None) -> int:
        """How often the owner holds it. Local."""
        return self._ask(lib.rlock_hold_count_as, owner)

    def _ask(self, function: Callable[[Any, int], int], owner: Optional[int]) -> int:
        owner = self._client_of_any.known_owner() if owner is None else owner
        return 0 if owner is None else function(self._lock, owner)

    def _owner(self, owner: Optional[int]) -> int:
        return self._client_of_any.owner() if owner is None else owner

    def _take(self, wait_ms: int, lease_ms: int, owner: int) -> Any:
        take = ffi.new("struct rlock_take *")
        lib.rlock_take_init(take, ffi.sizeof(take[0]))
        take.wait_ms, take.lease_ms, take.owner = wait_ms, lease_ms, owner
        return take

    def _grant(self) -> Any:
        grant = ffi.new("struct rlock_grant *")
        lib.rlock_grant_init(grant, ffi.sizeof(grant[0]))
        return grant

    def _granted(self, operation: Operation) -> Hold:
        operation.check()
        grant = self._grant()
        lib.rlock_op_grant(operation.op[0], grant)
        return Hold(self, operation.owner, grant)


def _info() -> Any:
    info = ffi.new("struct rlock_info *")
    lib.rlock_info_init(info, ffi.sizeof(info[0]))
    return info


def _told(info: Any) -> Info:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Info):
        value = getattr(info, field.name)
        values[field.name] = string(value) if isinstance(value, ffi.CData) else value
    return Info(**values)


def _drop(problem: Error, lock: BaseLock) -> None:
    """The exception that ends a with statement's body says more than what its unlock came to."""
    log.warning("%r, after an exception: %s", lock, problem)


class Lock(BaseLock):
    """A lock for threads. The owner is the calling thread, by an id of its own, or an id that is given."""

    def lock(self, wait_ms: int = FOREVER, lease_ms: int = 0, owner: Optional[int] = None) -> Hold:
        """Takes it; see rlock_lock_with(). In the main thread, where Python runs signal handlers, one that
        raises ends the wait: then the lock is not held, or given back."""
        owner = self._owner(owner)
        take = self._take(wait_ms, lease_ms, owner)
        if _thread.get_ident() != threading.main_thread().ident:
            grant = self._grant()
            check(lib.rlock_lock_with(self._lock, take, grant))
            return Hold(self, owner, grant)
        ended = _thread.allocate_lock()
        ended.acquire()
        operation = Operation(self._lock, owner, ended.release)
        try:
            operation.begin(lib.rlock_lock_async, take)
            ended.acquire()
            return self._granted(operation)
        except BaseException:
            operation.give_up()
            raise

    def try_lock(self, lease_ms: int = 0, owner: Optional[int] = None) -> Optional[Hold]:
        """Tries once. None: another owner holds it."""
        try:
            return self.lock(0, lease_ms, owner)
        except Busy:
            return None

    def unlock(self, owner: Optional[int] = None) -> None:
        """Gives up one level."""
        check(lib.rlock_unlock_as(self._lock, self._owner(owner)))

    def force_unlock(self) -> bool:
        """Opens it, whoever holds it. Returns whether somebody did."""
        was_locked = ffi.new("bool *")
        check(lib.rlock_force_unlock(self._lock, was_locked))
        return bool(was_locked[0])

    def inspect(self) -> Info:
        """Asks the server."""
        info = _info()
        check(lib.rlock_inspect(self._lock, info))
        return _told(info)

    @contextlib.contextmanager
    def taken(self, wait_ms: int = FOREVER, lease_ms: int = 0, owner: Optional[int] = None) -> Iterator[Hold]:
        """with lock.taken(wait_ms=500) as hold: …"""
        hold = self.lock(wait_ms, lease_ms, owner)
        try:
            yield hold
        except BaseException:
            self._leave(True, hold.owner)
            raise
        self._leave(False, hold.owner)

    def __enter__(self) -> Hold:
        return self.lock()

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._leave(kind is not None, None)

    def _leave(self, failed: bool, owner: Optional[int]) -> None:
        try:
            self.unlock(owner)
        except Error as problem:
            if not failed:
                raise
            _drop(problem, self)


class AsyncLock(BaseLock):
    """A lock for tasks of asyncio. The owner is the current task, by an id of its own, or an id that is given.

    A task that is cancelled while it takes the lock does not hold it: what it got all the same is given back.
    """

    def __init__(self, client: AsyncClient, handle: Any) -> None:
        super().__init__(client, handle)
        self._client = client

    async def lock(self, wait_ms: int = FOREVER, lease_ms: int = 0, owner: Optional[int] = None) -> Hold:
        """Takes it; see rlock_lock_with()."""
        owner = self._owner(owner)
        future, operation = self._operation(owner)
        try:
            operation.begin(lib.rlock_lock_async, self._take(wait_ms, lease_ms, owner))
            await future
            return self._granted(operation)
        except BaseException:
            operation.give_up()
            raise

    async def try_lock(self, lease_ms: int = 0, owner: Optional[int] = None) -> Optional[Hold]:
        """Tries once. None: another owner holds it."""
        try:
            return await self.lock(0, lease_ms, owner)
        except Busy:
            return None

    async def unlock(self, owner: Optional[int] = None) -> None:
        """Gives up one level, also where the task is cancelled meanwhile."""
        await self._do(lib.rlock_unlock_async, self._owner(owner))

    async def force_unlock(self) -> bool:
        """Opens it, whoever holds it. Returns whether somebody did."""
        operation = await self._do(lib.rlock_force_unlock_async)
        return bool(lib.rlock_op_was_locked(operation.op[0]))

    async def inspect(self) -> Info:
        """Asks the server. The holder's machine and process stay unknown."""
        operation = await self._do(lib.rlock_inspect_async)
        info = _info()
        check(lib.rlock_op_info(operation.op[0], info))
        return _told(info)

    @contextlib.asynccontextmanager
    async def taken(
        self, wait_ms: int = FOREVER, lease_ms: int = 0, owner: Optional[int] = None
    ) -> AsyncIterator[Hold]:
        """async with lock.taken(wait_ms=500) as hold: …"""
        hold = await self.lock(wait_ms, lease_ms, owner)
        try:
            yield hold
        except BaseException:
            await self._leave(True, hold.owner)
            raise
        await self._leave(False, hold.owner)

    async def __aenter__(self) -> Hold:
        return await self.lock()

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        await self._leave(kind is not None, None)

    async def _leave(self, failed: bool, owner: Optional[int]) -> None:
        try:
            await self.unlock(owner)
        except Error as problem:
            if not failed:
                raise
            _drop(problem, self)

    def _operation(self, owner: int) -> tuple[asyncio.Future[None], Operation]:
        future, wake = self._client._future()
        return future, Operation(self._lock, owner, wake)

    async def _do(self, function: Callable[..., int], *arguments: Any) -> Operation:
        future, operation = self._operation(0)
        operation.begin(function, *arguments)
        await future
        operation.check()
        return operation


L = TypeVar("L", bound=BaseLock)


@dataclasses.dataclass(frozen=True)
class ReadWrite(Generic[L]):
    """The two sides of a read/write lock."""

    read: L
    write: L
