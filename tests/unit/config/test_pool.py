"""``worker_pool`` as options of a dispatcher, and what does not go together in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strand
from strand.config.configuration import Config, check_file
from strand.config.pool import check_pool, pool_options
from strand.config.tables import WorkerPool
from strand.errors import ConfigurationError
from strand.policies.policy import Fifo, Levels

pytestmark = pytest.mark.python


def test_what_is_not_given_is_left_to_the_dispatcher() -> None:
    assert pool_options(WorkerPool()) == {"capacity_ticks": 65_536}


def test_a_dispatcher_has_the_bounds_and_the_least_workers_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        """
        policy.name = "levels"
        [worker_pool]
        max_workers = 2
        min_workers = 1
        python_workers = 1
        queue_capacity = 100
        total_capacity_ticks = 50
        level_capacity_ticks = {low = 20}
        on_full = "shed"
        """
    )
    options = Config.load(file).dispatcher_options()
    assert options == {
        "policy": Levels(), "priorities": {}, "pool": strand.Pool(workers=2, min_workers=1, python_workers=1),
        "limits": strand.Limits(
            capacity_ticks=100, total_capacity_ticks=50, level_capacity_ticks={"low": 20}, on_full="shed"
        ),
    }  # fmt: skip
    with strand.Dispatcher(["A"], "count", **options) as dispatcher:
        active = dispatcher.statistics().active
        assert active is not None
        assert active.least == 1


@pytest.mark.parametrize(
    ("pool", "policy", "says"),
    [
        (
            {"on_full": "shed", "total_capacity_ticks": 5},
            Fifo(),
            "on_full: 'shed' drops the lowest level first, and the",
        ),
        (
            {"on_full": "shed"},
            Levels(),
            "on_full: 'shed' makes room at a bound over all strands; give total_capacity_ticks",
        ),
        ({"on_full": "conflate", "total_capacity_ticks": 5}, Fifo(), "on_full: 'conflate' makes room on one strand"),
        ({"level_capacity_ticks": {"low": 5}}, Fifo(), "level_capacity_ticks: the policy 'fifo' has no levels; give"),
        (
            {"level_capacity_ticks": {"lo": 5}},
            Levels(),
            "level_capacity_ticks: 'lo' is not a level: did you mean 'low'?",
        ),
        ({"level_capacity_ticks": {"low": 0}}, Levels(), "level_capacity_ticks: low: 0 is not a whole number from 1"),
        ({"min_workers": 3, "max_workers": 2}, Fifo(), "min_workers: 3 is not a whole number from 1 to 2"),
        ({"python_workers": 3, "max_workers": 2}, Fifo(), "python_workers: 3 is not a whole number from 1 to 2"),
    ],
)
def test_what_does_not_go_together_is_told(pool: dict[str, Any], policy: strand.Policy, says: str) -> None:
    problems: list[str] = []
    check_pool(WorkerPool(**pool), policy, problems)
    assert len(problems) == 1
    assert problems[0].startswith(f"worker_pool.{says}")


def test_a_word_that_is_none_is_told_with_the_near_one(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[worker_pool]\non_full = "shedd"\n')
    assert check_file(file)[1][0].startswith("worker_pool.on_full: 'shedd': did you mean shed? It is no choice; there")


def test_a_policy_that_is_wrong_hides_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        """
        [policy]
        name = "levels"
        since = "never"
        [priorities.symbols]
        A = "hihg"
        B = 3
        [worker_pool]
        on_full = "shed"
        """
    )
    found, problems = check_file(file)
    assert found is None
    assert [problem.split(":")[0] for problem in problems] == [
        "policy.since", "priorities.symbols.A", "priorities.symbols.B", "worker_pool.on_full",
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"policy\.since: .* \(and 3 more"):
        Config.load(file)
