"""bench/peers.py, as far as it needs no package that is not there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from strand.feeds.synthetic.market import SyntheticFeed

pytest.importorskip("numba")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import peer_events
import peer_running
import peer_table
import peers
from peer_sides import protocol

pytestmark = pytest.mark.python


def rows(output: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for line in output.splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) == 5:
            found.setdefault(name, []).append(cells)
    return found


@pytest.mark.slow
def test_strand_and_the_pools_come_to_the_same_and_are_timed() -> None:
    done = CliRunner().invoke(peers.main, ["--quick", "strand", "pool"])
    assert done.exit_code == 0, done.output
    found = rows(done.output)
    for name in ("strand, from the file", "strand, from memory", "pool, numba", "pool, plain Python"):
        assert [float(cells[2].strip("*")) > 0 for cells in found[name]] == [True, True], (name, found[name])
    assert done.output.count("### ") == 2


def race(side: Any, *sides: Any, turns: int = 1, patience: float = 60) -> Any:
    return peers.Race("book", [side, *sides], {"": ["true"]}, peers.Rules(turns, patience))


def taking(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, dict[str, float]], **results: Any) -> list[str]:
    """Sides that take so many seconds by the folder of the events. Returns who ran, and where, as it fills."""
    ran = []
    ours = np.array([(1, 100, 2, 101, 3)], protocol.TOP)

    def run(side: Any, _command: Any, _job: Any, folder: Path, _patience: float) -> tuple[float, float, Any]:
        ran.append(f"{side.name} {folder}")
        took = seconds[side.name][str(folder)]
        if took > 120:
            raise peers.TooSlowError("stopped after 120 s")
        return 0.0, took, results.get(side.name, ours)

    monkeypatch.setattr(peers, "run_side", run)
    return ran


def test_a_package_that_is_not_there_is_in_the_table_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_NO_SUCH_PACKAGE", "no wheel for this Python")
    absent = race(peers.Side("absent", "", 1, "no_such_package"))
    absent.run(Path("1"), 1, None)
    lines = list(peer_table.table("book", 1, 1, absent.times))
    assert lines[4] == "| absent | | | | | not installed: no wheel for this Python |"


def test_a_side_in_cpp_that_cannot_be_built_is_in_the_table_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = peers.Side("asio", "asio_side.cpp", 0)
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    commands = peers.programs([side], tmp_path)
    found = peers.Race("book", [side], commands, peers.Rules(1, 60))
    assert found.times["asio"].note == "not built: no-such-compiler: No such file or directory"
    (tmp_path / "refuses").write_text("#!/bin/sh\necho 'x.cpp:1:2: fatal error: boost/x.hpp: not there' >&2; exit 1\n")
    (tmp_path / "refuses").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "refuses"))
    assert str(peers.programs([side], tmp_path)["asio_side.cpp"]) == "not built: boost/x.hpp: not there"


def test_a_side_that_differs_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    differs = np.array([(1, 100, 2, 101, 4)], protocol.TOP)
    ran = taking(monkeypatch, {name: {"1M": 1} for name in "abc"}, b=differs, c=differs[:0])
    found = race(*(peers.Side(name, "", 1) for name in "abc"), turns=2)
    found.run(Path("1M"), 1_000_000, None)
    assert found.times["a"].run == [1.0, 1.0]
    for name in "bc":
        assert found.times[name].run == []
        assert "not those of the first side" in found.times[name].note
    assert ran == ["a 1M", "b 1M", "c 1M", "a 1M"]


def test_strand_is_run_whatever_sides_are_named() -> None:
    assert [side.name for side in peers.chosen(("csp", "bytewax, a"))] == [
        "strand, from the file",
        "csp",
        "csp, a process a core",
        "bytewax, a process a core",
    ]
    assert peers.chosen(()) == list(peers.ALL)


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    side = peers.Side("x", "pool_naive_side.py", 1)
    with pytest.raises(peers.SideError, match="FileNotFoundError"):
        peers.run_side(side, [sys.executable, str(peer_running.SIDES / side.program)], "book", tmp_path, 60)


def test_a_side_too_slow_for_the_next_size_stays_with_the_rate_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {
        "fast": {"1M": 0.5, "10M": 5},
        "slow": {"1M": 7, "10M": 70},
        "slower": {"1M": 50, "10M": 500},
        "surprising": {"1M": 3, "10M": 500},
    }
    ran = taking(monkeypatch, seconds)
    found = race(*(peers.Side(name, "", 1) for name in seconds), turns=2)
    found.run(Path("1M"), 1_000_000, 10_000_000)
    assert ran == ["fast 1M", "slow 1M", "slow 1M", "slower 1M", "surprising 1M", "slow 1M"]
    ran.clear()
    found.run(Path("10M"), 10_000_000, None)
    assert ran == ["fast 10M", "surprising 10M", "fast 10M"]
    assert [(taken.messages, taken.run, taken.note) for taken in found.times.values()] == [
        (10_000_000, [5, 5], ""),
        (1_000_000, [7, 7], ""),
        (1_000_000, [50], "one turn"),
        (1_000_000, [3], "10 M: stopped after 120 s"),
    ]


def test_the_side_that_others_are_held_to_runs_at_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = taking(monkeypatch, {"first": {"1M": 50, "10M": 5}, "second": {"1M": 50}})
    found = race(peers.Side("first", "", 1), peers.Side("second", "", 1))
    found.run(Path("1M"), 1_000_000, 10_000_000)
    found.run(Path("10M"), 10_000_000, None)
    assert ran == ["first 1M", "second 1M", "first 10M"]


def test_without_results_of_the_first_side_there_are_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, {"first": {"1M": 500}, "second": {"1M": 1}})
    found = race(peers.Side("first", "", 1), peers.Side("second", "", 1))
    found.run(Path("1M"), 1_000_000, None)
    assert [taken.note for taken in found.times.values()] == [
        "1 M: stopped after 120 s",
        "the first side has no results that its own could be compared with",
    ]


def test_what_a_larger_size_takes_is_foreseen_from_how_loading_has_grown() -> None:
    first = peer_table.Times([10.0], [0.5], 100_000)
    assert peers.expected_s(first, peer_table.Times(), 1_000_000) == 10 + 5
    second = peer_table.Times([13.0], [5.0], 1_000_000)
    assert peers.expected_s(second, first, 10_000_000) == pytest.approx(13 + 30 + 50)


def test_a_rate_of_fewer_messages_says_so_and_is_not_among_the_best() -> None:
    times = {
        "all": peer_table.Times([1.0], [1.0], 10_000_000),
        "some": peer_table.Times([0.1], [0.1], 1_000_000, "one turn"),
        "none": peer_table.Times(note="stopped"),
    }
    lines = list(peer_table.table("vwap", 8172, 10_000_000, times))
    assert lines[4:7] == [
        "| all | 1.00 | 1.000 | **10.00** | **5.00** |  |",
        "| some | 0.10 | 0.100 | 10.00 | 5.00 | of 1 M messages, one turn |",
        "| none | | | | | stopped |",
    ]


def test_the_events_say_what_is_left_of_each_order() -> None:
    feed = SyntheticFeed(symbols=20, messages=20_000, seed=5)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    events = peer_events.order_events(ticks)
    left: dict[int, int] = {}
    for op, order, size in zip(
        events["op"].tolist(), events["order_id"].tolist(), events["size"].tolist(), strict=True
    ):
        if op == b"A":
            assert order not in left
            left[order] = size
        elif op == b"U":
            assert 0 < size < left[order]
            left[order] = size
        else:
            assert op == b"D"
            del left[order]
    assert len(left) > 0
    taken = ticks[np.isin(ticks["action"], [b"C", b"F"])]
    assert len(events) == np.isin(ticks["action"], [b"A", b"C", b"F"]).sum() + 2 * (ticks["action"] == b"M").sum()
    assert len(taken) > 1_000
