# SPDX-License-Identifier: Apache-2.0
"""A thread that waits in the library stops all greenlets of that thread, the one that would unlock too."""

from __future__ import annotations

import sys
from typing import Optional

from ._errors import Code, error

_replaced = ("thread", "threading", "socket", "select", "time")  # any of them


def _patched_by() -> Optional[str]:
    for library, module, question in (
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ):
        is_patched = getattr(sys.modules.get(module), question, None)
        if is_patched is not None and any(is_patched(name) for name in _replaced):
            return library
    return None


def refuse_greenlets() -> None:
    """Raises NotSupported in a program that one of these libraries has patched."""
    if "gevent.monkey" in sys.modules or "eventlet.patcher" in sys.modules:
        library = _patched_by()
        if library is not None:
            raise error(
                Code.ENOTSUP,
                f"{library} has patched this program: a wait for a lock would stop every greenlet. "
                "Use rlock in a process that is not patched",
            )
