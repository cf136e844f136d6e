# SPDX-License-Identifier: Apache-2.0
"""Handles of locks for the tasks of an event loop."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from ._errors import Busy, Code, check, error
from ._hold import AsyncHold, BaseHold
from ._lock import (
    BaseLock, Info, Owner, Way, by_text, by_waiting, from_dead_flag, grant_of, info_of, new_info, text_bytes,
)  # fmt: skip
from ._operation import Detaching, Level, Operation, Taking, already_over
from ._rlock import lib
from ._times import FOREVER_MS, Seconds, wait_ms

if TYPE_CHECKING:
    from ._client import AsyncClient


class AsyncLock(BaseLock):
    """A lock for tasks of asyncio. Each hold is an owner of its own.

    A task that is cancelled while it takes the lock does not hold it: a late grant is given back.
    """

    def __init__(self, client: AsyncClient, handle: Any, members: tuple[AsyncLock, ...] = ()) -> None:
        super().__init__(client, handle, members)
        self._client = client

    async def lock(
        self,
        wait: Optional[Seconds] = None,
        lease: Optional[Seconds] = None,
        owner: Optional[Owner] = None,
        units: int = 0,
    ) -> AsyncHold:
        """Takes the lock: see Lock.lock().

        owner: a hold. The call takes one more level for its owner. Without owner, a call without an end to its wait
        raises Deadlock if this task itself has taken the lock.
        """
        milliseconds = wait_ms(wait)
        if owner is None and milliseconds == FOREVER_MS:
            self._refuse_deadlock()
        return await self._taken(by_waiting, milliseconds, lease, owner, units=units)

    async def adopt(
        self, text: str, lease: Optional[Seconds] = None, owner: Optional[Owner] = None, from_dead: bool = False
    ) -> AsyncHold:
        """Takes over the hold of a text: see Lock.adopt().

        A task that is cancelled meanwhile does not hold the lock. The text is good for another adopt(), unless the
        server's answer had come already: then the lock is free.
        """
        return await self._taken(by_text, text_bytes(text), lease, owner, from_dead_flag(from_dead))

    async def _taken(
        self,
        way: Way,
        what: Union[int, bytes],
        lease: Optional[Seconds],
        owner: Optional[Owner],
        flags: int = 0,
        units: int = 0,
    ) -> AsyncHold:
        given = owner.owner if isinstance(owner, BaseHold) else owner
        level = self._level(self._client.new_owner() if given is None else given)
        hold = AsyncHold(self, level)
        future, wake = self._client._future()
        operation = Taking(level, wake)
        try:
            operation.begin(way.begins, what, self._take(lease, level.owner, flags, units))
            await future
            hold._granted(grant_of(operation))
        except BaseException:
            operation.give_up()
            raise
        self._note(hold)
        return hold

    def _note(self, hold: AsyncHold) -> None:
        """Has the task that took it known by each name that it holds."""
        task = asyncio.current_task()
        hold._task = None if task is None else weakref.ref(task)
        rows = []
        for part in self._parts():
            row = part._client_of_any._holds_of(part.name)
            row.add(hold)
            rows.append(row)
        hold._rows = tuple(rows)

    def _refuse_deadlock(self) -> None:
        if self.kind in ("permits", "semaphore"):  # more of them may be free
            return
        parts = self._parts()
        blocked = sum(1 for part in parts if _is_blocked(part))
        needed = len(parts) // 2 + 1 if self.kind == "redlock" else len(parts)
        if len(parts) - blocked < needed:
            raise error(Code.EDEADLOCK, f"lock {self.name}: this task holds it: owner=hold takes one more level")

    async def try_lock(
        self, lease: Optional[Seconds] = None, owner: Optional[Owner] = None, units: int = 0
    ) -> Optional[AsyncHold]:
        """Tries once. None: another owner holds it."""
        try:
            return await self.lock(0, lease, owner, units)
        except Busy:
            return None

    async def __aenter__(self) -> AsyncHold:
        hold = await self.lock()
        self._client._entered().append(hold)
        return hold

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        entered = self._client._entered()
        for i in range(len(entered) - 1, -1, -1):
            if entered[i].lock is self:
                await entered.pop(i).__aexit__(kind, value, trace)
                return
        raise already_over()

    async def locked(self) -> bool:
        """Whether anybody holds it. Asks the server."""
        return (await self.inspect()).locked

    async def force_unlock(self) -> bool:
        """Releases the lock of any holder. Returns whether it was held."""
        operation = await self._do(lambda each: each.begin(lib.rlock_force_unlock_async))
        return bool(lib.rlock_op_was_locked(operation.op[0]))

    async def inspect(self) -> Info:
        """Asks the server. The holder's machine and process stay unknown."""
        operation = await self._do(lambda each: each.begin(lib.rlock_inspect_async))
        info = new_info()
        check(lib.rlock_op_info(operation.op[0], info))
        return info_of(info)

    async def _extend(self, level: Level, milliseconds: int) -> None:
        await self._do(lambda each: each.begin(lib.rlock_extend_async, level.owner, milliseconds))

    async def _detach(self, level: Level, milliseconds: int) -> str:
        future, wake = self._client._future()
        operation = Detaching(level, wake)
        level.detach_async(operation, milliseconds)
        try:
            await future
        except BaseException:
            operation.abandon()
            raise
        operation.check()
        return operation.text.decode()

    async def _unlock(self, level: Level) -> None:
        await self._do(level.unlock_async)

    async def _do(self, begin: Callable[[Operation], None]) -> Operation:
        future, wake = self._client._future()
        operation = Operation(self._lock, wake)
        begin(operation)
        await future
        operation.check()
        return operation


def _is_blocked(part: BaseLock) -> bool:
    """Whether the current task has taken it, or the other side of it."""
    task = asyncio.current_task()
    holds = part._client_of_any._holds_of(part.name)
    return task is not None and any(
        hold.is_valid()  # a lost hold keeps no other task out
        and hold._task is not None
        and hold._task() is task
        and not (part.kind == "read" and _reads(hold, part.name))
        for hold in list(holds)
    )


def _reads(hold: AsyncHold, name: str) -> bool:
    return all(part.kind == "read" for part in hold.lock._parts() if part.name == name)
