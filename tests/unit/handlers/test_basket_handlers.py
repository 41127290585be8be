"""Baskets on any number of workers, of every kind of handler: the same as a loop of Python's over the ticks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_feed import synthetic_day
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import strand
from strand import testing
from strand.errors import ConfigurationError, DifferenceError, HandlerError, SavedStateError, UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.replaying.result import ReplayResult
from strand.ticks import clear_records

ROW = [("n", "i8"), ("last", "i8")]
BASKET = [("mix", "u8"), ("n", "i8"), ("size", "i8", 4)]
OUTPUT = {"tens": [("mix", "u8"), ("index", "i8")]}
KINDS = ["compiled", "batch", "object"]
#: Two that overlap by one symbol, two in a chain with a third, and one by itself.
OVERLAPPING = {"a": ["s0", "s1"], "b": ["s1", "s2", "s3"], "c": ["s3", "s4"], "d": ["s6", "s5"], "e": ["s7"]}
SYMBOLS = 10


def ticks_of(n: int, seed: int = 1, symbols: int = SYMBOLS) -> npt.NDArray[Any]:
    draw = np.random.default_rng(seed)
    ticks = strand.ticks.zeros(n)
    ticks["ts_recv"] = ticks["ts_event"] = np.cumsum(draw.integers(0, 3, n)) + 1
    ticks["instrument_id"] = (draw.random(n) ** 2 * symbols).astype(np.uint32)
    ticks["size"] = draw.integers(1, 100, n)
    ticks["price"] = draw.integers(1, 1000, n)
    ticks["sequence_low"] = np.arange(n) + 1
    ticks["kind"], ticks["action"], ticks["side"] = strand.ticks.KIND_TRADE, b"T", b"N"
    return ticks


def feed_of(ticks: npt.NDArray[Any], **options: Any) -> testing.ListFeed:
    return testing.ListFeed(ticks, [f"s{i}" for i in range(SYMBOLS)], batches=options.pop("batches", 700), **options)


def mixed(mix: int, tick: Any, member: int) -> int:
    return (mix * 31 + int(tick.size) * 7 + int(tick.instrument_id) + member) % 2**64


def handler_of(kind: str, baskets: Any) -> Any:
    """A handler that tells every order of ticks, and every member, from every other."""
    declare = strand.basket_handler(
        baskets=baskets, state=ROW, basket_state=BASKET, outputs=OUTPUT, name="mixes",
        **({"kind": kind} if kind == "batch" else {}),
    )  # fmt: skip
    if kind == "compiled":

        @declare
        def on_tick(tick: Any, row: Any, basket: Any, member: int, index: int, emit: Any) -> None:  # noqa: PLR0917
            row.n += 1
            row.last = basket.n
            basket.n += 1
            basket.size[member] += tick.size
            more = np.uint64(tick.size * 7 + np.int64(tick.instrument_id) + member)
            basket.mix = basket.mix * np.uint64(31) + more
            if basket.n % 10 == 0:
                emit.tens(basket.mix, index)

        return on_tick
    if kind == "batch":

        @declare
        def on_ticks(ticks: Any, rows: Any, basket: Any, members: Any, ctx: Any) -> None:
            assert len(members) == len(ticks)
            for i, (tick, member) in enumerate(zip(ticks, members.tolist(), strict=True)):
                row = rows[member]
                row["n"] += 1
                row["last"] = basket["n"]
                basket["n"] += 1
                basket["size"][member] += tick["size"]
                basket["mix"] = np.uint64(mixed(int(basket["mix"]), strand.Tick(*tick.tolist()), member))
                if basket["n"] % 10 == 0:
                    ctx.emit((basket["mix"], ctx.index), at=i)

        return on_ticks

    class Mixes:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: strand.Tick, row: Any, basket: Any, member: int) -> None:
            row["n"] += 1
            row["last"] = basket["n"]
            basket["n"] += 1
            basket["size"][member] += tick.size
            basket["mix"] = np.uint64(mixed(int(basket["mix"]), tick, member))
            if basket["n"] % 10 == 0:
                self.ctx.emit((basket["mix"], self.ctx.index))

    return declare(Mixes)


def plain(ticks: npt.NDArray[Any], baskets: Mapping[str, list[str]]) -> tuple[Any, Any, list[tuple[int, int, int]]]:
    """The same without Strand: rows by symbol, baskets by name, and what is emitted with the number of its tick."""
    rows = {f"s{i}": [0, 0] for i in range(SYMBOLS)}
    kept = {name: [0, 0, [0, 0, 0, 0]] for name in baskets}
    emitted = []
    for number, record in enumerate(ticks):
        tick = strand.Tick(*record.tolist())
        symbol = f"s{tick.instrument_id}"
        for index, (name, members) in enumerate(baskets.items()):
            if symbol not in members:
                continue
            member, row, basket = members.index(symbol), rows[symbol], kept[name]
            row[0] += 1
            row[1] = basket[1]
            basket[1] += 1
            basket[2][member] += tick.size
            basket[0] = mixed(basket[0], tick, member)
            if basket[1] % 10 == 0:
                emitted.append((number, basket[0], index))
    return rows, kept, emitted


def assert_plain(run: ReplayResult, ticks: npt.NDArray[Any], baskets: Mapping[str, list[str]]) -> None:
    rows, kept, emitted = plain(ticks, baskets)
    assert {name: list(run.rows[name].tolist()) for name in rows} == rows
    found = {name: [int(row["mix"]), int(row["n"]), row["size"].tolist()] for name, row in run.baskets.items()}
    assert found == kept
    output = run.outputs["tens"]
    assert [(int(r["number"]), int(r["mix"]), int(r["index"])) for r in np.asarray(output)] == emitted


@pytest.mark.parametrize("kind", KINDS)
def test_runs_under_seeds_are_those_of_the_plain_loop(kind: str) -> None:
    ticks = ticks_of(400)
    handler = handler_of(kind, OVERLAPPING)
    testing.check_seeds(feed_of(ticks, batches=50), handler, seeds=range(12), workers=3, budget_ticks=5)
    assert_plain(testing.seeded(feed_of(ticks), handler, seed=7, workers=3), ticks, OVERLAPPING)


@st.composite
def partitions(draw: st.DrawFn) -> dict[str, list[str]]:
    """Baskets of up to four symbols, which may overlap."""
    members = st.lists(st.integers(0, SYMBOLS - 1), min_size=1, max_size=4, unique=True)
    found = draw(st.lists(members, min_size=1, max_size=6))
    return {f"b{i}": [f"s{key}" for key in keys] for i, keys in enumerate(found)}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    baskets=partitions(), kind=st.sampled_from(["batch", "object"]), workers=st.sampled_from([0, 1, 3]),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_any_baskets_do_what_a_plain_loop_does(baskets: Any, kind: str, workers: int, seed: int) -> None:
    ticks = ticks_of(300, seed)
    options = {"cores": None, "budget_ticks": 11} if workers else {}
    run = strand.replay(feed_of(ticks, batches=60), handler_of(kind, baskets), workers=workers, **options)
    assert_plain(run, ticks, baskets)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(baskets=partitions(), strands=st.sampled_from(["auto", "per-symbol", 1, 2]), seed=st.integers(0, 2**16))
def test_any_baskets_compiled_do_what_a_plain_loop_does(baskets: Any, strands: Any, seed: int) -> None:
    ticks = ticks_of(2_000, seed)
    run = strand.replay(
        feed_of(ticks), handler_of("compiled", baskets), workers=2, cores=None, strands=strands, budget_ticks=17
    )
    assert_plain(run, ticks, baskets)


def test_baskets_by_a_function_are_those_by_name() -> None:
    ticks = ticks_of(3_000)
    of = {symbol: [name for name, group in OVERLAPPING.items() if symbol in group] for symbol in ("s1", "s3")}
    single = {"s0": "a", "s2": "b", "s4": "c", "s5": "d", "s6": "d", "s7": "e"}
    run = strand.replay(
        feed_of(ticks), handler_of("compiled", lambda symbol: of.get(symbol) or single.get(symbol)), workers=2
    )
    # Members come in the order of the feed's symbols, and baskets in that of their first ones.
    assert_plain(run, ticks, OVERLAPPING | {"d": ["s5", "s6"]})


def test_fingerprints_tell_baskets_apart() -> None:
    ticks = ticks_of(2_000)
    first, same, other = (
        strand.replay(feed_of(ticks), mixing(start), workers=workers) for start, workers in ((1, 0), (1, 2), (2, 2))
    )
    assert first.fingerprint == same.fingerprint != other.fingerprint
    every = strand.replay(feed_of(ticks), mixing(1), workers=2, fingerprint_every=500)
    assert len(every.intervals) == 4
    assert every.intervals[-1].fingerprint == every.fingerprint == first.fingerprint
    with pytest.raises(DifferenceError, match="basket pair: mix is"):
        testing.assert_same(first, other)


def mixing(start: int) -> Any:
    @strand.basket_handler(baskets={"pair": ["s0", "s1"]}, basket_state=[("mix", "u8")], kind="batch", name="mixes")
    def mixes(ticks: Any, basket: Any) -> None:
        for price in ticks["price"].tolist():
            basket["mix"] = np.uint64((int(basket["mix"]) * 31 + start * price) % 2**64)

    return mixes


# ---- after other handlers, of trades, with parameters

DAY = synthetic_day()
PAIRS = {"first": [DAY[1][1], DAY[1][2]], "second": [DAY[1][2], DAY[1][5], DAY[1][4]]}


def day(**options: Any) -> testing.ListFeed:
    return testing.ListFeed(DAY[0], DAY[1], batches=500, ticks="orders", **options)


def spread(kind: str) -> Any:
    declare = strand.basket_handler(
        baskets=PAIRS, basket_state=[("top", "i8", 3), ("spread", "i8"), ("n", "i8")], name="spread",
        **({"kind": "batch"} if kind == "batch" else {}),
    )  # fmt: skip
    if kind == "compiled":

        @declare
        def on_tick(row: Any, basket: Any, member: int) -> None:
            if row.book.bid_size != basket.top[member]:
                basket.top[member] = row.book.bid_size
                basket.spread = basket.top[0] - basket.top[1]
                basket.n += 1

        return on_tick

    def step(top: Any, basket: Any, member: int) -> None:
        if top["bid_size"] != basket["top"][member]:
            basket["top"][member] = top["bid_size"]
            basket["spread"] = basket["top"][0] - basket["top"][1]
            basket["n"] += 1

    if kind == "batch":

        @declare
        def on_ticks(ticks: Any, basket: Any, members: Any, ctx: Any) -> None:
            assert len(ctx.after["book"]) == len(ticks)
            for top, member in zip(ctx.after["book"], members, strict=True):
                step(top, basket, member)

        return on_ticks

    class Spread:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, basket: Any, member: int) -> None:
            step(self.ctx.after["book"], basket, member)

    return declare(Spread)


@pytest.mark.cells(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_after_a_book_a_basket_sees_the_books_of_its_symbols(kind: str, workers: int) -> None:
    tops = {name: np.zeros(3, np.int64) for name in PAIRS}
    changes = dict.fromkeys(PAIRS, 0)

    @strand.batch_handler(state=[("n", "i8")], outputs={"sizes": [("size", "i8")]})
    def sizes(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        records = np.zeros(len(ticks), [("size", "i8")])
        records["size"] = ctx.after["book"]["bid_size"]
        ctx.emit(records, at=np.arange(len(ticks)))

    alone = strand.replay(day(), strand.chain(strand.book(), sizes), workers=0)
    for record in np.asarray(alone.outputs["sizes"]):
        symbol = alone.symbols[int(record["instrument_id"])]
        for name, members in PAIRS.items():
            if symbol in members and tops[name][members.index(symbol)] != record["size"]:
                tops[name][members.index(symbol)] = record["size"]
                changes[name] += 1
    run = strand.replay(day(), strand.chain(strand.book(), spread(kind)), workers=workers)
    assert min(changes.values()) > 20
    for name, basket in run.baskets.items():
        assert basket["top"].tolist() == tops[name].tolist()
        assert (basket["spread"], basket["n"]) == (tops[name][0] - tops[name][1], changes[name])
    np.testing.assert_array_equal(run.rows.array["book"]["ticks"], run.ticks_by_symbol[: len(run.rows.array)])


# ---- failures, other handlers, saving


@pytest.mark.parametrize("kind", ["compiled", "object"])
def test_a_failure_on_a_file_says_which_of_its_symbol_s_ticks_it_was(kind: str) -> None:
    declare = strand.basket_handler(
        baskets={"pair": ["AAAHD", "AAADU"]}, state=[("ticks", "i8")], basket_state=[("n", "i8")]
    )
    if kind == "compiled":

        @declare
        def fails(row: Any, basket: Any) -> None:
            row.ticks += 1
            basket.n += 1
            if basket.n == 20:
                raise ValueError("enough")

    else:

        @declare
        class fails:  # noqa: N801
            def on_tick(self, row: Any, basket: Any) -> None:
                row["ticks"] += 1
                basket["n"] += 1
                if basket["n"] == 20:
                    raise ValueError("enough")

    for workers in (0, 2):
        with pytest.raises(HandlerError) as caught:
            strand.replay(sample_path(), fails, workers=workers, date=SAMPLE_DATE)
        error = caught.value
        assert error.row is not None
        assert error.partial is not None
        assert (error.symbol, error.number, error.row["ticks"]) == ("AAAHD", 9, 9)
        assert error.partial.baskets["pair"]["n"] == 20


@pytest.mark.parametrize("chained", [False, True])
def test_the_end_of_each_basket_s_object_comes_once_on_any_number_of_workers(chained: bool) -> None:
    ends: list[tuple[str, str]] = []

    @strand.basket_handler(baskets=OVERLAPPING, basket_state=BASKET, outputs={"ends": [("index", "i8"), ("mix", "u8")]})
    class Ends:
        def on_start(self, ctx: Any) -> None:
            self.ctx = ctx

        def on_tick(self, tick: strand.Tick, basket: Any, member: int) -> None:
            basket["mix"] = np.uint64(mixed(int(basket["mix"]), tick, member))
            if tick.sequence % 50 == 0:
                self.ctx.emit((-1, tick.sequence))

        def on_finish(self) -> None:
            ends.append((self.ctx.name, "finish"))
            self.ctx.row["n"] = 99
            self.ctx.emit((self.ctx.index, self.ctx.row["mix"]))

        def on_stop(self) -> None:
            ends.append((self.ctx.name, "stop"))

    handler = strand.chain("count", Ends) if chained else Ends
    # s0 and s3 have no ticks, and e's only symbol neither: its object is never made.
    ticks = ticks_of(2_000)
    ticks = ticks[~np.isin(ticks["instrument_id"], [0, 3, 7])]
    runs = [testing.reference(feed_of(ticks), handler)]
    runs += [strand.replay(feed_of(ticks), handler, workers=workers) for workers in (0, 1, 2, 4)]
    for run in runs:
        said = run.outputs["ends"].to_numpy()
        assert said["index"][-4:].tolist() == [0, 1, 2, 3]
        assert said["symbol"][-4:].tolist() == ["s1", "s1", "s1", "s5"]
        assert [row["n"] for row in run.baskets.values()] == [99, 99, 99, 99, 0]
        testing.assert_same(run, runs[0])
    assert sorted(ends) == sorted((name, what) for name in "abcd" for what in ("finish", "stop") for _ in runs)
    if not chained:
        testing.check_seeds(feed_of(ticks[:200], batches=40), handler, seeds=range(20), workers=3)


def test_an_end_of_a_basket_that_fails_is_raised() -> None:
    @strand.basket_handler(baskets={"pair": ["s0", "s1"]}, basket_state=[("n", "i8")])
    class Fails:
        def on_tick(self, tick: strand.Tick) -> None:
            pass

        def on_finish(self) -> None:
            raise ValueError("no end")

    for workers in (0, 2):
        with pytest.raises(HandlerError, match=r"on s0: its end at .*: ValueError: no end"):
            strand.replay(feed_of(ticks_of(100)), Fails, workers=workers)


def test_symbols_of_other_handlers_run_beside_baskets() -> None:
    ticks = ticks_of(3_000)
    pair = {"pair": ["s0", "s1"]}
    handlers = {"s0": (mixes := handler_of("compiled", pair)), "s1": mixes, "*": "count"}
    run = strand.replay(feed_of(ticks), handlers=handlers, workers=2)
    kept = plain(ticks, pair)[1]["pair"]
    assert (int(run.baskets["pair"]["mix"]), int(run.baskets["pair"]["n"])) == (kept[0], kept[1])
    assert run.rows["s2"]["ticks"] == np.count_nonzero(ticks["instrument_id"] == 2)
    with pytest.raises(ConfigurationError, match="'pair' has 's1', which has another handler"):
        strand.Dispatcher(["s0", "s1"], handlers={"s0": mixes, "s1": "count"})


@pytest.mark.parametrize("kind", ["compiled", "batch"])
def test_a_saved_run_goes_on_with_its_baskets(tmp_path: Path, kind: str) -> None:
    ticks = ticks_of(4_000)
    names = [f"s{i}" for i in range(SYMBOLS)]
    with strand.Dispatcher(names, handler_of(kind, OVERLAPPING), workers=2, cores=None) as first:
        first.publish(ticks[:1_500])
        first.save(tmp_path / "state")
    with strand.Dispatcher(
        names, handler_of(kind, OVERLAPPING), workers=2, cores=None, load=tmp_path / "state"
    ) as second:
        second.publish(ticks[1_500:])
    kept = plain(ticks, OVERLAPPING)[1]
    assert {
        name: [int(row["mix"]), int(row["n"]), row["size"].tolist()] for name, row in second.baskets.items()
    } == kept
    with pytest.raises(SavedStateError, match="baskets"):
        strand.Dispatcher(names, handler_of(kind, {"a": ["s0", "s1"]}), workers=2, cores=None, load=tmp_path / "state")


# ---- what is refused


def test_what_the_feed_lacks_is_refused_by_name() -> None:
    with pytest.raises(UnknownSymbolError, match="'mixes': basket 'pair': there is no symbol 'XX'"):
        strand.replay(feed_of(ticks_of(10)), handler_of("compiled", {"pair": ["s0", "XX"]}))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_baskets_of_a_day_are_those_of_a_run_over_it_alone(kind: str) -> None:
    if kind == "compiled":
        pytest.importorskip("numba")
    first, second = ticks_of(300, seed=1), ticks_of(200, seed=2)
    second["ts_recv"] += first["ts_recv"][-1]
    clears = clear_records(np.unique(first["instrument_id"]), int(second["ts_recv"][0]))
    both = np.concatenate([first, clears, second])
    handler = handler_of(kind, OVERLAPPING)
    alone = [testing.reference(feed_of(ticks), handler) for ticks in (first, second)]
    for workers in (0, 1, 2, 4):
        run = strand.replay(feed_of(both), handler, per_day=True, workers=workers)
        assert len(run.days) == 2
        for day, expected in zip(run.days, alone, strict=True):
            assert {name: row.tobytes() for name, row in day.baskets.items()} == {
                name: row.tobytes() for name, row in expected.baskets.items()
            }
            assert day.baskets.to_numpy()["basket"].tolist() == list(OVERLAPPING)
        assert run.days[0].fingerprint != run.days[1].fingerprint
        assert {name: row.tobytes() for name, row in run.baskets.items()} == {
            name: row.tobytes() for name, row in alone[1].baskets.items()
        }


def test_a_basket_on_two_days_is_refused() -> None:
    ticks = ticks_of(100)
    half = np.concatenate([ticks, clear_records(np.array([0], np.uint32), int(ticks["ts_recv"][-1]) + 1), ticks[-1:]])
    with pytest.raises(
        ConfigurationError,
        match="per_day: basket 'pair': it has symbols of two days, as 's1' is not of the day that ends",
    ):
        strand.replay(feed_of(half), handler_of("object", {"pair": ["s0", "s1"]}), per_day=True, workers=1)
    days = strand.replay(feed_of(half), handler_of("object", {"pair": ["s1", "s2"]}), per_day=True, workers=1).days
    assert [len(day.baskets) for day in days] == [0, 1]


def test_a_name_that_comes_too_late_for_a_function_is_refused() -> None:
    ticks = ticks_of(100)
    ticks["instrument_id"][0] = 0
    feed = feed_of(ticks, batches=10, known_from=50)
    with pytest.raises(ConfigurationError, match="after the run had begun"):
        strand.replay(feed, handler_of("batch", lambda symbol: "all" if symbol in ("#1", "s0") else None), workers=1)


# ---- the share of the busiest


def test_a_run_says_the_busiest_baskets_share_and_warns_above_that_of_a_worker() -> None:
    ticks = ticks_of(1_000)
    ticks["instrument_id"][:600] = np.arange(600) % 3
    ticks["instrument_id"][600:] = 9
    baskets = {"small": ["s5", "s9"], "left": ["s0", "s1"], "right": ["s1", "s2"]}
    two = strand.replay(feed_of(ticks), handler_of("compiled", baskets), workers=2)
    busiest = two.busiest_basket
    assert busiest is not None
    assert (busiest.names, busiest.ticks, busiest.share) == (("left", "right"), 600, 0.6)
    (warning,) = (each for each in two.warnings if each.kind == "busy basket")
    assert (warning.count, warning.example) == (600, "'left' and 1 more on its strand had 60.0% of the ticks")
    assert not strand.replay(feed_of(ticks), handler_of("compiled", baskets), workers=1).warnings
    assert strand.replay(feed_of(ticks), "count", workers=1).busiest_basket is None


# ---- The arguments of basket handlers: taken by name, and refused by name


PAIR = {"pair": ["A", "B"]}
STATE = [("n", "i8")]


@pytest.mark.parametrize(
    ("options", "function", "message"),
    [
        ({}, lambda tick, row, baskets: None, "it takes 'baskets'; a basket handler's arguments are tick, row, basket"),
        ({}, lambda trade, basket: None, "it takes 'trade'"),
        ({}, lambda basket, emit: None, "give outputs= to declare what its argument emit is"),
        ({}, lambda basket, params: None, "give params= to declare"),
        ({"params": STATE}, lambda basket: None, "no argument 'params'"),
        ({"kind": "batch"}, lambda tick, basket: None, "it takes 'tick'; a basket handler's arguments are ticks, rows"),
        ({"kind": "object"}, lambda tick: None, "kind"),
        ({"basket_state": "i8"}, lambda tick: None, "basket_state: give a structured dtype"),
    ],
)
def test_functions_with_other_arguments_are_refused(options: Any, function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        strand.basket_handler(**{"baskets": PAIR, "basket_state": STATE, **options})(function)


# ---- What may be declared as a handler with baskets, and what is refused, and why


@pytest.mark.parametrize(
    ("baskets", "message"),
    [
        ({}, "there are none"),
        ({"pair": []}, "'pair' has no symbols"),
        ({"pair": "AB"}, "'AB' is not a list of symbols"),
        ({"pair": ["A", "A"]}, "'pair' has 'A' twice"),
        ({"pair": ["A", 3]}, "3 is not a symbol's name"),
        ({3: ["A"]}, "3 is not a name"),
        ({"": ["A"]}, "'' is not a name"),
        (["A", "B"], "list is neither a dict"),
    ],
)
def test_what_cannot_be_baskets_is_refused(baskets: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        strand.basket_handler(baskets=baskets, basket_state=STATE)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (3, "returned 3 for 'A': return a basket's name, a list of names, or None"),
        (["x", "x"], "'x' is in it twice"),
        ([None], "None is not a name"),
        (None, "returns no basket for any symbol"),
    ],
)
def test_what_a_function_may_not_return_is_refused(said: Any, message: str) -> None:
    @strand.basket_handler(baskets=lambda symbol: said, basket_state=STATE, kind="batch")
    def counts(ticks: Any, basket: Any) -> None:
        pass

    with pytest.raises(ConfigurationError, match=message):
        strand.Dispatcher(["A", "B"], counts)


def test_classes_with_methods_that_are_never_called_are_refused() -> None:
    declare = strand.basket_handler(baskets=PAIR, basket_state=STATE)

    class Wakes:
        def on_tick(self, tick: Any) -> None: ...
        def on_wake(self, time: int) -> None: ...

    class Nothing:
        def on_start(self, ctx: Any) -> None: ...

    class Asks:
        def on_tick(self, tick: Any, ctx: Any) -> None: ...

    for cls, message in (
        (Wakes, "'on_wake' is never called for a basket"),
        (Nothing, "neither on_tick nor on_trade"),
        (Asks, "it takes 'ctx'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            declare(cls)


# ---- Basket handlers that Python runs: how batches are cut, what contexts have, and objects


SHARED = {"a": ["A", "B"], "b": ["B", "C"]}


def feed() -> testing.ListFeed:
    return testing.feed([(symbol, i + 1, 1, 1) for i, symbol in enumerate("AABBCACDA")], batches=9)


def test_a_batch_is_cut_where_the_basket_changes_and_at_symbols_of_several() -> None:
    given: list[tuple[str, list[int]]] = []

    @strand.basket_handler(baskets=SHARED, basket_state=[("n", "i8")], kind="batch")
    def records(ticks: Any, members: Any, ctx: Any) -> None:
        given.append((ctx.name, members.tolist()))

    strand.replay(feed(), records, workers=1, publisher_drains=False)
    b = [("a", [1]), ("b", [0])]
    whole = [("a", [0, 0]), *b, *b, ("b", [1]), ("a", [0]), ("b", [1]), ("a", [0])]
    assert given == whole
    given.clear()
    alone = strand.basket_handler(baskets={"all": ["A", "B", "C"]}, basket_state=[("n", "i8")], kind="batch")
    strand.replay(feed(), alone(records.on_ticks), workers=1, publisher_drains=False)  # type: ignore[attr-defined]
    assert given == [("all", [0, 0, 1, 1, 2, 0, 2, 0])]


def test_the_context_of_a_basket_has_its_names_rows_and_parameters() -> None:
    found = {}

    @strand.basket_handler(
        baskets=SHARED, basket_state=[("n", "i8")], state=[("n", "i8")], params=[("w", "i8")], kind="batch"
    )
    def looks(ticks: Any, rows: Any, members: Any, ctx: Any) -> None:
        for member in members:
            rows[member]["n"] += 1
        found[ctx.name] = ctx.index, ctx.symbols, [int(p["w"]) for p in ctx.params], repr(ctx)
        with pytest.raises(ConfigurationError, match="declares none"):
            ctx.emit((1,), at=0)
        with pytest.raises(IndexError, match="is not a place in a batch"):
            ctx.emit((1,), at=len(ticks))

    run = strand.replay(feed(), looks.with_params({"*": {"w": 1}, "B": {"w": 5}}), workers=1)
    assert found["b"] == (1, ("B", "C"), [5, 1], "<BasketContext of looks for b>")
    assert run.rows.array["n"].tolist() == [4, 4, 2, 0]


def test_objects_of_baskets_are_shown_by_name_and_not_saved(tmp_path: Path) -> None:
    stopped = []

    @strand.basket_handler(baskets=SHARED, basket_state=[("n", "i8")])
    class Named:
        def on_start(self, ctx: Any) -> None:
            self.name, self.symbols = ctx.name, ctx.symbols

        def on_tick(self, tick: strand.Tick) -> None:
            pass

        def on_stop(self) -> None:
            stopped.append(self.name)

    run = strand.replay(feed(), Named, workers=2)
    assert {name: list(thing.symbols) for name, thing in run.objects.items()} == SHARED
    assert sorted(stopped) == sorted(SHARED)
    with strand.Dispatcher(list("ABCD"), Named, workers=1, cores=None) as dispatcher:
        dispatcher.publish(feed().ticks)
        with pytest.raises(SavedStateError, match="objects of baskets are not saved"):
            dispatcher.save(tmp_path / "state")


def test_timers_before_a_handler_that_python_runs_are_refused() -> None:
    looks = strand.basket_handler(baskets=SHARED, basket_state=[("n", "i8")], kind="batch", name="looks")(
        lambda basket: None
    )
    chained = strand.chain(strand.bars("1s"), looks)
    with pytest.raises(ConfigurationError, match="has timers or an end"):
        strand.Dispatcher(list("ABC"), chained)
