# SPDX-License-Identifier: Apache-2.0
"""Random calls of threads and tasks, some of which end or drop their holds. A witness sees who is inside.

RLOCK_TEST_OPS    how many calls; default 4000
RLOCK_TEST_SEED   what decides them; the order of the threads remains theirs
"""

import asyncio
import contextlib
import gc
import os
import queue
import random
import threading
import time
import weakref

import pytest
from conftest import keys, left, until

import rlock

OPS = int(os.environ.get("RLOCK_TEST_OPS", 4000))
SEED = int(os.environ.get("RLOCK_TEST_SEED", time.time_ns() % 1000000))
KINDS = ["reentrant", "nonreentrant", "spin", "fenced", "fair", "read", "write", "setnx", "multi"]
WAITS = [None, None, None, 0, 0.002, 0.05, 20]
THREADS, TASKS = 8, 24
PATIENT = {"op_timeout": 30, "connect_timeout": 30}  # a busy machine is not a failure


class Losses:
    """What the clients of one side report, and what they have to."""

    def __init__(self, field):
        self.field, self.reported, self.expected = field, [], 0

    def note(self, loss):
        self.reported.append(loss)
        assert loss.reason is rlock.Reason.OWNER_ENDED, loss

    def expect(self, levels=1):
        with self.field.mutex:
            self.expected += levels

    def all_came(self):
        return sum(loss.levels for loss in list(self.reported)) >= self.expected


class Field:
    """The names that all compete for, who is inside, and what was done."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.writer, self.readers, self.tokens = set(), {}, {}
        self.ops, self.taken, self.problems = 0, dict.fromkeys(KINDS, 0), []
        self.threads, self.tasks = Losses(self), Losses(self)

    def goes_on(self):
        return self.ops < OPS and not self.problems

    def count(self, ops=1):
        with self.mutex:
            self.ops += ops

    def enter(self, choice, hold=None):
        with self.mutex:
            self.taken[choice.kind] += 1
            for name in choice.names:
                assert name not in self.writer, f"{choice.kind} {name}: another one is inside"
                if choice.kind == "read":
                    self.readers[name] = self.readers.get(name, 0) + 1
                else:
                    assert not self.readers.get(name), f"{name}: somebody reads"
                    self.writer.add(name)
            if hold is not None:
                assert hold.is_valid() and hold.validity() > 0
                if choice.kind == "fenced":
                    assert hold.token > self.tokens.get(choice.names[0], 0), "a token that is not larger"
                    self.tokens[choice.names[0]] = hold.token

    def leave(self, choice):
        with self.mutex:
            for name in choice.names:
                if choice.kind == "read":
                    self.readers[name] -= 1
                else:
                    self.writer.remove(name)

    def guarded(self, target, *arguments):
        try:
            target(*arguments)
        except BaseException as problem:
            self.problems.append(problem)
            raise


class Choice:
    """A lock of one of the kinds, on one or two of the names that the kind has."""

    def __init__(self, client, dice, kind=None):
        self.client, self.kind = client, kind or dice.choice(KINDS)
        place = "rw" if self.kind in ("read", "write") else "reentrant" if self.kind == "multi" else self.kind
        self.names = [f"{place}{i}" for i in sorted(dice.sample(range(3), 2 if self.kind == "multi" else 1))]
        if self.kind == "multi":
            self.lock = rlock.multi(*(client.reentrant(name) for name in self.names))
        elif place == "rw":
            self.lock = getattr(client.read_write(self.names[0]), self.kind)
        else:
            self.lock = getattr(client, self.kind)(self.names[0])


class Threads:
    """What a thread does: one of these at a time."""

    def __init__(self, field, clients, dice, handed):
        self.field, self.clients, self.dice, self.handed = field, clients, dice, handed

    def run(self):
        ways = [self.visit] * 12 + [self.acquire] * 3 + [self.hand] * 3 + [self.pass_on, self.drop, self.drop, self.end]
        while self.field.goes_on():
            self.dice.choice(ways)(Choice(self.dice.choice(self.clients), self.dice))

    def take(self, choice, **arguments):
        self.field.count()
        try:
            hold = choice.lock.lock(self.dice.choice(WAITS), **arguments)
        except (rlock.Busy, rlock.TimedOut) as busy:
            assert isinstance(busy, rlock.TimedOut) or busy.code is rlock.Code.EBUSY
            return None
        self.field.enter(choice, hold)
        return hold

    def visit(self, choice):
        hold = self.take(choice, lease=self.dice.choice([None, None, 20]))
        if hold is None:
            return
        with hold:
            if self.dice.random() < 0.3:
                self.again(choice, hold)
            if self.dice.random() < 0.2:
                self.field.count()
                hold.extend(self.dice.choice([None, 25]))
            self.field.leave(choice)
        self.field.count()
        assert not hold.is_valid()

    def pass_on(self, choice):
        """As a text: nobody else comes in between."""
        hold = adopted = self.take(choice)
        if hold is None:
            return
        if choice.kind != "multi":
            adopted = choice.lock.adopt(hold.detach(20), owner=self.dice.choice([None, choice.client.new_owner()]))
            assert adopted.is_valid() and not hold.is_valid()
            assert choice.kind != "fenced" or adopted.token > hold.token
            self.field.count(2)
        self.field.leave(choice)
        adopted.unlock()
        self.field.count()

    def again(self, choice, hold):
        if choice.kind == "nonreentrant":
            with pytest.raises(rlock.Reacquired):
                choice.lock.lock(0)
            self.field.count()
            return
        with choice.lock.lock(0) as inner:
            assert inner.owner == hold.owner and inner.token == hold.token and choice.lock.hold_count() == 2
        assert choice.lock.hold_count() == 1 and hold.is_valid()
        self.field.count(2)

    def acquire(self, choice):
        self.field.count()
        if choice.lock.acquire(timeout=self.dice.choice([-1, 0.01])):
            self.field.enter(choice)
            assert choice.lock.is_valid()
            self.field.leave(choice)
            choice.lock.release()
            self.field.count()

    def hand(self, choice):
        """Another thread unlocks it. Until then a thread that owns it could take it again."""
        owner = self.dice.choice([None, choice.lock._client.new_owner()])
        hold, is_over = self.take(choice, owner=owner), threading.Event()
        if hold is not None:
            self.handed.put((choice, hold, is_over))
            if owner is None:
                is_over.wait()

    def drop(self, choice):
        """The collector may end the hold in another thread, later, and the members of a multi-lock end one by one. So
        this thread does not own it, or it might take it, or a member, again."""
        is_in_cycle = self.dice.random() < 0.1
        has_id = is_in_cycle or choice.kind == "multi"
        hold = self.take(choice, owner=choice.lock._client.new_owner() if has_id else None)
        if hold is None:
            return
        self.field.leave(choice)
        self.field.threads.expect()
        if is_in_cycle:
            cycle, remains = [hold], weakref.ref(hold)
            cycle.append(cycle)
            del hold, cycle
            # gc.collect() does nothing while another thread collects.
            until(lambda: gc.collect() >= 0 and remains() is None, "the collector finds it")

    def end(self, choice):
        """A thread that ends without unlocking."""
        levels = 1 if choice.kind == "nonreentrant" else self.dice.randint(1, 3)

        def ends():
            for level in range(levels):
                self.field.count()
                choice.lock.acquire()
                if level == 0:
                    self.field.enter(choice)
            self.field.leave(choice)
            self.field.threads.expect(levels)

        thread = threading.Thread(target=self.field.guarded, args=(ends,))
        thread.start()
        thread.join()


def unlock_what_is_handed(field, handed):
    while True:
        choice, hold, is_over = handed.get()
        if hold is None:
            return
        assert hold.is_valid()
        field.leave(choice)
        hold.unlock()
        is_over.set()
        field.count()


class Tasks:
    """What the tasks of a loop do: each visit is a task of its own, and may be cancelled at any time."""

    def __init__(self, field, client, dice):
        self.field, self.client, self.dice = field, client, dice

    async def run(self):
        while self.field.goes_on():
            task = asyncio.create_task(self.visit(Choice(self.client, self.dice)))
            if self.dice.random() < 0.4:
                for _ in range(self.dice.randint(0, 6)):
                    await asyncio.sleep(self.dice.choice([0, 0, 0.001]))
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                assert task.cancelled()
            del task

    async def visit(self, choice):
        self.field.count()
        take = choice.lock.lock(self.dice.choice(WAITS), lease=self.dice.choice([None, None, 20]))
        by_another = self.dice.random() < 0.1  # wait_for() takes it in a task of its own
        try:
            hold = await (asyncio.wait_for(take, 0.01) if by_another else take)
        except (rlock.Busy, rlock.TimedOut, asyncio.TimeoutError):
            return
        self.field.enter(choice, hold)
        is_dropped = self.dice.random() < 0.1
        try:
            await asyncio.sleep(0)
            if self.dice.random() < 0.3:
                await self.again(choice, hold, by_another)
        finally:
            self.field.leave(choice)
            if is_dropped:
                self.field.tasks.expect()
                hold = None
            else:
                self.field.count()
                await self.end(choice, hold)

    async def end(self, choice, hold):
        if choice.kind == "multi" or self.dice.random() < 0.9:
            await hold.unlock()
            return
        try:
            await hold.detach(0.05)  # nobody adopts it
        except asyncio.CancelledError:
            with contextlib.suppress(rlock.Lost):  # this machine was slower
                await hold.unlock()
            raise

    async def again(self, choice, hold, by_another):
        if choice.kind != "read" and not by_another:
            with pytest.raises(rlock.Deadlock):
                await choice.lock.lock()
        self.field.count()
        try:
            async with await choice.lock.lock(0, owner=hold) as inner:
                assert inner.owner == hold.owner
        except rlock.Reacquired:
            assert choice.kind == "nonreentrant"
        self.field.count(2)


def run_loop(field, url, dice):
    async def main():
        async with rlock.AsyncClient(url, on_lost=field.tasks.note, **PATIENT) as client:
            await client.reentrant("connected").inspect()
            await asyncio.gather(*(Tasks(field, client, dice).run() for _ in range(TASKS)))
            while not field.problems and not field.tasks.all_came():
                gc.collect()
                await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_random_threads_and_tasks_exclude_each_other_and_leave_nothing(servers):
    url, field, handed = servers.start(), Field(), queue.Queue()
    clients = [rlock.Client(url, on_lost=field.threads.note, **PATIENT) for _ in range(2)]

    for client in clients:
        client.reentrant("connected").inspect()

    def start(target, *arguments):
        thread = threading.Thread(target=field.guarded, args=(target, *arguments), daemon=True)
        thread.start()
        return thread

    unlocker = start(unlock_what_is_handed, field, handed)
    workers = [start(Threads(field, clients, random.Random(f"{SEED} {i}"), handed).run) for i in range(THREADS)]
    workers.append(start(run_loop, field, url, random.Random(f"{SEED} tasks")))
    until(lambda: not any(each.is_alive() for each in workers) or field.problems, f"seed {SEED}: all end", 60 + OPS / 50)
    assert not field.problems, f"seed {SEED}: {field.problems}"
    handed.put((None, None, None))
    unlocker.join()
    gc.collect()
    until(field.threads.all_came, f"seed {SEED}: all losses are reported")
    assert not field.problems and field.ops >= OPS and all(field.taken.values()), (SEED, field.problems, field.taken)
    assert not field.writer and not any(field.readers.values())
    for client in clients:
        client.close()
    for side in (field.threads, field.tasks):
        assert sum(loss.levels for loss in side.reported) == side.expected, f"seed {SEED}"
    until(lambda: not left(url), f"seed {SEED}: {keys(url)} are left", 5)
    print(f"{field.ops} calls, seed {SEED}; holds {field.taken}; lost {field.threads.expected}, {field.tasks.expected}")
