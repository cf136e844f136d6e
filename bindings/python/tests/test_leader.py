# SPDX-License-Identifier: Apache-2.0
"""Candidates for a lock."""

import asyncio
import gc
import os
import threading
import warnings

import pytest
from conftest import until
from test_async import in_a_loop

import rlock
from rlock import TermEvent


def soon(condition):
    until(condition, "nobody was told in time")


class Terms:
    """What a candidate was told."""

    def __init__(self):
        self.terms = []

    def __call__(self, term):
        self.terms.append(term)

    def events(self):
        return [term.event for term in self.terms]


def test_a_candidate_leads_until_the_end_of_its_block(url, name):
    terms = Terms()
    with rlock.Client(url) as client:
        lock = client.reentrant(name)
        with rlock.Leader(lock, terms) as leader:
            soon(lambda: terms.events() == [TermEvent.ELECTED])
            assert leader.is_leading() and lock.inspect().locked
            assert terms.terms[0].name == name and terms.terms[0].number == 1
        assert not leader.is_leading()
        soon(lambda: not lock.inspect().locked)
        with pytest.raises(rlock.Invalid):
            leader.resign()
    assert terms.events() == [TermEvent.ELECTED]


def test_the_next_candidate_follows_a_resignation(url, name):
    one, two = Terms(), Terms()
    with rlock.Client(url) as client, rlock.Client(url) as other:
        with rlock.Leader(client.fenced(name), one, rest=0.1) as leader:
            soon(lambda: one.events())
            with rlock.Leader(other.fenced(name), two, rest=0.1) as follower:
                with pytest.raises(rlock.NotOwner):
                    follower.resign()
                leader.resign()
                soon(lambda: two.events() == [TermEvent.ELECTED])
                soon(lambda: one.events() == [TermEvent.ELECTED, TermEvent.RESIGNED])
                assert follower.is_leading() and not leader.is_leading()
                assert two.terms[0].token > one.terms[0].token > 0


def test_a_lost_hold_deposes(url, name):
    terms = Terms()
    with rlock.Client(url) as client:
        lock = client.reentrant(name)
        with rlock.Leader(lock, terms, rest=0.1) as leader:
            soon(lambda: terms.events())
            lock.force_unlock()
            assert not leader.is_leading()
            soon(lambda: terms.events()[:3] == [TermEvent.ELECTED, TermEvent.DEPOSED, TermEvent.ELECTED])
            assert terms.terms[1].reason == rlock.Reason.FORCED


@in_a_loop
async def test_asyncios_loop_runs_a_candidate(url, name):
    terms = Terms()
    threads = []
    async with rlock.AsyncClient(url) as client:
        with rlock.Leader(client.reentrant(name), lambda term: (terms(term), threads.append(threading.get_ident()))):
            while not terms.events():
                await asyncio.sleep(0.01)
    assert threads == [threading.get_ident()]


def test_an_exception_of_on_term_is_logged(url, name, caplog):
    def on_term(term):
        raise RuntimeError("of on_term")

    with rlock.Client(url) as client, rlock.Leader(client.reentrant(name), on_term) as leader:
        soon(lambda: "a callback failed" in caplog.text)
        assert leader.is_leading()


def test_a_dropped_candidate_ends_with_a_warning(url, name):
    with rlock.Client(url) as client:
        lock = client.reentrant(name)
        leader = rlock.Leader(lock)
        soon(leader.is_leading)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del leader
            gc.collect()
        assert [warning.category for warning in caught] == [ResourceWarning]
        soon(lambda: not lock.inspect().locked)


def test_a_child_of_fork_does_not_lead(url, name):
    with rlock.Client(url) as client, rlock.Leader(client.reentrant(name)) as leader:
        soon(leader.is_leading)
        pid = os.fork()
        if pid == 0:
            os._exit(leader.is_leading())
        assert os.waitpid(pid, 0)[1] == 0
        assert leader.is_leading()


def test_arguments_without_sense_are_refused(url, name):
    with rlock.Client(url) as client:
        with pytest.raises(rlock.NotSupported):
            rlock.Leader(client.read_write(name).read)
        with pytest.raises(rlock.Invalid):
            rlock.Leader(client.reentrant(name), margin=15)
        with pytest.raises(TypeError):
            rlock.Leader(client.reentrant(name), 1)
