"""The watch over a run: it takes samples, holds them against rules, and tells of alerts.

A ``Watch`` is what rules make of samples, without a thread or a clock. ``Alerts`` runs one in a thread, and passes each
alert to the log, to a callback and to a webhook.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from strand.alerts.rules import ALL, ANY, DEFAULTS, READINGS, Rule, Severity
from strand.alerts.webhook import Webhook
from strand.background import Rounds
from strand.fixed import dataclass
from strand.logs import Bound, Event
from strand.validate import whole

if TYPE_CHECKING:
    from strand.tasks.tasks import Tasks

#: Readings by name and level; None: a reading is undefined now.
Samples = Mapping[tuple[str, str], float | None]
State = Literal["firing", "recovered", "event"]

_LOGGER: Final = ".alerts"
#: At the level of its severity, and each of them: rules and ``tell`` have bounds of their own.
_ALERT: Final = Event("alert", _LOGGER, "WARNING", "%(rule)s %(state)s: %(text)s", "alert", most=None)
_CALLBACK_FAILED: Final = Event("alert.on_alert_failed", _LOGGER, "ERROR", "on_alert raised for %(rule)s")
_NO_READINGS: Final = Event("alert.no_readings", _LOGGER, "ERROR", "readings are undefined now")
_LOG_LEVELS: Final[Mapping[Severity, int]] = {
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "severe": logging.ERROR,
    "critical": logging.CRITICAL,
}


@dataclass(frozen=True, slots=True)
class Alert:
    """Message that a rule fires, or has recovered.

    Attributes:
        id: Identifier, the same in each delivery.
        state: ``"firing"``: its reading has been beyond the limit for as many samples as the rule says.
            ``"recovered"``: it has not been for as many. ``"event"``: something happened, which does not recover.
        rule: Name of the rule, or of the event.
        level: The level whose reading it is; ``"all"``: of all together.
        severity: Severity of the rule.
        value: The reading in its unit; None: undefined.
        limit: The rule's limit; None: an event has none.
        text: A sentence for people.
        time_ns: Time of the sample, in ns since 1970-01-01 UTC.
    """

    state: State
    rule: str
    level: str
    severity: Severity
    value: float | None
    limit: float | None
    text: str
    time_ns: int
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them; ``time`` is ISO 8601 in UTC."""
        at = dt.datetime.fromtimestamp(self.time_ns // 1_000_000_000, dt.UTC)
        found = {
            name: getattr(self, name) for name in ("id", "state", "rule", "level", "severity", "value", "limit", "text")
        }
        return found | {"time": f"{at:%Y-%m-%dT%H:%M:%S}.{self.time_ns % 1_000_000_000:09d}Z"}


@dataclass(slots=True)
class _Run:
    """Samples of a rule and a level in a row that say the same: ``count``; and whether it fires."""

    fires: bool = False
    count: int = 0


class Watch:
    """State of rules over the samples so far."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._runs: dict[tuple[Rule, str], _Run] = {}
        #: Counts of the last sample, of rules of changes.
        self._counts: dict[Rule, float] = {}

    def sample(self, rule: Rule, samples: Samples, time_ns: int) -> list[Alert]:
        """Holds samples of one moment against a rule, and returns its alerts: at most one for each level."""
        if READINGS[rule.reading].is_change:
            return self._changes(rule, samples.get((rule.reading, rule.level)), time_ns)
        levels = [rule.level]
        if rule.level == ANY:
            named = {level for reading, level in samples if reading == rule.reading and level != ALL}
            levels = sorted(named | {level for one, level in self._runs if one == rule})
        found = []
        for level in levels:
            value = samples.get((rule.reading, level))
            run = self._runs.setdefault((rule, level), _Run())
            if rule.is_beyond(value) == run.fires:
                run.count = 0
                continue
            run.count += 1
            if run.count == rule.samples:
                run.fires, run.count = not run.fires, 0
                state: State = "firing" if run.fires else "recovered"
                text = rule.text(value, level)
                found.append(Alert(state, rule.name, level, rule.severity, value, rule.limit, text, time_ns))
        return found

    def _changes(self, rule: Rule, count: float | None, time_ns: int) -> list[Alert]:
        """Tells of what was added since the last sample that was defined; the first one adds nothing."""
        if count is None:
            return []
        added = count - self._counts.get(rule, count)
        self._counts[rule] = count
        if not rule.is_beyond(added):
            return []
        text = rule.text(added, rule.level)
        return [Alert("event", rule.name, rule.level, rule.severity, added, rule.limit, text, time_ns)]

    @property
    def firing(self) -> list[tuple[Rule, str]]:
        """The rules that fire now, each with its level."""
        return [at for at, run in self._runs.items() if run.fires]


class Alerts:
    """A watch in a thread of its own, from ``start`` or the begin of a ``with`` block to ``stop`` or its end.

    Args:
        read: Returns the readings of now; see ``Samples``. It is called in the thread. If it raises OSError or a
            StrandError, the log says so, and the samples of that moment are undefined.
        rules: The rules, ``DEFAULTS`` unless given.
        on_alert: Called with each alert, in the thread; with that of a system error in the worker that met it. If it
            raises, the log says so.
        webhook: Gets each alert.
        tasks: The scheduler, or the ``tasks`` of a dispatcher, of this process whose system errors alert at once; None:
            none do by themselves.
        system_errors: How many of these alerts may come within a minute. Others are left out, and the next one says
            how many.
    """

    def __init__(
        self,
        read: Callable[[], Samples],
        rules: Iterable[Rule] = DEFAULTS,
        *,
        on_alert: Callable[[Alert], object] | None = None,
        webhook: Webhook | None = None,
        tasks: Tasks | None = None,
        system_errors: int = 10,
    ) -> None:
        self._watch = Watch(rules)
        self._tasks = tasks
        self._system_errors = Bound(whole("system_errors", system_errors, 1), 60.0)
        self._read, self._on_alert, self._webhook = read, on_alert, webhook
        self._due: dict[Rule, int] = {}
        self._rounds = Rounds(self._look, 0, "strand alerts")

    def __enter__(self) -> Alerts:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Takes the first samples one interval from now. Changes count from now on."""
        if changes := [rule for rule in self._watch.rules if READINGS[rule.reading].is_change]:
            counts = self._samples()
            for rule in changes:
                self._watch.sample(rule, counts, time.time_ns())
        now = time.monotonic_ns()
        self._due = {rule: now + rule.interval_ns for rule in self._watch.rules}
        if self._webhook is not None:
            self._webhook.start()
        self._rounds.start()
        if self._tasks is not None:
            self._tasks.add_alert(self.system_error)

    def stop(self) -> None:
        """Takes no more samples, and waits for the webhook as its ``stop`` does."""
        if self._tasks is not None:
            self._tasks.remove_alert(self.system_error)
        self._rounds.end()
        if self._webhook is not None:
            self._webhook.stop()

    @property
    def firing(self) -> list[tuple[Rule, str]]:
        """The rules that fire now, each with its level."""
        return self._watch.firing

    def tell(self, alert: Alert) -> None:
        """Passes an alert on, as those of rules are. Any thread may call it."""
        told = {"rule": alert.rule, "state": alert.state, "text": alert.text, "alert": alert.as_dict()}
        _ALERT(at=_LOG_LEVELS[alert.severity], **told)
        if self._webhook is not None:
            self._webhook.put(alert.as_dict())
        if self._on_alert is not None:
            try:
                self._on_alert(alert)
            except Exception:  # of the user's function: the watch goes on
                _CALLBACK_FAILED(rule=alert.rule, exc_info=True)

    def system_error(self, task: Any, error: BaseException) -> None:
        """Passes on at once that a task met a system error. It is called so for ``tasks``, and may be ``on_alert`` of a
        ``strand.RetryPolicy`` of others. The error's text, which may have secrets, is not told."""
        if (left_out := self._system_errors.take()) is None:
            return
        text = f"task {task.id} met {type(error).__name__} at attempt {task.attempts}"
        if left_out:
            text += f" ({left_out:,} more were left out since the last one)"
        self.tell(Alert("event", "system_error", ALL, "severe", None, None, text, time.time_ns()))

    def _look(self, _: bool) -> float | None:
        now = time.monotonic_ns()
        due = [rule for rule, at in self._due.items() if at <= now]
        if due:
            samples, time_ns = self._samples(), time.time_ns()
            for rule in due:
                # A round that came late takes one sample, not all that it missed.
                late = (now - self._due[rule]) // rule.interval_ns
                self._due[rule] += (late + 1) * rule.interval_ns
                for alert in self._watch.sample(rule, samples, time_ns):
                    self.tell(alert)
        return max(0.0, (min(self._due.values()) - time.monotonic_ns()) / 1e9) if self._due else None

    def _samples(self) -> Samples:
        try:
            return self._read()
        except Exception:  # a run that has ended, a file that cannot be read: the next round may do better
            _NO_READINGS(exc_info=True)
            return {}
