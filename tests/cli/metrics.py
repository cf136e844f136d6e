# SPDX-License-Identifier: Apache-2.0
"""metrics.py <rlock> <docs/metrics.md>: Prometheus' own parsers read rlock ls --metrics, with the values of the locks that
cli/test_metrics.c has taken; the document names these metrics and labels, and no others."""
import re
import subprocess
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from prometheus_client.parser import text_string_to_metric_families as parse_older

rlock, document = sys.argv[1:]


def metrics_of(*words):
    text = subprocess.run([rlock, "ls", "--metrics", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    families = {family.name: family for family in parse(text)}
    assert len(families) == len(re.findall("^# TYPE ", text, re.M)), "a family comes twice"
    # node_exporter reads the text format before OpenMetrics: it has the same samples.
    assert samples(parse_older(text)) == samples(families.values())
    return families


def samples(families):
    return sorted((s.name, sorted(s.labels.items()), float(s.value)) for family in families for s in family.samples)


def value(families, name, **labels):
    found = [s.value for s in families[name].samples if labels.items() <= s.labels.items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def expect(families, name, n, **labels):
    got = value(families, name, **labels)
    assert got == n, f"{name} {labels}: {got}, not {n}"


every = metrics_of()
expect(every, "rlock_scan_complete", 1, pattern="*")
expect(every, "rlock_scan_locks", 1, mode="read")
expect(every, "rlock_scan_locks", 1, mode="write")
expect(every, "rlock_scan_locks", 2, mode="other")
expect(every, "rlock_scan_locks_without_lease", 1)
expect(every, "rlock_scan_free_lock_waiters", 1, state="dead")
expect(every, "rlock_scan_free_lock_waiters", 0, state="alive")
assert 1000 < value(every, "rlock_scan_longest_lease_seconds") <= 1200
assert 0 <= value(every, "rlock_scan_duration_seconds") < 60

# The label has what was searched for, whatever characters that has.
odd = 'x"\\*\n\udcff'
some = metrics_of("--prefix", "p\\", odd)
expect(some, "rlock_scan_locks", 0, mode="other", pattern='p\\x"\\*\\x0a\\xff')

# The document: | `name` | type | labels | …
section = open(document).read().split("\n## The locks on a server\n")[1].split("\n## ")[0]
documented = {}
for row in re.findall(r"^\| `(rlock_\w+)` \| (\w+) \|([^|]*)\|", section, re.M):
    documented[row[0]] = (row[1], set(re.findall(r"`(\w+)`", row[2])))
for name, family in every.items():
    labels = {label for sample in family.samples for label in sample.labels} - {"server", "pattern"}
    assert documented.get(name) == (family.type, labels), (name, family.type, labels, documented.get(name))
assert not documented.keys() - every.keys(), documented.keys() - every.keys()
