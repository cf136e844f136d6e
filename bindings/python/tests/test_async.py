# SPDX-License-Identifier: Apache-2.0
"""Locks in asyncio's loop."""

import asyncio
import functools
import gc
import threading

import pytest
from conftest import until

import rlock


def in_a_loop(test):
    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


async def soon(condition, what):
    """Waits for what must come soon, while the loop goes on."""
    for _ in range(15000):
        if await condition():
            return
        await asyncio.sleep(0.002)
    pytest.fail(what)


async def waiters(lock, n):
    async def reached():
        return (await lock.inspect()).waiters == n

    await soon(reached, f"{n} wait")


@pytest.mark.parametrize("kind", ["reentrant", "fair"])
@in_a_loop
async def test_a_thousand_tasks_exclude_each_other_on_one_name(url, name, kind):
    inside, visits = 0, 0

    async def visit(lock):
        nonlocal inside, visits
        async with lock as hold:
            inside += 1
            assert inside == 1 and hold.is_valid()
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1
            visits += 1

    async with rlock.AsyncClient(url, op_timeout=30) as client:
        lock = getattr(client, kind)(name)
        await asyncio.gather(*(visit(lock) for _ in range(1000)))
        assert visits == 1000
        assert not (await lock.inspect()).locked


@in_a_loop
async def test_a_thousand_tasks_hold_a_thousand_names_at_once(url, name):
    holders = 0
    all_hold = asyncio.Event()

    async def visit(client, i):
        nonlocal holders
        async with client.reentrant(f"{name}{i}") as hold:
            holders += 1
            if holders == 1000:
                all_hold.set()
            await all_hold.wait()
            assert hold.is_valid()

    async with rlock.AsyncClient(url, op_timeout=30) as client:
        await asyncio.gather(*(visit(client, i) for i in range(1000)))


@in_a_loop
async def test_loops_and_threads_exclude_each_other(url, client, witness, name):
    def loop_of_its_own():
        async def visit(lock):
            async with lock:
                with witness:
                    await asyncio.sleep(0)

        async def main():
            async with rlock.AsyncClient(url) as own:
                await asyncio.gather(*(visit(own.reentrant(name)) for _ in range(50)))

        asyncio.run(main())

    def thread():
        for _ in range(50):
            with client.reentrant(name), type(witness)(witness.path):
                pass

    witness_of = [threading.Thread(target=loop_of_its_own), threading.Thread(target=thread)]
    for each in witness_of:
        each.start()
    while any(each.is_alive() for each in witness_of):
        await asyncio.sleep(0.01)
    assert witness.visits() == 100


@in_a_loop
async def test_a_hold_is_extended(url, name):
    async with rlock.AsyncClient(url) as client:
        hold = await client.reentrant(name).lock(lease=20)
        await asyncio.gather(hold.extend(60), hold.extend(40))
        assert 50 < hold.validity() <= 60
        await hold.extend()
        await hold.unlock()
        with pytest.raises(rlock.NotOwner):
            await hold.extend(60)


@in_a_loop
async def test_the_calls_of_a_lock(url, name):
    async with rlock.AsyncClient(url) as client, rlock.AsyncClient(url) as other:
        lock, theirs = client.reentrant(name), other.reentrant(name)
        async with lock as hold, await lock.lock(owner=hold) as inner:
            assert inner.owner == hold.owner and inner.validity() > 0
            assert await theirs.try_lock() is None and await theirs.locked()
            with pytest.raises(rlock.TimedOut):
                await theirs.lock(0.02)
            info = await theirs.inspect()
            assert info.locked and not info.mine and info.holder.startswith(client.uuid)
        with pytest.raises(rlock.NotOwner):
            await hold.unlock()
        with pytest.raises(rlock.Lost):
            async with await lock.lock(0.5, lease=20) as hold:
                assert hold.lease == 20
                assert await theirs.force_unlock()
                async with theirs:
                    pass
                await lock.force_unlock()
        assert not await theirs.force_unlock()
        sides = client.read_write(name + "rw")
        async with sides.read:
            assert await other.read_write(name + "rw").write.try_lock() is None
        async with rlock.multi(client.fenced(name + "1"), other.spin(name + "2")) as hold:
            assert hold.is_valid()


@in_a_loop
async def test_a_task_that_is_cancelled_waits_no_more(url, name):
    async with rlock.AsyncClient(url) as client, rlock.AsyncClient(url) as other:
        lock, theirs = client.fair(name), other.fair(name)
        async with theirs:
            tasks = [asyncio.create_task(lock.lock()) for _ in range(10)]
            await waiters(theirs, 10)
            for task in tasks[:9]:
                task.cancel()
            assert (await asyncio.wait(tasks[:9], timeout=30))[1] == set()
            assert all(task.cancelled() for task in tasks[:9])
            await waiters(theirs, 1)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(lock.lock(), 0.05)
            await waiters(theirs, 1)
        hold = await tasks[9]
        assert hold.is_valid()
        await hold.unlock()


@in_a_loop
async def test_what_a_cancelled_task_gets_all_the_same_is_given_back(url, name):
    async with rlock.AsyncClient(url) as client:
        lock = client.reentrant(name)
        for turns in range(100):
            task = asyncio.create_task(lock.lock())
            for _ in range(turns % 10):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await (await task).unlock()
            except asyncio.CancelledError:
                pass

            async def is_free():
                return not (await lock.inspect()).locked

            await soon(is_free, "it is free again")


@in_a_loop
async def test_an_unlock_goes_on_though_its_task_is_cancelled(url, other, name):
    async with rlock.AsyncClient(url) as client:
        lock = client.reentrant(name)
        hold = await lock.lock()
        task = asyncio.create_task(hold.unlock())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        async def is_free():
            return not (await lock.inspect()).locked

        await soon(is_free, "it is unlocked")


@in_a_loop
async def test_a_loss_is_told_in_the_loop(url, client, name):
    told = asyncio.Event()
    losses, threads = [], []

    def on_lost(loss):
        losses.append((loss.name, loss.reason))
        threads.append(threading.current_thread())
        told.set()

    async with rlock.AsyncClient(url, on_lost=on_lost, renewed_lease=3) as own:
        lock = own.reentrant(name)
        hold = await lock.lock()
        client.reentrant(name).force_unlock()  # another process: the next renewal sees it
        await asyncio.wait_for(told.wait(), 30)
        assert not hold.is_valid()
        with pytest.raises(rlock.Lost):
            await hold.unlock()
    assert losses == [(name, rlock.Reason.DELETED)]
    assert threads == [threading.current_thread()]


@in_a_loop
async def test_holds_are_renewed_while_the_loop_runs(url, client, name):
    lowest = 3

    async def is_renewed():
        nonlocal lowest
        ttl = client.reentrant(name).inspect().ttl
        lowest = min(lowest, ttl)
        return ttl > lowest

    async with rlock.AsyncClient(url, renewed_lease=3) as own:
        async with own.reentrant(name) as hold:
            await soon(is_renewed, "it is renewed")
            assert hold.is_valid()


@in_a_loop
async def test_closing_ends_all_waits_and_all_holds(url, client, name):
    own = rlock.AsyncClient(url)
    lock = own.fair(name)
    held = await own.reentrant(name + "held").lock()
    theirs = client.fair(name).lock()
    tasks = [asyncio.create_task(lock.lock()) for _ in range(100)]
    await waiters(lock, 100)
    await own.close()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert all(isinstance(outcome, rlock.Closed) for outcome in outcomes)
    await own.close()
    assert not held.is_valid()
    assert not client.reentrant(name + "held").inspect().locked
    with pytest.raises(rlock.Closed):
        await lock.lock()
    theirs.unlock()


def test_a_loop_that_ends_without_closing_its_client_harms_nobody(url, client, name):
    async def main():
        own = rlock.AsyncClient(url)
        hold = await own.reentrant(name).lock()
        asyncio.create_task(own.reentrant(name).lock())
        await asyncio.sleep(0)
        assert hold.is_valid()

    asyncio.run(main())
    gc.collect()
    until(lambda: not client.reentrant(name).inspect().locked, "it is closed")


def test_a_client_is_of_one_loop(url):
    async def opened():
        return rlock.AsyncClient(url)

    with pytest.raises(RuntimeError):
        rlock.AsyncClient(url)
    loop = asyncio.new_event_loop()
    own = loop.run_until_complete(opened())
    with pytest.raises(RuntimeError):
        asyncio.run(own.reentrant("a").lock())
    loop.run_until_complete(own.close())
    loop.close()
