# SPDX-License-Identifier: Apache-2.0
"""A collector for the package prometheus_client, which this module alone needs."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector as _Collector

from ._client import BaseClient
from ._stats import metrics_of_the_open

__all__ = ["Collector"]

_families: Callable[[str], Iterable[Metric]] = text_string_to_metric_families


class Collector(_Collector):
    """Collects the metrics of clients: docs/metrics.md. It leaves out clients that are closed, and keeps none.

    A program registers one collector, and adds its clients to it. A registry refuses a second collector, because the
    page would have each metric twice.

    collector = rlock.prometheus.Collector(client)
    prometheus_client.REGISTRY.register(collector)
    """

    def __init__(self, *clients: BaseClient[Any]) -> None:
        self._mutex = threading.RLock()  # a signal handler may come here again
        self._clients: weakref.WeakSet[BaseClient[Any]] = weakref.WeakSet(clients)

    def add(self, *clients: BaseClient[Any]) -> None:
        """Collects the metrics of these clients too. Any thread may call it."""
        with self._mutex:  # a new set, because another thread may be reading the old one
            self._clients = weakref.WeakSet([*self._clients, *clients])

    def describe(self) -> Iterable[Metric]:
        """All metrics, without values. The registry learns the names from them."""
        return _families(metrics_of_the_open([]))

    def collect(self) -> Iterable[Metric]:
        yield from _families(metrics_of_the_open(list(self._clients)))
