# SPDX-License-Identifier: Apache-2.0
"""Nothing is renewed for a thread, a task or an object that is gone: its hold is lost, reported, and free for others."""

import asyncio
import contextlib
import datetime
import gc
import os
import subprocess
import sys
import threading

import pytest
from conftest import until
from test_async import in_a_loop

import rlock
from rlock import _operation

GONE = rlock.Reason.OWNER_ENDED


@contextlib.contextmanager
def watched(url):
    """A client, and the losses that it reports."""
    losses = []
    with rlock.Client(url, on_lost=losses.append) as client:
        yield client, losses


def run(target):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()


def free(lock):
    """Somebody else gets it, long before a lease of 30 s has ended."""
    lock.lock(10).unlock()


@pytest.mark.parametrize("kind", ["reentrant", "fair", "fenced", "spin", "setnx"])
@pytest.mark.parametrize("way", ["acquire", "__enter__", "lock"])
@pytest.mark.parametrize("levels", [1, 3])
def test_a_thread_that_ends_loses_its_holds(url, other, name, kind, way, levels):
    kept = []
    with watched(url) as (client, losses):
        lock = getattr(client, kind)(name)

        def ends():
            for _ in range(levels):
                kept.append(getattr(lock, way)())

        run(ends)
        free(getattr(other, kind)(name))
        until(lambda: losses, "it is reported")
        assert [(loss.name, loss.kind, loss.reason, loss.levels) for loss in losses] == [(name, kind, GONE, levels)]
        assert losses[0].text == "owner ended"
        if way != "acquire":
            assert not any(hold.is_valid() or hold.validity() for hold in kept)
            with pytest.raises(rlock.NotOwner):
                kept[0].unlock()
    assert len(losses) == 1


def test_a_thread_that_ends_loses_a_lock_of_locks(url, other, name):
    with watched(url) as (client, losses):
        run(lambda: rlock.multi(client.reentrant(name), client.reentrant(name + "2")).acquire())
        free(other.reentrant(name))
        free(other.reentrant(name + "2"))
        until(lambda: losses, "it is reported")
    assert len(losses) == 1 and losses[0].reason == GONE


def test_an_owner_by_id_outlives_the_thread_that_took_its_lock(url, name):
    kept = []
    with watched(url) as (client, losses):
        run(lambda: kept.append(client.reentrant(name).lock(owner=client.new_owner())))
        gc.collect()
        assert kept[0].is_valid() and client.reentrant(name).inspect().mine
        kept[0].unlock()
    assert losses == []


def test_a_thread_that_unlocked_loses_nothing(url, other, name):
    def ends():
        lock = client.reentrant(name)
        with lock, lock.lock() as hold:
            assert hold.is_valid()
        assert lock.acquire() and lock.release() is None

    with watched(url) as (client, losses):
        run(ends)
        free(other.reentrant(name))
    assert losses == []


def test_a_hold_that_was_lost_before_is_reported_once(url, name):
    with watched(url) as (client, losses):

        def ends():
            lock = client.reentrant(name)
            lock.acquire()
            lock.force_unlock()
            until(lambda: losses, "it is lost")

        run(ends)
        until(lambda: not _operation._under_way, "the unlock ends")
        assert [loss.reason for loss in losses] == [rlock.Reason.FORCED]


@pytest.mark.parametrize("kind", ["reentrant", "fair", "read_write"])
def test_a_hold_is_extended(url, name, kind):
    with watched(url) as (client, losses):
        lock = getattr(client, kind)(name)
        hold = (lock.write if kind == "read_write" else lock).lock(lease=20)
        hold.extend(60)
        assert 50 < hold.validity() <= 60
        hold.extend(datetime.timedelta(seconds=1))
        assert hold.validity() > 50
        hold.extend()
        with pytest.raises(rlock.Invalid):
            hold.extend(-1)
        hold.unlock()
        with pytest.raises(rlock.NotOwner):
            hold.extend(60)
    assert losses == []


def test_a_lost_hold_is_not_extended(url, name):
    with watched(url) as (client, losses):
        hold = client.reentrant(name).lock(lease=20)
        hold.lock.force_unlock()
        with pytest.raises(rlock.Lost, match="forced"):
            hold.extend(60)
        with pytest.raises(rlock.Lost):
            hold.unlock()


def test_a_dropped_hold_is_unlocked_and_reported(url, other, name):
    with watched(url) as (client, losses):
        lock = client.reentrant(name)
        with pytest.warns(ResourceWarning, match="not unlocked"):
            lock.lock()
        free(other.reentrant(name))
        until(lambda: losses, "it is reported")
        loss = losses[0]
        assert (loss.name, loss.reason) == (name, GONE) and "dropped" in loss.text
    assert len(losses) == 1


def test_a_dropped_hold_leaves_the_other_levels(url, other, name):
    with watched(url) as (client, losses):
        lock = client.reentrant(name)
        with lock as outer:
            with pytest.warns(ResourceWarning):
                lock.lock()
            until(lambda: losses, "it is reported")
            assert outer.is_valid() and lock.hold_count() == 1
            assert other.reentrant(name).try_lock() is None


def test_a_hold_in_a_cycle_is_found_by_the_collector(url, other, name):
    with watched(url) as (client, losses):
        cycle = [client.reentrant(name).lock()]
        cycle.append(cycle)
        with pytest.warns(ResourceWarning):
            del cycle
            gc.collect()
        free(other.reentrant(name))


def test_a_hold_is_unlocked_once(client, name):
    lock = client.reentrant(name)
    with lock:
        hold = lock.lock()
        hold.unlock()
        with pytest.raises(RuntimeError) as raised:
            hold.unlock()
        assert isinstance(raised.value, rlock.NotOwner) and "before" in str(raised.value)
        assert not hold.is_valid() and lock.hold_count() == 1
    with pytest.raises(rlock.NotOwner):
        lock.release()


def test_many_threads_that_end_with_holds_exclude_each_other(url, other, name, witness):
    def ends(lock):
        lock.acquire()
        with witness_of(witness.path):
            pass

    witness_of = type(witness)
    with watched(url) as (client, losses):
        threads = [threading.Thread(target=ends, args=(client.fair(name),)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert witness.visits() == 20
        until(lambda: len(losses) == 20, "all are reported")


@pytest.mark.parametrize("way", ["acquire", "lock", "thread", "daemon"])
def test_a_program_that_ends_releases_its_locks_and_prints_nothing(url, other, name, way):
    script = (
        "import threading, sys, rlock; client = rlock.Client(sys.argv[1]); lock = client.reentrant(sys.argv[2])\n"
        "def hold(): global held; held = lock.lock()\n"
        "def stay(): lock.acquire(); threading.Event().wait()\n"
        + {
            "acquire": "lock.acquire()",
            "lock": "hold()",
            "thread": "threading.Thread(target=lock.acquire).start()",
            "daemon": "threading.Thread(target=stay, daemon=True).start()\nwhile not lock.locked(): pass",
        }[way]
    )
    ran = subprocess.run([sys.executable, "-c", script, url, name], stderr=subprocess.PIPE, check=True)
    assert ran.stderr == b""
    free(other.reentrant(name))


def test_a_child_of_fork_ends_no_hold_of_its_parent(url, other, name):
    """The parent's other threads, whose holds these are, do not exist in the child."""
    go = threading.Event()
    held = threading.Event()
    with watched(url) as (client, losses):
        lock = client.reentrant(name)

        def stay():
            hold = lock.lock()
            held.set()
            go.wait()
            hold.unlock()

        thread = threading.Thread(target=stay)
        thread.start()
        held.wait()
        own = client.reentrant(name + "2").lock()
        child = os.fork()
        if child == 0:
            valid = own.is_valid()
            del own
            gc.collect()
            os._exit(1 if valid or losses else 0)
        assert os.waitpid(child, 0)[1] == 0
        assert own.is_valid() and other.reentrant(name).inspect().locked
        own.unlock()
        go.set()
        thread.join()
    assert losses == []


# Tasks. The hold is its own owner: the task that took it may end.


@contextlib.asynccontextmanager
async def watched_in_a_loop(url):
    losses = []
    async with rlock.AsyncClient(url, on_lost=losses.append) as client:
        yield client, losses


async def reported(losses, n=1):
    for _ in range(15000):
        if len(losses) == n:
            return
        await asyncio.sleep(0.002)
    pytest.fail(f"losses: {losses}")


WAYS = {
    "await": lambda take: take,
    "wait_for": lambda take: asyncio.wait_for(take, 30),
    "gather": lambda take: asyncio.gather(take),
    "create_task": lambda take: asyncio.create_task(take),
    "shield": lambda take: asyncio.shield(take),
}


@pytest.mark.parametrize("way", WAYS)
@in_a_loop
async def test_the_task_that_took_a_lock_may_end_before_its_unlock(url, name, way):
    async with watched_in_a_loop(url) as (client, losses):
        lock = client.reentrant(name)
        hold = await WAYS[way](lock.lock())
        hold = hold[0] if way == "gather" else hold
        gc.collect()
        assert hold.is_valid() and await lock.try_lock() is None
        await hold.unlock()
        again = await WAYS[way](lock.lock(5))
        await (again[0] if way == "gather" else again).unlock()
    assert losses == []


@in_a_loop
async def test_a_task_that_ends_without_unlocking_loses_its_hold(url, name):
    async def ends():
        hold = await lock.lock()
        assert hold.is_valid()

    async with watched_in_a_loop(url) as (client, losses):
        lock = client.reentrant(name)
        with pytest.warns(ResourceWarning):
            await asyncio.create_task(ends())
            gc.collect()
        async with await lock.lock(10) as hold:
            assert hold.is_valid()
        await reported(losses)
        assert losses[0].reason == GONE and losses[0].owner != hold.owner


@in_a_loop
async def test_a_hold_that_no_task_awaits_is_lost(url, name):
    async with watched_in_a_loop(url) as (client, losses):
        lock = client.reentrant(name)
        task = asyncio.create_task(lock.lock())
        await asyncio.wait([task])
        with pytest.warns(ResourceWarning):
            del task
            gc.collect()
        async with await lock.lock(10):
            pass
        await reported(losses)


@in_a_loop
async def test_a_hold_passes_from_task_to_task(url, name):
    async def works(hold):
        async with hold:
            assert hold.is_valid()

    async with watched_in_a_loop(url) as (client, losses):
        lock = client.reentrant(name)
        await asyncio.create_task(works(await lock.lock()))
        assert not await lock.locked()
        with pytest.raises(rlock.NotOwner):
            async with lock as hold:
                await hold.unlock()
    assert losses == []


@in_a_loop
async def test_a_task_does_not_wait_for_ever_for_its_own_hold(url, name):
    async with rlock.AsyncClient(url) as client:
        lock, sides = client.reentrant(name), client.read_write(name + "rw")
        two = client.reentrant(name + "2")
        async with lock as hold:
            for wait in (lock.lock(), client.fair(name).lock(), rlock.multi(two, lock).lock(), lock.__aenter__()):
                with pytest.raises(rlock.Deadlock):
                    await wait
            with pytest.raises(rlock.TimedOut):
                await lock.lock(0.02)
            async with await lock.lock(owner=hold), two:
                pass
            waiting = asyncio.create_task(lock.lock())  # another task
        await (await asyncio.wait_for(waiting, 30)).unlock()
        async with rlock.multi(two, lock):
            with pytest.raises(rlock.Deadlock):
                await two.lock()
        async with lock:  # nothing is remembered of holds that are over
            pass
        lost = await lock.lock()
        await lock.force_unlock()
        async with lock:
            with pytest.raises(rlock.Lost):
                await lost.unlock()
        async with sides.read, sides.read:
            with pytest.raises(rlock.Deadlock):
                await sides.write.lock()
        async with sides.write as writing:
            with pytest.raises(rlock.Deadlock):
                await sides.read.lock()
            async with await sides.read.lock(owner=writing):
                pass
    del hold, writing, waiting, lost
    gc.collect()
    assert not client._holds


@in_a_loop
async def test_cancelled_takes_leave_no_hold_and_report_none(url, name):
    async with watched_in_a_loop(url) as (client, losses):
        lock = client.reentrant(name)
        for turns in range(60):
            task = asyncio.create_task(lock.lock(30))
            for _ in range(turns % 6):
                await asyncio.sleep(0)
            if not task.done():
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                await task.result().unlock()
            await (await lock.lock(30)).unlock()
    assert losses == []
