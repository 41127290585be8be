"""One input is one result: the same rows, at every rest and at the end, as the plain loop's, whatever does the work."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_feed import order_feed, synthetic_day
from hypothesis import given, settings
from hypothesis import strategies as st

import strand
from examples import examples
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BAR_PARTIAL, Handler, object_handler
from strand.policies.policy import Policy

pytestmark = pytest.mark.python

HAS_NUMBA = importlib.util.find_spec("numba") is not None
#: A rest after so many ticks of the day: three of them.
EVERY = 350
STATE = [("ticks", "u8"), ("hash", "u8"), ("sum", "f8"), ("last", "i8", (3,))]


def day() -> tuple[Any, tuple[str, ...]]:
    return synthetic_day(messages=1_000)


@strand.batch_handler(state=STATE)
def in_python(symbol: str, ticks: Any, row: Any) -> None:
    """Every field leaves its mark, in order: 64-bit arithmetic wraps, floats are added one by one."""
    mark, total = int(row["hash"]), float(row["sum"])
    columns = [ticks[name].tolist() for name in ("price", "order_id", "action", "ts_recv", "size")]
    for price, order_id, action, ts_recv, size in zip(*columns, strict=True):
        mark = (mark * 6364136223846793005 + price * 31 + order_id * 7 + ord(action) + ts_recv) % 2**64
        total += size / 3
    row["last"] = [*row["last"].tolist(), *ticks["sequence"].tolist()][-3:]
    row["hash"], row["sum"] = mark, total
    row["ticks"] += np.uint64(len(ticks))


if HAS_NUMBA:

    @strand.handler(state=STATE)
    def compiled(row: Any, tick: Any) -> None:
        row.ticks += 1
        row.hash = row.hash * np.uint64(6364136223846793005) + np.uint64(tick.order_id) + np.uint64(tick.ts_recv)
        row.sum += tick.size / 3.0
        row.last[0] = tick.price


@strand.batch_handler(state=[("above", "u8"), ("mark", "u8")])
def over_the_book(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """Uses the book as it was right after each tick."""
    top = ctx.after["book"]
    row["above"] += np.count_nonzero(ticks["price"] > top["bid_price"])
    for size in (top["bid_size"] * np.uint64(3) + top["ask_size"]).tolist():
        row["mark"] = (int(row["mark"]) * 31 + size) % 2**64


@strand.batch_handler(
    state=[("n", "u8")], outputs={"marks": [("n", "u8"), ("price", "i8")], "trades": [("price", "i8")]}
)
def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """A record every third tick, and two for each trade, the later ones first."""
    places = np.arange(len(ticks))
    count = int(row["n"]) + places + 1
    third = places[count % 3 == 0]
    marks = np.zeros(len(third), [("n", "u8"), ("price", "i8")])
    marks["n"], marks["price"] = count[third], ticks["price"][third]
    ctx.emit(marks[::-1].copy(), third[::-1], "marks")
    for i in places[ticks["kind"] == 2].tolist():
        ctx.emit([(int(ticks["price"][i]),), (i % 1,)], i, "trades")
    row["n"] += len(ticks)


@object_handler(outputs={"trades": [("price", "i8")]})
class TradesOut:
    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_trade(self, tick: Any) -> None:
        self.ctx.emit((tick.price,))


@object_handler(state=[("mark", "u8")])
class PerSymbol:
    """An object a symbol, which remembers what is not in its row."""

    def on_start(self, ctx: Any) -> None:
        self.row = ctx.row
        self.trades: list[int] = []

    def on_trade(self, tick: Any) -> None:
        self.trades.append(tick.price)
        self.row["mark"] = (sum(self.trades[-5:]) + len(self.trades)) % 2**64


STEP = 600 * 10**9


def closes(symbol: str, time: int, row: Any, ctx: Any) -> None:
    """Emits how many ticks came since the last time, and now and then asks again at once."""
    ctx.emit((row["open"], time))
    row["mark"] = (int(row["mark"]) * 31 + time + int(row["open"])) % 2**64
    row["open"] = 0
    if row["mark"] % 4 == 0:
        ctx.wake_at(time + STEP // 3)


def closes_last(symbol: str, row: Any, ctx: Any) -> None:
    ctx.emit((row["open"], ctx.time))


@strand.batch_handler(
    state=[("open", "u8"), ("mark", "u8")],
    outputs={"steps": [("ticks", "u8"), ("end", "u8")]},
    on_wake=closes,
    on_finish=closes_last,
)
def in_steps(symbol: str, ticks: Any, row: Any, ctx: Any) -> int:
    """A timer at the end of the step that the first tick since the last timer is in."""
    n = len(ticks)
    if not row["open"]:
        n = ctx.wake_at((int(ctx.times[0]) // STEP + 1) * STEP, at=0)
    row["open"] += n
    row["mark"] = (int(row["mark"]) + int(ticks["price"][:n].sum())) % 2**64
    return n


@object_handler(state=[("bars", "u8"), ("mark", "u8")], outputs={"late": [("bars", "u8")]})
class AfterBars:
    """Is told of each bar, whatever closed it, and asks for a timer some time later."""

    def on_start(self, ctx: Any) -> None:
        self.ctx = ctx

    def on_bar(self, bar: Any) -> None:
        row = self.ctx.row
        row["bars"] += 1
        row["mark"] = (int(row["mark"]) * 31 + bar.close + self.ctx.time) % 2**64
        if not bar.flags & BAR_PARTIAL:
            self.ctx.wake_at(self.ctx.time + STEP // 7)

    def on_wake(self, time: int) -> None:
        self.ctx.emit((int(self.ctx.row["bars"]),))


if HAS_NUMBA:

    def compiled_closes(row: Any, time: Any, emit: Any, ctx: Any) -> None:
        emit.steps(row.open, time)
        row.open = 0
        if row.mark % np.uint64(4) == 0:
            ctx.wake_at(time + STEP // 3)

    def compiled_closes_last(row: Any, emit: Any, ctx: Any) -> None:
        emit.steps(row.open, ctx.time)

    @strand.handler(
        state=[("open", "u8"), ("mark", "u8")],
        outputs={"steps": [("ticks", "u8"), ("end", "u8")]},
        on_wake=compiled_closes,
        on_finish=compiled_closes_last,
    )
    def compiled_steps(row: Any, tick: Any, emit: Any, ctx: Any) -> None:
        if row.open == 0:
            ctx.wake_at((ctx.time // STEP + 1) * STEP)
        row.open += np.uint64(1)
        row.mark = row.mark * np.uint64(31) + np.uint64(tick.price)


@cache
def handlers() -> dict[str, Callable[[], dict[str, Any]]]:
    """Handlers of a replay, by name: one handler for all, or one a symbol."""
    names = [name for name in day()[1] if name]
    made: dict[str, Callable[[], dict[str, Any]]] = {
        name: (lambda name=name: {"handler": name}) for name in ("count", "vwap", "book")
    }
    made["spin"] = lambda: {"handler": strand.handlers.spin(3)}
    made["python"] = lambda: {"handler": in_python}
    made["emits"] = lambda: {"handler": emits}
    made["emits in a chain"] = lambda: {"handler": strand.chain("count", strand.book(), emits)}
    made["object emits"] = lambda: {"handler": TradesOut}
    made["two emit"] = lambda: {"handlers": {names[0]: emits, "*": TradesOut}}
    made["chain"] = lambda: {"handler": strand.chain("count", strand.book(), over_the_book)}
    made["object"] = lambda: {"handler": PerSymbol}
    bars = strand.bars("30m", book=True, fills="reduce", fill=True)
    made["bars"] = lambda: {"handler": bars}
    made["after bars"] = lambda: {"handler": strand.chain(bars, AfterBars)}
    made["steps"] = lambda: {"handler": in_steps}
    made["steps after bars"] = lambda: {"handler": strand.chain(bars, in_steps)}
    if HAS_NUMBA:
        made["numba"] = lambda: {"handler": compiled}
        made["numba steps"] = lambda: {"handler": compiled_steps}
        made["bars and numba steps"] = lambda: {"handler": strand.chain(bars, compiled_steps)}
    mixed: dict[str, Handler | str] = {names[0]: in_python, names[1]: "book", names[2]: in_python, "*": "count"}
    made["mixed"] = lambda: {"handlers": mixed}
    return made


def every_policy() -> list[Any]:
    """Each policy there is, as it comes, and one with a cap."""
    found = [getattr(strand, name) for name in strand.__all__]
    policies = [c() for c in found if isinstance(c, type) and issubclass(c, Policy)]
    return [*policies, strand.Fair(slice_ms=0.01, cpu_share=0.9, burst_ms=1)]


@dataclass(frozen=True)
class Way:
    """Ways in which the same ticks come to their handlers."""

    batch: int
    options: dict[str, Any]


@st.composite
def ways(draw: st.DrawFn) -> Way:
    options = {
        "workers": draw(st.sampled_from([1, 2, 3, 4])),
        "strands": draw(st.sampled_from(["auto", "per-symbol", 1, 3, 7])),
        "policy": draw(st.sampled_from(every_policy())),
        "capacity_ticks": draw(st.sampled_from([1, 7, 100, 65_536])),
        "budget_ticks": draw(st.sampled_from([1, 31, 4096])),
        "batch_ticks": draw(st.sampled_from([1, 64, 4096])),
        "idle": draw(st.sampled_from(["spin", "backoff", "park"])),
        "publisher_drains": draw(st.booleans()),
        "cores": draw(st.sampled_from([None, "auto"])),
    }
    if isinstance(options["policy"], strand.Fair):  # symbols of different groups share no strand
        options["groups"] = {"*": "all"}
    return Way(draw(st.sampled_from([13, 500, 4096])), options)


def left(result: strand.ReplayResult) -> Any:
    """Parts of a result that have to be the same."""
    return result.intervals, result.fingerprint, result.ticks, {n: a.tobytes() for n, a in result.outputs.items()}


@cache
def plain(name: str) -> Any:
    """Rows that the plain loop leaves of the generated day."""
    ticks, names = day()
    given_ = handlers()[name]()
    return left(strand.replay(order_feed(ticks, names), workers=0, fingerprint_every=EVERY, **given_))


@pytest.mark.parametrize("name", handlers())
@settings(max_examples=examples(8) // 2)
@given(way=ways())
def test_any_way_leaves_what_the_plain_loop_leaves(name: str, way: Way) -> None:
    ticks, names = day()
    feed = order_feed(ticks, names, batches=way.batch)
    result = strand.replay(feed, fingerprint_every=EVERY, **handlers()[name](), **way.options)
    assert left(result) == plain(name)


@pytest.mark.parametrize("name", handlers())
def test_what_is_compared_is_not_nothing(name: str) -> None:
    """Every handler's rows change between rests, and with one tick of one symbol."""
    ticks, names = day()
    intervals, fingerprint, _, outputs = plain(name)
    assert all(outputs.values())
    assert len({i.fingerprint for i in intervals}) == len(intervals) >= 3
    # What handlers emit is part of each, as far as it had come.
    assert intervals[-1].fingerprint == fingerprint
    for output in outputs:
        counts = [i.outputs[output][0] for i in intervals]
        assert counts == sorted(counts)
        assert 0 < counts[0] < counts[-1]
    other = ticks.copy()
    # A trade of a symbol that all handlers here look at, without its effect on any other tick.
    at = int(np.flatnonzero(other["kind"] == 2)[-1])
    other["size"][at] += 1
    other["price"][at] += 10**7
    again = left(strand.replay(order_feed(other, names), workers=0, fingerprint_every=EVERY, **handlers()[name]()))
    assert again[1] != fingerprint


SEEN = [("count", "<u8"), ("size", "<u4"), ("place", "u1")]


@pytest.mark.parametrize("kind", ["C", "Python"])
def test_output_files_are_the_same_byte_for_byte(tmp_path: Path, c_handlers: Path, kind: str) -> None:
    ticks, names = day()
    ticks = ticks.copy()
    ticks["depth"] = np.arange(len(ticks)) % 3
    seen = {"seen": SEEN, "fifths": [("n", "<u4")]}
    in_c = strand.native(c_handlers, "on_echo", state=[("ticks", "u8")], outputs=seen, never_publishes=True)
    handler: Any = in_c if kind == "C" else emits
    first, second = handler.outputs
    suffixes = ["npy", "csv", *(["parquet", "arrow"] if importlib.util.find_spec("pyarrow") else [])]

    def written(suffix: str, **options: Any) -> tuple[bytes, bytes, str]:
        paths = {name: tmp_path / f"{name}.{suffix}" for name in (first, second)}
        feed = order_feed(ticks, names, batches=options.pop("batch", 4096))
        result = strand.replay(feed, handler, out=paths, cores=None, **options)
        return paths[first].read_bytes(), paths[second].read_bytes(), result.fingerprint

    for suffix in suffixes:
        expected = written(suffix, workers=0)
        assert len(expected[0]) > 2_500
        for workers, strands, batch in ((0, "auto", 33), (1, 3, 100), (2, "per-symbol", 4096), (4, "auto", 7)):
            assert written(suffix, workers=workers, strands=strands, batch=batch) == expected
    # Collected or written, in any format: one fingerprint.
    fingerprints = {written(suffix, workers=2)[2] for suffix in suffixes}
    assert fingerprints == {strand.replay(order_feed(ticks, names), handler, workers=1).fingerprint}


def test_one_record_that_is_emitted_otherwise_is_another_fingerprint() -> None:
    ticks, names = day()

    def emitting(odd: int) -> Any:
        @strand.batch_handler(state=[("n", "u8")], outputs={"prices": [("price", "i8")]})
        def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
            records = np.zeros(len(ticks), [("price", "i8")])
            records["price"] = ticks["price"] + (ticks["sequence"] == odd)
            ctx.emit(records, np.arange(len(ticks)))

        return strand.replay(order_feed(ticks, names), on_ticks, workers=1)

    results = [emitting(-1 % 2**63), emitting(int(ticks["sequence"][1000])), emitting(-1 % 2**63)]
    assert results[0].fingerprint == results[2].fingerprint != results[1].fingerprint
    assert (results[0].rows.array == results[1].rows.array).all()


@pytest.mark.parametrize("handler", ["count", "vwap", "book"])
def test_the_sample_day_is_the_same_on_any_number_of_workers(handler: str) -> None:
    options: Any = {"feed_options": {"date": SAMPLE_DATE}, "fingerprint_every": 50_000}
    expected = left(strand.replay(sample_path(), handler, workers=0, **options))
    for workers, strands in ((1, "auto"), (2, "per-symbol"), (3, "auto"), (4, "per-symbol")):
        result = strand.replay(sample_path(), handler, workers=workers, strands=strands, **options)
        assert left(result) == expected


def test_the_plain_loop_is_the_same_at_any_batch_size() -> None:
    ticks, names = day()
    for name, batch in zip(handlers(), cycle((1, 77))):
        feed = order_feed(ticks, names, batches=batch)
        assert left(strand.replay(feed, workers=0, fingerprint_every=EVERY, **handlers()[name]())) == plain(name)


RECORDED = [
    ("lobster/*message_10.csv", "book", "pyarrow"),
    ("dbn-es/*.dbn.zst", "book", "databento_dbn"),
    ("dbn/test_data.mbp-10.v3.dbn.zst", "count", "databento_dbn"),
    ("itch50/*", "book", None),
    ("lean/*.zip", "count", "pyarrow"),
]


@pytest.mark.parametrize(("pattern", "handler", "package"), RECORDED)
def test_recorded_files_are_the_same_on_any_number_of_workers(
    shared_data: Path, pattern: str, handler: str, package: str | None, one_in: Callable[[int], int]
) -> None:
    if package is not None:
        pytest.importorskip(package)
    paths = sorted(shared_data.glob(pattern))
    if not paths:
        pytest.skip(f"no {pattern} in {shared_data}")
    for path in paths[: 4 // one_in(2)]:
        settings: Any = {"limit": 100_000 // one_in(3), "fingerprint_every": 7_000}
        expected = strand.replay(path, handler, workers=0, **settings)
        assert expected.ticks > 0
        for workers, strands in ((1, "auto"), (2, "per-symbol"), (3, 3), (4, "auto")):
            result = strand.replay(path, handler, workers=workers, strands=strands, pin_publisher=False, **settings)
            assert left(result) == left(expected)
            # Not by the digest alone: byte for byte.
            assert result.rows.array.tobytes() == expected.rows.array.tobytes()
