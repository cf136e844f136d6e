# SPDX-License-Identifier: Apache-2.0
"""If the task of a detach is cancelled, its text is lost. Then the program detaches again, or unlocks."""

import asyncio
import gc

import pytest
from conftest import until
from test_async import in_a_loop, soon
from test_holds import GONE, free, reported, watched_in_a_loop

import rlock


async def cancelled_detach(hold, turns=1):
    """Cancels a detach after so many turns of the loop. Returns the text if it came before that, or None."""
    task = asyncio.create_task(hold.detach(20))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def detached_unseen(client, hold):
    """Cancels a detach, and the server carries it out anyway."""
    assert await cancelled_detach(hold) is None

    async def is_so():
        return not client.reentrant(hold.lock.name).inspect().holder.startswith(hold.lock._client.uuid)

    await soon(is_so, "it is detached")
    await soon(lambda: asyncio.sleep(0, not hold._level.is_waiting()), "the answer is read")
    assert not hold.is_valid() and hold.validity() == 0


@pytest.mark.parametrize("then", ["detach", "unlock", "block"])
@in_a_loop
async def test_a_hold_is_detached_again_or_unlocked_after_a_cancelled_detach(url, client, name, then):
    theirs = client.reentrant(name)
    async with watched_in_a_loop(url) as (own, losses):
        lock = own.reentrant(name)
        for turns in range(60):
            hold = await lock.lock()
            text = await cancelled_detach(hold, turns % 10)
            if then == "unlock" and text is None:
                await hold.unlock()
            elif then == "block" and text is None:
                async with hold:
                    pass
            else:
                text = text or await hold.detach(20)
                assert theirs.inspect().locked and not hold.is_valid()
                theirs.adopt(text).unlock()
            assert not theirs.inspect().locked
            for act in (hold.unlock, lambda: hold.detach(20)):
                with pytest.raises(rlock.NotOwner):
                    await act()
    assert losses == []


@pytest.mark.parametrize("kind", ["fenced", "fair", "read", "write"])
@in_a_loop
async def test_holds_of_other_kinds_are_taken_back_too(url, name, kind):
    async with rlock.AsyncClient(url) as own:
        lock = getattr(own.read_write(name), kind) if kind in ("read", "write") else getattr(own, kind)(name)
        for turns in range(20):
            hold = await lock.lock()
            text = await cancelled_detach(hold, turns % 10)
            await (hold if text is None else await lock.adopt(text)).unlock()
            assert not await lock.locked()


@in_a_loop
async def test_a_block_unlocks_if_its_task_is_cancelled_during_a_detach(stalled, name):
    url, stop, go_on = stalled
    detaching = asyncio.Event()

    async def works(lock):
        async with lock as hold:
            stop()
            detaching.set()
            await hold.detach(20)

    async with watched_in_a_loop(url) as (own, losses):
        task = asyncio.create_task(works(own.reentrant(name)))
        await detaching.wait()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()  # the end of the block waits for the detach
        go_on()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await own.reentrant(name).locked()
    assert losses == []


@in_a_loop
async def test_an_unlock_behind_a_cancelled_detach_goes_on_though_its_task_is_cancelled(stalled, name):
    url, stop, go_on = stalled
    async with watched_in_a_loop(url) as (own, losses):
        lock = own.reentrant(name)
        hold = await lock.lock()
        stop()
        assert await cancelled_detach(hold) is None
        assert await cancelled_detach(hold) is None  # this one waits, and never begins
        task = asyncio.create_task(hold.unlock())
        second = asyncio.create_task(hold.unlock())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on()
        with pytest.raises(rlock.NotOwner):
            await second

        async def is_free():
            return not await lock.locked()

        await soon(is_free, "it is unlocked")
    assert losses == []


@in_a_loop
async def test_a_detach_that_is_cancelled_behind_another_one_changes_nothing(stalled, name):
    url, stop, go_on = stalled
    async with watched_in_a_loop(url) as (own, losses):
        lock = own.reentrant(name)
        hold = await lock.lock()
        stop()
        for _ in range(3):
            assert await cancelled_detach(hold) is None  # the later ones wait, and never begin
        go_on()
        await soon(lambda: asyncio.sleep(0, not hold._level.is_waiting()), "the answer is read")
        assert not hold.is_valid() and await lock.locked()
        await hold.unlock()
        assert not await lock.locked()
    assert losses == []


@in_a_loop
async def test_a_detach_that_is_cancelled_while_it_takes_the_hold_back_leaves_a_valid_hold(stalled, name):
    url, stop, go_on = stalled
    with rlock.Client(url) as client:
        async with watched_in_a_loop(url) as (own, losses):
            lock = own.reentrant(name)
            hold = await lock.lock()
            await detached_unseen(client, hold)
            stop()
            assert await cancelled_detach(hold) is None
            go_on()
            await soon(lambda: asyncio.sleep(0, not hold._level.is_waiting()), "it is taken back")
            assert hold.is_valid()
            await hold.unlock()
            assert not await lock.locked()
        assert losses == []


@in_a_loop
async def test_a_hold_that_is_dropped_after_a_cancelled_detach_is_unlocked_and_reported(url, client, name):
    for seen in (False, True):
        async with watched_in_a_loop(url) as (own, losses):
            hold = await own.reentrant(name).lock()
            if seen:
                await detached_unseen(client, hold)
            else:
                assert await cancelled_detach(hold) is None
            with pytest.warns(ResourceWarning, match="not unlocked"):
                del hold
                await asyncio.sleep(0)  # the loop lets the cancelled task go
                gc.collect()
            await reported(losses)
            assert [loss.reason for loss in losses] == [GONE]
            free(client.reentrant(name))


@in_a_loop
async def test_a_hold_that_is_dropped_while_its_detach_fails_is_unlocked_and_reported(stalled, name):
    url, stop, go_on = stalled
    losses = []
    async with rlock.AsyncClient(url, op_timeout=0.2, on_lost=losses.append) as own:
        lock = own.reentrant(name)
        hold = await lock.lock()
        stop()
        task = asyncio.create_task(hold.detach(20))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.warns(ResourceWarning):
            del hold, task
            await asyncio.sleep(0)
            gc.collect()
        await reported(losses)  # the unlock that follows is in doubt as well
        assert losses[0].reason == GONE
        go_on()

        async def is_free():
            return not (await lock.inspect()).locked

        await soon(is_free, "it is unlocked")


@in_a_loop
async def test_the_hold_of_a_cancelled_detach_may_end_before_it_is_taken_back(url, client, name):
    async with rlock.AsyncClient(url) as own:
        hold = await own.reentrant(name).lock()
        await detached_unseen(client, hold)
        client.reentrant(name).force_unlock()
        for act in (lambda: hold.detach(20), hold.unlock):
            with pytest.raises(rlock.Lost) as raised:
                await act()
            assert raised.value.reason is rlock.Reason.DELETED
        with pytest.raises(rlock.NotOwner):
            await hold.unlock()


@in_a_loop
async def test_what_is_taken_back_in_doubt_is_taken_back_again(stalled, name):
    url, stop, go_on = stalled
    async with rlock.AsyncClient(url, op_timeout=0.3) as own:
        with rlock.Client(url) as client:
            hold = await own.reentrant(name).lock()
            await detached_unseen(client, hold)
            stop()
            with pytest.raises((rlock.InDoubt, rlock.NoConnection)):
                await hold.unlock()
            go_on()

            async def is_unlocked():
                try:
                    await hold.unlock()
                except (rlock.InDoubt, rlock.NoConnection):
                    return False
                return True

            await soon(is_unlocked, "the server answers")
            until(lambda: not client.reentrant(name).inspect().locked, "it is free")


@pytest.mark.parametrize("seen", [False, True])
@in_a_loop
async def test_a_dropped_hold_that_is_not_taken_back_is_reported_once(stalled, name, seen):
    url, stop, go_on = stalled
    losses = []
    with rlock.Client(url) as client:
        async with rlock.AsyncClient(url, op_timeout=0.3, on_lost=losses.append) as own:
            hold = await own.reentrant(name).lock()
            if seen:
                await detached_unseen(client, hold)
                stop()
            else:
                stop()
                assert await cancelled_detach(hold) is None
            with pytest.warns(ResourceWarning):
                del hold
                await asyncio.sleep(0)
                gc.collect()
            await reported(losses)
            go_on()
            await own.reentrant(name + "2").lock(10)
        client.reentrant(name).force_unlock()
    assert [loss.reason for loss in losses if loss.name == name] == [GONE]


@in_a_loop
async def test_a_hold_ends_with_its_closed_client_after_a_cancelled_detach(url, client, name):
    own = rlock.AsyncClient(url)
    hold = await own.reentrant(name).lock()
    await detached_unseen(client, hold)
    await own.close()
    for act in (lambda: hold.detach(20), hold.unlock):
        with pytest.raises(rlock.Closed):
            await act()
    client.reentrant(name).force_unlock()


@in_a_loop
async def test_closing_ends_an_unlock_behind_a_cancelled_detach(stalled, name):
    url, stop, go_on = stalled
    own = rlock.AsyncClient(url, op_timeout=0.5)
    hold = await own.reentrant(name).lock()
    stop()
    assert await cancelled_detach(hold) is None
    unlocks = [asyncio.create_task(hold.unlock()) for _ in range(3)]
    await asyncio.sleep(0)
    await own.close()
    outcomes = await asyncio.wait_for(asyncio.gather(*unlocks, return_exceptions=True), 30)
    assert all(isinstance(outcome, rlock.Error) for outcome in outcomes)
    go_on()
