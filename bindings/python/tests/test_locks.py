# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import datetime
import gc
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
from conftest import Witness, until

import rlock
from rlock import _errors, _operation
from rlock._rlock import ffi, lib

KINDS = ["reentrant", "nonreentrant", "spin", "fenced", "fair", "setnx"]


def visit(client, kind, name, path, rounds):
    lock = getattr(client, kind)(name)
    for _ in range(rounds):
        with lock, Witness(path):
            pass


@pytest.mark.parametrize("kind", KINDS)
def test_threads_of_several_processes_exclude_each_other(url, client, witness, name, kind):
    here = os.path.dirname(__file__)
    script = (
        "import pathlib, sys, rlock; from test_locks import visit\n"
        "client = rlock.Client(sys.argv[1])\n"
        "visit(client, sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), 30); client.close()"
    )
    command = [sys.executable, "-c", script, url, kind, name, str(witness.path)]
    peers = [subprocess.Popen(command, cwd=here) for _ in range(2)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = [pool.submit(visit, client, kind, name, witness.path, 30) for _ in range(4)]
        visit(client, kind, name, witness.path, 30)
        for future in done:
            future.result()
    assert [peer.wait() for peer in peers] == [0, 0]
    assert witness.visits() == 30 * (2 + 4 + 1)


@pytest.mark.parametrize("kind", ["reentrant", "spin", "fenced", "fair", "setnx"])
def test_an_owner_takes_a_lock_again(client, other, name, kind):
    lock = getattr(client, kind)(name)
    with lock as outer, lock as inner:
        assert lock.hold_count() == 2
        assert inner.token == outer.token
    assert lock.hold_count() == 0
    assert not lock.inspect().locked
    assert (outer.token != 0) == (kind == "fenced")


def test_a_lock_without_reentry_is_not_taken_again(client, name):
    lock = client.nonreentrant(name)
    with lock, pytest.raises(rlock.Error) as raised:
        lock.lock()
    assert raised.value.code == rlock.Code.EREACQUIRE


@pytest.mark.parametrize("kind", ["permits", "semaphore"])
def test_units_are_taken_until_none_is_left(client, other, name, kind):
    first, second = getattr(client, kind)(name, 3), getattr(other, kind)(name, 3)
    with first.lock(units=2):
        with second.lock():
            assert second.try_lock() is None
            assert first.inspect().units_free == 0
        with pytest.raises(rlock.Busy):
            second.lock(0, units=2)
        assert second.try_lock(units=2) is None
    with second.lock(units=3):
        assert first.inspect().units == 3


def test_tokens_grow(client, name):
    lock = client.fenced(name)
    with lock as first:
        pass
    with lock as second:
        assert second.token > first.token


def test_many_read_or_one_writes(client, other, name):
    ours, theirs = client.read_write(name), other.read_write(name)
    with ours.read:
        with theirs.read:
            assert theirs.read.inspect().holders == 2
        assert theirs.write.try_lock() is None
    with ours.write:
        assert theirs.read.try_lock() is None


def test_a_multi_lock_has_all_members_or_none(client, other, name):
    first, second = client.reentrant(name + "1"), client.fair(name + "2")
    both = rlock.multi(first, second)
    with both as hold:
        assert hold.is_valid() and first.is_valid() and second.is_valid()
    with other.fair(name + "2"):
        assert both.try_lock() is None
    assert not first.inspect().locked


def test_a_redlock_does_without_one_of_its_servers(servers, name):
    clients = [rlock.Client(servers.start()) for _ in range(2)] + [rlock.Client("unix:///nowhere")]
    lock = rlock.redlock(*(client.reentrant(name) for client in clients), max_lease=-1)
    with lock as hold:
        assert hold.is_valid()
    for client in clients:
        client.close()


def test_members_are_locks_of_one_sort(client):
    with pytest.raises(TypeError):
        rlock.multi()
    with pytest.raises(TypeError):
        rlock.multi(client.reentrant("a"), rlock.BaseLock)


def test_a_busy_lock_is_refused_or_waited_for(client, other, name):
    lock = client.reentrant(name)
    with other.reentrant(name).lock(lease=20) as hold:
        assert hold.lease == 20 and 0 < hold.validity() <= 20
        assert lock.try_lock() is None
        with pytest.raises(rlock.Busy):
            lock.lock(0)
        with pytest.raises(TimeoutError) as raised:
            lock.lock(wait=0.03)
        assert isinstance(raised.value, rlock.TimedOut)
        assert raised.value.code is rlock.Code.ETIMEDOUT and name in str(raised.value)
        with pytest.raises(rlock.NotOwner):
            lock.release()
        assert not lock.is_valid() and lock.validity() == 0
        info = lock.inspect()
        assert info.locked and not info.mine and info.holder.startswith(other.uuid)
        assert info.pid == os.getpid()


def test_a_wait_is_in_seconds_and_milliseconds_have_no_name(client, other, name):
    lock = client.reentrant(name)
    with other.reentrant(name):
        for wait in (0.03, datetime.timedelta(milliseconds=30)):
            began = time.monotonic()
            with pytest.raises(rlock.TimedOut):
                lock.lock(wait)
            assert time.monotonic() - began >= 0.03
    with pytest.raises(TypeError):
        lock.lock(wait_ms=30)
    for wrong in (-1, -0.001, float("nan"), float("-inf"), datetime.timedelta(-1)):
        for arguments in ({"wait": wrong}, {"lease": wrong}, {"lease": 0}):
            with pytest.raises(rlock.Invalid):
                lock.lock(**arguments)
    with lock.lock(lease=datetime.timedelta(seconds=20)) as hold:
        assert hold.lease == 20


LONG = [float("inf"), 1e300, threading.TIMEOUT_MAX, datetime.timedelta.max, 101 * 366 * 24 * 3600]


@pytest.mark.parametrize("long", LONG, ids=repr)
def test_a_wait_of_more_than_a_hundred_years_has_no_end(client, other, name, long):
    lock, held = client.fair(name), other.fair(name).lock()
    thread = threading.Thread(target=lambda: lock.lock(wait=long).unlock())
    thread.start()
    until(lambda: lock.inspect().waiters == 1, "it waits")
    held.unlock()
    thread.join()
    with lock.lock(wait=long):
        assert not other.fair(name).acquire(False)


def test_an_id_owns_in_any_thread(client, name):
    lock, owner = client.reentrant(name), client.new_owner()
    hold = lock.lock(owner=owner)
    inner = lock.lock(owner=hold)
    assert not lock.is_valid() and hold.is_valid() and inner.owner == owner
    for each in (inner, hold):
        thread = threading.Thread(target=each.unlock)
        thread.start()
        thread.join()
    assert not hold.is_valid() and not lock.inspect().locked


def test_a_hold_is_extended_and_unlocked_in_any_thread(client, name):
    lock = client.reentrant(name)
    hold = lock.lock(lease=20)
    for each in (lambda: hold.extend(60), hold.unlock):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(each).result()
    assert not hold.is_valid() and lock.hold_count() == 0 and not lock.locked()


def test_a_lost_hold_is_told_once_and_by_the_unlock(url, name):
    losses = []
    with rlock.Client(url, on_lost=losses.append) as client:
        lock = client.reentrant(name)
        with pytest.raises(rlock.Lost) as raised:
            with lock as hold:
                assert lock.force_unlock()
                assert not hold.is_valid()
                until(lambda: losses, "the loss is told")
        assert raised.value.text == "the hold was lost before its unlock"
        assert not lock.force_unlock()
    assert losses == [(name, "reentrant", hold.owner, rlock.Reason.FORCED, "forced", 1)]


def test_an_exception_of_the_body_goes_before_that_of_the_unlock(client, name, caplog):
    lock = client.reentrant(name)
    for taken in (lock, lock.lock()):
        with pytest.raises(ZeroDivisionError), taken:
            lock.force_unlock()
            1 // 0
    assert "after an exception: lock " + name in caplog.text
    with lock:
        pass


def test_an_exception_of_a_callback_is_logged_and_harms_nobody(url, name, caplog):
    with rlock.Client(url, on_lost=lambda loss: 1 // 0) as client:
        lock = client.reentrant(name)
        lock.acquire()
        lock.force_unlock()
        until(lambda: "ZeroDivisionError" in caplog.text, "it is logged")
        with pytest.raises(rlock.Lost):
            lock.release()
        with lock:
            pass


def test_a_callback_may_unlock_and_not_wait(url, name):
    said = []

    def on_lost(loss):
        for act in (hold.unlock, lock.lock, client.close):
            try:
                act()
            except rlock.Error as problem:
                said.append(problem.code)

    client = rlock.Client(url, on_lost=on_lost)
    lock = client.reentrant(name)
    hold = lock.lock()
    lock.force_unlock()
    until(lambda: len(said) == 2, "it did all")
    assert said == [rlock.Code.ELOST, rlock.Code.EDEADLOCK]
    until(lambda: not client._open.clients, "another thread closes the client")


def test_closing_ends_all_waits_and_all_holds(url, other, name):
    client = rlock.Client(url)
    lock = client.fair(name)
    client.reentrant(name + "held").acquire()
    with other.fair(name), concurrent.futures.ThreadPoolExecutor(10) as pool:
        waits = [pool.submit(lock.lock) for _ in range(10)]
        until(lambda: lock.inspect().waiters >= 10, "all wait")
        threading.Thread(target=client.close).start()
        for wait in waits:
            assert isinstance(wait.exception(), rlock.Closed)
    client.close()
    assert not other.reentrant(name + "held").inspect().locked
    assert not lock.is_valid() and lock.validity() == lock.hold_count() == 0
    for act in (lock.lock, lock.inspect, lambda: client.reentrant("a"), client.new_owner):
        with pytest.raises(rlock.Closed):
            act()


def test_a_client_that_nobody_has_is_closed(url, other, name):
    client = rlock.Client(url)
    lock = client.reentrant(name)
    lock.acquire()
    with pytest.warns(ResourceWarning, match="not closed"):
        del client, lock
        gc.collect()
    assert not other.reentrant(name).inspect().locked


def test_a_program_that_ends_releases_its_locks(url, other, name):
    script = f"import rlock; client = rlock.Client({url!r}); client.reentrant({name!r}).acquire()"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not other.reentrant(name).inspect().locked


def test_a_child_of_fork_has_nothing(client, other, name):
    lock, theirs = client.reentrant(name), other.reentrant(name)  # where this thread took nothing
    with lock as hold:
        child = os.fork()
        if child == 0:
            said = []
            for act in (lock.lock, lock.inspect, client.new_owner, hold.unlock):
                try:
                    act()
                except rlock.Forked:
                    said.append(not hold.is_valid())
            client.close()
            os._exit(0 if said == [True] * 4 and not theirs.is_valid() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert hold.is_valid() and lock.inspect().mine


def test_nothing_is_left_of_clients_and_calls(url, name):
    def use():
        with rlock.Client(url) as own, own.reentrant(name).lock(20):
            own.reentrant(name).try_lock(owner=own.new_owner())

    def count(directory):
        return len(os.listdir(f"/proc/self/{directory}"))

    use()
    before = count("fd"), count("task")
    for _ in range(30):
        use()
    assert (count("fd"), count("task")) == before
    assert not [each for each in gc.get_objects() if isinstance(each, _operation.Operation)]


def test_names_are_text_or_bytes(client, other):
    for text in ("straße", b"a\0b", b"\xff"):
        lock = client.reentrant(text)
        assert other.reentrant(lock.name).name == lock.name
        with lock:
            assert other.reentrant(text).try_lock() is None
    assert client.reentrant(b"a\0b").name == "a\0b"


def test_options_are_checked(url, client, name):
    bad_names = [lambda bad=bad: client.reentrant(bad) for bad in (42, None, "\ud800")]
    for options in ({"loop": 1}, {"size": 1}, {"nothing": 1}, {"op_timeout": "long"}, {"on_log_line": print}, {"on_login": 1}):
        with pytest.raises(TypeError):
            rlock.Client(url, **options)
    for wrong in (lambda: rlock.Client("http://localhost"), lambda: client.reentrant(""), *bad_names):
        with pytest.raises(rlock.Invalid) as raised:
            wrong()
        assert raised.value.code is rlock.Code.EINVAL and isinstance(raised.value, ValueError)
    with rlock.Client(url, key_prefix="p:", no_pass=True) as prefixed:
        with prefixed.reentrant(name, max_hold=datetime.timedelta(minutes=1)):
            assert client.reentrant("p:" + name).inspect().locked


def test_options_are_in_seconds_and_milliseconds_have_no_name(url, name):
    for wrong in ({"op_timeout_ms": 1000}, {"renewed_lease_ms": 3000}):
        with pytest.raises(TypeError):
            rlock.Client(url, **wrong)
    for lease in (3, 3.0, datetime.timedelta(seconds=3)):
        with rlock.Client(url, renewed_lease=lease) as client, client.reentrant(name) as hold:
            assert hold.lease == 3 and 0 < hold.lock.inspect().ttl <= 3
            with pytest.raises(TypeError):
                client.reentrant(name, max_hold_ms=1000)
            limited = client.reentrant(name + "2", max_hold=0.5).lock()
            assert 0 < limited.validity() <= 0.5
            limited.unlock()
    with pytest.raises(rlock.Invalid):
        rlock.Client(url, op_timeout=float("nan"))
    with pytest.raises(rlock.Invalid, match="renewed_lease_ms"):
        rlock.Client(url, renewed_lease=datetime.timedelta(days=-1))


def test_what_the_server_says_of_a_lock(client, other, name):
    lock, sides = client.fenced(name), client.read_write(name + "rw")
    free = lock.inspect()
    assert free.locked is False and free.ttl is None and free.holder == free.mode == ""
    with lock.lock(lease=20) as hold, sides.read, other.read_write(name + "rw").read:
        taken = lock.inspect()
        assert taken.locked is True and taken.mine is True and 0 < taken.ttl <= 20
        assert taken.token == hold.token and taken.holders == taken.count == 1 and taken.waiters == 0
        assert sides.read.inspect().holders == 2 and sides.read.inspect().mode == "read"
        assert other.fenced(name).inspect().mine is False


def test_codes_and_reasons_are_those_of_the_library():
    ours = {f"RLOCK_{code.name}": int(code) for code in rlock.Code}
    ours.update({f"RLOCK_LOST_{reason.name}": int(reason) for reason in rlock.Reason if reason > 0})
    theirs = {name: getattr(lib, name) for name in dir(lib) if name.startswith(("RLOCK_E", "RLOCK_LOST_"))}
    assert ours == theirs


def test_each_code_has_an_exception_of_its_own():
    errors = {code: type(_errors.error(code)) for code in rlock.Code}
    assert len(set(errors.values())) == len(rlock.Code)
    assert all(getattr(rlock, each.__name__) is each and each.__doc__ for each in errors.values())
    assert all(_errors.error(code).code is code for code in rlock.Code)
    copied = pickle.loads(pickle.dumps(_errors.error(rlock.Code.ECONN, "why")))
    assert type(copied) is rlock.NoConnection and str(copied) == "why"


BASES = {
    TimeoutError: {rlock.TimedOut},
    ConnectionError: {rlock.NoConnection},
    ValueError: {rlock.Invalid},
    MemoryError: {rlock.NoMemory},
    RuntimeError: {rlock.NotOwner, rlock.Deadlock, rlock.Reacquired},
}


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_an_exception_has_the_base_that_programs_catch(base):
    errors = {type(_errors.error(code)) for code in rlock.Code}
    assert {each for each in errors if issubclass(each, base)} == BASES[base]
    assert all(issubclass(each, rlock.Error) for each in errors)


def test_a_program_without_logging_prints_nothing(url):
    script = (
        "import rlock; client = rlock.Client('unix:///nowhere', connect_timeout=0.05)\n"
        "try: client.reentrant('a').lock(0)\n"
        "except rlock.NoConnection: pass\nclient.close()"
    )
    ran = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=True)
    assert ran.stderr == b""


def test_a_condition_over_a_lock_excludes_another_process(client, other, name):
    """threading.Condition over the lock as it is: its waiters are threads of one process."""
    condition = threading.Condition(client.reentrant(name))
    theirs = other.reentrant(name)
    ready = []

    def waits():
        with condition, condition:
            ready.append("waits")
            assert condition.wait_for(lambda: "go" in ready, 30)
            ready.append(theirs.acquire(False))

    thread = threading.Thread(target=waits)
    thread.start()
    with condition:
        while not ready:
            condition.wait(0.01)
        assert not theirs.acquire(False)
        ready.append("go")
        condition.notify()
    thread.join()
    assert ready == ["waits", "go", False]
    with pytest.raises(RuntimeError):
        condition.notify()
    assert not theirs.locked()


def test_options_of_a_lock_are_those_of_the_header_but_for_what_the_readme_names():
    members = {name.removesuffix("_ms") for name, _ in ffi.typeof("struct rlock_opts").fields}
    flags = {name[len("RLOCK_LOCK_") :].lower() for name in dir(lib) if name.startswith("RLOCK_LOCK_")}
    assert set(rlock.LockOptions.__annotations__) == (members | flags) - {"size", "name_len", "flags", "sent_unlock"}
