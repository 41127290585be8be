"""Handlers of one's own that ask for trades are called with those that the built-in handlers count."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand import UNDEF_PRICE, Dispatcher, Trade, batch_handler, handler, object_handler
from strand.binding import ffi
from strand.caller.run import CallerRun
from strand.errors import HandlerError
from strand.feeds import BaseFeed, FeedInfo
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_ORDER, KIND_TRADE, TRADE, zeros

DAY: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}
STATE = [("trades", "i8"), ("volume", "i8"), ("notional", "i8")]
SECOND = 10**9


class Orders(BaseFeed):
    """A feed of single orders, of ticks that are given."""

    def __init__(self, ticks: Any, *, ticks_are: Any = "orders", symbols: tuple[str, ...] = ("A", "B")) -> None:
        super().__init__()
        self._ticks, self._info, self._symbols = ticks, FeedInfo("mine", "mine", ticks=ticks_are), symbols

    @property
    def info(self) -> FeedInfo:
        return self._info

    @property
    def symbols(self) -> tuple[str, ...]:
        return self._symbols

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    def batches(self) -> Any:
        yield self._ticks


def tick(action: str, order: int = 0, *, at: int = 0, **fields: Any) -> Any:
    made = zeros(1)
    made["action"], made["order_id"], made["ts_recv"] = action.encode(), order, at * SECOND
    made["kind"] = KIND_TRADE if action == "T" else KIND_ORDER
    for name, value in {"price": UNDEF_PRICE, "side": b"N", **fields}.items():
        made[name] = value
    return made


def python(row: Any, trades: Any) -> None:
    row["trades"] += len(trades)
    row["volume"] += trades["size"].sum()
    row["notional"] += (trades["price"] * trades["size"]).sum()


@batch_handler(on="trade", state=STATE, name="batch")
def batch(symbol: str, trades: Any, row: Any) -> None:
    assert trades.dtype == TRADE
    assert len(trades)
    python(row, trades)


@object_handler(state=STATE, name="object")
class Each:
    def __init__(self) -> None:
        self.kept: list[Trade] = []

    def on_start(self, ctx: Any) -> None:
        self.row = ctx.row

    def on_trade(self, trade: Trade) -> None:
        self.kept.append(trade)
        self.row["trades"] += 1
        self.row["volume"] += trade.size
        self.row["notional"] += trade.price * trade.size


def compiled() -> Any:
    pytest.importorskip("numba")

    @handler(on="trade", state=STATE, name="compiled")
    def sums(row, trade):  # type: ignore[no-untyped-def]
        row.trades += 1
        row.volume += trade.size
        row.notional += trade.price * trade.size

    return sums


@pytest.fixture
def of_kind(request: pytest.FixtureRequest) -> Any:
    """A function of (kind): the handler that sums trades, in that kind."""

    def made(kind: str) -> Any:
        if kind == "c":
            source = request.getfixturevalue("c_handlers")
            return strand.native(source, "on_trades", on="trade", state=STATE, never_publishes=True)
        return {"batch": batch, "object": Each}.get(kind) or compiled()

    return made


KINDS = ("compiled", "c", "batch", "object")


def test_a_trade_has_the_same_layout_in_c_numpy_and_python() -> None:
    fields = dict(ffi.typeof("sd_traded").fields)
    del fields["unused"]
    assert list(fields) == list(TRADE.names or ()) == list(Trade._fields)
    assert ffi.sizeof("sd_traded") == TRADE.itemsize
    for name, field in fields.items():
        dtype, offset = TRADE.fields[name][:2]  # type: ignore[index]
        assert (offset, dtype.itemsize) == (field.offset, ffi.sizeof(field.type)), name


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [*KINDS[:2], *(pytest.param(kind, marks=pytest.mark.python) for kind in KINDS[2:])])
@pytest.mark.parametrize("chained", [False, True])
def test_the_sums_of_an_itch_day_are_those_of_the_built_in_handlers(
    of_kind: Any, kind: str, workers: int, chained: bool
) -> None:
    given = resolved = strand.handlers.resolve(of_kind(kind))
    if chained:
        given = strand.chain(strand.book(), resolved)
    # A tenth of the day, but for those that are quick: each call of Python takes its time.
    part: dict[str, Any] = DAY if kind in KINDS[:2] else DAY | {"limit": 20_000}
    stats = strand.replay(sample_path(), "trade_stats", **part).rows.array
    rows = strand.replay(sample_path(), given, workers=workers, **part).rows.array
    mine = rows[resolved.name] if chained else rows
    assert stats["trades"].sum() > (10_000 if kind in KINDS[:2] else 1_000)
    for name in ("trades", "volume"):
        assert mine[name].tolist() == stats[name].tolist()
    assert (mine["notional"] / 1e9).tolist() == stats["notional"].tolist()


def executions() -> Any:
    """Fills of a bid and an ask, of one replaced, at a price of its own, not printable, and of no order; hidden ones at
    the bid, at the ask, between; a cross; and a fill after the day has begun anew."""
    return np.concatenate(
        [
            tick("A", 1, side=b"B", price=100, size=50),
            tick("A", 2, side=b"A", price=110, size=50),
            tick("F", 1, side=b"B", size=10, ref_id=901),
            tick("F", 2, side=b"A", size=10, ref_id=902, price=109),
            tick("F", 2, side=b"A", size=5, ref_id=903, flags=1),
            tick("M", 2, side=b"A", price=112, size=30, ref_id=3),
            tick("F", 3, side=b"A", size=7, ref_id=904),
            tick("F", 99, side=b"A", size=7, ref_id=905),
            tick("F", 98, side=b"B", size=8, ref_id=906, price=101),
            tick("T", price=100, size=3, side=b"B", ref_id=907),
            tick("T", price=112, size=3, side=b"B", ref_id=908),
            tick("T", price=105, size=3, side=b"B", ref_id=909),
            tick("T", price=104, size=1000, flags=4, ref_id=910),
            tick("T", price=104, size=0, flags=4, ref_id=911),
            tick("C", 1, size=0),
            tick("T", price=100, size=4, side=b"B", ref_id=912),
            tick("R", kind=4, side=b"N"),
            tick("F", 3, side=b"A", size=7, ref_id=913),
            tick("T", price=112, size=4, side=b"B", ref_id=914),
        ]
    )


#: match, order, price, size, aggressor, hidden, cross; worked out by hand.
EXPECTED = [
    (901, 1, 100, 10, b"A", False, False),
    (902, 2, 109, 10, b"B", False, False),
    (904, 3, 112, 7, b"B", False, False),
    (906, 98, 101, 8, b"A", False, False),
    (907, 0, 100, 3, b"A", True, False),
    (908, 0, 112, 3, b"B", True, False),
    (909, 0, 105, 3, b"N", True, False),
    (910, 0, 104, 1000, b"N", False, True),
    (912, 0, 100, 4, b"N", True, False),
    (914, 0, 112, 4, b"N", True, False),
]


@pytest.mark.parametrize("workers", [0, 1])
def test_executions_of_a_feed_of_orders_are_as_worked_out_by_hand(workers: int) -> None:
    ticks = executions()
    ticks["sequence"] = np.arange(1, len(ticks) + 1)
    result = strand.replay(Orders(ticks), Each, workers=workers)
    kept = result.objects["A"].kept
    assert [(w.kind, w.count, w.example) for w in result.warnings] == [("unpriced trades", 2, "2 of A")]
    assert [(t.match_id, t.order_id, t.price, t.size, t.aggressor, t.hidden, t.cross) for t in kept] == EXPECTED
    assert [t.sequence for t in kept] == [int(s) for s, m in zip(ticks["sequence"], ticks["ref_id"], strict=True)
                                          if m in [e[0] for e in EXPECTED]]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_handlers_are_called_with_the_same_trades(of_kind: Any, kind: str) -> None:
    result = strand.replay(Orders(executions()), of_kind(kind))
    row = result.rows["A"]
    assert [(w.kind, w.count) for w in result.warnings] == [("unpriced trades", 2)]
    prices, sizes = ([e[at] for e in EXPECTED] for at in (2, 3))
    assert row["trades"] == len(EXPECTED)
    assert row["volume"] == sum(sizes)
    assert row["notional"] == sum(p * s for p, s in zip(prices, sizes, strict=True))


# ---- ticks that come again: each has been in the book once


def fills(n: int) -> Any:
    """An order that is taken bit by bit, a fill a second, with ticks between that are no trades."""
    made = [tick("A", 1, side=b"A", price=100, size=10 * n)]
    for i in range(n):
        made += [tick("F", 1, side=b"A", size=1 + i % 3, ref_id=i + 1, at=i), tick("A", 100 + i, side=b"B", price=9,
                                                                                 size=1, at=i)]  # fmt: skip
    return np.concatenate(made)


STEP = 7 * SECOND


def closes(symbol: str, time: int, row: Any, ctx: Any) -> None:
    ctx.emit((time, row["volume"]))
    row["volume"] = row["open"] = 0


@batch_handler(
    on="trade",
    state=[("volume", "i8"), ("open", "i8")],
    outputs={"steps": [("end", "i8"), ("volume", "i8")]},
    on_wake=closes,
)
def steps(symbol: str, trades: Any, row: Any, ctx: Any) -> int:
    n = len(trades)
    assert len(ctx.times) == n
    if not row["open"]:
        row["open"] = 1
        n = ctx.wake_at((int(ctx.times[0]) // STEP + 1) * STEP, at=0)
    row["volume"] += trades["size"][:n].sum()
    return n


@object_handler(outputs={"steps": [("end", "i8"), ("volume", "i8")]})
class Steps:
    def on_start(self, ctx: Any) -> None:
        self.ctx, self.volume, self.open = ctx, 0, False

    def on_trade(self, trade: Trade) -> None:
        self.volume += trade.size
        if not self.open:
            self.open = True
            self.ctx.wake_at((self.ctx.time // STEP + 1) * STEP)

    def on_wake(self, time: int) -> None:
        self.ctx.emit((time, self.volume))
        self.volume, self.open = 0, False


def compiled_steps() -> Any:
    pytest.importorskip("numba")

    def wake(row, time, emit):  # type: ignore[no-untyped-def]
        emit.steps(time, row.volume)
        row.volume = 0
        row.open = False

    @handler(
        on="trade",
        state=[("volume", "i8"), ("open", "?")],
        outputs={"steps": [("end", "i8"), ("volume", "i8")]},
        on_wake=wake,
    )
    def timed(row, trade, ctx, emit):  # type: ignore[no-untyped-def]
        row.volume += trade.size
        if not row.open:
            row.open = True
            ctx.wake_at((ctx.time // 7_000_000_000 + 1) * 7_000_000_000)

    return timed


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chained", [False, True])
def test_timers_fall_between_trades_and_no_fill_is_taken_twice(kind: str, workers: int, chained: bool) -> None:
    like: Any = {"batch": steps, "object": Steps}.get(kind) or compiled_steps()
    given = strand.chain(strand.book(), strand.handlers.resolve(like)) if chained else like
    result = strand.replay(Orders(fills(100)), given, workers=workers)
    expected = [((k + 1) * STEP, sum(1 + i % 3 for i in range(7 * k, 7 * k + 7))) for k in range(14)]
    assert [(int(r["end"]), int(r["volume"])) for r in result.outputs["steps"]] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_emitted_belongs_to_the_tick_of_the_trade(kind: str) -> None:
    outputs = {"seen": [("match", "u8")]}
    if kind == "batch":

        @batch_handler(on="trade", state=STATE, outputs=outputs)
        def told(symbol: str, trades: Any, row: Any, ctx: Any) -> None:
            ctx.emit(trades["match_id"].astype([("match", "u8")]), at=np.arange(len(trades)))

        like: Any = told
    elif kind == "object":

        @object_handler(outputs=outputs)
        class Told:
            def on_start(self, ctx: Any) -> None:
                self.ctx = ctx

            def on_trade(self, trade: Trade) -> None:
                self.ctx.emit((trade.match_id,))

        like = Told
    else:
        pytest.importorskip("numba")

        @handler(on="trade", state=STATE, outputs=outputs)
        def tells(row, trade, emit):  # type: ignore[no-untyped-def]
            emit.seen(trade.match_id)

        like = tells
    seen = strand.replay(Orders(fills(20)), like).outputs["seen"]
    assert seen["match"].tolist() == list(range(1, 21))
    assert seen["ts"].tolist() == [i * SECOND for i in range(20)]


class Fails:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_trade(self, trade: Trade) -> None:
        if trade.match_id == 3:
            raise ValueError("no 3")
        self.seen.append((trade.match_id, trade.price))


def test_after_a_failure_the_fills_behind_it_still_have_their_orders_price() -> None:
    from dataclasses import replace

    feed = Orders(fills(6))
    known = strand.handlers.resolve(Fails).known(feed.info)
    with Dispatcher(["A"], known, workers=1, cores=None, on_error="quarantine") as d:
        d.publish(fills(6))
        d.drain()
        assert [error.reason for error in d.failures] == ["ValueError: no 3"]
        d.release(0)
        d.drain()
        assert d.objects["A"].seen == [(n, 100) for n in (1, 2, 4, 5, 6)]
    assert replace(known) == known


def test_places_and_counts_that_are_none_are_refused() -> None:
    def wakes(symbol: str, time: int, row: Any) -> None: ...

    for said, match in ((99, "returned 99 for 3 trades"), ("all", "returned 'all'")):

        @batch_handler(on="trade", state=STATE, on_wake=wakes)
        def counts(symbol: str, trades: Any, row: Any, ctx: Any, said: Any = said) -> Any:
            return said

        with pytest.raises(HandlerError, match=match):
            strand.replay(Orders(fills(3)), counts)
    for at in (-1, 3, 0.5):

        @batch_handler(on="trade", state=STATE, outputs={"x": [("y", "i8")]})
        def emits(symbol: str, trades: Any, row: Any, ctx: Any, at: Any = at) -> None:
            ctx.emit((1,), at=at)

        with pytest.raises(HandlerError, match="at: "):
            strand.replay(Orders(fills(3)), emits)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dispatcher_of_one_s_own_warns_of_trades_without_a_price_at_its_end(workers: int) -> None:
    known = strand.handlers.resolve(Each).known(Orders(executions()).info)
    d = Dispatcher(["A", "B"], known, workers=1, cores=None) if workers else CallerRun(["A", "B"], known)
    with pytest.warns(RuntimeWarning, match="2 executions of orders that the feed has not added have no price"), d:
        d.publish(executions())


def compiled_trades(row: Any, trade: Any) -> None:
    row.trades += 1


class CountsTrades:
    def __init__(self) -> None:
        self.trades = 0

    def on_trade(self, trade: Trade) -> None:
        self.trades += 1


def batch_trades(symbol: str, trades: Any, row: Any) -> None:
    row["trades"] += len(trades)


OWN_TRADES: dict[str, Any] = {
    "compiled": lambda: handler(state=[("trades", "i8")], on="trade")(compiled_trades),
    "batch": lambda: batch_handler(state=[("trades", "i8")], on="trade")(batch_trades),
    "object": lambda: object_handler()(CountsTrades),
    "in a chain": lambda: strand.chain(strand.handlers.resolve("count"), OWN_TRADES["batch"]()),
}


@pytest.mark.parametrize("make", OWN_TRADES.values(), ids=OWN_TRADES)
def test_orders_of_an_unsaid_kind_are_a_warning_for_handlers_of_one_s_own(make: Any) -> None:
    ticks = np.concatenate([tick("A", 1, price=5, size=3, side=b"B"), tick("F", 1, price=5, size=3, side=b"B")])

    def kinds(feed: Orders) -> list[str]:
        return [warning.kind for warning in strand.replay(feed, make(), workers=0).warnings]

    unsaid = Orders(ticks, ticks_are="plain", symbols=("A",))
    unsaid._info = FeedInfo("mine", "mine", ticks="plain", ticks_assumed=True)
    assert kinds(unsaid) == ["orders of an unsaid kind"]
    assert kinds(Orders(ticks, ticks_are="plain", symbols=("A",))) == []


def test_handlers_that_take_ticks_alone_have_no_warning_of_unsaid_orders() -> None:
    ticks = tick("A", 1, price=5, size=3, side=b"B")
    unsaid = Orders(ticks, ticks_are="plain", symbols=("A",))
    unsaid._info = FeedInfo("mine", "mine", ticks="plain", ticks_assumed=True)
    on_ticks = batch_handler(state=[("trades", "i8")])(batch_trades)
    assert strand.replay(unsaid, on_ticks, workers=0).warnings == ()


@handler(on="trade", state=[("trades", "i8"), ("volume", "i8")])
def fails_on_9999(row, trade):  # type: ignore[no-untyped-def]
    if trade.size == 9999:
        raise ValueError("9999")
    row.trades += 1
    row.volume += trade.size


@pytest.mark.parametrize("failing", [0, 31, 32, 150, 299])
def test_a_trade_that_fails_among_others_is_the_one_named_and_nothing_behind_it_counts(failing: int) -> None:
    drawn = np.random.default_rng(failing)
    ticks = zeros(300)
    ticks["ts_recv"] = ticks["sequence_low"] = np.arange(1, 301)
    ticks["kind"], ticks["action"], ticks["side"] = KIND_TRADE, drawn.choice([b"T", b"N"], 300, p=[0.8, 0.2]), b"N"
    ticks["price"] = drawn.choice([10**9, UNDEF_PRICE], 300)
    ticks["size"] = drawn.integers(1, 100, 300)
    for field, value in (("action", b"T"), ("price", 10**9), ("size", 9999)):
        ticks[field][failing] = value
    result = strand.replay(Orders(ticks, ticks_are="plain", symbols=("A",)), fails_on_9999, workers=1,
                           on_error="quarantine")  # fmt: skip
    before = ticks[:failing]
    seen = before[(before["action"] == b"T") & (before["price"] != UNDEF_PRICE)]
    assert result.rows["A"].tolist() == (len(seen), seen["size"].sum())
    assert [f"sequence {failing + 1}" in text for text in result.failures] == [True]
    unpriced = int(((before["action"] == b"T") & (before["price"] == UNDEF_PRICE)).sum())
    assert [w.count for w in result.warnings if w.kind == "unpriced trades"] == [unpriced] * (unpriced > 0)


@pytest.mark.parametrize(("returned", "said"), [("-1", "-1"), ("INT64_MAX", "9223372036854775807")])
def test_a_c_handler_that_returns_no_count_of_its_trades_fails_at_one_of_them(
    tmp_path: Path, returned: str, said: str
) -> None:
    source = tmp_path / "odd.c"
    source.write_text(
        '#include "sd_handler.h"\n'
        "int64_t odd(void *rows, const sd_traded *trades, int64_t n, sd_context *ctx) {\n"
        "  (void)rows, (void)ctx;\n"
        f"  return trades[n - 1].size > 50 ? {returned} : n;\n"
        "}\n"
    )
    made = tmp_path / "odd.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{strand.get_include()}", "-o", made, source], check=True)
    ticks = zeros(63)
    ticks["ts_recv"] = ticks["sequence_low"] = ticks["size"] = np.arange(1, 64)
    ticks["kind"], ticks["action"], ticks["side"], ticks["price"] = KIND_TRADE, b"T", b"N", 10**9
    odd = strand.native(made, "odd", on="trade", state=[("unused", "i8")], never_publishes=True)
    with pytest.raises(HandlerError, match=rf"returned {said} for \d+ trades") as caught:
        strand.replay(Orders(ticks, ticks_are="plain", symbols=("A",)), odd, workers=1)
    assert caught.value.sequence in range(1, 52)
