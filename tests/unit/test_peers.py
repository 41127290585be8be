"""bench/peers.py, as far as it needs no package that is not there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from strand.feeds.synthetic import SyntheticFeed

pytest.importorskip("numba")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import peers
import protocol


def rows(output: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for line in output.splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) == 5:
            found.setdefault(name, []).append(cells)
    return found


def test_strand_and_the_pools_come_to_the_same_and_are_timed() -> None:
    done = CliRunner().invoke(peers.main, ["--quick", "strand", "pool"])
    assert done.exit_code == 0, done.output
    found = rows(done.output)
    for name in ("strand, from the file", "strand, from memory", "pool, numba", "pool, plain Python"):
        assert [float(cells[1]) > 0 for cells in found[name]] == [True, True], (name, found[name])
    assert done.output.count("Least time to run") == 2


def test_a_package_that_is_not_there_is_in_the_table_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_NO_SUCH_PACKAGE", "no wheel for this Python")
    side = peers.Side("absent", "absent_side.py", 1, "no_such_package")
    times = peers.measure([side], "book", Path(), peers.Rules(1, 1), {})
    assert list(peers.table("book", 1, 1, 1, times))[4] == (
        "| absent | | | | | not installed: no wheel for this Python |"
    )


def test_a_side_that_differs_has_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = np.array([(1, 100, 2, 101, 3)], protocol.TOP)
    answers = {"a": ours, "b": ours.copy()}
    answers["b"]["ask_size"] = 4

    def run(side: Any, *_: Any) -> tuple[float, float, Any]:
        return 1.0, 1.0, answers[side.name]

    monkeypatch.setattr(peers, "run_side", run)
    times = peers.measure([peers.Side(name, "", 1) for name in "ab"], "book", tmp_path, peers.Rules(2, 60), {})
    assert times["a"].run == [1.0, 1.0]
    assert times["b"].run == []
    assert "not those of the first side" in times["b"].note


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(peers.SideError, match="FileNotFoundError"):
        peers.run_side(peers.Side("x", "pool_naive_side.py", 1), "book", tmp_path, 60)


def test_a_side_too_slow_is_not_asked_for_more() -> None:
    times = peers.Times(load=[1.0], run=[9.0])
    assert peers.too_slow(times, 1_000_000, 6_000_000, 60) is None
    assert peers.too_slow(times, 1_000_000, 10_000_000, 60) == "not measured: 1 M took it 10 s"
    stopped = peers.Times(note="stopped after 120 s")
    assert peers.too_slow(stopped, 1_000_000, 2_000_000, 60) == "not measured: 1 M: stopped after 120 s"
    absent = peers.Times(note="not installed")
    assert peers.too_slow(absent, 1_000_000, 2_000_000, 60) == "not installed"


def test_the_events_say_what_is_left_of_each_order() -> None:
    feed = SyntheticFeed(symbols=20, messages=20_000, seed=5)
    ticks = np.concatenate([batch.copy() for batch in feed.batches()])
    events = peers.order_events(ticks)
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
