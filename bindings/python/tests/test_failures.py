# SPDX-License-Identifier: Apache-2.0
"""What an exception says, besides its class: the holder, the server, when the lock is free, why a hold was lost."""

import pickle

import pytest
from test_async import in_a_loop

import rlock
from rlock import _errors


def names_the_holder(problem, holder, url):
    assert problem.holder.startswith(holder.uuid + ":") and problem.server == url
    assert 0 < problem.free_in <= 20 and problem.reason is None


@pytest.mark.parametrize("wait, kind", [(0, rlock.Busy), (0.03, rlock.TimedOut)])
def test_a_busy_lock_names_its_holder_and_the_rest_of_its_lease(url, client, other, name, wait, kind):
    with other.reentrant(name).lock(lease=20):
        with pytest.raises(kind) as raised:
            client.reentrant(name).lock(wait)
    names_the_holder(raised.value, other, url)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert vars(copied) == vars(raised.value)


@in_a_loop
async def test_a_task_learns_the_holder_and_the_rest_of_its_lease(url, other, name):
    async with rlock.AsyncClient(url) as client:
        with other.reentrant(name).lock(lease=20):
            for wait, kind in ((0, rlock.Busy), (0.03, rlock.TimedOut)):
                with pytest.raises(kind) as raised:
                    await client.reentrant(name).lock(wait)
                names_the_holder(raised.value, other, url)


def test_a_lost_hold_has_its_reason(url, client, other, name):
    lock = client.reentrant(name)
    hold = lock.lock(lease=20)
    lock.force_unlock()
    for act in (lambda: hold.extend(60), hold.unlock):
        with pytest.raises(rlock.Lost) as raised:
            act()
        assert raised.value.reason is rlock.Reason.FORCED
    hold = lock.lock(lease=20)
    other.reentrant(name).force_unlock()  # another process
    with pytest.raises(rlock.Lost) as raised:
        hold.unlock()
    assert raised.value.reason is rlock.Reason.DELETED and raised.value.free_in is None


@in_a_loop
async def test_a_task_learns_why_its_hold_was_lost(url, name):
    async with rlock.AsyncClient(url) as client:
        hold = await client.reentrant(name).lock(lease=20)
        await hold.lock.force_unlock()
        for act in (lambda: hold.extend(60), hold.unlock):
            with pytest.raises(rlock.Lost) as raised:
                await act()
            assert raised.value.reason is rlock.Reason.FORCED


def test_an_unlock_in_doubt_says_when_the_lock_is_free(stalled, name):
    url, stop, go_on = stalled
    with rlock.Client(url, op_timeout=0.2) as client:
        hold = client.reentrant(name).lock(lease=20)
        stop()
        with pytest.raises(rlock.InDoubt) as raised:
            hold.unlock()
        assert 0 < raised.value.free_in <= 21 and raised.value.reason is None
        go_on()


@in_a_loop
async def test_a_task_whose_take_is_in_doubt_learns_when_the_lock_is_free(stalled, name):
    url, stop, go_on = stalled
    async with rlock.AsyncClient(url, op_timeout=0.2) as client:
        lock = client.reentrant(name)
        await (await lock.lock()).unlock()
        stop()
        with pytest.raises(rlock.InDoubt) as raised:
            await lock.lock(0, lease=20)
        assert 0 < raised.value.free_in <= 21
        go_on()


def test_a_call_between_a_failure_and_its_exception_does_not_lend_its_data(client, other, name):
    """The collector may end a hold there, and a signal handler may do anything."""
    lock = client.reentrant(name)
    with other.reentrant(name):
        with pytest.raises(rlock.Busy):
            lock.lock(0)
    assert not lock.locked()
    with pytest.raises(rlock.Busy) as raised:
        _errors.check(rlock.Code.EBUSY)
    assert (raised.value.detail, raised.value.holder, raised.value.free_in) == ("", "", None)
    assert str(raised.value) == raised.value.text == "held by another owner"


def test_what_is_unknown_is_empty(name):
    with rlock.Client("unix:///nowhere", op_timeout=0.05) as client:
        with pytest.raises(rlock.NoConnection) as raised:
            client.reentrant(name).lock(0)
    assert (raised.value.holder, raised.value.free_in, raised.value.reason) == ("", None, None)
    assert raised.value.server == "unix:///nowhere"
