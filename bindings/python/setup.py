# SPDX-License-Identifier: Apache-2.0
"""Has the version of the library, and leaves nothing in the checkout but below its build directory."""
import os
import pathlib
import re
import shutil
import sys

from setuptools import setup
from setuptools.command import sdist

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))
sys.dont_write_bytecode = True
from rlock_build import CHECKOUT, WORK  # noqa: E402

# What CMake needs to build the static library.
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake", "include", "lua", "src")


class Sdist(sdist.sdist):
    """With the library's sources inside, so that the tarball is all that a build needs."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        inside = pathlib.Path(base_dir, "library")
        inside.mkdir()
        for name in SOURCES:
            copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy2
            copy(CHECKOUT / name, inside / name)
        for name in ("rlock_build.py", "tests"):
            if not pathlib.Path(base_dir, name).exists():
                copy = shutil.copytree if (here / name).is_dir() else shutil.copy2
                copy(here / name, pathlib.Path(base_dir, name))


os.chdir(here)
WORK.mkdir(parents=True, exist_ok=True)
version = re.search(r"project\(rlock VERSION ([\d.]+)", (CHECKOUT / "CMakeLists.txt").read_text())
assert version
# A command that compiles needs the library, which is built for it before it begins: an sdist and metadata do not.
compiles = any(word.startswith(("bdist", "build", "develop", "editable", "install")) for word in sys.argv[1:])
setup(
    version=version.group(1),
    cffi_modules=["rlock_build.py:builder"] if compiles else [],
    cmdclass={"sdist": Sdist},
    options={"build": {"build_base": str(WORK)}, "egg_info": {"egg_base": str(WORK)}},
)
