# SPDX-License-Identifier: Apache-2.0
"""Latches: latch.h."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._callbacks import raise_kept
from ._errors import Code, error
from ._greenlets import refuse_greenlets
from ._operation import Operation
from ._options import Name, encoded
from ._rlock import ffi, lib
from ._times import Seconds, wait_ms

if TYPE_CHECKING:
    from ._client import AsyncClient, BaseClient, Client


def _party_bytes(party: Optional[Name]) -> Any:
    if party is None:
        return ffi.NULL
    raw = encoded(party)
    if b"\0" in raw:  # C would not see what follows it
        raise error(Code.EINVAL, "a party has no NUL bytes")
    return raw


class BaseLatch:
    """A latch of a client: callers wait until a number of parties have counted down."""

    def __init__(self, client: BaseClient[Any], name: Name, handle: Any) -> None:
        self._client_of_any: Any = client
        self._latch: Any = ffi.gc(handle, lib.rlock_latch_free)
        self.name = encoded(name).decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class Latch(BaseLatch):
    """A latch for threads."""

    def __init__(self, client: Client, name: Name, handle: Any) -> None:
        super().__init__(client, name, handle)

    def set(self, count: int) -> None:
        """Closes an open latch: so many parties have to count down. A latch that is closed already stays as it is."""
        self._run(lib.rlock_latch_set_async, count)

    def down(self, party: Optional[Name] = None) -> None:
        """Counts down by one. A party that gives its name counts once, however often it calls."""
        self._run(lib.rlock_latch_down_async, _party_bytes(party))

    def wait(self, wait: Optional[Seconds] = None) -> None:
        """Waits until the latch is open: for ever with None. Busy (0) or TimedOut: it is closed."""
        self._run(lib.rlock_latch_wait_async, wait_ms(wait), ffi.NULL)

    def count(self) -> int:
        """How many parties have not counted down yet; 0: the latch is open."""
        return int(lib.rlock_op_count(self._run(lib.rlock_latch_count_async).op[0]))

    def _run(self, function: Callable[..., int], *arguments: Any) -> Operation:
        refuse_greenlets()
        ended = _thread.allocate_lock()
        ended.acquire()
        operation = Operation(self._latch, ended.release)
        operation.begin(function, *arguments)
        try:
            raise_kept()
            ended.acquire()
        except BaseException:  # of a signal handler
            lib.rlock_op_cancel(operation.op[0])
            raise
        operation.check()
        return operation


class AsyncLatch(BaseLatch):
    """A latch for the tasks of asyncio: see Latch."""

    def __init__(self, client: AsyncClient, name: Name, handle: Any) -> None:
        super().__init__(client, name, handle)
        self._client = client

    async def set(self, count: int) -> None:
        await self._run(lib.rlock_latch_set_async, count)

    async def down(self, party: Optional[Name] = None) -> None:
        await self._run(lib.rlock_latch_down_async, _party_bytes(party))

    async def wait(self, wait: Optional[Seconds] = None) -> None:
        await self._run(lib.rlock_latch_wait_async, wait_ms(wait), ffi.NULL)

    async def count(self) -> int:
        return int(lib.rlock_op_count((await self._run(lib.rlock_latch_count_async)).op[0]))

    async def _run(self, function: Callable[..., int], *arguments: Any) -> Operation:
        future, wake = self._client._future()
        operation = Operation(self._latch, wake)
        operation.begin(function, *arguments)
        try:
            await future
        except BaseException:
            lib.rlock_op_cancel(operation.op[0])
            raise
        operation.check()
        return operation
