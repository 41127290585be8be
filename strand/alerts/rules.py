"""Rules that say when a reading of a run is bad enough to alert somebody.

A rule compares one reading with one limit, each ``interval_ns``. It alerts once that many ``samples`` in a row are
beyond the limit, and it recovers once as many in a row are not. So it behaves as a rule of Prometheus with ``for`` and
``keep_firing_for`` of (samples - 1) intervals. A rule of changes tells of each sample in which more were added than its
limit, as an event that does not recover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, Literal, get_args

from strand.brief import several
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import Kind, Number, Span, Whole
from strand.policies.policy import LEVELS
from strand.validate import Faults, path, shown, unknown

Severity = Literal["notice", "warning", "severe", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
#: Names that stand for all levels together, and for each of them by itself.
ALL: Final = "all"
ANY: Final = "any"

_S: Final = 1_000_000_000
_SHARE: Final = Number(0, 1)
_INTERVAL: Final = "collection_interval"
_SAMPLES: Final = Whole(1, 1000)


@dataclass(frozen=True, slots=True)
class Reading:
    """A number of a run that rules compare with their limits. Counts and shares are of the last 5 minutes.

    Attributes:
        text: The reading in words.
        unit: Unit of the reading and of its limits. A ``ratio`` is from 0 to 1.
        kind: The limits that there may be, as a configuration has them.
        by_level: Whether each level has its own.
        is_low: Whether a rule alerts below its limit, and not above it.
        is_change: Whether the reading counts since the start, and a rule alerts of what an interval adds.
        interval_ns: Time between two samples, unless a rule says otherwise.
        within: The table of a configuration that has its limits.
    """

    text: str
    unit: Literal["ratio", "seconds", "waiting", "tasks"]
    kind: Kind = _SHARE
    by_level: bool = False
    is_low: bool = False
    is_change: bool = False
    interval_ns: int = 30 * _S
    within: str = "queue_metrics"


#: By name.
READINGS: Final[Mapping[str, Reading]] = {
    "cpu_usage": Reading(
        "CPU time in use, of what the tightest limit or the machine allows", "ratio", interval_ns=10 * _S, within=""
    ),
    "memory_usage": Reading(
        "memory in use, of what the tightest limit or the machine allows", "ratio", interval_ns=10 * _S, within=""
    ),
    "queue_depth": Reading("strands that wait for a worker, or tasks that wait", "waiting", Whole(), by_level=True),
    "wait_p95": Reading("wait that 95 % of what started had at most", "seconds", Span(), by_level=True),
    "wait_p99": Reading("wait that 99 % of what started had at most", "seconds", Span(), by_level=True),
    "success_rate": Reading("tasks done, of those done, failed, dead or expired", "ratio", by_level=True, is_low=True),
    "promotion_rate": Reading("promotions, of starts", "ratio"),
    "starvation_count": Reading("tasks that waited over twice the threshold of their level", "tasks", Whole()),
    **{
        f"tasks_{end}": Reading(text, "tasks", Whole(), is_change=True, interval_ns=10 * _S)
        for end, text in {
            "dead": "tasks that became dead letters",
            "failed": "tasks that failed",
            "expired": "tasks that were not needed any more, or whose deadline passed",
            "promoted": "rises of tasks and strands to a higher level",
        }.items()
    },
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Limit of a reading.

    Attributes:
        reading: A name of ``READINGS``.
        severity: Severity of its alerts.
        limit: The limit, in the reading's unit. The reading alerts above it; ``success_rate`` below it.
        level: The level whose reading it is; ``"all"``: of all together; ``"any"``: each level by itself. A reading
            without levels has ``"all"``.
        interval_ns: Time between two samples.
        samples: How many samples in a row alert, and how many recover.
    """

    reading: str
    severity: Severity
    limit: float
    level: str = ALL
    interval_ns: int = 30 * _S
    samples: int = 3

    @property
    def name(self) -> str:
        """Name of the rule: ``queue_depth_immediate_severe``."""
        level = "" if self.level == ALL else f"_{self.level}"
        return f"{self.reading}{level}_{self.severity}"

    @property
    def is_low(self) -> bool:
        return READINGS[self.reading].is_low

    def is_beyond(self, value: float | None) -> bool:
        """Returns whether a reading is beyond the limit. One that is undefined is not."""
        return value is not None and (value < self.limit if self.is_low else value > self.limit)

    def text(self, value: float | None, level: str) -> str:
        """Returns a sentence for people: the reading of a level, its value and the limit."""
        of = "" if level == ALL else f" of {level}"
        side = "below" if self.is_low else "above"
        if READINGS[self.reading].is_change:
            return f"{self.reading}{of} grew by {self._shown(value)}; it alerts {side} {self._shown(self.limit)}"
        return f"{self.reading}{of} is {self._shown(value)}; it alerts {side} {self._shown(self.limit)}"

    def _shown(self, value: float | None) -> str:
        if value is None:
            return "undefined"
        match READINGS[self.reading].unit:
            case "ratio":
                return f"{value * 100:.6g} %"
            case "seconds":
                return f"{value:,.6g} s"
            case "tasks":
                return several(round(value), "task")
            case unit:
                return f"{value:,.0f} {unit}"


def _default(reading: str, level: str = ALL, **limits: float) -> Iterator[Rule]:
    for severity in SEVERITIES:
        if severity in limits:
            yield Rule(reading, severity, limits[severity], level, READINGS[reading].interval_ns)


#: The rules where a configuration says nothing of a reading.
DEFAULTS: Final[tuple[Rule, ...]] = (
    *_default("cpu_usage", warning=0.75, critical=0.90),
    *_default("memory_usage", warning=0.70, critical=0.85),
    *_default("queue_depth", ANY, warning=1000),
    *_default("queue_depth", "immediate", severe=100),
    *_default("wait_p95", "normal", warning=120),
    *_default("wait_p99", "high", severe=15),
    *_default("success_rate", warning=0.995),
    *_default("success_rate", "immediate", critical=0.999),
    *_default("success_rate", "low", notice=0.98),
    *_default("promotion_rate", warning=0.10, critical=0.25),
    *_default("starvation_count", warning=5, critical=20),
)


def rules_of(table: Any, where: str = "monitoring", problems: Faults | None = None) -> tuple[Rule, ...]:
    """Returns the rules of a table ``monitoring`` of a configuration, in the order of ``READINGS``.

    A reading that the table names has the limits that stand there, and no others; all others have their defaults.

    Args:
        table: ``cpu_usage`` and ``memory_usage`` have limits by severity; in ``queue_metrics``, ``promotion_rate``,
            ``starvation_count`` and the changes of tasks have them too. Each other reading there has tables by level,
            ``any`` and ``all``. ``collection_interval`` stands beside limits, and ``samples`` at the top.
        where: Path of the table, for errors.
        problems: Gets what is wrong; None: it is raised.

    Raises:
        ConfigurationError: If a key is unknown, a limit is out of its range, or a critical one is reached before
            another.
    """
    faults = Faults() if problems is None else problems
    found = {reading: [rule for rule in DEFAULTS if rule.reading == reading] for reading in READINGS}
    samples = 3
    outer = [name for name, reading in READINGS.items() if not reading.within]
    for name, part in _items(table, where, faults):
        at = _at(where, name)
        if name == "samples":
            with faults.kept():
                samples = _SAMPLES.read(at, part)
        elif name == "queue_metrics":
            for reading, limits in _items(part, at, faults):
                if READINGS[reading].within if reading in READINGS else False:
                    found[reading] = list(_rules(reading, limits, _at(at, reading), faults))
                else:
                    inner = [each for each, one in READINGS.items() if one.within]
                    faults.append(ConfigurationError(_at(at, reading), unknown(reading, f"table of {at}", inner)))
        elif name in outer:
            found[name] = list(_rules(name, part, at, faults))
        else:
            known = [*outer, "queue_metrics", "samples"]
            faults.append(ConfigurationError(at, unknown(name, f"key of {where}", known)))
    if problems is None:
        faults.end()
    return tuple(replace(rule, samples=samples) for rules in found.values() for rule in rules)


def _at(where: str, name: str) -> str:
    return f"{where}.{path(name)}"


def _items(table: Any, where: str, faults: Faults) -> list[tuple[str, Any]]:
    if isinstance(table, Mapping):
        return [(name if isinstance(name, str) else shown(name), part) for name, part in table.items()]
    faults.append(ConfigurationError(where, f"{shown(table)} is not a table of keys"))
    return []


def _rules(reading: str, table: Any, where: str, faults: Faults) -> Iterator[Rule]:
    if not READINGS[reading].by_level:
        yield from _limits(reading, ALL, table, where, faults)
        return
    levels = (ANY, ALL, *LEVELS)
    for level, limits in _items(table, where, faults):
        at = _at(where, level)
        if level in levels:
            yield from _limits(reading, level, limits, at, faults)
        else:
            faults.append(ConfigurationError(at, unknown(level, "level", levels)))


def _limits(reading: str, level: str, table: Any, where: str, faults: Faults) -> Iterator[Rule]:
    one = READINGS[reading]
    limits: dict[str, float] = {}
    interval_ns = one.interval_ns
    for key, value in _items(table, where, faults):
        at = _at(where, key)
        if key != _INTERVAL and key not in SEVERITIES:
            faults.append(ConfigurationError(at, unknown(key, f"key of {where}", (*SEVERITIES, _INTERVAL))))
            continue
        kind = Span() if key == _INTERVAL else one.kind
        if kind.takes_spans and not isinstance(value, str):
            reason = f"{shown(value)} is not text with a unit, such as '30s' or '250us'"
            faults.append(ConfigurationError(at, reason))
            continue
        with faults.kept():
            read = kind.read(at, value)
            if key == _INTERVAL:
                interval_ns = read
            else:
                limits[key] = read / _S if kind.takes_spans else read
    given = [severity for severity in SEVERITIES if severity in limits]
    for lower, higher in pairwise(given):
        if (limits[higher] > limits[lower]) if one.is_low else (limits[higher] < limits[lower]):
            side = "above" if one.is_low else "below"
            reason = f"{limits[higher]:g} is {side} {lower}, which is {limits[lower]:g}"
            faults.append(ConfigurationError(_at(where, higher), reason))
    for severity in given:
        yield Rule(reading, severity, limits[severity], level, interval_ns)
