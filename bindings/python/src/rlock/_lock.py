# SPDX-License-Identifier: Apache-2.0
"""Handles of locks: the base of all handles, and the handles of threads."""

from __future__ import annotations

import _thread
import dataclasses
from typing import TYPE_CHECKING, Any, Callable, Generic, NamedTuple, Optional, TypeVar, Union

from ._callbacks import call, in_main_thread, raise_kept
from ._errors import Busy, Code, TimedOut, check, error, string
from ._greenlets import refuse_greenlets
from ._hold import BaseHold, Hold
from ._operation import Level, Operation, Taking
from ._options import encoded
from ._rlock import ffi, lib
from ._times import Seconds, lease_ms, wait_ms

if TYPE_CHECKING:
    from ._client import BaseClient, Client

Owner = Union[int, BaseHold[Any]]


@dataclasses.dataclass(frozen=True)
class Info:
    """What the server says of a lock: struct rlock_info."""

    locked: bool
    mine: bool
    ttl: Optional[float]  # seconds, the rest of the lease; None: there is no lock, or it has no lease
    holders: int
    count: int
    holder: str
    host: str
    pid: int
    token: int
    waiters: int
    dead_waiters: int
    mode: str
    units: int  # permits, semaphore: how many there are,
    units_free: int  # and how many of them are free


class BaseLock:
    """A name and a kind of a client."""

    def __init__(self, client: BaseClient[Any], handle: Any, members: tuple[BaseLock, ...] = ()) -> None:
        self._client_of_any: Any = client
        self._lock: Any = ffi.gc(handle, lib.rlock_free)
        size = ffi.new("size_t *")
        raw: bytes = ffi.buffer(lib.rlock_name(self._lock, size), size[0])[:]
        self.name = raw.decode("utf-8", "surrogateescape")
        self.kind = string(lib.rlock_kind(self._lock))
        self._key = (self.kind, self.name)
        self._members = members  # and so their clients

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} {self.name!r}>"

    def _parts(self) -> tuple[BaseLock, ...]:
        """The single locks that it is made of."""
        return tuple(part for member in self._members for part in member._parts()) or (self,)

    def _take(self, lease: Optional[Seconds], owner: int, flags: int = 0, units: int = 0) -> Any:
        take = ffi.new("struct rlock_take *")
        lib.rlock_init(take, ffi.sizeof(take[0]))
        take.lease_ms, take.owner, take.flags, take.units = lease_ms(lease), owner, flags, units
        return take

    def _level(self, owner: int) -> Level:
        return Level(self._lock, self.name, self.kind, owner, self._client_of_any._open.events)


def _new_grant() -> Any:
    grant = ffi.new("struct rlock_grant *")
    lib.rlock_init(grant, ffi.sizeof(grant[0]))
    return grant


def grant_of(operation: Operation) -> Any:
    operation.check()
    grant = _new_grant()
    lib.rlock_op_grant(operation.op[0], grant)
    return grant


def new_info() -> Any:
    info = ffi.new("struct rlock_info *")
    lib.rlock_init(info, ffi.sizeof(info[0]))
    return info


def info_of(info: Any) -> Info:
    return Info(
        locked=bool(info.locked),
        mine=bool(info.mine),
        ttl=info.ttl_ms / 1000 if info.ttl_ms >= 0 else None,
        holders=info.holders,
        count=info.count,
        holder=string(info.holder),
        host=string(info.host),
        pid=info.pid,
        token=info.token,
        waiters=info.waiters,
        dead_waiters=info.dead_waiters,
        units=info.units,
        units_free=info.units_free,
        mode=string(info.mode),
    )


class Way(NamedTuple):
    """How a hold is taken: the call that waits in its thread, and the one that does not."""

    waits: Callable[..., int]
    begins: Callable[..., int]


by_waiting = Way(lib.rlock_py_lock, lib.rlock_lock_async)
by_text = Way(lib.rlock_py_adopt, lib.rlock_adopt_async)


def text_bytes(text: str) -> bytes:
    raw = encoded(text)
    if b"\0" in raw:  # C would not see what follows it
        raise error(Code.EINVAL, "this is not the text of a hold")
    return raw


def from_dead_flag(is_so: bool) -> int:
    return int(lib.RLOCK_TAKE_FROM_DEAD) if is_so else 0


class Lock(BaseLock):
    """A lock for threads. The owner is the calling thread, or an id that is given.

    with lock, acquire() and release() leave the hold to the thread. lock() and try_lock() give it to the caller.
    """

    def __init__(self, client: Client, handle: Any, members: tuple[Lock, ...] = ()) -> None:
        super().__init__(client, handle, members)
        self._client = client

    def lock(
        self,
        wait: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        owner: Optional[Owner] = None,
        units: int = 0,
    ) -> Hold:
        """Takes the lock.

        wait: seconds or a timedelta; None waits for ever, and 0 tries once.
        lease: a fixed one; None renews it until the unlock.
        owner: from client.new_owner(), or a hold. The call takes one more level for the owner of that hold.
        units: of permits or a semaphore: how many, all or none; 0 is 1.
        In the main thread, where Python runs signal handlers, a handler that raises ends the wait.
        """
        return self._taken(by_waiting, wait_ms(wait), lease, owner, units=units)

    def adopt(
        self, text: str, lease: Optional[Seconds] = None, owner: Optional[Owner] = None, from_dead: bool = False
    ) -> Hold:
        """Takes over the hold of a text of detach(). It does not wait. NotOwner: that hold is over, or was adopted.

        from_dead: for a text of Hold.text(), which raises Busy otherwise. The process that wrote it is gone.
        lease and owner: see lock().
        """
        return self._taken(by_text, text_bytes(text), lease, owner, from_dead_flag(from_dead))

    def _taken(
        self,
        way: Way,
        what: Union[int, bytes],
        lease: Optional[Seconds],
        owner: Optional[Owner],
        flags: int = 0,
        units: int = 0,
    ) -> Hold:
        hold, take = self._prepare(lease, owner, flags, units)
        if not in_main_thread():
            grant = _new_grant()
            check(hold._level.take(way.waits, what, take, grant))
            hold._granted(grant)
            return hold
        ended = _thread.allocate_lock()
        ended.acquire()
        operation = Taking(hold._level, ended.release)
        try:
            operation.begin(way.begins, what, take)
            raise_kept()
            ended.acquire()
            hold._granted(grant_of(operation))
            return hold
        except BaseException:
            operation.give_up()
            raise

    def _prepare(
        self, lease: Optional[Seconds], owner: Optional[Owner], flags: int, units: int
    ) -> tuple[Hold, Any]:
        refuse_greenlets()
        thread = None if owner is not None else self._client._thread_state()
        given = owner.owner if isinstance(owner, BaseHold) else owner
        level = self._level(thread.owner if thread is not None else int(given or 0))
        if level.owner == 0:
            raise error(Code.EINVAL, "owner is 0")
        if thread is not None:
            thread.levels.add(level)
        return Hold(self, level), self._take(lease, level.owner, flags, units)

    def try_lock(
        self, lease: Optional[Seconds] = None, owner: Optional[Owner] = None, units: int = 0
    ) -> Optional[Hold]:
        """Tries once. None: another owner holds it."""
        try:
            return self.lock(0, lease, owner, units)
        except Busy:
            return None

    def __enter__(self) -> Hold:
        hold = self.lock()
        self._client._thread_state().entered.append(hold)
        return hold

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._client._thread_state().leave(self).__exit__(kind, value, trace)

    def acquire(self, blocking: bool = True, timeout: Seconds = -1) -> bool:
        """Takes the lock for the calling thread, like threading.Lock.acquire(). False: somebody else holds it."""
        if not blocking and timeout != -1:
            raise error(Code.EINVAL, "a timeout without blocking")
        try:
            hold = self.lock(0 if not blocking else None if timeout == -1 else timeout)
        except (Busy, TimedOut):
            return False
        self._client._thread_state().entered.append(hold)
        return True

    def release(self) -> None:
        """Gives up the latest level that the calling thread took by acquire()."""
        self._client._thread_state().leave(self).unlock()

    def locked(self) -> bool:
        """Whether anybody holds it. Asks the server."""
        return self.inspect().locked

    # What threading.Condition asks of an RLock.

    def _is_owned(self) -> bool:
        return self.hold_count() != 0

    def _release_save(self) -> int:
        levels = max(self.hold_count(), 1)  # the first release() says that nothing is held
        for _ in range(levels):
            self.release()
        return levels

    def _acquire_restore(self, levels: int) -> None:
        for _ in range(levels):
            self.acquire()

    def _recursion_count(self) -> int:
        return self.hold_count()

    def is_valid(self) -> bool:
        """Whether the calling thread holds it, and may rely on that now. Local."""
        return bool(self._ask(lib.rlock_is_valid_as))

    def validity(self) -> float:
        """For how many seconds the calling thread may rely on it if it is not renewed. Local."""
        return self._ask(lib.rlock_valid_ms_as) / 1000

    def hold_count(self) -> int:
        """How many levels the calling thread holds. Local."""
        return self._ask(lib.rlock_hold_count_as)

    def _ask(self, function: Callable[[Any, int], int]) -> int:
        state = self._client._known_thread()
        return 0 if state is None else int(function(self._lock, state.owner))

    def force_unlock(self) -> bool:
        """Releases the lock of any holder. Returns whether it was held."""
        was_locked = ffi.new("bool *")
        check(call(lib.rlock_force_unlock, self._lock, was_locked))
        return bool(was_locked[0])

    def inspect(self) -> Info:
        """Asks the server."""
        info = new_info()
        check(call(lib.rlock_inspect, self._lock, info))
        return info_of(info)


L = TypeVar("L", bound=BaseLock)


@dataclasses.dataclass(frozen=True)
class ReadWrite(Generic[L]):
    """The two sides of a read/write lock."""

    read: L
    write: L
