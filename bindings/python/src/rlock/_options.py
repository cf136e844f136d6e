# SPDX-License-Identifier: Apache-2.0
"""Options, and how they get into the library's structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, TypedDict, Union

from ._errors import Code, error
from ._rlock import ffi

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

Name = Union[str, bytes]
_internal = {"size", "name_len", "url", "loop", "on_lost", "on_log", "map_address", "payload"}


class ClientOptions(TypedDict, total=False):
    """Those of struct rlock_client_opts; `pass_` is its pass."""

    connect_timeout_ms: int
    op_timeout_ms: int
    renewed_lease_ms: int
    safety_margin_ms: int
    key_prefix: str
    user: str
    password: str
    ca_file: str
    cert_file: str
    key_file: str
    log_level: int
    sentinel_user: str
    sentinel_password: str
    sentinel_tls: int
    acks: int
    acks_on_disk: bool
    announce_both: bool
    pass_: int


class LockOptions(TypedDict, total=False):
    """Those of struct rlock_opts."""

    max_hold_ms: int
    spin_initial_ms: int
    spin_max_ms: int
    spin_multiplier: int
    fair_slot_ms: int
    no_reentry: bool
    prefer_writers: bool
    max_lease_ms: int


def encoded(text: Name) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise error(Code.EINVAL, f"{text!r} is neither text nor bytes")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise error(Code.EINVAL, f"{text!r} cannot be written in UTF-8") from None


def fill(struct: Any, options: Mapping[str, object], keep: list[Any]) -> None:
    """Sets members of a struct; keep gets what must live as long as it."""
    known = dict(ffi.typeof(struct).item.fields)
    for name, value in options.items():
        member = name.rstrip("_")
        if member not in known or member in _internal:
            raise TypeError(f"there is no option {name!r}")
        if isinstance(value, (str, bytes)):
            value = ffi.new("char[]", encoded(value))
            keep.append(value)
        setattr(struct, member, value)
