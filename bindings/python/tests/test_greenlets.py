# SPDX-License-Identifier: Apache-2.0
"""Programs that a greenlet library has patched: a wait in a thread would stop all greenlets."""

import importlib.util
import subprocess
import sys

import pytest

PATCH = {
    "gevent": "import gevent.monkey; gevent.monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}

PROGRAM = """
import sys
{first}
import rlock
client = None
{early}
{late}
try:
    client = client or rlock.Client(sys.argv[1])
    client.reentrant("a").lock(0)
except rlock.NotSupported as problem:
    print(problem)
else:
    print("taken")
"""


def run(url, **parts):
    program = PROGRAM.format(**{"first": "", "early": "", "late": "", **parts})
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program, url], stdout=subprocess.PIPE, check=True)
    return ran.stdout.decode()


@pytest.mark.parametrize("library", PATCH)
@pytest.mark.parametrize("when", ["before the import", "before the take"])
def test_a_patched_program_is_refused(url, library, when):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"[  SKIPPED ] {library} is not installed")
    if when == "before the import":
        said = run(url, first=PATCH[library])
    else:
        said = run(url, early="client = rlock.Client(sys.argv[1])", late=PATCH[library])
    assert library in said and "greenlet" in said


@pytest.mark.parametrize("library", PATCH)
def test_a_program_that_only_imports_the_library_is_not_refused(url, library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"[  SKIPPED ] {library} is not installed")
    assert run(url, first=f"import {library}") == "taken\n"
