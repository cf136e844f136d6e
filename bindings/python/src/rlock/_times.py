# SPDX-License-Identifier: Apache-2.0
"""Times: seconds outside, milliseconds inside."""

from __future__ import annotations

import datetime
import math
from typing import Optional, Union

from ._errors import Code, error

Seconds = Union[float, datetime.timedelta]

FOREVER_MS = -1  # RLOCK_FOREVER
_LONGEST_MS = 100 * 366 * 24 * 3600 * 1000  # a longer time has no end


def _seconds(time: Seconds, what: str) -> float:
    seconds = time.total_seconds() if isinstance(time, datetime.timedelta) else time
    if seconds != seconds:  # NaN
        raise error(Code.EINVAL, f"{what} is {seconds}")
    return max(min(seconds, _LONGEST_MS), -_LONGEST_MS)


def option_ms(time: Seconds, what: str) -> int:
    """Rounds up: no time is shorter than asked for. The library says which options may be negative."""
    return min(math.ceil(_seconds(time, what) * 1000), _LONGEST_MS)


def _ms(time: Seconds, what: str) -> int:
    if _seconds(time, what) < 0:
        raise error(Code.EINVAL, f"{what} is {time}: it must not be negative")
    return option_ms(time, what)


def wait_ms(wait: Optional[Seconds]) -> int:
    """None waits for ever, and so does a time above a hundred years. 0 tries once."""
    ms = FOREVER_MS if wait is None else _ms(wait, "wait")
    return ms if ms < _LONGEST_MS else FOREVER_MS


def detached_ms(lease: Seconds) -> int:
    """The lease of a text. It is never renewed."""
    return _ms(lease, "lease")


def lease_ms(lease: Optional[Seconds]) -> int:
    """None is a lease that is renewed until the unlock."""
    if lease is None:
        return 0
    ms = _ms(lease, "lease")
    if ms == 0:
        raise error(Code.EINVAL, "lease is 0: None renews it until the unlock")
    return ms
