# SPDX-License-Identifier: Apache-2.0
"""Real servers, and a witness who sees whether two are inside at once."""

import fcntl
import gc
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import rlock
from rlock import _callbacks, _hold, _operation

CHECKOUT = pathlib.Path(os.environ.get("RLOCK_SOURCE", pathlib.Path(__file__).parents[3]))


def until(condition, what, seconds=30):
    """Waits for what must come soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.002)


class Witness:
    """Another one who is inside, of whatever process, is seen: there is one lock on the file."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.file = open(self.path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if anybody else is inside
        self.file.write(".")

    def __exit__(self, *_):
        self.file.close()

    def visits(self):
        return self.path.stat().st_size


def ask(url, command):
    """The strings of a server's answer."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answer:
        connection.connect(url[len("unix://") :])
        connection.sendall(command.encode() + b"\r\n")
        count = int(answer.readline()[1:])
        return [answer.readline() and answer.readline().strip().decode() for _ in range(count)]


def keys(url):
    """All keys of a server."""
    return ask(url, "KEYS *")


def left(url):
    """The keys that locks must not leave. Tokens stay, and for a minute the marks that keep a turn for readers."""
    return [
        key
        for key in keys(url)
        if "token" not in key
        and not (key.startswith("rlock_wait:") and all(entry[0] == "~" for entry in ask(url, f"ZRANGE {key} 0 -1")))
    ]


class Servers:
    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="rlock-"))
        self.running = []

    def start(self, *more):
        program = os.environ.get("RLOCK_REDIS_SERVER", CHECKOUT / ".deps/bin/redis-server")
        path = self.top / f"{len(self.running)}.sock"
        options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(self.top), *more]
        self.running.append(subprocess.Popen([program, *options], stdout=subprocess.DEVNULL))
        until(path.exists, "the server starts")
        return f"unix://{path}"

    def stop(self):
        for server in self.running:
            server.kill()
            server.wait()
        shutil.rmtree(self.top)


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    until(lambda: not _operation._under_way, "operations end")
    gc.collect()
    until(lambda: not _callbacks.events_by_number, "clients end")
    assert not [level for level in _hold._levels if level.is_owed() and not level.events.over()]


@pytest.fixture(scope="session")
def servers():
    started = Servers()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def url(servers):
    return servers.start()


@pytest.fixture
def stalled(servers):
    """The URL of a server, and what stops it and has it go on."""
    url = servers.start()
    server = servers.running[-1]
    yield url, lambda: server.send_signal(signal.SIGSTOP), lambda: server.send_signal(signal.SIGCONT)
    server.send_signal(signal.SIGCONT)


@pytest.fixture
def name(request):
    return request.node.name


@pytest.fixture
def client(url):
    with rlock.Client(url) as opened:
        yield opened


@pytest.fixture
def other(url):
    """Somebody else."""
    with rlock.Client(url) as opened:
        yield opened


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path / "witness")
