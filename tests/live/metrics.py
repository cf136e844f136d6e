# SPDX-License-Identifier: Apache-2.0
"""metrics.py <metrics_text> <docs/metrics.md>: Prometheus' own parsers read the metrics of rlock, with the values that
the program's calls have; and the document names these metrics and labels, and no others."""
import re
import subprocess
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from prometheus_client.parser import text_string_to_metric_families as parse_older

text = subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE, text=True).stdout
families = {family.name: family for family in parse(text)}
assert len(families) == len(re.findall("^# TYPE ", text, re.M)), "a family comes twice"

# The text format before OpenMetrics has the same samples.
def samples(several):
    return sorted((s.name, sorted(s.labels.items()), float(s.value)) for family in several for s in family.samples)


assert samples(parse_older(text)) == samples(families.values())

servers = sorted({sample.labels["server"] for family in families.values() for sample in family.samples})
assert len(servers) == 2, servers


def value(name, of, **labels):
    """The value of the one sample with these labels, at the server that has the locks of that kind."""
    family = families[re.sub("_(total|count|sum|bucket)$", "", name)]
    takes = families["rlock_takes"].samples
    server = next(s.labels["server"] for s in takes if s.labels["kind"] == of)
    found = [s.value for s in family.samples if s.name == name and s.labels == {"server": server, **labels}]
    assert len(found) == 1, (name, labels, found)
    return found[0]


for kind in "reentrant", "fair":
    expected = {
        ("rlock_holds",): 1,
        ("rlock_waiting_calls",): 0,
        ("rlock_unreleased_holds",): 0,
        ("rlock_takes_total", "kind", kind, "code", "OK"): 5,
        ("rlock_takes_total", "kind", kind, "code", "EBUSY"): 1,
        ("rlock_unlocks_total", "kind", kind, "code", "OK"): 3,
        ("rlock_unlocks_total", "kind", kind, "code", "ENOTOWNER"): 1,
        ("rlock_unlocks_total", "kind", kind, "code", "ELOST"): 1,
        ("rlock_extends_total", "code", "OK"): 1,
        ("rlock_force_unlocks_total", "code", "OK"): 1,
        ("rlock_inspects_total", "code", "OK"): 1,
        ("rlock_losses_total", "reason", "forced"): 1,
        ("rlock_losses_total", "reason", "expired"): 0,
        ("rlock_renewals_total", "result", "failed"): 0,
        ("rlock_connects_total", "result", "reconnected"): 0,
        ("rlock_disconnects_total",): 0,
        ("rlock_passes_total",): 0,
        ("rlock_wait_seconds_count",): 5,
        ("rlock_hold_seconds_count",): 4,
        ("rlock_hold_seconds_bucket", "le", "+Inf"): 4,
    }
    for (name, *labels), n in expected.items():
        got = value(name, kind, **dict(zip(labels[::2], labels[1::2])))
        assert got == n, f"{name} {labels}: {got}, not {n}"
    assert 0 < value("rlock_reply_seconds_count", kind) <= value("rlock_requests_total", kind)
    assert 0 < value("rlock_reply_seconds_sum", kind) < 60

clients = sorted(sample.value for sample in families["rlock_clients"].samples)
assert clients == [1, 2], clients  # those of one server are added up

# The document: | `name` | type | labels | …
section = open(sys.argv[2]).read().split("\n## All metrics\n")[1].split("\n## ")[0]
documented = {}
for row in re.findall(r"^\| `(rlock_\w+)` \| (\w+) \|([^|]*)\|", section, re.M):
    documented[re.sub("_total$", "", row[0])] = (row[1], set(re.findall(r"`(\w+)`", row[2])))
for name, family in families.items():
    labels = {label for sample in family.samples for label in sample.labels} - {"server", "le"}
    assert documented.get(name) == (family.type, labels), (name, family.type, labels, documented.get(name))
assert not documented.keys() - families.keys(), documented.keys() - families.keys()
