"""The preset that lets letters answer themselves."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import strand
from strand.dispatch import guarding
from strand.dispatch.guard import Reading
from strand.errors import ConfigurationError, TaskExpired
from strand.policies.policy import Policy

pytestmark = pytest.mark.python

S = 10**9


class Machine:
    """One that is short of nothing."""

    sources = dict.fromkeys(("cpu", "memory", "io"), "a test")
    lacks_io = False

    def read(self) -> Reading:
        return Reading(0.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "Meters", lambda guard: Machine())


def policy_of(scheduler: strand.Scheduler) -> Policy:
    return scheduler._core.ranks.policy


def test_it_is_a_scheduler_with_levels_a_hold_retries_and_a_guard() -> None:
    with strand.napoleon(workers=1) as scheduler:
        assert isinstance(scheduler, strand.Scheduler)
        assert policy_of(scheduler) == strand.Levels(hold={"low": "30s"})
        assert policy_of(scheduler).timeouts_ns == (0, 30 * S, 60 * S, 300 * S, 1800 * S)  # type: ignore[attr-defined]
        assert scheduler.guard_statistics() is not None
        assert scheduler._retry == strand.RetryPolicy()
        assert scheduler.dead_letters.maximum == 1000
        assert scheduler.options(priority="low").submit(int).state == "held"
        assert scheduler.submit(int).result(60) == 0
        scheduler.shutdown(cancel_futures=True)


def test_letters_that_answer_themselves_are_never_opened() -> None:
    answered = threading.Event()
    opened: list[str] = []
    policy = strand.Levels(hold={"low": "50ms"})
    with strand.napoleon(workers=1, policy=policy) as scheduler:
        low = scheduler.options(priority="low", expire_if=answered.is_set).submit(opened.append, "answered")
        needed = scheduler.options(priority="low", expire_if=lambda: False).submit(opened.append, "needed")
        answered.set()
        with pytest.raises(TaskExpired):
            low.result(60)
        needed.result(60)
    assert opened == ["needed"]


def test_a_task_that_goes_on_failing_becomes_a_dead_letter() -> None:
    retry = strand.RetryPolicy(max_retries=1, base_delay="1ms", max_delay="1ms")
    with strand.napoleon(workers=1, retry=retry) as scheduler:
        assert scheduler.submit(divmod, 1, 0).exception(60)
        [letter] = scheduler.dead_letters
        assert (letter.function, letter.attempts) == (divmod, 2)


def test_a_file_gives_what_it_says_and_arguments_win(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[policy]\nname = "levels"\n[priorities]\nlow_timeout = "1h"\n[worker_pool]\nmax_workers = 3\n'
        "[retry_policy]\nmax_attempts = 7\n[resource_limits]\nmemory_threshold = 0.5\n"
    )
    with strand.napoleon(file) as scheduler:
        assert policy_of(scheduler) == strand.Levels({"low": "1h"}, hold={"low": "30s"})
        assert scheduler.workers == 3
        assert scheduler._retry is not None
        assert scheduler._retry.max_retries == 6
    given = strand.Levels(hold={"low": "1ms"})
    with strand.napoleon(file, policy=given, workers=1, guard=None) as scheduler:
        assert policy_of(scheduler) == given
        assert scheduler.workers == 1
        assert scheduler.guard_statistics() is None
    held = strand.Config(policy=strand.Levels(hold={"normal": "2s"}))
    for config, policy in ((held, held.policy), (strand.Config(), strand.Levels(hold={"low": "30s"}))):
        with strand.napoleon(config) as scheduler:
            assert policy_of(scheduler) == policy
            assert scheduler.guard_statistics() is not None


def test_fifo_is_refused_where_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "named.toml").write_text('[policy]\nname = "fifo"\n')
    with pytest.raises(ConfigurationError, match="policy: Fifo has no levels to hold: name levels"):
        strand.napoleon(tmp_path / "named.toml")
    given = strand.Levels(hold={"low": "1ms"})
    with strand.napoleon(tmp_path / "named.toml", policy=given) as scheduler:
        assert policy_of(scheduler) == given
    (tmp_path / "silent.toml").write_text("[worker_pool]\nmax_workers = 1\n")
    with strand.napoleon(tmp_path / "silent.toml") as scheduler:
        assert policy_of(scheduler) == strand.Levels(hold={"low": "30s"})
