# What cffi makes: it has no types that a checker could read.
from typing import Any

ffi: Any
lib: Any
