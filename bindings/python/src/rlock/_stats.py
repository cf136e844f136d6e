# SPDX-License-Identifier: Apache-2.0
"""The counts of clients: as an object, and as text for Prometheus."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Iterable

from ._errors import Closed, Forked, Reason, check, last_error, string
from ._rlock import ffi, lib

if TYPE_CHECKING:
    from ._client import BaseClient

_KINDS = {
    lib.RLOCK_KIND_REENTRANT: "reentrant",
    lib.RLOCK_KIND_NONREENTRANT: "nonreentrant",
    lib.RLOCK_KIND_SPIN: "spin",
    lib.RLOCK_KIND_FENCED: "fenced",
    lib.RLOCK_KIND_FAIR: "fair",
    lib.RLOCK_KIND_READ: "read",
    lib.RLOCK_KIND_WRITE: "write",
    lib.RLOCK_KIND_MULTI: "multi",
    lib.RLOCK_KIND_REDLOCK: "redlock",
    lib.RLOCK_KIND_SETNX: "setnx",
    lib.RLOCK_KIND_PERMITS: "permits",
    lib.RLOCK_KIND_SEMAPHORE: "semaphore",
}
_SHORTEST = 32e-6  # the end of a histogram's first range, in seconds


@dataclasses.dataclass(frozen=True)
class Histogram:
    """How often a duration was in which range. The ranges never change. Times are in seconds."""

    bounds: tuple[float, ...]  # the longest duration of each range; math.inf in the last one
    counts: tuple[int, ...]  # of each range alone
    count: int  # the number of durations
    sum: float  # the sum of the durations


@dataclasses.dataclass(frozen=True)
class Stats:
    """The counts of a client since it was opened: struct rlock_stats.

    Keys are the values of the labels in docs/metrics.md: takes["fair"]["ETIMEDOUT"], extends["OK"], losses["expired"].
    What has not occurred is 0.
    """

    # The present state.
    holds: int  # that the server granted, neither released nor lost
    waiting: int  # calls that are taking a lock, and each member that a multi-lock takes
    unreleased: int  # holds and attempts that ended here while the server may still have them
    connections: int  # to servers with locks
    servers: int  # with locks, that the client knows

    # Calls that ended, by their codes; takes and unlocks by the kind of lock before that.
    takes: dict[str, Counter[str]]
    unlocks: dict[str, Counter[str]]
    extends: Counter[str]
    detaches: Counter[str]
    adopts: Counter[str]
    force_unlocks: Counter[str]
    inspects: Counter[str]

    losses: Counter[str]  # lost holds, by reason
    attempts: int  # how often a call asked a server for a lock
    passes: int  # unlocks that handed the hold over to a call of this client
    unsure: int  # unlocks that did not wait for the answer, and turned out to have failed
    renewals: int  # of holds, that the server confirmed
    late_renewals: int  # renewals among them that used two thirds of their time or more
    failed_renewals: int  # the client repeats them

    connects: int  # connections that succeeded
    reconnects: int  # of these, those after a connection that broke
    failed_connects: int  # connections that could not be made
    disconnects: int  # connections that broke
    requests: int  # commands that the client sent
    resends: int  # of these, second copies of a command that may have run already
    messages: int  # about releases, for waiting calls

    wait: Histogram  # of calls that took a lock, or adopted it: from the call to the grant
    hold: Histogram  # of holds: from the grant to the release, loss or hand-over
    reply: Histogram  # from sending a request to reading its reply


def _by_code(counts: Any) -> Counter[str]:
    return Counter({string(lib.rlock_code_name(-i)): n for i, n in enumerate(counts) if n})


def _by_kind(counts: Any) -> dict[str, Counter[str]]:
    return {name: _by_code(counts[kind]) for kind, name in _KINDS.items()}


def _by_reason(counts: Any) -> Counter[str]:
    return Counter({Reason(i).name.lower(): n for i, n in enumerate(counts) if n})


def _histogram(of: Any) -> Histogram:
    counts = tuple(of.counts)
    ends = [_SHORTEST * 2**i for i in range(len(counts) - 1)]
    return Histogram((*ends, math.inf), counts, of.count, of.sum_us / 1e6)


_READERS: dict[str, Callable[[Any], Any]] = {
    "takes": _by_kind, "unlocks": _by_kind,
    "extends": _by_code, "detaches": _by_code, "adopts": _by_code, "force_unlocks": _by_code, "inspects": _by_code,
    "losses": _by_reason,
    "wait": _histogram, "hold": _histogram, "reply": _histogram,
}  # fmt: skip


def stats_of(client: Any) -> Stats:
    """The counts of the library's client."""
    stats = ffi.new("struct rlock_stats *")
    lib.rlock_init(stats, ffi.sizeof(stats[0]))
    check(lib.rlock_client_stats(client, stats))
    names = [field.name for field in dataclasses.fields(Stats)]
    return Stats(**{name: _READERS.get(name, int)(getattr(stats, name)) for name in names})


def metrics(*clients: BaseClient[Any]) -> str:
    """The counts of the clients as OpenMetrics text, which Prometheus reads: docs/metrics.md. It asks no server.

    Clients with the same URL are added up.
    """
    return _text(clients, False)


def metrics_of_the_open(clients: Iterable[BaseClient[Any]]) -> str:
    """Leaves out clients that are closed, or belong to the parent of this child of fork."""
    return _text(clients, True)


def _text(clients: Iterable[BaseClient[Any]], leaves_out: bool) -> str:
    with contextlib.ExitStack() as stack:
        pinned = []
        # In one order: another thread may want the same clients.
        for each in sorted({client._open for client in clients}, key=id):
            try:
                pinned.append(stack.enter_context(each.pinned()))
            except (Closed, Forked):
                if not leaves_out:
                    raise
        return _written(ffi.new("struct rlock_client *[]", pinned or [ffi.NULL]), len(pinned))


def _written(clients: Any, n: int) -> str:
    size = 1 << 14
    while True:
        text = ffi.new("char[]", size)
        length = int(lib.rlock_metrics(clients, n, text, size))
        if length < 0:
            raise last_error(length)
        if length < size:
            return string(text)
        size = 2 * length
