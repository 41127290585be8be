"""Rules as a file of rules for Prometheus: the same limits, on the metrics that it scrapes.

A rule of n samples is one with ``for`` and ``keep_firing_for`` of n - 1 intervals. A rule of changes fires for a
minute. Prometheus takes a quantile from buckets, so it may differ from the exact one by a bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from strand.alerts.rules import ALL, ANY, READINGS, Rule
from strand.spans import span_text
from strand.stats import LEAST_ENDS

WINDOW: Final = "5m"
#: Changes of so long ago still fire.
_RECENT: Final = "1m"
_ENDED: Final = "strand_ended_total"
_DONE: Final = 'kind="task", outcome="done"'
_ENDS: Final = 'kind="task", outcome=~"done|failed|dead|expired"'


def query(rule: Rule) -> str:
    """Returns the PromQL expression that is true where the rule's reading is beyond its limit.

    An undefined reading has no sample there, so it is not beyond.
    """
    side = "<" if rule.is_low else ">"
    return f"{_reading(rule)} {side} {rule.limit:.15g}"


def _reading(rule: Rule) -> str:
    level = "" if rule.level in (ALL, ANY) else f'level="{rule.level}"'
    by = "by (instance)" if rule.level == ALL else "by (instance, level)"
    match rule.reading:
        case "cpu_usage" | "memory_usage":
            return f"strand_{rule.reading}_ratio"
        case "queue_depth":
            each = f"{by[:-1]}, kind)"
            return f"max {by} (sum {each} ({_of('strand_queue_depth', level)}))"
        case "wait_p95" | "wait_p99":
            buckets = f"rate({_of('strand_wait_seconds_bucket', level)}[{WINDOW}])"
            return f"max {by} (histogram_quantile(0.{rule.reading[-2:]}, sum {by[:-1]}, kind, le) ({buckets})))"
        case "success_rate":
            done = f"sum {by} (increase({_of(_ENDED, _DONE, level)}[{WINDOW}]))"
            ended = f"sum {by} (increase({_of(_ENDED, _ENDS, level)}[{WINDOW}]))"
            # Where nothing was done there is no such series yet.
            return f"({done} or 0 * {ended}) / ({ended} >= {LEAST_ENDS})"
        case "promotion_rate":
            started = f"sum {by} (increase(strand_started_total[{WINDOW}]))"
            return f"sum {by} (increase(strand_promotions_total[{WINDOW}])) / ({started} > 0)"
        case "starvation_count":
            return f"sum {by} (increase(strand_starved_total[{WINDOW}]))"
        case "tasks_promoted":
            return f"sum {by} (increase(strand_promotions_total[{_RECENT}]))"
        case "tasks_dead" | "tasks_failed" | "tasks_expired":
            ended = _of(_ENDED, 'kind="task"', f'outcome="{rule.reading.removeprefix("tasks_")}"')
            return f"sum {by} (increase({ended}[{_RECENT}]))"
        case other:
            raise AssertionError(other)


def _of(metric: str, *matchers: str) -> str:
    inner = ", ".join(filter(None, matchers))
    return f"{metric}{{{inner}}}" if inner else metric


def prometheus_rules(rules: Iterable[Rule]) -> dict[str, Any]:
    """Returns the contents of a file of rules: a group for each interval. Prometheus reads its JSON, which is YAML."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for rule in rules:
        holds = span_text(0 if READINGS[rule.reading].is_change else (rule.samples - 1) * rule.interval_ns)
        name = "".join(word.capitalize() for word in rule.name.split("_"))
        groups.setdefault(rule.interval_ns, []).append(
            {
                "alert": f"Strand{name}",
                "expr": query(rule),
                "for": holds,
                "keep_firing_for": holds,
                "labels": {"severity": rule.severity},
                "annotations": {
                    "summary": f"{READINGS[rule.reading].text}: beyond {rule.limit:.15g}",
                    "runbook": f"runbook.html#{rule.reading.replace('_', '-')}",
                },
            }
        )
    return {
        "groups": [
            {"name": f"strand-{span_text(interval)}", "interval": span_text(interval), "rules": each}
            for interval, each in sorted(groups.items())
        ]
    }
