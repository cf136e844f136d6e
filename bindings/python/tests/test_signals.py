# SPDX-License-Identifier: Apache-2.0
"""What a signal does to a thread that waits."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import until

import rlock
from rlock import _operation


class Interrupted(Exception):
    pass


@pytest.fixture
def handler():
    """A signal's handler, which does as .act says."""

    class Handler:
        def act(self):
            raise Interrupted

    own = Handler()
    before = signal.signal(signal.SIGUSR1, lambda *_: own.act())
    yield own
    signal.signal(signal.SIGUSR1, before)


def send_when(condition, then=lambda: None):
    """Sends the signal to this process once that is so, from another thread."""

    def run():
        until(condition, "somebody waits")
        os.kill(os.getpid(), signal.SIGUSR1)
        then()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("wait", [None, 30])
def test_a_handler_that_raises_ends_a_wait(client, other, name, handler, wait):
    lock, theirs = client.fair(name), other.fair(name)
    with theirs:
        sender = send_when(lambda: theirs.inspect().waiters == 1)
        with pytest.raises(Interrupted):
            lock.lock(wait)
        sender.join()
        until(lambda: theirs.inspect().waiters == 0, "nobody waits any more")
    assert lock.hold_count() == 0


def test_a_handler_that_raises_ends_an_adoption(stalled, name, handler):
    url, stop, go_on = stalled
    with rlock.Client(url, op_timeout=60) as client, rlock.Client(url) as other:
        lock, adopted = client.reentrant(name), []
        text = lock.lock().detach(20)
        stop()
        sender = send_when(lambda: _operation._under_way)
        with pytest.raises(Interrupted):
            lock.adopt(text)
        sender.join()
        go_on()

        def adopts():
            try:
                adopted.append(other.reentrant(name).adopt(text))
            except rlock.NotOwner:
                return False
            return True

        until(adopts, "the text has the hold again")
        assert lock.hold_count() == 0
        adopted[0].unlock()


@pytest.mark.parametrize("then", ["detach", "unlock", "block"])
def test_a_handler_that_raises_during_a_detach_leaves_a_hold_to_end(stalled, name, handler, then):
    url, stop, go_on = stalled
    with rlock.Client(url, op_timeout=60) as client, rlock.Client(url) as other:
        lock, theirs = client.reentrant(name), other.reentrant(name)
        hold = lock.lock()
        stop()
        sender = send_when(lambda: not hold._level.is_live(), go_on)  # Python runs the handler after the answer
        with pytest.raises(Interrupted):
            if then == "block":
                with hold:
                    hold.detach(20)
            hold.detach(20)
        sender.join()
        if then == "unlock":
            hold.unlock()
        elif then == "detach":
            theirs.adopt(hold.detach(20)).unlock()
        assert not theirs.inspect().locked and not hold.is_valid() and lock.hold_count() == 0


def test_a_handler_that_returns_lets_a_wait_go_on(client, other, name, handler):
    lock, theirs = client.fair(name), other.fair(name)
    held = theirs.lock()
    handler.act = held.unlock
    sender = send_when(lambda: theirs.inspect().waiters == 1)
    with lock:
        sender.join()


def test_a_handler_may_take_locks_of_the_same_client(client, other, name, handler):
    lock, theirs = client.fair(name), other.fair(name)
    held = theirs.lock()

    def act():
        with client.reentrant(name + "2"):
            held.unlock()

    handler.act = act
    sender = send_when(lambda: theirs.inspect().waiters == 1)
    with lock:
        sender.join()


def test_a_late_grant_is_given_back(client, other, name, handler):
    lock, theirs = client.reentrant(name), other.reentrant(name)
    outcomes = set()
    for turn in range(200):
        held = theirs.lock()

        def race(held=held, pause=turn * 1e-6):
            held.unlock()
            end = time.perf_counter() + pause
            while time.perf_counter() < end:
                pass
            os.kill(os.getpid(), signal.SIGUSR1)

        racer = threading.Thread(target=race)
        try:
            racer.start()
            hold = lock.lock()
            racer.join()
            hold.unlock()
            outcomes.add(True)
        except Interrupted:
            outcomes.add(False)
        racer.join()
        hold = None  # a signal after the end of lock() leaves it to the collector
        until(lambda: lock.hold_count() == 0 and not theirs.inspect().locked, "it is free again")
    assert False in outcomes


@pytest.mark.parametrize("wait", [None, 0])
def test_a_wait_for_an_answer_ends_as_well_and_the_lock_is_free_later(servers, name, handler, wait):
    url = servers.start()
    server = servers.running[-1]
    with rlock.Client(url, op_timeout=60) as client:
        lock = client.reentrant(name)
        with lock:
            pass
        server.send_signal(signal.SIGSTOP)
        sender = send_when(lambda: _operation._under_way)
        with pytest.raises(Interrupted):
            lock.lock(wait)
        sender.join()
        server.send_signal(signal.SIGCONT)
        until(lambda: not lock.inspect().locked, "what was granted is given back")
        with lock:
            pass


# A handler may run in a callback, in the main thread.


@pytest.fixture
def traced(url, name):
    """A client. Its next trace runs .act in the middle of a call."""

    class Traced:
        def act(self):
            pass

        def on_trace(self, trace):
            act, self.act = self.act, lambda: None
            act()

    own = Traced()
    with rlock.Client(url, on_trace=own.on_trace) as own.client:
        yield own


def raises_signal(number=signal.SIGUSR1):
    return lambda: signal.raise_signal(number)


def test_control_c_in_a_callback_reaches_the_caller(traced, other, name):
    hold = traced.client.reentrant(name).lock()
    traced.act = raises_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        hold.unlock()
    assert not other.reentrant(name).inspect().locked
    with traced.client.reentrant(name):  # it comes once
        pass


def test_a_handler_that_raises_in_a_callback_reaches_the_caller(traced, name, handler, caplog):
    lock = traced.client.reentrant(name)
    hold = lock.lock()
    for call in (lock.inspect, lambda: hold.extend(60), hold.unlock, lock.force_unlock):
        traced.act = raises_signal()
        with pytest.raises(Interrupted):
            call()
    assert not lock.locked() and "failed" not in caplog.text


def test_a_handler_that_raises_in_the_trace_of_a_detach_leaves_a_hold_to_end(traced, other, name, handler):
    hold = traced.client.reentrant(name).lock()
    traced.act = raises_signal()
    with pytest.raises(Interrupted):
        hold.detach(20)
    assert other.reentrant(name).inspect().locked
    hold.unlock()
    assert not other.reentrant(name).inspect().locked


def test_a_failed_callback_is_logged_though_a_handler_ran_in_it(traced, name, handler, caplog):
    handler.act = lambda: None

    def act():
        signal.raise_signal(signal.SIGUSR1)
        raise RuntimeError("of the callback")

    hold = traced.client.reentrant(name).lock()
    traced.act = act
    hold.unlock()
    assert "of the callback" in caplog.text


def test_control_c_in_a_callback_of_the_opening_leaves_no_client():
    def on_address(host, port, is_sentinel):
        signal.raise_signal(signal.SIGINT)
        return host, port

    with pytest.raises(KeyboardInterrupt):
        rlock.Client("redis://127.0.0.1:1", on_address=on_address)


def test_an_exit_in_a_callback_ends_the_loop(url, name):
    def on_trace(trace):
        if trace.call == rlock.Call.UNLOCK:
            sys.exit(3)

    async def works():
        async with rlock.AsyncClient(url, on_trace=on_trace) as client:
            await (await client.reentrant(name).lock()).unlock()

    with pytest.raises(SystemExit, match="3"):
        asyncio.run(works())


def test_an_exit_in_a_callback_ends_the_program(url, client, name):
    script = f"""if True:
        import os, signal, sys, rlock
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        on_trace = lambda trace: trace.call == rlock.Call.UNLOCK and os.kill(os.getpid(), signal.SIGTERM)
        with rlock.Client({url!r}, on_trace=on_trace) as client:
            client.reentrant({name!r}).lock().unlock()
            print("it goes on")
    """
    program = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (program.returncode, program.stdout, program.stderr) == (3, b"", b"")
    assert not client.reentrant(name).inspect().locked


def test_control_c_ends_a_program_that_waits(url, client, name):
    lock = client.fair(name)
    script = f"import rlock; client = rlock.Client({url!r}); client.fair({name!r}).acquire()"
    with lock:
        program = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
        until(lambda: lock.inspect().waiters == 1, "it waits")
        program.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in program.communicate(timeout=60)[1].decode()
        assert lock.inspect().waiters == 0
