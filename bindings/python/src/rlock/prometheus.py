# SPDX-License-Identifier: Apache-2.0
"""A collector for the package prometheus_client, which this module alone needs."""

from __future__ import annotations

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

    prometheus_client.REGISTRY.register(rlock.prometheus.Collector(client))
    """

    def __init__(self, *clients: BaseClient[Any]) -> None:
        self._clients: weakref.WeakSet[BaseClient[Any]] = weakref.WeakSet(clients)

    def collect(self) -> Iterable[Metric]:
        yield from _families(metrics_of_the_open(list(self._clients)))
