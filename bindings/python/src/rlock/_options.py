# SPDX-License-Identifier: Apache-2.0
"""Options, and how they get into the library's structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, TypedDict, Union, cast

from ._errors import Code, error
from ._rlock import ffi, lib
from ._times import Seconds, option_ms

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

Name = Union[str, bytes]
_internal = {"size", "name_len", "url", "flags", "on_lost", "on_log_line", "on_address", "on_login", "on_trace", "payload"}
_client_flags = {
    "no_pass": lib.RLOCK_CLIENT_NO_PASS,
    "acks_on_disk": lib.RLOCK_CLIENT_ACKS_ON_DISK,
    "announce_both": lib.RLOCK_CLIENT_ANNOUNCE_BOTH,
    "sentinel_tls": lib.RLOCK_CLIENT_SENTINEL_TLS,
    "sentinel_plain": lib.RLOCK_CLIENT_SENTINEL_PLAIN,
}
_lock_flags = {
    "no_reentry": lib.RLOCK_LOCK_NO_REENTRY,
    "prefer_writers": lib.RLOCK_LOCK_PREFER_WRITERS,
}


class ClientOptions(TypedDict, total=False):
    """Those of struct rlock_client_opts. Times are in seconds, so their names have no _ms. A flag there, for example
    RLOCK_CLIENT_NO_PASS, is True here.
    """

    connect_timeout: Seconds
    op_timeout: Seconds
    renewed_lease: Seconds
    safety_margin: Seconds
    key_prefix: str
    user: str
    password: str
    ca_file: str
    cert_file: str
    key_file: str
    log_level: int
    sentinel_user: str
    sentinel_password: str
    acks: int
    no_pass: bool
    acks_on_disk: bool
    announce_both: bool
    sentinel_tls: bool
    sentinel_plain: bool


class LockOptions(TypedDict, total=False):
    """Those of struct rlock_opts, like those in ClientOptions. RLOCK_LOCK_SENT_UNLOCK is not there yet."""

    max_hold: Seconds
    linger: Seconds
    pause_first: Seconds
    pause_max: Seconds
    pause_growth: int
    fair_slot: Seconds
    max_lease: Seconds
    units: int
    no_reentry: bool
    prefer_writers: bool


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
    item = ffi.typeof(struct).item
    members = dict(item.fields)
    flags = _client_flags if item.cname == "struct rlock_client_opts" else _lock_flags
    for name, value in options.items():
        if name in flags:
            struct.flags |= flags[name] if value else 0
            continue
        if name + "_ms" in members:
            setattr(struct, name + "_ms", option_ms(cast(Seconds, value), name))
            continue
        if name not in members or name in _internal or name.endswith("_ms"):
            raise TypeError(f"there is no option {name!r}")
        if isinstance(value, (str, bytes)):
            value = ffi.new("char[]", encoded(value))
            keep.append(value)
        setattr(struct, name, value)
