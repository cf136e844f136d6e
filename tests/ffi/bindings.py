# SPDX-License-Identifier: Apache-2.0
"""Rust's bindgen reads the headers as they are: bindings.py <source> <include> <work> <bindgen> <rustc>

Every function of librlock.sym is among the bindings. rustc, if it is here, compiles them with bindgen's own tests of the
place of each member, and runs these.
"""
import pathlib
import re
import shutil
import subprocess
import sys

source, include, work, bindgen, rustc = (pathlib.Path(argument) for argument in sys.argv[1:])
shutil.rmtree(work, ignore_errors=True)
work.mkdir()
flags = [f"-I{source}/include", f"-I{include}"]
bindings, tests = work / "bindings.rs", work / "tests"
headers = sorted((source / "include/rlock").glob("*.h"))
(work / "all.h").write_text("".join(f'#include "{header}"\n' for header in headers))
subprocess.run([bindgen, work / "all.h", "-o", bindings, "--", *flags], check=True)

listed = set(re.findall(r"^ +(rlock_\w+);", (source / "src/librlock.sym").read_text(), re.M))
bound = set(re.findall(r"pub fn (rlock_\w+)", bindings.read_text()))
assert len(listed) > 40 and listed <= bound, listed - bound
if rustc.exists():
    allowed = ["-A", "warnings"]  # names in Rust's own style
    subprocess.run([rustc, "--edition", "2021", "--test", *allowed, bindings, "-o", tests], check=True)
    ran = subprocess.run([tests], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    assert re.search(r"test result: ok\. [1-9]\d* passed", ran.stdout), ran.stdout
