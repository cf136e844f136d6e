# SPDX-License-Identifier: Apache-2.0
"""Compiles a misuse, and compares what the compilers say with what the file says: diagnosed.py <file> <flags> <compiler>...

A comment at the end of a line says which diagnosis that line has, as "C: words; C++: words", or "all: words". C is gcc and
clang, C++ is g++ and clang++. The name of one compiler goes before its language. The words are a part of the diagnosis, which begins
with "warning: " or "error: ": newer compilers make errors of some warnings. A line without a comment for a compiler has
no diagnosis. A file in C++ is for g++ and clang++ alone, and so is a file in C for gcc and clang that says so.
"""
import os
import pathlib
import re
import subprocess
import sys

file, flags, *compilers = sys.argv[1:]
text = pathlib.Path(file).read_text()
is_cpp, is_c = file.endswith(".cpp"), "C only." in text
oldest = {"gcc": 12, "g++": 12, "clang": 14, "clang++": 14}


def wanted(name, language):
    """The diagnosis of each line that has one."""
    for number, line in enumerate(text.splitlines(), 1):
        said = re.search(r"/\* (\S+: (?:warning|error): .*) \*/$", line)
        words = dict(part.split(": ", 1) for part in said[1].split("; ")) if said else {}
        for key in (name, language, "all"):
            if key in words:
                yield number, words[key]
                break


def diagnoses(command):
    """What the compiler says of each line; 0 is for other files."""
    ran = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", env={**os.environ, "LC_ALL": "C"})
    found = {}
    for where, line, said in re.findall(r"^([^:\n]+):(\d+):\d+: ((?:fatal )?(?:warning|error): .*)$", ran.stderr, re.M):
        found.setdefault(int(line) if where == file else 0, []).append(said)
    return found


def is_said(words, texts):
    kind, words = words.split(": ", 1)
    return any(words in said and (said.startswith(kind) or kind == "warning") for said in texts)


def problems(compiler, name):
    language = "C++" if "++" in name else "C"
    command = [compiler, *flags.split(), "-Wall", "-Wextra", "-Wno-unused", "-Wunused-result"]
    command += ["-x", "c++", "-std=c++17"] if language == "C++" else ["-std=c11"]
    command += ["-fsyntax-only"] if is_cpp else ["-S", "-O2", "-o", "/dev/null"]  # gcc finds some when it optimizes
    command += ["-ferror-limit=0"] if name.startswith("clang") else []
    rows, found = dict(wanted(name, language)), diagnoses([*command, file])
    for number, words in rows.items():
        if not is_said(words, found.get(number, [])):
            yield f"line {number}: {found.get(number, 'no diagnosis')} instead of {words!r}"
    for number, texts in found.items():
        if number not in rows:
            yield f"line {number}: {texts} are not expected"


failed = tried = 0
for compiler in compilers:
    name = "clang" if "clang" in pathlib.Path(compiler).name else "gcc"
    name = {"gcc": "g++", "clang": "clang++"}[name] if "++" in pathlib.Path(compiler).name else name
    version = subprocess.run([compiler, "-dumpversion"], stdout=subprocess.PIPE, encoding="utf-8").stdout
    if ("++" in name and is_c) or ("++" not in name and is_cpp) or int(version.split(".")[0]) < oldest[name]:
        continue
    tried += 1
    for problem in problems(compiler, name):
        print(f"{name}: {problem}")
        failed = 1
if tried == 0:
    print("[  SKIPPED ] no compiler here is new enough")
sys.exit(failed)
