"""Looking at a dispatcher from outside, of this process and of another."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from engine_support import ticks_for
from outside_ticks import SYMBOLS, some_ticks

import strand
from strand import Dispatcher
from strand.command.cli import cli
from strand.errors import AttachError, ConfigurationError, UnknownSymbolError


@contextmanager
def publishing(dispatcher: Dispatcher, ticks: Any = None) -> Iterator[None]:
    """A thread publishes in the block, as fast as it can."""
    ended, ticks = threading.Event(), some_ticks() if ticks is None else ticks

    def publish() -> None:
        while not ended.is_set():
            dispatcher.publish(ticks)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("publisher_drains", [True, False])
@pytest.mark.parametrize("strands", ["per-symbol", 7])
def test_rows_are_those_of_their_strands_count_at_full_speed(strands: Any, publisher_drains: bool) -> None:
    with Dispatcher(
        SYMBOLS, "count", workers=2, cores=None, strands=strands, publisher_drains=publisher_drains, attachable=True
    ) as dispatcher:
        attached = strand.attach(os.getpid())
        seen = 0
        with publishing(dispatcher):
            while seen < 2000:
                strands = []
                for look in attached.looks():
                    assert look.in_visit or int(look.rows["ticks"].sum()) == look.counts.handled
                    strands.append(look.strand)
                assert len(set(strands)) == len(strands)
                seen += len(strands)
        dispatcher.drain()
        looks = list(attached.looks())
        assert not any(look.in_visit for look in looks)
        had = {symbol for symbol in SYMBOLS if dispatcher.inspect(symbol).accepted}
        assert {symbol for look in looks for symbol in look.symbols} == had
        assert [look.strand for look in looks] == sorted({attached.symbol(symbol).strand for symbol in had})
        handled = dispatcher.statistics().handled
        assert sum(int(look.rows["ticks"].sum()) for look in looks) == handled == attached.statistics().handled


def test_what_is_seen_is_what_the_dispatcher_says() -> None:
    with Dispatcher(SYMBOLS, "vwap", feed="plain", workers=2, cores=None, attachable=True, name="day") as dispatcher:
        dispatcher.publish(some_ticks())
        dispatcher.drain()
        attached = strand.attach(os.getpid(), name="day")
        inner, outer = dispatcher.statistics(), attached.statistics()
        for name in ("accepted", "handled", "pending", "handled_inline", "visits", "stolen", "dropped"):
            assert getattr(outer, name) == getattr(inner, name), name
        assert (inner.watermark, outer.watermark) == (inner.handled, None)  # only its own process can know it
        assert outer.handler.count == inner.handler.count
        assert outer.handler.percentiles == pytest.approx(inner.handler.percentiles)
        assert [w.handled for w in outer.workers] == [w.handled for w in inner.workers]
        for symbol in ("S0", "S17"):
            look = attached.symbol(symbol)
            assert look.symbols == (symbol,)
            assert look.handler == "vwap"
            assert look.rows[0] == dispatcher.rows[symbol]
            assert look.counts == dispatcher.inspect(symbol)
        assert attached.description.name == "day"
        assert attached.description.pid == os.getpid()
        assert attached.configuration["n_symbols"] == len(SYMBOLS)
        with pytest.raises(UnknownSymbolError, match="'GONE' is not a symbol"):
            attached.symbol("GONE")
        with pytest.raises(UnknownSymbolError, match=f"; did you mean '{SYMBOLS[1]}'"):
            attached.symbol(SYMBOLS[1].lower())
        with pytest.raises(AttachError, match="strand: 10000 is not a whole number from 0 to"):
            attached.look(10_000)


@pytest.mark.parametrize("kind", ["book", "depth"])
def test_books_are_whole_at_full_speed_and_right_while_quiescent(kind: str) -> None:
    ticks = some_ticks()
    half = len(ticks) // 2
    if kind == "book":
        # The first half adds orders of 100 each, and the second half cancels them.
        ticks["action"][half:] = b"C"
        ticks["order_id"][half:] = ticks["order_id"][:half]
        for field in ("instrument_id", "price"):
            ticks[field][half:] = ticks[field][:half]
        ticks["side"] = np.where(ticks["order_id"] % 2, b"A", b"B")
    else:
        ticks["kind"], ticks["action"], ticks["order_id"] = 3, b"M", 0
        ticks["side"] = np.where(np.arange(len(ticks)) % 2, b"A", b"B")
        ticks["size"] = 100 * (1 + ticks["price"] // 10**9)
    with Dispatcher(SYMBOLS, kind, workers=2, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        with publishing(dispatcher, ticks):
            for turn in range(1500):
                seen = attached.book(SYMBOLS[turn % 40], 64)
                for side, sign in ((seen.asks, 1), (seen.bids, -1)):
                    assert np.all(np.diff(side["price"] * sign) > 0)
                    wanted = 100 * side["orders"] if kind == "book" else 100 * (1 + side["price"] // 10**9)
                    assert seen.in_visit or np.array_equal(side["size"], wanted)
        dispatcher.publish(ticks[:half])
        dispatcher.drain()
        for symbol in SYMBOLS[:5]:
            seen, inner = attached.book(symbol), dispatcher.books[symbol]
            for outer, levels in ((seen.asks, inner.asks(20)), (seen.bids, inner.bids(20))):
                assert len(levels)
                assert [tuple(level)[:2] for level in outer.tolist()] == [tuple(level)[:2] for level in levels.tolist()]
        shown = CliRunner().invoke(cli, ["stat", str(os.getpid()), "--symbol", "S1", "--json"], catch_exceptions=False)
        (told,) = json.loads(shown.output)["books"]
        assert told["bids"][0]["price"] == dispatcher.books["S1"].bids(1)["price"][0] / 1e9
        text = CliRunner().invoke(cli, ["stat", str(os.getpid()), "--symbol", "S1"], catch_exceptions=False).output
        assert "bid" in text


def test_levels_of_all_publishers_are_added_up() -> None:
    ticks = some_ticks(300)
    ticks["instrument_id"], ticks["publisher_id"], ticks["flags"] = 0, 1 + np.arange(300) % 3, 0x80
    with Dispatcher(SYMBOLS, "book", feed="dbn-orders", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(ticks)
        dispatcher.drain()
        seen = strand.attach(os.getpid()).book("S0", 64)
        assert np.array_equal(seen.bids, dispatcher.books["S0"].bids(64))
        with pytest.raises(ConfigurationError, match="levels: 65 is not a whole number from 1 to 64"):
            strand.attach(os.getpid()).book("S0", 65)


def test_who_keeps_no_book_says_so() -> None:
    with (
        Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True),
        pytest.raises(AttachError, match="the handler of S0 keeps no book"),
    ):
        strand.attach(os.getpid()).book("S0")


def test_names_that_are_learnt_later_are_seen() -> None:
    with Dispatcher(4, "count", workers=1, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        assert attached.look(0).symbols[0].startswith("#")
        dispatcher.learn_symbols(["AAPL", "", "MSFT"])
        assert attached.symbol("MSFT").symbols == ("MSFT",)
        dispatcher.learn_symbols(["AAPL", "IBM", "MSFT", "X"])
        assert attached.symbol("IBM").symbols == ("IBM",)
        assert attached.symbol("X").symbols == ("X",)


def test_what_was_seen_stays_when_the_dispatcher_is_gone() -> None:
    with Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(some_ticks(1000))
        attached = strand.attach(os.getpid())
    with pytest.raises(AttachError, match="it has no running dispatcher"):
        strand.attach(os.getpid())
    del dispatcher
    assert attached.statistics().handled == 1000


def test_a_look_before_the_first_tick_does_not_settle_which_symbols_share_a_strand() -> None:
    """The first batch says which symbols are busy: they get other strands than before it."""
    names = [f"S{i}" for i in range(500)]
    ticks = ticks_for(np.random.default_rng(3).geometric(0.02, 20_000).clip(1, 499))
    with Dispatcher(names, "count", workers=1, cores=None, attachable=True) as dispatcher:
        attached = strand.attach(os.getpid())
        before = [attached.look(number).symbols for number in range(attached.n_strands)]
        dispatcher.publish(ticks)
        dispatcher.drain()
        after = [attached.look(number) for number in range(attached.n_strands)]
        assert [look.symbols for look in after] != before, "the first ticks change nothing: the test shows nothing"
        assert sorted(name for look in after for name in look.symbols) == sorted(names)
        for look in after:
            assert [attached.symbol(name).strand for name in look.symbols] == [look.strand] * len(look.symbols)
            assert int(look.rows["ticks"].sum()) == look.counts.handled
