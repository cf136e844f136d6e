# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import signal
import threading
import time

import pytest
from conftest import until

import rlock


def test_the_last_party_opens_the_latch(client, other, name):
    latch, elsewhere = client.latch(name), other.latch(name)
    assert latch.count() == 0
    latch.wait(0)
    latch.set(2)
    elsewhere.set(5)  # it is closed already
    woken = []
    waiters = [threading.Thread(target=lambda: woken.append(elsewhere.wait(30))) for _ in range(4)]
    for waiter in waiters:
        waiter.start()
    for _ in range(3):
        latch.down("a")
    assert latch.count() == 1
    with pytest.raises(rlock.Busy):
        latch.wait(0)
    with pytest.raises(rlock.TimedOut):
        latch.wait(0.01)
    elsewhere.down()
    for waiter in waiters:
        waiter.join()
    assert woken == [None] * 4
    assert latch.count() == 0


def test_wrong_arguments_are_refused(client, name):
    latch = client.latch(name)
    for count in (0, 1 << 31):
        with pytest.raises(rlock.Invalid):
            latch.set(count)
    for party in ("", "a\0b", "p" * 256):
        with pytest.raises(rlock.Invalid):
            latch.down(party)
    assert name in repr(latch)


def test_a_signal_handler_that_raises_ends_a_wait(client, name):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    latch = client.latch(name)
    latch.set(1)
    before = signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    begun = time.monotonic()
    try:
        with pytest.raises(Alarm):
            latch.wait(60)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - begun < 30
    latch.down()


def test_tasks_count_down_and_wait(url, name):
    async def play():
        async with rlock.AsyncClient(url) as client:
            latch = client.latch(name)
            await latch.set(3)
            waits = [asyncio.ensure_future(latch.wait()) for _ in range(10)]
            await latch.down("a")
            await latch.down("a")
            assert await latch.count() == 2
            waits[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits[0]
            with pytest.raises(rlock.Busy):
                await latch.wait(0)
            await latch.down("b")
            await latch.down("c")
            await asyncio.gather(*waits[1:])
            assert await latch.count() == 0

    asyncio.run(play())


def test_closing_the_client_ends_a_wait(url, client, name):
    latch = client.latch(name)
    latch.set(1)
    ended = []

    def wait():
        try:
            latch.wait()
        except rlock.Closed as problem:
            ended.append(problem)

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: client.stats().requests > 2, "the wait has not begun")
    client.close()
    waiter.join()
    assert len(ended) == 1
    with rlock.Client(url) as other:
        other.latch(name).down()
