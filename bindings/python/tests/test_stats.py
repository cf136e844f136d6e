# SPDX-License-Identifier: Apache-2.0
"""What a client has counted, and the text that Prometheus reads."""

import dataclasses
import gc
import math
import os
import signal
import threading

import pytest
from conftest import until
from test_async import in_a_loop

import rlock
from rlock import _callbacks, _client, _stats
from rlock._rlock import ffi


def test_stats_count_the_calls_of_a_client(url, other, name):
    with rlock.Client(url) as client:
        with client.fair(name) as hold, other.reentrant(name + "2"):
            hold.extend(60)
            assert client.reentrant(name + "2").try_lock() is None
            stats = client.stats()
            assert stats.holds == 1 and stats.waiting == 0 and stats.connections >= 1 and stats.servers == 1
        lost = client.fenced(name).lock()
        client.fenced(name).force_unlock()
        with pytest.raises(rlock.Lost):
            lost.unlock()
        client.spin(name).adopt(client.spin(name).lock().detach(20)).unlock()
        client.spin(name).inspect()
        stats = client.stats()
    assert stats.takes["fair"] == {"OK": 1} and stats.takes["reentrant"] == {"EBUSY": 1}
    assert stats.takes["write"]["OK"] == 0
    assert stats.unlocks["fenced"] == {"ELOST": 1} and stats.unlocks["fair"]["OK"] == 1
    for once in (stats.extends, stats.detaches, stats.adopts, stats.force_unlocks, stats.inspects):
        assert once == {"OK": 1}
    assert stats.losses == {"forced": 1} and stats.holds == 0
    assert stats.requests >= stats.attempts >= 4 and stats.connects >= 1 and stats.reconnects == stats.disconnects == 0
    assert stats.wait.count == 4 and stats.reply.count > 4
    with pytest.raises(rlock.Closed):
        client.stats()


def test_a_histogram_has_ranges_with_upper_bounds_in_seconds(client, name):
    for _ in range(10):
        client.reentrant(name).lock().unlock()
    wait = client.stats().wait
    assert len(wait.bounds) == len(wait.counts) == 28
    assert list(wait.bounds) == sorted(set(wait.bounds)) and wait.bounds[-1] == math.inf
    assert wait.bounds[0] == 0.000032 and wait.bounds[1] == 0.000064 and 2000 < wait.bounds[-2] < 2200
    assert sum(wait.counts) == wait.count == 10 and 0 < wait.sum < 30


def test_stats_have_each_member_of_the_header():
    theirs = [name for name, _ in ffi.typeof("struct rlock_stats").fields if name != "size"]
    assert [field.name for field in dataclasses.fields(rlock.Stats)] == theirs


def test_metrics_add_up_clients_of_one_url(servers, url, name):
    another = servers.start()
    with rlock.Client(url) as one, rlock.Client(another) as two, rlock.Client(url) as three:
        for i, each in enumerate((one, two, three)):
            for _ in range(i + 1):
                each.reentrant(name).lock().unlock()
        text = rlock.metrics(one, two, three, one)  # one that comes twice counts once
        for address, n in ((url, 4), (another, 2)):
            assert f'rlock_takes_total{{server="{address}",kind="reentrant",code="OK"}} {n}\n' in text
        assert text.endswith("# EOF\n")
    with pytest.raises(rlock.Closed):
        rlock.metrics(one, two)
    assert rlock.metrics().endswith("# EOF\n")


def test_metrics_of_many_servers_are_whole():
    clients = [rlock.Client(f"unix:///nowhere/{i}") for i in range(20)]
    text = rlock.metrics(*clients)
    assert text.endswith("# EOF\n") and "/nowhere/19" in text and len(text) > 1 << 15
    for each in clients:
        each.close()


def test_metrics_and_closing_do_not_wait_for_each_other(url):
    one, two = rlock.Client(url), rlock.Client(url)
    ended = []

    def reads(*clients):
        try:
            while True:
                rlock.metrics(*clients)
        except rlock.Closed:
            ended.append(clients)

    threads = [threading.Thread(target=reads, args=pair) for pair in ((one, two), (two, one)) * 3]
    for thread in threads:
        thread.start()
    two.close()
    one.close()
    for thread in threads:
        thread.join(30)
    assert len(ended) == 6


@in_a_loop
async def test_a_client_of_a_loop_has_statistics(url, name):
    async with rlock.AsyncClient(url) as client:
        async with client.fair(name):
            assert client.stats().holds == 1
        assert client.stats().takes["fair"]["OK"] == 1
        assert 'kind="fair",code="OK"} 1\n' in rlock.metrics(client)


def test_a_child_of_fork_has_no_statistics(client, name):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for act in (client.stats, lambda: rlock.metrics(client)):
                with pytest.raises(rlock.Forked):
                    act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("reads", ["stats", "metrics"])
def test_a_signal_handler_may_close_the_client_while_its_statistics_are_read(url, monkeypatch, reads):
    client = rlock.Client(url)
    before = signal.signal(signal.SIGUSR1, lambda *_: client.close())
    module, function = (_client, "stats_of") if reads == "stats" else (_stats, "_written")
    read = getattr(module, function)

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGUSR1)
        assert client._open.events in _callbacks.events_by_number.values()  # the library has it still
        with pytest.raises(rlock.Closed):
            client.new_owner()
        return read(*arguments)

    monkeypatch.setattr(module, function, interrupted)
    try:
        assert client.stats().holds == 0 if reads == "stats" else url in rlock.metrics(client)
    finally:
        signal.signal(signal.SIGUSR1, before)
    until(lambda: client._open.events not in _callbacks.events_by_number.values(), "it is closed")


@pytest.fixture
def registry():
    pytest.importorskip("prometheus_client", reason="[  SKIPPED ] prometheus_client is not installed")
    import prometheus_client

    return prometheus_client.CollectorRegistry()


def test_a_collector_gives_prometheus_client_the_metrics(url, other, name, registry):
    import prometheus_client

    import rlock.prometheus

    client = rlock.Client(url)
    registry.register(rlock.prometheus.Collector(client, other))
    with client.fair(name):
        labels = {"server": url, "kind": "fair", "code": "OK"}
        assert registry.get_sample_value("rlock_takes_total", labels) == 1
        assert registry.get_sample_value("rlock_holds", {"server": url}) == 1
        assert registry.get_sample_value("rlock_wait_seconds_bucket", {"server": url, "le": "+Inf"}) == 1
        assert b"rlock_takes_total{" in prometheus_client.generate_latest(registry)
    client.close()  # the other one is left
    assert registry.get_sample_value("rlock_takes_total", labels) is None
    assert registry.get_sample_value("rlock_holds", {"server": url}) == 0


def test_a_collector_gains_clients_and_a_registry_takes_one_collector(servers, url, name, registry):
    import prometheus_client

    import rlock.prometheus

    collector = rlock.prometheus.Collector()
    registry.register(collector)
    another = servers.start()
    with rlock.Client(url) as one, rlock.Client(another) as two:
        collector.add(one, two)
        collector.add(one)  # it counts once
        for each, address in ((one, url), (two, another)):
            each.reentrant(name).lock().unlock()
            labels = {"server": address, "kind": "reentrant", "code": "OK"}
            assert registry.get_sample_value("rlock_takes_total", labels) == 1
        text = prometheus_client.generate_latest(registry).decode()
        assert text.count("# TYPE rlock_takes_total ") == 1
        with pytest.raises(ValueError, match="Duplicated"):  # its families would be in the page twice
            registry.register(rlock.prometheus.Collector(one))


def test_a_collector_keeps_no_client(url, registry):
    import rlock.prometheus

    client = rlock.Client(url)
    collector = rlock.prometheus.Collector(client)
    client.close()
    del client
    gc.collect()
    until(lambda: not collector._clients, "it is gone")
    assert all(not family.samples for family in collector.collect())
