"""strand.Config: from a file to the dispatcher."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import strand
from strand.config.configuration import DEFAULT, FOLLOWS, Config, check_file
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.policies.policy import Policy
from strand.replaying.options import asked_of
from strand.replaying.replay import replay_by

pytestmark = pytest.mark.python

FILE = """
[policy]
name = "levels"
since = "created"
[priorities]
low_timeout = "5ms"
symbols = {AAAHD = "immediate", "*" = "low"}
[worker_pool]
max_workers = 1
queue_capacity = 1000
[marks]
AAAHD = "io"
[resource_limits]
cpu_threshold = 0.5
io_queue_threshold = 7
[retry_policy]
max_attempts = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "strand.toml").write_text(FILE)
    return tmp_path / "strand.toml"


def test_a_file_says_what_the_dispatcher_is_given(file: Path) -> None:
    config = strand.Config.load(file)
    assert config.dispatcher_options() == {
        "policy": strand.Levels({"low": "5ms"}, since="created"),
        "retry": strand.RetryPolicy(max_retries=2, base_delay="100ms", max_delay="30s", jitter=0.1),
        "priorities": {"AAAHD": "immediate", "*": "low"},
        "capacity_ticks": 1000,
        "workers": 1,
        "guard": strand.Guard(cpu=0.5, memory=None, io_queue=7),
        "marks": {"AAAHD": "io"},
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[policy]\nname = "levels"\n[priorities.symbols]\n"BRK.B" = "high"', 'priorities.symbols."BRK.B"'),
        ('[policy]\nname = "fair"\n[groups]\nA = "x"', "groups.A"),
        ('[policy]\nname = "levels"\n[resource_limits]\ncpu_threshold = 0.5\n[marks]\nA = "io"', "marks.A"),
        ("[worker_pool]\npython_workers = 1", "worker_pool.python_workers"),
        ('[worker_pool]\non_full = "block"', "worker_pool.on_full"),
    ],
)
def test_a_key_for_dispatchers_alone_is_an_error_of_a_scheduler(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    config = strand.Config.load(tmp_path / "a.toml")
    config.dispatcher_options()
    with pytest.raises(ConfigurationError, match=rf"a\.toml: {re.escape(key)}: .*leave it out"):
        strand.Scheduler(config=config)
    with pytest.raises(ConfigurationError, match=re.escape(key)):
        strand.napoleon(config=config)


def test_a_scheduler_takes_what_is_its_own_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '[worker_pool]\nmax_workers = 4\nmin_workers = 1\nqueue_capacity = 9\non_full = "raise"'
    )
    config = strand.Config.load(tmp_path / "a.toml")
    assert config.scheduler_options() == {"workers": 4, "min_workers": 1, "max_queue": 9}
    with strand.Scheduler(config=config) as scheduler:
        found = scheduler.active_statistics()
    assert found is not None
    assert (found.least, found.most) == (1, 4)


def test_what_a_file_says_reaches_the_engine(file: Path) -> None:
    made: list[Dispatcher] = []

    def make(*args: Any, **options: Any) -> Dispatcher:
        made.append(Dispatcher(*args, **options))
        return made[0]

    options = Config.load(file).dispatcher_options()
    asked = asked_of({"feed_options": {"date": SAMPLE_DATE}, **options})
    result = replay_by(make, sample_path(), "count", None, asked)
    [dispatcher] = made
    engine = dispatcher._engine.config
    assert (engine.n_workers, engine.capacity_ticks) == (1, 1000)
    assert engine.policy.name == "levels"
    assert engine.policy.options == {"timeout_ns": (0, *[5_000_000] * 4), "since_listed": True}
    levels = dispatcher._routing._priorities
    table = dispatcher.symbols
    assert levels[table.index("AAAHD")] == 0
    assert set(levels.tolist()) == {0, 4}
    marks = dispatcher._routing._marks
    assert marks.nonzero()[0].tolist() == [table.index("AAAHD")]
    assert result.statistics.guard.keys() == {"cpu", "memory", "io"}
    plain_loop = strand.replay(sample_path(), "count", feed_options={"date": SAMPLE_DATE}, workers=0)
    assert result.fingerprint == plain_loop.fingerprint


def test_groups_of_a_file_reach_the_dispatcher(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('policy = {name = "fair", weights = {x = 2}}\ngroups = {A = "x", "*" = "rest"}\n')
    options = Config.load(tmp_path / "a.toml").dispatcher_options()
    assert options["policy"] == strand.Fair(weights={"x": 2})
    with Dispatcher(["A", "B"], "count", **options) as dispatcher:
        groups = dispatcher._routing.groups
        assert groups is not None
        assert groups.names() == ["x", "rest"]


def test_a_config_is_frozen_and_has_the_defaults() -> None:
    config = Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.policy = strand.Levels()  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.priorities["A"] = "low"  # type: ignore[index]
    with pytest.raises(TypeError):
        config.groups["A"] = "x"  # type: ignore[index]
    assert config.dispatcher_options() == {
        "policy": strand.Fifo(),
        "priorities": {},
        "capacity_ticks": 65_536,
    }
    assert config.guard is None
    assert config.scheduler_options() == {}, "a file that says nothing changes nothing"
    for limits in (strand.Limits(total_capacity_ticks=7), strand.Limits(capacity_ticks=7)):
        assert Config(limits=limits).scheduler_options()["max_queue"] == 7


def test_entries_tell_where_each_value_comes_from(file: Path) -> None:
    found = {entry.key: (entry.value, entry.origin) for entry in Config.load(file).entries()}
    assert found["policy.name"] == ("levels", str(file))
    assert found["priorities.low_timeout"] == ("5ms", str(file))
    assert found["priorities.high_timeout"] == ("5ms", FOLLOWS)
    assert found["priorities.symbols.*"] == ("low", str(file))
    assert found["marks.AAAHD"] == ("io", str(file))
    assert found["retry_policy.multiplier"] == (2.0, DEFAULT)
    assert found["resource_limits.memory_threshold"] == (None, DEFAULT)
    assert {entry.origin for entry in Config().entries()} == {DEFAULT}
    workers = next(entry.value for entry in Config().entries() if entry.key == "worker_pool.max_workers")
    with Dispatcher(1, "count") as dispatcher:
        assert dispatcher.workers == workers


def test_all_that_is_wrong_is_told_by_check_and_the_first_by_load(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[polcy]\n[policy]\nname = "levels"\nsince = 1\n[worker_pool]\nmax_workers = "all"\n')
    _, problems = check_file(file)
    assert [problem.field for problem in problems] == ["polcy", "policy.since", "worker_pool.max_workers"]
    with pytest.raises(ConfigurationError) as error:
        Config.load(file)
    assert str(error.value).startswith(f"{file}: polcy: did you mean policy?")
    assert str(error.value).endswith(f"(and 2 more: strand config check {file})")
    assert [each.field for each in error.value.each()] == [problem.field for problem in problems]


def test_other_values_win_and_it_is_told_of_what(file: Path) -> None:
    config = Config.load(file)
    found, lines = config.overridden(
        {
            ("worker_pool", "max_workers"): (2, "--workers 2"),
            ("priorities", "high_timeout"): ("1ms", "--timeout high=1ms"),
            ("priorities", "low_timeout"): ("5ms", "--timeout low=5ms"),
        }
    )
    assert lines == [f"worker_pool.max_workers = 1 of {file} is not used: --workers 2 replaces it"]
    assert found.policy == strand.Levels({"low": "5ms", "high": "1ms"}, since="created")
    assert found.dispatcher_options()["workers"] == 2
    origins = {entry.key: entry.origin for entry in found.entries()}
    assert origins["worker_pool.max_workers"] == "--workers 2"
    assert origins["worker_pool.queue_capacity"] == str(file)
    assert config.pool.workers == 1
    with pytest.raises(ConfigurationError, match=r"^--timeout low=5 x: priorities.low_timeout: '5 x' is no"):
        config.overridden({("priorities", "low_timeout"): ("5 x", "--timeout low=5 x")})


@pytest.mark.parametrize("policy", [strand.Aging(), strand.Levels()])
def test_a_policy_takes_the_place_of_all_that_orders(tmp_path: Path, policy: Policy) -> None:
    """Also where the file has the same one."""
    (tmp_path / "a.toml").write_text(re.sub(r"(?s)\[marks\].*", "", FILE))
    config, name = Config.load(tmp_path / "a.toml"), str(policy.core_name)
    found, lines = config.overridden({("policy", "name"): (name, f"--policy {name}")})
    assert (found.policy, found.priorities) == (policy, {})
    keys = ["policy.since", "priorities.low_timeout", "priorities.symbols.AAAHD", "priorities.symbols.*"]
    assert [line.split(" ")[0] for line in lines] == [*(["policy.name"] if name != "levels" else []), *keys]
    assert found.limits.capacity_ticks == 1000


def test_groups_are_set_aside_with_their_policy(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('policy.name = "fair"\ngroups.A = "x"\n')
    found, lines = Config.load(tmp_path / "a.toml").overridden({("policy", "name"): ("levels", "--policy levels")})
    assert (found.policy, found.groups) == (strand.Levels(), {})
    assert [line.split(" ")[0] for line in lines] == ["policy.name", "groups.A"]


def test_limits_stay_and_are_refused_under_a_policy_without_levels(file: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^resource_limits: Aging has no levels .* policy.name = 'levels'"):
        Config.load(file).overridden({("policy", "name"): ("aging", "--policy aging")})


OPERATORS = """
worker_pool: {max_workers: 16, queue_capacity: 10000}
priorities: {immediate_timeout: 0s, high_timeout: 30s, retry_timeout: 60s, normal_timeout: 300s, low_timeout: 1800s}
retry_policy: {max_retries: 3, base_delay: 1s, max_delay: 60s, multiplier: 2.0}
resource_limits: {cpu_threshold: 0.8, memory_threshold: 0.75, io_queue_threshold: 100}
"""
MONITORING = """
monitoring:
  cpu_usage: {warning: 0.75, critical: 0.90, collection_interval: 10s}
  queue_metrics:
    promotion_rate: {warning: 0.10, critical: 0.25}
    starvation_count: {warning: 5, critical: 20}
"""


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_file_of_an_operator_does_what_each_key_says(tmp_path: Path, wrapped: bool) -> None:
    pytest.importorskip("yaml")
    text = "napoleon_scheduler:\n" + "".join(f"  {line}\n" for line in OPERATORS.split("\n")) if wrapped else OPERATORS
    (tmp_path / "a.yaml").write_text(text + MONITORING)
    found = Config.load(tmp_path / "a.yaml").scheduler_options()
    assert found.pop("retry") == strand.RetryPolicy(max_retries=3, base_delay="1s", max_delay="60s", jitter=0.1)
    assert found.pop("policy").timeouts_ns == tuple(s * 10**9 for s in (0, 30, 60, 300, 1800))
    assert found == {"workers": 16, "max_queue": 10_000, "guard": strand.Guard(cpu=0.8, memory=0.75, io_queue=100)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("retry_policy: {max_retries: 3, max_attempts: 4}", "retry_policy.max_retries: give either it or max_attempts"),
        ("retry_policy: {max_retries: -1}", "retry_policy.max_retries: -1 is not a whole number from 0 to 999"),
        ("retry_policy: {base_delay: 1s, initial_backoff: 1s}", "retry_policy.base_delay: give either it or"),
        ("retry_policy: {max_retrys: 1}", "retry_policy.max_retrys: "),
        ("retry_policy: {max_backoff: 5}", "retry_policy.max_backoff: 5 is not text with a unit"),
        ("napoleon_scheduler: 3", "napoleon_scheduler: 3 is not a table"),
        ("napoleon_scheduler: {}\nworker_pool: {max_workers: 1}", "worker_pool: stands beside napoleon_scheduler"),
        ("napoleon_scheduler: {monitoring: {}}", "napoleon_scheduler.monitoring: put it beside that table"),
        ("napoleon_scheduler: {marks: {A: io}}", "napoleon_scheduler.marks: a scheduler has no symbols"),
        ("monitoring: {cpu_usag: {}}", "monitoring.cpu_usag: did you mean cpu_usage"),
        ("monitoring: {cpu_usage: {warnin: 0.5}}", "monitoring.cpu_usage.warnin: did you mean warning"),
        ("monitoring: {cpu_usage: {warning: 75}}", "monitoring.cpu_usage.warning: 75 is not a number from 0 to 1"),
        ("monitoring: {cpu_usage: 0.9}", "monitoring.cpu_usage: 0.9 is not a table of keys"),
        ("monitoring: {cpu_usage: {warning: 0.9, critical: 0.8}}", "critical: 0.8 is below warning"),
        ("monitoring: {memory_usage: {collection_interval: 10}}", "monitoring.memory_usage.collection_interval: 10"),
        ("monitoring: {queue_metrics: {rate: {}}}", "monitoring.queue_metrics.rate: "),
        ("monitoring: {queue_metrics: {starvation_count: {warning: 0.5}}}", "0.5 is not a whole number from 0"),
    ],
)
def test_a_key_that_cannot_have_an_effect_where_it_stands_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(text)
    _, [problem] = check_file(tmp_path / "a.yaml")
    assert says in str(problem)
