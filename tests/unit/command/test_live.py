"""strand serve and strand listen as a user starts them, and a short form of ``make live-trial``."""

from __future__ import annotations

import copy

import pytest
from command_here import run_here
from live_trial import Trial, intersect, joined, run_trial

from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return run_trial(tmp_path_factory.mktemp("trial"), messages=100_000, rate=100_000, loss=0.05, symbols=50)


def test_what_is_served_with_faults_is_heard_but_for_what_both_lines_lost(trial: Trial) -> None:
    assert list(trial.failures()) == []
    assert trial.heard["live"]["gap_messages"] > 0
    assert trial.heard["ticks"] > 90_000


def test_the_trial_fails_where_something_does_not_hold(trial: Trial) -> None:
    trial = copy.deepcopy(trial)
    live = trial.heard["live"]
    live["line_gaps"]["a"] = live["line_gaps"]["a"][:-1]
    live["gaps"] = [*live["gaps"], [1, 2]]
    live["delivered"] -= 1
    assert len(list(trial.failures())) == 3
    assert joined([[1, 2], [2, 4], [5, 6]]) == [[1, 4], [5, 6]]
    assert intersect([[1, 5], [7, 9]], [[3, 8]]) == [[3, 5], [7, 8]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("listen", "--line", "here"), "line: 'here' is not HOST:PORT"),
        (("listen", "--line", ":0", "--line", ":0", "--line", ":0"), "line: 3 of them: give one, or two"),
        (("serve", "x.itch50", "--lingers", "3"), "Did you mean one of"),
        (("serve", "nothing.itch50", "--line", "127.0.0.1:1"), "nothing.itch50"),
        (("serve", str(sample_path()), "--line", "192.0.2.1:1"), "allow_remote"),
        (("serve", str(sample_path()), "--line", ":1", "--loss", "2"), "loss: 2.0 is not a number from 0 to 1"),
        (("serve", str(sample_path()), *("--line", ":1"), *("--loss", ".1") * 3), "loss: given 3 times"),
    ],
)
def test_a_command_that_cannot_work_says_why_and_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = run_here(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
