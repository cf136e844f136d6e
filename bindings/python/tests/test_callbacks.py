# SPDX-License-Identifier: Apache-2.0
"""Callbacks: for the login, for addresses, and for traces."""

import asyncio
import gc
import os
import socket
import threading

import pytest
from conftest import until
from test_async import in_a_loop
from test_holds import GONE, free

import rlock
from rlock import _callbacks


@pytest.fixture
def secured(servers):
    """A server with a password."""
    return servers.start("--requirepass", "secret")


@pytest.fixture
def port(servers):
    """That of a server on TCP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    servers.start("--port", str(free_port), "--bind", "127.0.0.1")
    return free_port


# The login.


@pytest.mark.parametrize("login", [("default", "secret"), (None, "secret"), (b"default", b"secret")])
def test_on_login_gives_user_and_password(secured, name, login):
    asked = []

    def on_login(server, is_sentinel):
        asked.append((server, is_sentinel))
        return login

    with rlock.Client(secured, on_login=on_login, password="wrong") as client:
        client.reentrant(name).lock(10).unlock()
    assert asked and set(asked) == {(secured[len("unix://") :], False)}


@in_a_loop
async def test_on_login_is_asked_again_after_an_exception(secured, name, caplog):
    asked = []

    def on_login(server, is_sentinel):
        asked.append(threading.current_thread())
        if len(asked) < 3:
            raise RuntimeError("not yet")
        return None, "secret"

    async with rlock.AsyncClient(secured, on_login=on_login) as client:
        hold = await client.reentrant(name).lock(10)
        await hold.unlock()
    assert len(asked) >= 3 and set(asked) == {threading.current_thread()}
    assert "not yet" in caplog.text


WRONG = [None, "default", ("default",), ("default", 7), ("default", "hush\0"), ("default", "hush\ud800"), ("a", "hush", "c")]


@pytest.mark.parametrize("wrong", WRONG, ids=list("abcdefg"))
def test_a_wrong_login_fails_the_connection_and_is_not_shown(secured, name, caplog, wrong):
    with rlock.Client(secured, on_login=lambda *_: wrong, op_timeout=0.2) as client:
        with pytest.raises(rlock.AuthFailed) as raised:
            client.reentrant(name).lock(0)
    assert "a callback failed" in caplog.text
    assert "hush" not in caplog.text + str(raised.value)


def test_the_options_decide_if_on_login_returns_none(secured, name):
    with rlock.Client(secured, on_login=lambda *_: (None, None), password="secret") as client:
        client.reentrant(name).lock(10).unlock()


# Addresses.


def test_on_address_leads_to_a_server_by_another_name(port, name):
    asked = []

    def on_address(*address):
        asked.append(address)
        return "127.0.0.1", port

    with rlock.Client("redis://far.away:7", on_address=on_address) as client:
        client.reentrant(name).lock(10).unlock()
    assert set(asked) == {("far.away", 7, False)}


NOWHERE = [None, "h", ("h", 0), ("h", 1 << 16), ("", 1), ("h" * 256, 1), ("h\0", 1), (None, 1), ("h", "x")]


@pytest.mark.parametrize("wrong", NOWHERE, ids=list("abcdefghi"))
def test_after_a_failed_on_address_the_address_stays(port, name, caplog, wrong):
    with rlock.Client(f"redis://127.0.0.1:{port}", on_address=lambda *_: wrong) as client:
        client.reentrant(name).lock(10).unlock()
    assert "a callback failed" in caplog.text


# Traces.


def test_on_trace_receives_each_call_that_asked_a_server(url, other, name):
    traces = []

    def next_of(call, code=None):
        """It has come before the call returns."""
        (trace,) = traces
        traces.clear()
        assert (trace.call, trace.code, trace.name, trace.kind, trace.server) == (call, code, name, "fenced", url)
        assert trace.total > 0 and trace.total == pytest.approx(trace.waited + trace.server_time) and trace.requests >= 1
        return trace

    with rlock.Client(url, on_trace=traces.append) as client:
        lock = client.fenced(name)
        hold = lock.lock()
        taken = next_of(rlock.Call.LOCK)
        assert (taken.owner, taken.token, taken.levels, taken.held) == (hold.owner, hold.token, 1, None)
        hold.extend(60)
        assert next_of(rlock.Call.EXTEND).owner == hold.owner
        hold.unlock()
        unlocked = next_of(rlock.Call.UNLOCK)
        assert unlocked.token == taken.token and unlocked.held > 0 and unlocked.levels == 0
        text = lock.lock().detach(20)
        assert [trace.call for trace in traces] == [rlock.Call.LOCK, rlock.Call.DETACH]
        traces.clear()
        adopted = lock.adopt(text)
        assert next_of(rlock.Call.ADOPT).token > taken.token
        lock.inspect()
        next_of(rlock.Call.INSPECT)
        lock.force_unlock()
        next_of(rlock.Call.FORCE_UNLOCK)
        with pytest.raises(rlock.Lost):
            adopted.unlock()
        with other.fenced(name):
            assert lock.try_lock() is None
            next_of(rlock.Call.LOCK, rlock.Code.EBUSY)
        assert not lock.is_valid() and traces == []  # the unlock of a lost hold asks no server


@in_a_loop
async def test_traces_come_in_the_loop_before_the_call_returns(url, name):
    traces, threads = [], set()

    def on_trace(trace):
        traces.append(trace.call)
        threads.add(threading.current_thread())

    async with rlock.AsyncClient(url, on_trace=on_trace) as client:
        async with client.reentrant(name):
            assert traces == [rlock.Call.LOCK]
        assert traces == [rlock.Call.LOCK, rlock.Call.UNLOCK]
        await asyncio.gather(*(client.spin(f"{name}{i}").inspect() for i in range(100)))
    assert len(traces) == 102 and threads == {threading.current_thread()}


def test_threads_trace_their_own_calls(url, name):
    traces, owners = [], {}

    def on_trace(trace):
        traces.append((trace.owner, threading.get_ident()))

    def works(client, i):
        with client.reentrant(f"{name}{i}") as hold:
            owners[hold.owner] = threading.get_ident()

    with rlock.Client(url, on_trace=on_trace) as client:
        threads = [threading.Thread(target=works, args=(client, i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(traces) == 16 and all(owners[owner] == thread for owner, thread in traces)


def test_an_exception_in_on_trace_is_logged_and_the_call_goes_on(url, name, caplog):
    def on_trace(trace):
        raise RuntimeError(f"a trace of {trace.call.name}")

    with rlock.Client(url, on_trace=on_trace) as client:
        with client.reentrant(name) as hold:
            assert hold.is_valid()
        with pytest.raises(rlock.NotOwner):
            hold.unlock()
    assert "a trace of LOCK" in caplog.text and "a trace of UNLOCK" in caplog.text


def test_no_trace_comes_in_a_child_of_fork(url, name):
    traces = []
    with rlock.Client(url, on_trace=traces.append) as client:
        lock = client.reentrant(name)
        with lock:
            traces.clear()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with pytest.raises(rlock.Forked):
                        lock.inspect()
                    code = len(traces)
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0


# What may come in between.


@pytest.mark.parametrize("where", ["on_login", "on_trace", "on_address"])
def test_the_collector_may_find_a_hold_in_a_callback(port, url, other, name, where):
    """Its unlock must not come from there."""
    losses, found = [], []
    with rlock.Client(url, on_lost=losses.append) as client:

        def collects(*given):
            if not found:
                found.append(_callbacks._inside.depth)
                gc.collect()
            return {"on_login": (None, None), "on_address": given[:2]}.get(where)

        gc.disable()
        try:
            hold = client.reentrant(name).lock()
            kept = [hold]
            kept.append(kept)
            calls = []
            level, unlock = hold._level, hold._level._drop
            level._drop = lambda why: (calls.append(_callbacks._inside.depth), unlock(why))
            del hold, kept
            with pytest.warns(ResourceWarning, match="not unlocked"):
                with rlock.Client(f"redis://127.0.0.1:{port}", **{where: collects}) as calling:
                    calling.reentrant(name).lock(10).unlock()
                    until(lambda: losses, "it is reported")
        finally:
            gc.enable()
        assert found == [1] and calls == [0] and [loss.reason for loss in losses] == [GONE]
        free(other.reentrant(name))


def test_the_collector_may_find_a_client_in_a_callback(url, name):
    found = []

    def collects(trace):
        if not found:
            found.append(trace)
            gc.collect()

    gc.disable()
    try:
        dropped = [rlock.Client(url)]
        dropped.append(dropped)
        del dropped
        with rlock.Client(url, on_trace=collects) as client:
            with pytest.warns(ResourceWarning, match="not closed"):
                client.reentrant(name).lock().unlock()
            until(lambda: len(_callbacks.events_by_number) == 1, "it is closed")
    finally:
        gc.enable()


def test_calls_that_outlive_their_client_are_harmless(url, name):
    for _ in range(30):
        ended = []

        def works(lock, ended=ended):
            try:
                while True:
                    lock.lock().unlock()
            except rlock.Error as problem:
                ended.append(problem)

        client = rlock.Client(url, on_trace=lambda trace: None)
        threads = [threading.Thread(target=works, args=(client.reentrant(f"{name}{i % 2}"),)) for i in range(4)]
        for thread in threads:
            thread.start()
        client.close()
        for thread in threads:
            thread.join(30)
        assert len(ended) == 4


def test_callbacks_are_those_of_the_library():
    fields = {each for each, _ in _callbacks.ffi.typeof("struct rlock_client_opts").fields if each.startswith("on_")}
    assert fields == {*_callbacks.Callbacks._fields, "on_log_line"}
    calls = {f"RLOCK_CALL_{call.name}": int(call) for call in rlock.Call}
    lib = _callbacks.lib
    assert calls == {each: getattr(lib, each) for each in dir(lib) if each.startswith("RLOCK_CALL_")}
