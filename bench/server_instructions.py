#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has valgrind count the instructions of a server that runs the scripts of a lock, in units of a script that does nothing.

    server_instructions.py <directory of the scripts> <valgrind>

Fails if one of the measured works takes more units than its ceiling. If you reduce a figure, lower its ceiling. A unit is
about 22,000 instructions with Redis 7.0. The server is Redis: $RLOCK_REDIS_SERVER, or what Debian's redis-tools holds.
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

NAME = "stock:4711"
CHANNEL = "redisson_lock__channel:{%s}" % NAME
QUEUE = "rlock_wait:{%s}" % NAME
UUIDS = ("11111111-2222-8333-8444-555555555555", "99999999-2222-8333-8444-555555555555")
FEW, MANY = 100, 400  # what both runs do alike does not count


class Connection:
    def __init__(self, path):
        deadline = time.monotonic() + 60
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(parts))

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        raise SystemExit("the server said: %r" % line)


class Server:
    """The scripts are known by their names."""

    def __init__(self, place, scripts, valgrind):
        self.counts = os.path.join(place, "counts")
        path, program = os.path.join(place, "socket"), os.path.join(place, "redis-server")
        if not os.path.exists(program):
            os.symlink(os.environ.get("RLOCK_REDIS_SERVER", "/usr/bin/redis-check-rdb"), program)
        self.process = subprocess.Popen(
            [valgrind, "--tool=callgrind", "--callgrind-out-file=" + self.counts, program, "--port", "0",
             "--unixsocket", path, "--save", "", "--hz", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connection = Connection(path)
        self.listener = Connection(path)
        self.digests = {"nothing": self.connection.ask("SCRIPT", "LOAD", "return {1}")}
        for name in ("plain/acquire", "queue/acquire", "queue/release"):
            with open(os.path.join(scripts, name + ".lua"), "rb") as script:
                self.digests[name] = self.connection.ask("SCRIPT", "LOAD", script.read())

    def run(self, script, owner, *rest):
        return self.connection.ask("EVALSHA", self.digests[script], 1, NAME, owner, *rest)

    def stop(self):
        """Returns how many instructions it took."""
        self.connection.send("SHUTDOWN", "NOSAVE")
        self.process.wait(60)
        with open(self.counts) as counts:
            return int(re.search(r"^(?:totals|summary): (\d+)", counts.read(), re.M).group(1))


def nothing(server, n):
    for _ in range(n):
        server.run("nothing", UUIDS[0] + ":1", 30000, 1)


def pairs(server, n):
    for i in range(1, n + 1):
        owner = "%s:%d" % (UUIDS[0], i)
        assert server.run("plain/acquire", owner, 30000, 1) == [1]
        assert server.run("queue/release", owner, 0, 0, "PUBLISH", CHANNEL) == [1, 0]


def busy_attempts(server, n):
    server.run("plain/acquire", UUIDS[1] + ":1", 1000000000, 1)
    for i in range(1, n + 1):
        assert server.run("plain/acquire", "%s:%d" % (UUIDS[0], i), 30000, 1)[0] == 0


def grants_from_the_queue(server, n):
    """Two processes take the lock in turn: one enters the queue, the other gives the lock to it."""
    for uuid in UUIDS:
        server.listener.ask("SUBSCRIBE", CHANNEL + ":" + uuid)
    owners = ["%s:1" % uuid for uuid in UUIDS]
    server.run("plain/acquire", owners[0], 30000, 1)
    for i in range(2, n + 2):
        assert server.run("queue/acquire", owners[1], 30000, 1, QUEUE, "w0", 0, "PUBLISH")[0] == 0
        assert server.run("queue/release", owners[0], 0, 0, "PUBLISH", CHANNEL) == [3, 0]
        assert server.run("queue/acquire", owners[1], 30000, 1, QUEUE, "w0", 1, "PUBLISH") == [1]
        owners = [owners[1], "%s:%d" % (owners[0].split(":")[0], i)]


def instructions(work, place, scripts, valgrind):
    totals = []
    for n in (FEW, MANY):
        server = Server(place, scripts, valgrind)
        work(server, n)
        totals.append(server.stop())
    return (totals[1] - totals[0]) / (MANY - FEW)


def main():
    ceilings = ((pairs, 3.9), (busy_attempts, 2.0), (grants_from_the_queue, 14.5))
    is_good = True
    with tempfile.TemporaryDirectory() as place:
        unit = instructions(nothing, place, *sys.argv[1:])
        print("a script that does nothing: %d instructions" % unit)
        for work, ceiling in ceilings:
            units = instructions(work, place, *sys.argv[1:]) / unit
            print("%s: %.2f scripts that do nothing, %.1f at most" % (work.__name__, units, ceiling))
            is_good = is_good and units <= ceiling
    sys.exit(0 if is_good else 1)


main()
