"""Replays that stop at a tick or a time: the same state on any number of workers, and a prompt there."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, HandlerError, UnknownSymbolError
from strand.feeds.sample import sample_path
from strand.replaying.until import Until

pytestmark = pytest.mark.python


def all_ticks() -> tuple[list[str], Any]:
    """The sample's names, and its ticks in order."""
    with strand.feeds.open(sample_path()) as feed:
        batches = [np.array(batch) for batch in feed]
        return list(feed.symbols), np.concatenate(batches)


@pytest.mark.parametrize(
    ("until", "error", "said"),
    [
        (("AAAHD", 99_999), ConfigurationError, "AAAHD has 4,514 ticks in this replay, and so no number 99,999"),
        (("nobody", 1), UnknownSymbolError, r"nothing in .* is named 'nobody'$"),
        (("aaahd", 1), UnknownSymbolError, r"is named 'aaahd'; did you mean 'AAAHD'\?$"),
        (("AAAHD", 0), ConfigurationError, r"is not a pair \(symbol, number\)"),
        (("AAAHD",), ConfigurationError, r"is not a pair \(symbol, number\)"),
        (1.5, ConfigurationError, "is neither"),
        ("noon", ConfigurationError, "until: 'noon' is not a time"),
    ],
)
def test_what_cannot_be_reached_is_refused(until: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        strand.replay(sample_path(), "count", until=until)


def test_a_prompt_needs_a_tick_and_one_thread() -> None:
    with pytest.raises(ConfigurationError, match="pdb: say at which tick"):
        Until.of(None, pdb=True)
    with pytest.raises(ConfigurationError, match=r"pdb: .* give workers=0"):
        Until.of(("A", 1), pdb=True, workers=2)
    with pytest.raises(ConfigurationError, match="'count' is machine code"):
        strand.replay(sample_path(), "count", until=("AAAHD", 1), workers=0, pdb=True)
    with pytest.raises(ConfigurationError, match="progress: its bar would be drawn over the debugger's prompt"):
        strand.replay(sample_path(), "count", until=("AAAHD", 1), workers=0, pdb=True, progress=True)


class Looks:
    """Has a line to stop at."""

    def __init__(self) -> None:
        self.seen = 0

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_tick(self, tick: Any) -> None:
        self.seen += 1


def prompted(handler: Any, monkeypatch: pytest.MonkeyPatch, commands: str, **options: Any) -> str:
    """What pdb says."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(commands))
    monkeypatch.setattr(sys, "stdout", said := io.StringIO())
    try:
        strand.replay(sample_path(), handler, workers=0, pdb=True, **options)
    finally:
        monkeypatch.undo()
    assert sys.gettrace() is None
    return said.getvalue()


@pytest.mark.parametrize("number", [1, 5])
def test_the_prompt_is_in_the_call_with_that_tick(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = "p ('seen', self.seen, tick.price, self.ctx.symbol)\nc\n"
    said = prompted(Looks, monkeypatch, commands, until=("AAAHD", number))
    names, ticks = all_ticks()
    price = int(ticks["price"][ticks["instrument_id"] == names.index("AAAHD")][number - 1])
    assert f"('seen', {number - 1}, {price}, 'AAAHD')" in said
    assert said.count("on_tick()") == 1


def test_q_ends_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HandlerError, match="BdbQuit"):
        prompted(Looks, monkeypatch, "q\n", until=("AAAHD", 2))


def test_a_compiled_handler_is_stepped_through_in_python_before_its_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")], cache=False)
    def counts(row: Any, tick: Any) -> None:
        row.n += 1

    said = prompted(counts, monkeypatch, "p ('n', row.n)\nn\np ('n', row.n)\nc\n", until=("AAAHD", 3))
    assert "('n', 2)" in said
    assert "('n', 3)" in said
    assert strand.replay(sample_path(), counts, workers=0, until=("AAAHD", 3)).rows["AAAHD"]["n"] == 3


def traded_in_a_chain() -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")], cache=False)
    def counts(row: Any, tick: Any) -> None:
        row.n += 1

    @strand.handler(state=[("n", "u8"), ("bid", "i8")], on="trade", cache=False)
    def trades(row: Any, trade: Any) -> None:
        row.n += 1
        row.bid = row.book.bid_price

    return strand.chain(strand.book(), counts, trades)


def test_a_chain_and_its_trades_are_stepped_through_as_they_are_at_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its 54th tick is its third trade.
    handler, until = traded_in_a_chain(), ("AAAHD", 54)
    place = f"{__file__}:{handler.parts[2][1].on_tick.__code__.co_firstlineno + 2}"
    commands = f"p ('n', row.n)\nb {place}\nc\np ('t', row.n, trade.size, row.book.bid_price, row.counts.n)\nc\n"
    said = prompted(handler, monkeypatch, commands, until=until)
    book = strand.replay(sample_path(), "book", workers=0, until=until).rows["AAAHD"]
    assert "('n', 53)" in said
    assert f"('t', 2, 400, {book['bid_price']}, 54)" in said
    row = strand.replay(sample_path(), handler, workers=2, until=until).rows["AAAHD"]
    assert (row["counts"]["n"], row["trades"]["n"]) == (54, 3)


def test_a_tick_that_is_no_trade_and_one_that_cannot_be_read_again_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trades = traded_in_a_chain().parts[2][1]
    alone = strand.chain(strand.book(), trades)
    with pytest.raises(
        ConfigurationError, match=r"'book\+trades' is not called with tick 53 of AAAHD: it is not a trade"
    ):
        prompted(alone, monkeypatch, "", until=("AAAHD", 53))
    with strand.feeds.open(sample_path()) as feed, pytest.raises(ConfigurationError, match="cannot be read again"):
        strand.replay(feed, alone, workers=0, pdb=True, until=("AAAHD", 54))
