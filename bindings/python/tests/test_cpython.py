# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests of locks and conditions, from the distribution's package of its test suite.

Left out: test_at_fork_reinit, which resets a lock in a child of fork. A child has no lock of this package.
Added for the suite alone: a repr() that says "locked", which asks the server, and an OverflowError for a timeout above
threading.TIMEOUT_MAX, which has no end here.
"""

import itertools
import threading

import pytest
from conftest import CHECKOUT

import rlock

try:
    import test

    test.__path__.append(str(CHECKOUT / ".deps" / "cpython"))  # where scripts/setup unpacks it
    from test import lock_tests
except ImportError:
    pytest.skip("[  SKIPPED ] CPython's lock_tests are not installed", allow_module_level=True)

numbers = itertools.count()


class Shown(rlock.Lock):
    """With what only the suite wants."""

    def __repr__(self):
        return f"<{'locked' if self.locked() else 'unlocked'} {type(self).__name__} object at {id(self):#x}>"

    def acquire(self, blocking=True, timeout=-1):
        if timeout != -1 and timeout > threading.TIMEOUT_MAX:
            raise OverflowError
        return super().acquire(blocking, timeout)


class Plain(Shown):
    """A lock that is not reentrant, and that any thread may release, as threading.Lock: each hold is an owner."""

    def acquire(self, blocking=True, timeout=-1):
        if timeout != -1 and (timeout > threading.TIMEOUT_MAX or not blocking):
            raise OverflowError if blocking else ValueError
        try:
            wait = 0 if not blocking else None if timeout == -1 else timeout
            self.hold = self.lock(wait, owner=self._client.new_owner())
        except (rlock.Busy, rlock.TimedOut):
            return False
        return True

    def release(self):
        self.hold.unlock()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


def maker(client, name, kind, shown):
    def make():
        lock = getattr(client, kind)(f"{name}{next(numbers)}")
        lock.__class__ = shown
        return lock

    return make


@pytest.fixture
def types(request, client, name):
    """What the suite's cases make."""
    made = request.cls.maker
    request.cls.locktype = staticmethod(maker(client, name, *made))
    request.cls.condtype = staticmethod(lambda lock=None: threading.Condition(lock or request.cls.locktype()))


@pytest.mark.usefixtures("types")
class TestLock(lock_tests.LockTests):
    maker = "reentrant", Plain
    test_at_fork_reinit = None


@pytest.mark.usefixtures("types")
class TestFairLock(TestLock):
    maker = "fair", Plain


@pytest.mark.usefixtures("types")
class TestRLock(lock_tests.RLockTests):
    maker = "reentrant", Shown


@pytest.mark.usefixtures("types")
class TestFairRLock(TestRLock):
    maker = "fair", Shown


@pytest.mark.usefixtures("types")
class TestCondition(lock_tests.ConditionTests):
    maker = "reentrant", Shown
