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

import peer_events
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
    done = CliRunner().invoke(peers.main, ["--quick", "strand", "pool, numba"])
    assert done.exit_code == 0, done.output
    found = rows(done.output)
    for name in ("strand, from the file", "strand, from memory", "pool, numba"):
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
