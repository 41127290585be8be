"""``strand top``: its figures equal what the run counted, and the screen shows, filters, sorts and asks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

import strand
from strand.dicts import FrozenDict
from strand.outside import FeedFigures
from strand.outside.attached import Attached
from strand.screens.top import Top, number, seconds, share
from strand.screens.watched import Watched
from strand.symbols import SymbolTable
from strand.ticks import KIND_TRADE

pytestmark = pytest.mark.python

NAMES = [f"S{at:03}" for at in range(300)]


def ticks(counts: dict[int, int]) -> strand.ticks.Ticks:
    """So many trades of each symbol, by its number."""
    found = strand.ticks.zeros(sum(counts.values()))
    found["instrument_id"] = np.repeat([*counts], [*counts.values()])
    found["price"], found["size"], found["kind"], found["action"] = 10**9, 1, KIND_TRADE, b"T"
    return found


def attached() -> Attached:
    return strand.attach(os.getpid(), name="watched")


def shown(screen: Top, part: str) -> str:
    return str(screen.query_one(f"#{part}", Static).content)


def rows(screen: Top, part: str) -> list[list[str]]:
    table = screen.query_one(f"#{part}", DataTable)
    return [table.get_row_at(at) for at in range(table.row_count)]


def drive(screen: Top, steps: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with screen.run_test(size=(160, 60)) as pilot:
            await steps(pilot)

    asyncio.run(run())


def test_the_hottest_strands_are_those_with_the_most_ticks_since_the_last_look() -> None:
    options = {"strands": 300, "attachable": True, "name": "watched", "workers": 1}
    with strand.Dispatcher(NAMES, "count", **options) as run:
        run.publish(ticks({7: 50, 8: 10}))
        run.drain()
        watched = Watched(attached())
        first = watched.hottest(10)
        assert [(row.symbols, row.accepted, row.per_s) for row in first] == [("S007", 50, None), ("S008", 10, None)]
        run.publish(ticks({8: 20, 9: 5}))
        run.drain()
        second = watched.hottest(10)
        assert [(row.symbols, row.accepted) for row in second] == [("S008", 30), ("S009", 5), ("S007", 50)]
        assert second[0].per_s is not None
        assert second[1].per_s is not None
        assert second[0].per_s == pytest.approx(4 * second[1].per_s)
        assert second[2].per_s == 0
        assert [row.symbols for row in watched.hottest(10, "s009")] == ["S009"]
        assert watched.hottest(10, "none such") == []


@pytest.mark.parametrize(
    ("symbols", "text"),
    [
        (["A", "", "C", "", "E", "F", "G"], "A, C, E and 2 more"),
        (["A", "", "C", ""], "A, C"),
        (["", "", "", ""], "#0, #1, #2 and 1 more"),
    ],
)
def test_a_strand_is_shown_by_its_symbols_that_have_a_name(symbols: list[str], text: str) -> None:
    with strand.Dispatcher(SymbolTable(symbols), "count", strands=1, attachable=True, name="watched", workers=1) as run:
        run.publish(ticks({0: 1}))
        run.drain()
        assert [row.symbols for row in Watched(attached()).hottest(10)] == [text]


def test_strands_beyond_those_of_one_look_are_read_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.screens.watched.MOST_STRANDS", 128)
    options = {"strands": 300, "attachable": True, "name": "watched", "workers": 1}
    with strand.Dispatcher(NAMES, "count", **options) as run:
        run.publish(ticks(dict.fromkeys(range(300), 2)))
        run.drain()
        watched = Watched(attached())
        assert [len(watched.hottest(1000)) for _ in range(4)] == [128, 256, 300, 300]


def test_rates_of_workers_and_levels_are_those_of_the_time_between_two_looks() -> None:
    with strand.Scheduler(workers=1, policy=strand.Levels(), attachable=True, name="watched") as run:
        watched = Watched(attached())
        before = watched.look()
        assert {row.started_per_s for row in before.levels} <= {None}
        urgent = run.options(priority="high")
        for _ in range(40):
            urgent.submit(int).result()
        while (view := watched.look()).snapshot.tasks is None or view.snapshot.tasks.accepted < 40:
            pass
        assert [row.level for row in view.levels] == ["immediate", "high", "retry", "normal", "low"]
        high = view.levels[1]
        assert (high.kind, high.waiting) == ("task", 0)
        assert high.wait_p50_s is not None
        assert high.wait_p99_s is not None
        assert 0 < high.wait_p50_s <= high.wait_p99_s
        assert view.levels[0].wait_p50_s is None


def test_the_screen_shows_the_run_and_answers_for_a_symbol() -> None:
    with strand.Dispatcher(NAMES, "vwap", strands=300, attachable=True, name="watched", workers=2) as run:
        run.publish(ticks({7: 50, 8: 10}))
        run.drain()

        async def steps(pilot: Pilot[None]) -> None:
            screen = pilot.app
            assert isinstance(screen, Top)
            assert "dispatcher watched" in shown(screen, "head")
            assert "ticks: 60 accepted" in shown(screen, "head")
            assert len(rows(screen, "workers")) == 2
            assert [row[1:4:2] for row in rows(screen, "strands")] == [["S007", "50"], ["S008", "10"]]
            await pilot.press("slash", *"008", "enter")
            assert [row[1] for row in rows(screen, "strands")] == ["S008"]
            await pilot.press("a", *"S007", "enter")
            assert "volume 50" in shown(screen, "answer")
            await pilot.press("a", *["backspace"] * 4, *"XX", "enter")
            assert "'XX' is not a symbol" in shown(screen, "answer")

        drive(Top(attached()), steps)


def test_the_screen_of_a_scheduler_has_levels_and_no_strands() -> None:
    with strand.Scheduler(workers=1, policy=strand.Levels(), attachable=True, name="watched"):

        async def steps(pilot: Pilot[None]) -> None:
            screen = pilot.app
            assert isinstance(screen, Top)
            assert "scheduler watched" in shown(screen, "head")
            assert rows(screen, "strands") == []
            await pilot.press("s")
            assert len(rows(screen, "workers")) == 1
            await pilot.press("a", *"S007", "enter")
            assert "scheduler, which has no symbols" in shown(screen, "answer")

        drive(Top(attached()), steps)


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("slash", "ctrl+c")])
def test_q_and_ctrl_c_end_the_screen_and_ctrl_c_also_while_a_text_is_asked_for(keys: tuple[str, ...]) -> None:
    with strand.Dispatcher(4, "count", attachable=True, name="watched", workers=1):
        screen = Top(attached())

        async def steps(pilot: Pilot[None]) -> None:
            assert screen.is_running
            await pilot.press(*keys)
            await pilot.pause()
            assert screen._exit

        drive(screen, steps)


def test_a_look_that_is_due_while_the_screen_closes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strand.screens.top._EVERY_S", 0.01)

    async def steps(pilot: Pilot[None]) -> None:
        await pilot.pause()

    with strand.Dispatcher(4, "count", attachable=True, name="watched", workers=1):
        for _ in range(2):
            drive(Top(attached()), steps)


def test_what_is_not_defined_is_a_dash_and_no_number() -> None:
    assert (number(None), share(None), seconds(None)) == ("-", "-", "-")
    assert (number(1234.6), share(0.125), seconds(0.0015)) == ("1,235", "12.5%", "1.5 ms")


def test_the_command_says_that_there_is_no_such_run() -> None:
    line = [sys.executable, "-m", "strand", "top", str(os.getpid())]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode != 0
    assert "no running dispatcher" in ran.stderr


def test_the_head_has_the_gaps_and_reconnects_of_a_live_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    read, feed = Attached.snapshot, FeedFigures(1200, 2, 7, 1, FrozenDict(), FrozenDict())
    monkeypatch.setattr(Attached, "snapshot", lambda self: replace(read(self), feed=feed))

    async def look(pilot: Pilot[None]) -> None:
        until, words = time.monotonic() + 60, "feed: 1,200 messages, 2 gaps of 7 messages, 1 reconnect"
        while words not in shown(pilot.app, "head"):  # type: ignore[arg-type]
            assert time.monotonic() < until
            await pilot.pause(0.05)

    with strand.Dispatcher(NAMES, "count", attachable=True, name="watched", workers=1):
        drive(Top(attached()), look)
