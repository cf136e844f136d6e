# SPDX-License-Identifier: Apache-2.0
"""A hold is handed over as a text: the lock stays taken, and one adopter gets it."""

import asyncio
import datetime
import gc
import subprocess
import sys
import threading
import warnings

import pytest
from conftest import until
from test_async import in_a_loop, soon
from test_holds import GONE, free, run, watched, watched_in_a_loop

import rlock

KINDS = ["reentrant", "nonreentrant", "spin", "fenced", "fair", "read", "write", "setnx"]


def made(client, kind, name):
    return getattr(client.read_write(name), kind) if kind in ("read", "write") else getattr(client, kind)(name)


def is_over(hold, lock):
    with pytest.raises(rlock.NotOwner, match="detached"):
        hold.unlock()
    for act in (lambda: hold.detach(20), hold.text, hold.extend):
        with pytest.raises(rlock.NotOwner):
            act()
    return not hold.is_valid() and hold.validity() == 0 and lock.hold_count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_detached_hold_is_adopted_by_another_client(url, other, name, kind):
    with watched(url) as (client, losses):
        lock, theirs = made(client, kind, name), made(other, kind, name)
        hold = lock.lock()
        text = hold.detach(20)
        assert text.isascii() and " " not in text and name not in text
        assert is_over(hold, lock)
        info = theirs.inspect()
        assert info.locked and not info.mine and info.ttl <= 20
        with theirs.adopt(text, lease=15) as adopted:
            assert adopted.is_valid() and adopted.lease == 15 and theirs.inspect().mine
            assert (adopted.token > hold.token) == (kind == "fenced")
            for late in (lock, theirs):
                with pytest.raises(rlock.NotOwner):
                    late.adopt(text, owner=client.new_owner())
        assert not lock.inspect().locked
    assert losses == []


def test_a_detach_alone_keeps_the_lock_taken_for_its_lease(client, other, name):
    text = client.reentrant(name).lock().detach(datetime.timedelta(seconds=0.3))
    assert other.reentrant(name).try_lock() is None
    free(other.reentrant(name))
    with pytest.raises(rlock.NotOwner):
        client.reentrant(name).adopt(text)


def test_an_adopter_is_an_owner_like_any_other(client, name):
    lock = client.reentrant(name)
    text = lock.lock().detach(20)
    with lock.adopt(text) as hold:
        assert hold.lease == 30 and lock.hold_count() == 1
        with lock:
            assert lock.hold_count() == 2
        text = hold.detach(20)
    assert lock.hold_count() == 0
    owner = client.new_owner()
    with lock.adopt(text, owner=owner) as hold:
        assert hold.owner == owner and lock.hold_count() == 0


def test_the_lease_of_a_detach_is_required_and_at_least_10_ms(client, name):
    with client.reentrant(name).lock() as hold:
        with pytest.raises(TypeError):
            hold.detach()
        for lease in (0, 0.009, -1, float("nan")):
            with pytest.raises(rlock.Invalid):
                hold.detach(lease)
        assert hold.is_valid()


@pytest.mark.parametrize("way", ["enter", "lock"])
def test_a_block_may_detach_its_hold(client, other, name, way):
    lock = client.reentrant(name)
    with lock if way == "enter" else lock.lock() as hold:
        text = hold.detach(20)
    other.reentrant(name).adopt(text).unlock()
    with pytest.raises(rlock.NotOwner):
        lock.release()


def test_a_detached_hold_is_neither_unlocked_nor_reported_when_it_is_collected(url, other, name):
    with watched(url) as (client, losses), warnings.catch_warnings():
        warnings.simplefilter("error")
        text = client.reentrant(name).lock().detach(20)
        kept = [client.reentrant(name + "2").lock()]
        kept.append(kept)
        kept[0].detach(20)
        del kept
        gc.collect()
        assert other.reentrant(name).inspect().locked and other.reentrant(name + "2").inspect().locked
        other.reentrant(name).adopt(text).unlock()
    assert losses == []


def test_an_adopted_hold_that_is_dropped_is_unlocked_and_reported(url, other, name):
    with watched(url) as (client, losses):
        lock = client.reentrant(name)
        text = lock.lock().detach(20)
        with pytest.warns(ResourceWarning, match="not unlocked"):
            lock.adopt(text)
        free(other.reentrant(name))
        until(lambda: losses, "it is reported")
        assert [loss.reason for loss in losses] == [GONE]


def test_any_thread_detaches_and_the_thread_that_took_it_may_end(url, other, name):
    kept, texts = [], []
    done = threading.Event()

    def takes(client):
        kept.append(client.reentrant(name).lock())
        done.wait()

    with watched(url) as (client, losses):
        thread = threading.Thread(target=takes, args=(client,))
        thread.start()
        until(lambda: kept, "it is taken")
        run(lambda: texts.append(kept[0].detach(20)))
        done.set()
        thread.join()
        gc.collect()
        other.reentrant(name).adopt(texts[0]).unlock()
    assert losses == []


def test_one_of_many_threads_adopts(client, other, name):
    text = client.fair(name).lock().detach(20)
    outcomes = []

    def adopts(by):
        try:
            outcomes.append(by.fair(name).adopt(text, owner=by.new_owner()))
        except rlock.NotOwner as problem:
            outcomes.append(problem)

    threads = [threading.Thread(target=adopts, args=(by,)) for by in (client, other) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    holds = [outcome for outcome in outcomes if isinstance(outcome, rlock.Hold)]
    assert len(outcomes) == 16 and len(holds) == 1 and holds[0].is_valid()
    holds[0].unlock()


def test_a_hold_with_two_levels_is_not_detached(client, name):
    lock = client.reentrant(name)
    with lock.lock() as outer:
        with lock.lock() as inner:
            for hold in (outer, inner):
                with pytest.raises(rlock.Invalid):
                    hold.detach(20)
            assert outer.is_valid() and inner.is_valid() and lock.hold_count() == 2


def test_a_lost_hold_is_not_detached_and_is_unlocked_as_usual(client, other, name):
    for forced in (client, other):
        hold = client.reentrant(name).lock(lease=20)
        forced.reentrant(name).force_unlock()
        with pytest.raises(rlock.Lost):
            hold.detach(20)
        with pytest.raises(rlock.Lost):
            hold.unlock()


def test_the_text_of_a_live_hold_is_adopted_from_the_dead_alone(client, other, name):
    hold, theirs = client.reentrant(name).lock(), other.reentrant(name)
    text = hold.text()
    assert text == hold.text() and hold.is_valid() and name not in text
    with pytest.raises(rlock.Busy):
        theirs.adopt(text)
    with theirs.adopt(text, from_dead=True) as adopted:
        assert adopted.is_valid()
        with pytest.raises(rlock.NotOwner):
            theirs.adopt(text, from_dead=True, owner=other.new_owner())
        with pytest.raises(rlock.Lost):
            hold.unlock()
    with pytest.raises(rlock.NotOwner):
        hold.text()


def test_the_hold_of_a_killed_process_is_adopted(url, client, name):
    script = (
        "import signal, sys, rlock\n"
        "client = rlock.Client(sys.argv[1]); hold = client.reentrant(sys.argv[2]).lock()\n"
        "print(hold.text(), flush=True); signal.pause()"
    )
    dying = subprocess.Popen([sys.executable, "-c", script, url, name], stdout=subprocess.PIPE, text=True)
    text = dying.stdout.readline().strip()
    dying.kill()
    dying.communicate()
    with client.reentrant(name).adopt(text, from_dead=True) as hold:
        assert hold.is_valid()


def test_another_process_adopts(url, client, name):
    text = client.fenced(name).lock().detach(20)
    script = "import sys, rlock; rlock.Client(sys.argv[1]).fenced(sys.argv[2]).adopt(sys.argv[3]).unlock()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, url, name, text], check=True)
    assert not client.fenced(name).inspect().locked


def test_a_text_is_of_one_lock(client, name):
    lock = client.reentrant(name)
    text = lock.lock().detach(20)
    for theirs, wrong in (
        (lock, ""),
        (lock, "a"),
        (lock, text + "\0"),
        (lock, "\ud800"),
        (lock, None),
        (client.reentrant(name + "2"), text),
        (client.fair(name), text),
    ):
        with pytest.raises(rlock.Invalid):
            theirs.adopt(wrong)
    lock.adopt(text).unlock()


def test_locks_of_locks_are_not_handed_over(client, name):
    both = rlock.multi(client.reentrant(name), client.reentrant(name + "2"))
    with both.lock() as hold:
        for act in (lambda: hold.detach(20), hold.text, lambda: both.adopt("a")):
            with pytest.raises(rlock.NotSupported):
                act()
        assert hold.is_valid()


@pytest.mark.parametrize("then", ["detach", "unlock", "block", "drop"])
def test_a_detach_in_doubt_is_repeated_or_taken_back(stalled, name, then):
    url, stop, go_on = stalled
    losses = []
    with rlock.Client(url, op_timeout=0.2, on_lost=losses.append) as client, rlock.Client(url) as other:
        hold = client.reentrant(name).lock()
        stop()
        with pytest.raises(rlock.InDoubt):
            hold.detach(20)
        assert not hold.is_valid()
        go_on()
        if then == "detach":
            text = repeated(lambda: hold.detach(20))
            other.reentrant(name).adopt(text).unlock()
            assert is_over(hold, hold.lock)
            return
        if then == "unlock":
            hold.unlock()
        elif then == "block":
            with hold:
                pass
        else:
            with pytest.warns(ResourceWarning):
                del hold
            until(lambda: losses, "it is reported")
            assert losses[0].reason == GONE
        free(other.reentrant(name))


def repeated(call):
    """A server that has just gone on may not have answered within the time of one call."""
    for _ in range(50):
        try:
            return call()
        except (rlock.InDoubt, rlock.NoConnection):
            pass
    pytest.fail("the server does not answer")


def test_no_unlock_comes_between_a_detach(stalled, name):
    url, stop, go_on = stalled
    with rlock.Client(url, op_timeout=1) as client:
        hold = client.reentrant(name).lock(owner=client.new_owner())
        problems = []

        def detaches():
            try:
                hold.detach(20)
            except rlock.InDoubt as problem:
                problems.append(problem)

        stop()
        thread = threading.Thread(target=detaches)
        thread.start()
        until(lambda: not hold._level.is_live(), "it has begun")
        for act in (hold.unlock, lambda: hold.detach(20)):
            with pytest.raises(rlock.NotOwner):
                act()
        thread.join()
        assert problems
        go_on()
        hold.unlock()
        assert not client.reentrant(name).inspect().locked


# Tasks.


@pytest.mark.parametrize("kind", KINDS)
@in_a_loop
async def test_tasks_hand_a_hold_over(url, name, kind):
    async with watched_in_a_loop(url) as (client, losses), rlock.AsyncClient(url) as other:
        lock, theirs = made(client, kind, name), made(other, kind, name)
        async with lock as hold:
            text = await hold.detach(20)
        assert not hold.is_valid() and await theirs.locked()
        for act in (lambda: hold.detach(20), hold.unlock):
            with pytest.raises(rlock.NotOwner):
                await act()
        outcomes = await asyncio.gather(*(theirs.adopt(text, lease=15) for _ in range(8)), return_exceptions=True)
        (adopted,) = (outcome for outcome in outcomes if isinstance(outcome, rlock.AsyncHold))
        assert sum(isinstance(outcome, rlock.NotOwner) for outcome in outcomes) == 7
        async with adopted:
            assert adopted.is_valid() and adopted.lease == 15 and (await theirs.inspect()).mine
            assert (adopted.token > hold.token) == (kind == "fenced")
        assert not await lock.locked()
    assert losses == []


@in_a_loop
async def test_a_task_adopts_the_hold_of_a_dead_process(url, client, name):
    dead = client.reentrant(name).lock()
    async with rlock.AsyncClient(url) as own:
        lock = own.reentrant(name)
        with pytest.raises(rlock.Busy):
            await lock.adopt(dead.text())
        async with await lock.adopt(dead.text(), from_dead=True) as adopted:
            with pytest.raises(rlock.Busy):
                client.reentrant(name).adopt(adopted.text(), owner=client.new_owner())
            with pytest.raises(rlock.Deadlock):
                await lock.lock()
    with pytest.raises(rlock.Lost):
        dead.unlock()


@in_a_loop
async def test_a_task_whose_detach_is_in_doubt_repeats_it(stalled, name):
    url, stop, go_on = stalled
    async with rlock.AsyncClient(url, op_timeout=0.2) as own:
        hold = await own.reentrant(name).lock()
        stop()
        with pytest.raises(rlock.InDoubt):
            await hold.detach(20)
        go_on()
        for _ in range(50):
            try:
                text = await hold.detach(20)
                break
            except (rlock.InDoubt, rlock.NoConnection):
                pass
        else:
            pytest.fail("the server does not answer")
        async with await own.reentrant(name).adopt(text) as adopted:
            assert adopted.is_valid() and not hold.is_valid()


@in_a_loop
async def test_a_task_that_is_cancelled_while_it_adopts_holds_nothing(url, name):
    async with watched_in_a_loop(url) as (own, losses), rlock.AsyncClient(url) as other:
        lock, theirs = own.reentrant(name), other.reentrant(name)
        again = 0
        for turns in range(60):
            text = await (await lock.lock(30)).detach(20)
            task = asyncio.create_task(lock.adopt(text, lease=20))
            for _ in range(turns % 6):
                await asyncio.sleep(0)
            task.cancel()
            try:
                hold = await task
            except asyncio.CancelledError:
                hold = None
            if hold is not None:
                await hold.unlock()
                continue

            async def is_settled():  # the text has it again, or it is free
                nonlocal again
                try:
                    await (await theirs.adopt(text)).unlock()
                    again += 1
                except rlock.NotOwner:
                    return not await theirs.locked()
                return True

            await soon(is_settled, "nothing stays held")
        assert again > 0
    assert losses == []
