"""strand policy plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_here import run_here

from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python

RATE = ("--rate", "100000", "--service", "25us")


def planned(*args: Any) -> dict[str, Any]:
    done = run_here("policy", "plan", *args, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_rate_and_a_service_time_give_a_plan() -> None:
    found = planned(*RATE, "--wait", "p99=50us", "--workers", "3")
    assert [(choice["name"], choice["workers"]) for choice in found["choices"]] == [
        ("Erlang C", 5), ("rule of thumb", 7), ("as given", 3),
    ]  # fmt: skip
    assert planned(*RATE, "--wait", "mean=1ms")["choices"][0]["workers"] == 3
    assert planned(*RATE, "--wait", "p99.99 = 5ms")["quantile"] == pytest.approx(0.9999)


def test_people_are_shown_a_table_what_is_assumed_and_where_it_is_off() -> None:
    shown = run_here(
        "policy", "plan", "--rate", "HOT=90000", "--rate", "B=10000", *RATE[2:], "--wait", "p99=50us"
    ).stdout
    lines = [" ".join(line.replace("│", " ").split()) for line in shown.splitlines()]
    assert "workers 5 7" in lines
    assert "p99 wait 25.7 us 2.41 us" in lines
    text = " ".join(shown.split())
    assert "never drained: HOT has 90,000 ticks per second, but one worker at a time handles only 40,000" in text
    assert "B has" not in text
    for words in (
        "99% of the ticks wait at most 50 us",
        "assumed: arrivals are independent",
        "caution: only 2 symbols have ticks",
    ):
        assert words in text, words


def test_a_file_is_measured() -> None:
    found = planned("--from", sample_path(), "--date", SAMPLE_DATE, "--handler", "vwap", "--wait", "p99=5ms")
    assert found["rate_per_s"] == pytest.approx(4.64, abs=0.01)
    assert found["service_ns"] > 0
    assert found["squared_variation"] > 1
    assert found["choices"][1]["name"] == "busiest second"
    given = planned("--from", sample_path(), "--date", SAMPLE_DATE, "--service", "1s", "--wait", "mean=10ms")
    assert given["service_ns"] == 10**9
    assert given["choices"][0]["workers"] > 4


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*RATE, "--wait", "p99=50us", "--workers", "2"), "workers: 2 cannot keep up with 100,000 ticks per second"),
        ((*RATE, "--wait", "5ms"), "--wait: '5ms' is neither like p99=5ms nor like mean=1ms"),
        ((*RATE, "--wait", "p100=5ms"), "--wait: 'p100=5ms' is neither"),
        ((*RATE, "--wait", "p0=5ms"), "wait: 0.0 is not a share between 0 and 1"),
        ((*RATE, "--wait", "p99=5 parsecs"), "--wait: '5 parsecs' is not a span of time: 'parsecs' is not a unit"),
        (("--rate", "1", "--service", "fast", "--wait", "mean=1s"), "--service: 'fast' is not a span of time"),
        (("--rate", "1", "--wait", "mean=1s"), "give --rate and --service, or --from"),
        (("--rate", "fast", "--service", "1s", "--wait", "mean=1s"), "--rate: 'fast' is not a number of ticks"),
        (("--rate", "nan", "--service", "1s", "--wait", "mean=1s"), "rate: nan is not a number above 0"),
        (("--rate", "0", "--service", "1s", "--wait", "mean=1s"), "rate: 0.0 is not a number above 0"),
        (("--rate", "=5", "--service", "1s", "--wait", "mean=1s"), "--rate: '=5' is neither N nor SYMBOL=N"),
        ((*RATE, "--rate", "A=1", "--wait", "mean=1s"), "--rate: give the total rate, or the rate of each symbol"),
        ((*RATE, "--rate", "5", "--wait", "mean=1s"), "--rate: the total rate is given twice"),
        (("--rate", "A=-1", "--rate", "B=9", *RATE[2:], "--wait", "mean=1s"), "rate: A: -1.0 is not a number above 0"),
        ((*RATE, "--wait", "mean=1s", "--date", "2026-01-05"), "--date is for --from"),
        ((*RATE, "--wait", "mean=1s", "--handler", "vwap"), "--handler is for --from"),
        ((*RATE, "--wait", "mean=1s", "--from", "x"), "--rate: --from measures the rate"),
        (("--from", "-", "--wait", "mean=1s"), "--from -: standard input cannot be read twice"),
        (("--from", "no-such-file", "--wait", "mean=1s"), "there is no such file"),
    ],
)
def test_what_cannot_be_is_one_error(args: tuple[str, ...], says: str) -> None:
    done = run_here("policy", "plan", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_handler_in_python_is_said_to_hold_the_gil(tmp_path: Path) -> None:
    (tmp_path / "planned_here.py").write_text(
        "import strand\n\n\n@strand.batch_handler(state=[('n', 'u8')])\n"
        "def tally(symbol, ticks, row):\n    row['n'] += len(ticks)\n"
    )
    words = ("--from", sample_path(), "--limit", "2000", "--wait", "mean=1ms", "--json")
    own = run_here("policy", "plan", *words, "--handler", "planned_here:tally", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    told = [any("in Python" in doubt for doubt in json.loads(text)["doubts"]) for text in (
        own.stdout, run_here("policy", "plan", *words, "--handler", "vwap").stdout,
    )]  # fmt: skip
    assert told == [True, False]
