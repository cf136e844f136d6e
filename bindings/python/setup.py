# SPDX-License-Identifier: Apache-2.0
"""Has the version of the library, and leaves nothing in the checkout but below its build directory."""
import os
import pathlib
import re
import sys

from setuptools import setup

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))
sys.dont_write_bytecode = True
from rlock_build import CHECKOUT, WORK  # noqa: E402

os.chdir(here)
WORK.mkdir(parents=True, exist_ok=True)
version = re.search(r"project\(rlock VERSION ([\d.]+)", (CHECKOUT / "CMakeLists.txt").read_text())
assert version
setup(
    version=version.group(1),
    cffi_modules=["rlock_build.py:builder"],
    options={"build": {"build_base": str(WORK)}, "egg_info": {"egg_base": str(WORK)}},
)
