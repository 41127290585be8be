"""A handler that fails in a replay: its error says which tick of its symbol it was, and what there is so far."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, FeedError, HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers.sets import with_sets

pytestmark = pytest.mark.python


class Fails:
    """Fails on its seventh tick."""

    def __init__(self) -> None:
        self.n = 0

    def on_tick(self, tick: Any) -> None:
        self.n += 1
        if self.n >= 7:
            raise ValueError("seven")


def compiled() -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")])
    def divides(row: Any, tick: Any) -> None:
        left = 6 - row.n
        row.n += np.uint64(tick.size // left * 0 + 1)

    return divides


def failure(handler: Any, **options: Any) -> HandlerError:
    with pytest.raises(HandlerError) as caught:
        strand.replay(sample_path(), handler, **options)
    return caught.value


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("kind", ["object", "compiled", "compiled in shared strands"])
def test_the_error_says_which_tick_it_was_and_what_there_is(workers: int, kind: str) -> None:
    handler = Fails if kind == "object" else compiled()
    options = {"strands": 2} if "shared" in kind and workers else {}
    error = failure(handler, workers=workers, **options)
    assert error.number == 7
    with strand.feeds.open(sample_path()) as feed:
        ticks = np.concatenate([np.array(batch) for batch in feed])
        key = list(feed.symbols).index(error.symbol)
    assert error.tick == ticks[ticks["instrument_id"] == key][6]
    assert error.partial.rows[error.symbol].dtype == error.row.dtype
    assert error.partial.rows[error.symbol] == error.row
    assert error.partial.symbols.index(error.symbol) == key


def test_the_number_is_that_of_the_replay_s_own_ticks() -> None:
    whole = failure(compiled(), workers=2, strands=2, symbols=["AAAHD"])
    later = failure(compiled(), workers=2, strands=2, symbols=["AAAHD"], position=10)
    assert (whole.number, later.number) == (7, 7)
    assert later.sequence > whole.sequence


def test_the_date_of_the_replay_is_that_of_what_is_read_again() -> None:
    assert failure(compiled(), workers=0, date=SAMPLE_DATE, start="09:31").number == 7


def test_a_feed_that_cannot_be_read_again_leaves_the_number_out() -> None:
    with strand.feeds.open(sample_path()) as feed, pytest.raises(HandlerError) as caught:
        strand.replay(feed, compiled(), workers=1, strands=2)
    assert caught.value.number is None
    assert caught.value.tick is not None


# ---- calls that are made of more than a tick: with trades of orders, and behind others in a chain

#: Of the sample's symbol that has the most of it.
SYMBOL = "AAAHD"


def on_trades(*, name: str = "trader") -> Any:
    pytest.importorskip("numba")

    @strand.handler(name=name, state=[("n", "u8"), ("left", "i8")], on="trade")
    def trader(row: Any, trade: Any) -> None:
        row.n += 1
        row.left = trade.size
        row.left = 1 // (row.left - 400)  # fails

    return trader


def behind_a_book(*, least: int = 3000) -> Any:
    pytest.importorskip("numba")

    @strand.handler(name=f"signal{least}", state=[("n", "u8"), ("x", "f8")], params=[("least", "u8")])
    def signal(row: Any, tick: Any, params: Any) -> None:
        row.n += 1
        if row.n > params.least:
            row.x = 1 / (row.book.bid_size - 300)  # fails

    return signal.with_params({"*": {"least": least}})


class Trades:
    """Keeps the trades it is called with."""

    def __init__(self) -> None:
        self.trades: list[Any] = []

    def on_trade(self, trade: Any) -> None:
        self.trades.append(trade)


class FailsOnTrade(Trades):
    def on_trade(self, trade: Any) -> None:
        seen = trade
        assert seen.size != 400  # fails


class FailsOnBook:
    def on_start(self, ctx: Any) -> None:
        self.ctx, self.n = ctx, 0

    def on_book(self, top: Any) -> None:
        self.n += 1
        after = self.ctx.after
        assert self.n < 100 or top.bid_size != 300, after  # fails


@strand.batch_handler(state=[("n", "u8")])
def looks_at_books(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    after = ctx.after
    row["n"] += len(ticks)
    assert not len(after["book"])  # fails


def passed(error: HandlerError) -> tuple[BaseException, Any]:
    """The error of ``replay()``, and the local names of the handler's function when it does."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the handler raises
        error.replay()
    at: Any = caught.tb
    while at.tb_next is not None:
        at = at.tb_next
    return caught.value, at.tb_frame.f_locals


def check_line(error: HandlerError, at: BaseException, text: str = "# fails") -> None:
    """The line is that of this file which holds a text, and where a call in Python fails."""
    trace = at.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert error.line is not None
    assert trace is not None
    assert (error.line.file, error.line.number) == (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    assert error.line.text.endswith(text)
    assert Path(__file__).read_text().splitlines()[error.line.number - 1].strip() == error.line.text


def book_at(error: HandlerError) -> Any:
    """The book's row at the failed tick, in a plain loop."""
    assert error.number is not None
    return strand.replay(sample_path(), "book", workers=0, until=(error.symbol, error.number)).rows[error.symbol]


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", ["compiled", "in a chain", "in an object's chain", "object"])
def test_the_trade_of_orders_is_the_one_of_a_plain_loop(workers: int, kind: str) -> None:
    handler: Any = {
        "compiled": on_trades,
        "in a chain": lambda: strand.chain(strand.book(), on_trades()),
        "in an object's chain": lambda: strand.chain(strand.book(), on_trades(), Trades),
        "object": lambda: FailsOnTrade,
    }[kind]()
    error = failure(handler, workers=workers, symbols=[SYMBOL])
    raised, given = passed(error)
    check_line(error, raised)
    trades = strand.replay(sample_path(), Trades, workers=0, until=(SYMBOL, error.number)).objects[SYMBOL].trades
    assert trades[-1].size == 400
    assert trades[-1].ts_event == error.tick["ts_event"]
    trade = given["seen" if kind == "object" else "trade"]
    assert {name: getattr(trade, name) for name in trades[-1]._fields} == trades[-1]._asdict()
    if kind == "object":
        return
    row = error.row if kind == "compiled" else error.row["trader"]
    assert (given["row"].n, row["n"]) == (len(trades) + 1, len(trades))
    if "chain" in kind:
        assert error.row["book"] == book_at(error)
        assert error.partial.rows[SYMBOL]["book"] == book_at(error)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_chain_s_part_gets_the_rows_of_those_before_it(workers: int) -> None:
    handler = strand.chain(strand.book(), behind_a_book())
    error = failure(handler, workers=workers, symbols=[SYMBOL], **({"strands": 2} if workers else {}))
    raised, given = passed(error)
    check_line(error, raised)
    book = book_at(error)
    assert error.row["book"] == book
    assert all(
        getattr(given["row"].book, name) == book[name] for name in ("bid_price", "bid_size", "ask_size", "ticks")
    )
    assert given["tick"].sequence == error.sequence
    assert (given["row"].n, error.row["signal3000"]["n"]) == (error.number + 1, error.number)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("first", "second", "failed"), [(3000, 10**9, 0), (10**9, 3000, 1)])
def test_the_part_of_several_that_failed_is_called(workers: int, first: int, second: int, failed: int) -> None:
    parts = [behind_a_book(least=first), behind_a_book(least=second)]
    error = failure(strand.chain(strand.book(), *parts), workers=workers, symbols=[SYMBOL])
    raised, given = passed(error)
    check_line(error, raised)
    assert given["params"].least == 3000
    counts = [int(error.row[part.name]["n"]) for part in parts]
    assert counts == [error.number, error.number - 1 + failed]


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("handler", [FailsOnBook, looks_at_books], ids=["object", "batch"])
def test_python_s_part_gets_the_rows_as_they_were_at_its_tick(workers: int, handler: Any) -> None:
    error = failure(strand.chain(strand.book(), handler), workers=workers, symbols=[SYMBOL])
    raised, given = passed(error)
    check_line(error, raised)
    after, book = given["after"]["book"], book_at(error)
    assert after.shape == (1,)
    assert after[0] == error.row["book"] == error.partial.rows[SYMBOL]["book"] == book
    if handler is FailsOnBook:
        assert given["top"]._asdict() == {name: book[name] for name in book.dtype.names}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_total_that_was_too_large_is_named_and_not_one_before_it(workers: int) -> None:
    pytest.importorskip("numba")
    once, twice = 2**62 - 1, 2**63 - 2

    @strand.handler(state=[("a", strand.TOTAL), ("b", strand.TOTAL)])
    def adds(row: Any, tick: Any) -> None:
        row.a += once  # a call with the row that is left fails here
        row.b += twice

    error = failure(adds, workers=workers, symbols=[SYMBOL])
    assert (int(error.row["a"]), int(error.row["b"])) == (2 * once, twice)
    assert error.line is not None
    assert error.line.text == "row.b += twice"
    text = str(error)
    assert "OverflowError, at" in text
    assert text.endswith("row.b += twice")
    assert error.partial.failures == (text,)


def test_what_cannot_be_read_again_is_refused_with_the_reason(tmp_path: Path) -> None:
    copy = tmp_path / sample_path().name
    copy.write_bytes(sample_path().read_bytes())
    several = strand.chain(strand.book(), behind_a_book(), behind_a_book(least=10**9))
    for handler, symbols in ((on_trades(), [SYMBOL]), (several, [SYMBOL])):
        with strand.feeds.open(copy, symbols=symbols) as feed, pytest.raises(HandlerError) as caught:
            strand.replay(feed, handler, workers=1)
        assert caught.value.line is None
        with pytest.raises(ConfigurationError, match="the input of this run cannot be read again"):
            caught.value.replay()
    # One part alone that may have failed needs no input.
    with strand.feeds.open(copy, symbols=[SYMBOL]) as feed, pytest.raises(HandlerError) as caught:
        strand.replay(feed, strand.chain(strand.book(), behind_a_book()), workers=1)
    check_line(caught.value, passed(caught.value)[0])

    with pytest.raises(HandlerError) as caught:
        strand.replay(copy, on_trades(), workers=1, symbols=[SYMBOL])
    copy.unlink()
    with pytest.raises(FeedError):
        caught.value.replay()
    assert caught.value.line is not None  # it was found while the file was there
    assert caught.value.line.text.endswith("# fails")


def test_another_tick_in_the_file_s_place_is_noticed() -> None:
    error = failure(on_trades(), workers=1, symbols=[SYMBOL])
    before = error._again.keywords["before"]
    with pytest.raises(ConfigurationError, match="the input has changed"):
        list(replace(before, number=before.number + 1).ticks())


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_set_of_a_chain_that_failed_is_called_with_its_trade(workers: int) -> None:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8"), ("x", "f8")], params=[("size", "i8")], on="trade")
    def scaled(row: Any, trade: Any, params: Any) -> None:
        row.n += 1
        row.x = 1 / (trade.size - params.size + 0 * row.book.bid_size)  # fails

    sets = [{"size": 10**6}, {"size": 400}]
    error = failure(with_sets(strand.chain(strand.book(), scaled), sets), workers=workers, symbols=[SYMBOL])
    raised, given = passed(error)
    check_line(error, raised)
    assert (error.set_number, error.params, given["params"].size) == (1, {"size": 400}, 400)
    assert (error.number, given["trade"].size) == (54, 400)
    assert error.row["book"] == book_at(error)
    assert given["row"].book.bid_price == error.row["book"]["bid_price"]
    assert (given["row"].n, error.row["scaled"]["n"]) == (4, 3)


# ---- many symbols fail

KINDS = ["object", "batch", "compiled", "C"]


def refusing(kind: str, library: Path, slow: int) -> Any:
    """A handler that fails on ticks with the action X. In Python it is slow for the symbol of index ``slow``."""
    if kind == "C":
        return strand.native(library, "on_sum", state=[("ticks", "u8"), ("total", "u8")])
    if kind == "compiled":
        pytest.importorskip("numba")

        @strand.handler(state=[("n", "u8")])
        def divides(row: Any, tick: Any) -> None:
            row.n += np.uint64(1 // (2 - tick.size))

        return divides

    def refuse(tick: Any) -> None:
        if tick["instrument_id"] == slow:
            time.sleep(0.001)
        if tick["action"] == b"X":
            raise ValueError(f"X of {tick['instrument_id']}")

    if kind == "batch":

        @strand.batch_handler(state=[("n", "u8")], name="refuses")
        def refuses(symbol: str, ticks: Any, row: Any) -> None:
            for tick in ticks[:1]:
                refuse(tick)

        return refuses

    class Refuses:
        def on_tick(self, tick: Any) -> None:
            refuse({"instrument_id": tick.instrument_id, "action": bytes(tick.action)})

    return Refuses


def failing_day(kind: str) -> tuple[Any, int]:
    """Ticks of 150 symbols that all fail, and the place of the first tick that does. Neither their times, which are all
    one, nor their sequences say which is the first."""
    rng = np.random.default_rng(3)
    ticks = strand.ticks.empty(12_000)
    ticks["instrument_id"] = rng.permutation(np.arange(len(ticks)) % 150)
    ticks["action"], ticks["size"], ticks["ts_recv"] = b"T", 1, 10**18
    ticks["sequence"] = np.arange(len(ticks))[::-1]
    # A handler of batches fails on the first tick of its batch.
    first = 0 if kind == "batch" else 5_003
    ticks["action"][first:], ticks["size"][first:] = b"X", 2
    return ticks, first


@pytest.mark.cells(2)
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("strands", [None, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_of_several_symbols_that_fail_the_error_is_the_first_in_the_order_of_ticks(
    tmp_path: Path, c_handlers: Path, kind: str, strands: int | None, workers: int
) -> None:
    ticks, first = failing_day(kind)
    if strands is not None and (workers == 0 or kind in ("object", "batch")):
        pytest.skip("symbols share strands in a dispatcher, and under native handlers")
    np.save(tmp_path / "day.npy", ticks)
    handler = refusing(kind, c_handlers, int(ticks["instrument_id"][first]))
    options = {} if strands is None else {"strands": strands}
    with pytest.raises(HandlerError) as caught:
        strand.replay(tmp_path / "day.npy", handler, workers=workers, **options)
    error = caught.value
    key = ticks["instrument_id"][first]
    assert error.tick.tobytes() == ticks[first].tobytes()
    assert error.number == np.count_nonzero(ticks["instrument_id"][: first + 1] == key)
    (said,) = error.partial.failures
    assert f"failed on {error.symbol} at sequence {error.sequence}" in said


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_without_its_input_again_the_first_failure_is_that_of_the_least_time(c_handlers: Path, workers: int) -> None:
    ticks, first = failing_day("C")
    ticks["ts_recv"] += np.arange(len(ticks))
    with pytest.raises(HandlerError) as caught:
        strand.replay(
            strand.testing.feed(ticks, [f"S{i}" for i in range(150)], batches=1_500),
            refusing("C", c_handlers, 0),
            workers=workers,
        )
    assert caught.value.tick.tobytes() == ticks[first].tobytes()


class WakesAndFails:
    """Asks for one time at its first tick, and fails at that time if its symbol is one of ``those``; fails on X."""

    at = 10**18 + 30_005
    those = 3

    def on_start(self, ctx: Any) -> None:
        self.ctx, self.asked = ctx, False

    def on_tick(self, tick: Any) -> None:
        if not self.asked:
            self.ctx.wake_at(self.at)
        self.asked = True
        if bytes(tick.action) == b"X":
            raise ValueError("tick")

    def on_wake(self, time: int) -> None:
        if int(self.ctx.symbol.removeprefix("#")) % self.those == 2:
            raise ValueError("timer")


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("first", [100, 3_000, 3_001, 5_000])
def test_of_timers_and_ticks_that_fail_the_error_is_the_first_in_the_order_of_the_feed(
    tmp_path: Path, first: int, workers: int
) -> None:
    ticks = np.asarray(failing_day("object")[0][:6_000])
    ticks["instrument_id"] %= 60
    ticks["action"] = b"T"
    ticks["action"][first:] = b"X"
    ticks["ts_recv"] = 10**18 + np.arange(len(ticks)) * 10
    np.save(tmp_path / "day.npy", ticks)
    error = failure_of(tmp_path / "day.npy", WakesAndFails, workers=workers)
    if ticks["ts_recv"][first] < WakesAndFails.at:
        assert error.tick.tobytes() == ticks[first].tobytes()
        assert "ValueError: tick" in str(error)
    else:  # the timers at one time fire by the order of symbols, before the first tick at it or later
        assert (error.symbol, error.tick) == ("#2", None)
        assert f"its timer at {WakesAndFails.at} ns: ValueError: timer" in str(error)


def failure_of(path: Path, handler: Any, **options: Any) -> HandlerError:
    with pytest.raises(HandlerError) as caught:
        strand.replay(path, handler, **options)
    return caught.value
