"""Symbols that share a strand because of baskets, and what may be published."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import COUNT_ROW, PAIR_ROW, balanced, beside, counting, ticks_for
from let_go import FAILING, HANDLERS, kept_by
from market_ticks import market

import strand
from strand import TICK, Dispatcher, batch_handler, feeds, native
from strand import handlers as handlers_module
from strand.binding.engine import Strands
from strand.caller.run import CallerRun
from strand.errors import BackpressureError, ConfigurationError, RecordTypeError, UnknownSymbolError
from strand.feeds.sample import sample_path
from strand.ticks import empty, zeros

NAMES = [f"s{i}" for i in range(200)]


def handler_of(kind: Any, baskets: Any) -> Any:
    def on_ticks(basket: Any) -> None:
        pass

    declare = strand.basket_handler(baskets=baskets, basket_state=[("n", "i8")], kind=kind, name="does nothing")
    return declare(on_ticks)


@pytest.mark.cells(1)
@pytest.mark.parametrize("kind", ["compiled", "batch"])
@pytest.mark.parametrize("strands", ["auto", "per-symbol", 7])
def test_the_symbols_of_overlapping_baskets_share_a_strand(kind: str, strands: Any) -> None:
    baskets = {"a": ["s0", "s150"], "b": ["s150", "s7", "s9"], "c": ["s20", "s21"]}
    counts = [1000 if i in (0, 20) else 1 for i in range(200)]
    with strand.Dispatcher(
        NAMES, handler_of(kind, baskets), strands=strands, workers=2, cores=None, counts=counts
    ) as d:
        of = [d.strand_of(name) for name in NAMES]
        assert of[0] == of[150] == of[7] == of[9]
        assert of[20] == of[21] != of[0]
        if strands == "per-symbol" or kind == "batch":
            assert len(set(of)) == 200 - 4
        elif strands == "auto":
            assert of.count(of[0]) == 4, "a busy unit has a strand of its own"


def test_the_strand_of_a_basket_has_the_highest_priority_of_its_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    monkeypatch.setattr(
        Strands, "prioritise", lambda _, strand, priority, *, for_backlog: told.update({strand: priority})
    )
    policy, priorities = strand.Levels(), {"s1": "high", "s2": "low"}
    handler = handler_of("compiled", {"a": ["s0", "s1"], "b": ["s1", "s2"]})
    with strand.Dispatcher(NAMES, handler, workers=1, cores=None, policy=policy, priorities=priorities) as dispatcher:
        assert told == {dispatcher.strand_of("s2"): policy.priority_of("priority", "high")}


def test_two_handlers_may_not_have_baskets_of_one_name() -> None:
    one, two = handler_of("compiled", {"pair": ["s0", "s1"]}), handler_of("batch", {"pair": ["s2", "s3"]})
    with pytest.raises(ConfigurationError, match="both have one named 'pair'"):
        strand.Dispatcher(["s0", "s1", "s2", "s3"], handlers={"s0": one, "s1": one, "*": two})


# ---- Which handler each symbol has


def test_each_symbol_runs_its_own_handler_and_the_others_the_default(c_handlers: Path) -> None:
    @batch_handler(state=[("n", "u8"), ("names", "S4")])
    def python(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        row["names"] = symbol.encode()

    summed = native(c_handlers, "on_sum", state=PAIR_ROW)
    table = {"AA": python, "BB": summed, "CC": summed, "#5": "vwap", "*": "count"}
    ticks = market(8_000, 8)
    for strands in ("auto", "per-symbol", 1, 3):
        with Dispatcher(
            ["AA", "BB", "CC", "DD", "EE", "", "", ""],
            handlers=table,
            workers=3,
            cores=None,
            strands=strands,
            feed="plain",
        ) as d:
            for part in np.array_split(ticks, 20):
                d.publish(part)
            d.drain()
            balanced(d)
        counts = np.bincount(ticks["instrument_id"], minlength=8)
        assert (d.rows["AA"]["n"], d.rows["AA"]["names"]) == (counts[0], b"AA")
        for key in (1, 2):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key]["total"] == ticks["size"][ticks["instrument_id"] == key].sum()
        for key in (3, 4, 6, 7):
            assert d.rows[key]["ticks"] == counts[key]
            assert d.rows[key].dtype.names == handlers_module.COUNT_ROW.names
        assert d.rows[5].dtype == handlers_module.VWAP_ROW
        assert d.rows.of_handler("count")["ticks"][3] == counts[3]
        with pytest.raises(ConfigurationError, match="different handlers \\(python, on_sum, vwap, count\\)"):
            _ = d.rows.array
        with pytest.raises(KeyError, match="no handler is named 'x'"):
            d.rows.of_handler("x")


def test_names_of_built_in_handlers_are_one_handler_however_often_they_are_given() -> None:
    name = "".join(["co", "unt"])
    with Dispatcher(["A", "B"], handlers={"A": "count", "B": name}, workers=1, cores=None, strands=1) as d:
        assert d.n_strands == 1
        assert len(d.rows.array) == 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ConfigurationError, "either one handler"),
        ({"handler": "count", "handlers": {"*": "count"}}, ConfigurationError, "either one handler"),
        ({"handler": "no such"}, ConfigurationError, "'no such' is not one of bars, bbo, book, count"),
        ({"handler": print}, ConfigurationError, "is not a handler; decorate a function"),
        ({"handlers": {"A": "count"}}, ConfigurationError, "there is none for 'B'; give one for '\\*'"),
        ({"handlers": {"A": "count", "B": None}}, ConfigurationError, "there is none for 'B'"),
        ({"handlers": ["count"]}, ConfigurationError, "list is not a dict of handlers by symbol"),
        ({"handlers": {}}, ConfigurationError, "there is none for 'A'"),
        ({"handlers": {"A": "count", "X": "count", "*": "vwap"}}, UnknownSymbolError, "there is no symbol 'X'"),
    ],
)
def test_a_table_of_handlers_that_cannot_work_is_refused(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Dispatcher(["A", "B"], **options)


def test_the_error_of_a_table_without_a_handler_for_all_names_a_symbol_that_has_a_name() -> None:
    with pytest.raises(ConfigurationError, match="there is none for 'B'; give one for"):
        Dispatcher(["", "A", "B"], handlers={"A": "count"})  # ITCH, for one, leaves number 0 without a name
    with pytest.raises(ConfigurationError, match="there is none for '#1'; give one for"):
        Dispatcher(["A", ""], handlers={"A": "count"})


# ---- Strands that are held back, and let go


def test_pausing_holds_a_symbol_back_and_resuming_lets_it_go_on() -> None:
    with Dispatcher(["A", "B"], counting, workers=2, cores=None) as d:
        d.pause("A")
        d.pause("A")
        d.publish(ticks_for([0, 1] * 50))
        assert d.drain()
        assert (d.rows["A"]["ticks"], d.rows["B"]["ticks"]) == (0, 50)
        assert d.inspect("A").paused
        assert d.watermark() == 0
        d.resume("A")
        d.resume("A")
        assert d.drain()
        assert d.rows["A"]["ticks"] == 50
        assert not d.inspect("A").paused
        assert d.watermark() == 100
        balanced(d)


@pytest.mark.parametrize("handler", ["count", counting], ids=["native", "python"])
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_pausing_and_resuming_from_several_threads_loses_nothing(handler: Any, on_full: str) -> None:
    keys = np.random.default_rng(2).integers(0, 6, 60_000)
    ticks = ticks_for(keys)
    with Dispatcher(6, handler, workers=3, cores=None, budget_ticks=50, strands="per-symbol", on_full=on_full) as d:

        def switch(rng: np.random.Generator) -> None:
            symbol = int(rng.integers(0, 6))
            d.pause(symbol)
            d.resume(symbol)

        with beside(*(partial(switch, np.random.default_rng(seed)) for seed in range(3))):
            for at in range(0, len(ticks), 500):
                d.publish(ticks[at : at + 500])
        for symbol in range(6):
            d.resume(symbol)
        d.drain()
        balanced(d)
    assert d.rows.array["ticks"].tolist() == np.bincount(keys, minlength=6).tolist()


def test_a_released_strand_that_is_paused_stays_paused() -> None:
    @batch_handler(state=[("ticks", "u8")])
    def fails_on_x(symbol: str, ticks: Any, row: Any) -> None:
        if ticks["action"][0] == b"X":
            raise ValueError
        row["ticks"] += len(ticks)

    with Dispatcher(1, fails_on_x, workers=1, cores=None, on_error="quarantine", budget_ticks=1) as d:
        ticks = ticks_for([0] * 4)
        ticks["action"][0] = b"X"
        d.publish(ticks)
        d.drain()
        d.pause(0)
        d.release(0)
        d.drain()
        assert d.rows[0]["ticks"] == 0
        d.resume(0)
        d.drain()
        assert d.rows[0]["ticks"] == 3


def test_a_paused_strand_holds_up_a_publisher_only_at_its_bound() -> None:
    with Dispatcher(["A", "B"], counting, workers=1, cores=None, capacity_ticks=16) as d:
        d.pause("A")
        assert d.publish(ticks_for([0] * 16 + [1] * 500)) == 516
        with pytest.raises(BackpressureError) as caught:
            d.publish(ticks_for([0, 1]), timeout_s=0)
        assert caught.value.rejected.tolist() == [0]
        d.drain()
        assert d.rows["B"]["ticks"] == 501


# ---- Where Python handlers run in a dispatcher: nothing there outlives it


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_dispatcher_goes_with_the_last_reference_to_it(handler: Any) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None)]) == []


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
@pytest.mark.parametrize("handler", FAILING.values(), ids=FAILING)
def test_so_does_one_whose_handler_has_failed(handler: Any, on_error: str) -> None:
    assert kept_by([Dispatcher(2, handler, workers=2, cores=None, on_error=on_error)]) == []


# ---- Pool and Limits: options that belong together


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": strand.Pool(workers=2), "workers": 2}, "^workers: give it in pool, or leave pool out$"),
        ({"pool": strand.Pool(), "cores": "auto"}, "^cores: give it in pool, or leave pool out$"),
        ({"limits": strand.Limits(), "on_full": "block"}, "^on_full: give it in limits, or leave limits out$"),
        ({"min_workers": 1}, r"has no option 'min_workers'; give pool=strand.Pool\(min_workers=...\)$"),
        ({"memory_bytes": 1}, r"has no option 'memory_bytes'; give limits=strand.Limits\(memory_bytes=...\)$"),
        ({"pool": 3}, "^pool: 3 is not a strand.Pool$"),
        ({"limits": {"on_full": "raise"}}, "^limits: .* is not a strand.Limits$"),
    ],
)
def test_a_group_of_options_is_given_whole_or_not_at_all(options: dict[str, Any], says: str) -> None:
    for call in (strand.replay, strand.Dispatcher):
        source: Any = sample_path() if call is strand.replay else 3
        with pytest.raises(ConfigurationError, match=says):
            call(source, "count", **options)


def test_a_group_of_options_is_the_same_as_they_are_alone() -> None:
    pool = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7, budget_us=50.0, max_publishers=2)
    limits = strand.Limits(capacity_ticks=100, on_full="raise", total_capacity_ticks=1000, output_memory=1 << 20)
    with strand.Dispatcher(3, "count", pool=pool, limits=limits) as dispatcher:
        found = dispatcher._engine.config
    assert (found.n_workers, found.idle, found.budget_ticks, found.budget_ns) == (2, "park", 7, 50_000)
    assert (found.n_publishers, found.capacity_ticks, found.on_full) == (2, 100, "raise")
    assert (found.total_capacity_ticks, found.output_memory) == (1000, 1 << 20)
    alone = strand.Dispatcher(3, "count", workers=2, cores=None, idle="park", budget_ticks=7, capacity_ticks=100)
    group = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7)
    both = strand.Dispatcher(3, "count", pool=group, limits=strand.Limits(capacity_ticks=100))
    assert alone._engine.config == both._engine.config
    plain_loop = strand.replay(sample_path(), "count", pool=strand.Pool(workers=0), limit=10)
    assert plain_loop.statistics.workers[0].name == "publishers"


def test_a_group_of_options_is_frozen_short_and_checks_what_it_is_given() -> None:
    with pytest.raises(FrozenInstanceError):
        strand.Pool().workers = 3  # type: ignore[misc]
    assert repr(strand.Pool(workers=2, cores=None)) == "Pool(workers=2, cores=None)"
    assert repr(strand.Limits(on_full="raise")) == "Limits(on_full='raise')"
    for make in (lambda: strand.Pool(idle="sleep"), lambda: strand.Limits(on_full="wait")):
        with pytest.raises(ConfigurationError, match="is not one of"):
            make()


# ---- What may be published: any record with a u32 key, or arrays that a field map turns into ticks


def record(size: int, offset: int) -> np.dtype[Any]:
    """A record of a size whose key is at an offset, with a u32 that says whether to fail right after or before it."""
    fails = offset + 4 if offset + 8 <= size else offset - 4
    return np.dtype(
        {"names": ["key", "fails"], "formats": ["<u4", "<u4"], "offsets": [offset, fails], "itemsize": size}
    )


SHAPES = [(8, 0), (8, 4), (9, 1), (13, 5), (64, 60), (65, 61), (100, 33), (640, 300), (992, 988), (1000, 0), (1983, 7),
          (1984, 1980)]  # fmt: skip


@pytest.mark.cells(1)
@pytest.mark.parametrize(("size", "offset"), SHAPES)
@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_a_record_may_have_any_size_and_its_key_may_be_anywhere(
    c_handlers: Path, size: int, offset: int, on_full: str
) -> None:
    dtype = record(size, offset)
    params = np.array([offset, dtype.fields["fails"][1]], "<u4").tobytes()  # type: ignore[index]
    rng = np.random.default_rng(size)
    records = rng.integers(0, 256, (3_000, size), dtype=np.uint8).view(dtype)[:, 0]
    records["key"] = rng.integers(0, 7, len(records))
    records["fails"] = 0
    native_handler = native(c_handlers, "on_raw", state=COUNT_ROW, params=params)
    seen: list[list[bytes]] = [[] for _ in range(7)]

    @batch_handler(state=[("ticks", "u8")])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        assert ticks.dtype == dtype
        seen[int(ticks["key"][0])] += map(bytes, ticks.view(np.uint8).reshape(-1, size))
        row["ticks"] += len(ticks)

    for handler in (native_handler, keeps):
        with Dispatcher(
            7, handler, workers=2, cores=None, dtype=dtype, key="key", on_full=on_full, budget_ticks=50
        ) as d:
            for part in np.array_split(records, 9):
                d.publish(part)
            d.drain()
            balanced(d)
            assert d.rows.array["ticks"].tolist() == np.bincount(records["key"], minlength=7).tolist()
    for key in range(7):
        assert seen[key] == [*map(bytes, records.view(np.uint8).reshape(-1, size)[records["key"] == key])]


def test_records_may_hold_what_buffers_have_no_name_for() -> None:
    dtype = np.dtype(
        [("when", "M8[ns]"), ("key", "<u4"), ("span", "m8[us]"), ("price", "<f8"), ("levels", "<i4", (3, 2))]
    )
    total = np.timedelta64(0, "us")

    @batch_handler(state=[("last", "M8[ns]"), ("best", "<i4", (2,))])
    def keeps(symbol: str, ticks: Any, row: Any) -> None:
        nonlocal total
        row["last"] = ticks["when"][-1]
        row["best"] = ticks["levels"][-1, 2]
        total += ticks["span"].sum()

    records = np.zeros(10, dtype)
    records["when"] = np.datetime64("2024-05-06T07:08:09", "ns") + np.arange(10)
    records["span"] = 3
    records["levels"] = np.arange(60).reshape(10, 3, 2)
    with Dispatcher(2, keeps, workers=1, cores=None, dtype=dtype, key="key") as d:
        d.publish(records)
        d.publish(records[0])
    assert d.rows[0]["last"] == records["when"][0]
    assert d.rows[0]["best"].tolist() == [4, 5]
    assert total == np.timedelta64(33, "us")


def published(array: Any, **options: Any) -> np.ndarray[Any, Any]:
    """The ticks a Python handler sees of what is published."""
    seen: list[Any] = []
    keeps = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: seen.extend(ticks.copy()))
    with Dispatcher(8, keeps, workers=1, cores=None, **options) as d:
        assert d.publish(array) == (1 if np.ndim(array) == 0 else len(array))
    return np.array(seen, dtype=options.get("dtype", TICK))


def test_arrays_that_are_not_contiguous_are_published_as_they_read() -> None:
    ticks = ticks_for([0] * 20)
    wide = np.zeros(20, [("before", "u1"), ("tick", TICK), ("after", "u1")])
    wide["tick"] = ticks
    for array in (ticks[::3], ticks[::-1], wide["tick"], np.broadcast_to(ticks[:1], 5), ticks.view(np.recarray)):
        assert (published(array) == np.asarray(array)).all()


def test_arrays_may_be_read_only_and_are_the_caller_s_again_at_return() -> None:
    ticks = ticks_for([0] * 20)
    ticks.flags.writeable = False
    assert (published(ticks) == ticks).all()
    seen: list[int] = []
    keeps = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: seen.extend(ticks["sequence"].tolist()))
    with Dispatcher(1, keeps, workers=1, cores=None) as d:
        d.pause(0)
        mine = ticks_for([0] * 100)
        d.publish(mine)
        mine["sequence"] = 0
        d.resume(0)
    assert seen == list(range(1, 101))


def test_a_single_tick_may_be_published_as_a_record_or_as_an_array_of_none_or_one_dimension() -> None:
    tick = ticks_for([3])
    for single in (tick, tick[0], tick[0].copy(), tick.reshape(())):
        assert (published(single) == tick).all()


def test_an_empty_array_is_published_as_nothing_and_tells_auto_nothing() -> None:
    with Dispatcher(1_000, "count", workers=1, cores=None, strands=10) as d:
        assert d.publish(empty(0)) == 0
        assert d.watermark() == 0
        ticks = ticks_for([5] * 1_000 + list(range(1_000)))
        d.publish(ticks)
        d.drain()
        alone = d.strand_of(5)
        assert [i for i in range(1_000) if d.strand_of(i) == alone] == [5]
        balanced(d)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.zeros(3), "the array is float64, not a structured array"),
        ([1, 2, 3], "the array is int64, not a structured array"),
        (zeros((2, 2)), r"shape \(2, 2\)"),
        (np.zeros(2, [("instrument_id", "<u4")]), "field 'ts_event' \\(int64\\) is missing"),
        (np.zeros(2, [(n, "<f8" if n == "price" else TICK[n]) for n in TICK.names or ()]),
         "field 'price' is float64, not int64"),
        (np.zeros(2, [*TICK.descr, ("more", "u1")]), "field 'more' is not one"),
        (np.zeros(2, np.dtype({"names": TICK.names, "formats": [TICK[n] for n in TICK.names or ()],
                               "offsets": [TICK.fields[n][1] + 8 for n in TICK.names or ()]})),  # type: ignore[index]
         "field 'ts_event' is at byte 8, not 0"),
        (np.zeros(2, np.dtype({"names": TICK.names, "formats": [TICK[n] for n in TICK.names or ()],
                               "offsets": [TICK.fields[n][1] for n in TICK.names or ()], "itemsize": 72})),  # type: ignore[index]
         "a record has 72 bytes, not 64"),
        (np.array([{"price": 1}]), "the array is object"),
    ],
)  # fmt: skip
def test_another_dtype_is_refused_by_the_field_that_differs(array: Any, text: str) -> None:
    with Dispatcher(8, "count", workers=1, cores=None) as d:
        with pytest.raises(RecordTypeError, match=text):
            d.publish(array)
        assert d.statistics().accepted == 0


OWN = np.dtype(
    [("id", "<u4"), ("px", "<i8"), ("qty", "<u2"), ("wide", "<u8"), ("real", "<f8"), ("act", "S1"), ("long", "S3")]
)


def test_a_field_map_turns_arrays_into_ticks() -> None:
    own = np.zeros(4, OWN)
    own["id"], own["px"], own["qty"], own["act"] = [0, 1, 1, 0], [5, 6, 7, 8], [1, 2, 3, 4], b"T"
    columns = {"instrument_id": "id", "price": "px", "size": "qty", "action": "act"}
    ticks = published(own[::2], columns=columns)
    assert sorted(ticks["price"].tolist()) == [5 * 10**9, 7 * 10**9]
    assert set(ticks["action"].tolist()) == {b"T"}
    for name in ("ts_event", "ts_recv"):
        assert not ticks[name].any()
    assert (ticks["kind"] == 2).all()  # as in a file: an action T is a trade
    already = ticks_for([0, 1])
    assert len(published(already, columns=columns)) == 2


def test_without_a_sequence_rows_are_numbered_from_1_over_all_arrays(tmp_path: Path) -> None:
    """As the rows of a file are."""
    own = np.zeros(50, [("id", "<u4"), ("time", "<M8[ns]"), ("n", "<i8"), ("px", "<i8")])
    own["id"], own["time"], own["n"] = np.arange(50) % 3, np.arange(50), np.arange(50)
    columns = {"instrument_id": "id", "ts_recv": "time", "price": "px"}
    seen: list[int] = []
    keeps = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: seen.extend(ticks["sequence"].tolist()))
    with Dispatcher(3, keeps, workers=1, cores=None, columns=columns) as d:
        d.publish(own[:20])
        d.publish(own[20:21].astype([("px", "<i8"), ("n", "<i8"), ("time", "<M8[ns]"), ("id", "<u4")]))  # another dtype
        d.publish(own[21:])
    np.save(tmp_path / "own.npy", own)
    file = np.concatenate([batch.copy() for batch in feeds.open(tmp_path / "own.npy", columns=columns)])
    assert sorted(seen) == file.view(np.recarray)["sequence_low"].tolist() == list(range(1, 51))
    # A column, or a constant, says it.
    assert set(published(own, columns={**columns, "sequence": "n"})["sequence_low"].tolist()) == set(range(50))
    given = {"columns": columns, "column_options": {"constants": {"sequence": 7}}}
    assert set(published(own, **given)["sequence_low"].tolist()) == {7}


def test_columns_are_converted_by_the_rules_of_numpy_files() -> None:
    own = np.zeros(2, OWN)
    own["px"], own["real"] = [101, 102], [0.25, 1.5]
    given: dict[str, Any] = {"columns": {"instrument_id": "id", "price": "px", "size": "real"}}
    options = {"price_unit": "0.01", "size_unit": "0.01", "constants": {"kind": "trade"}}
    ticks = published(own, **given, column_options=options)
    assert ticks["price"].tolist() == [1_010_000_000, 1_020_000_000]
    assert ticks["size"].tolist() == [25, 150]
    with pytest.raises(RecordTypeError, match=r"record 0: column 'real'.*inexact='round' rounds"):
        published(own, **given)
    assert published(own, **given, column_options={"inexact": "round", "size_unit": "0.1"})["size"].tolist() == [2, 15]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"column_options": {"price_unit": "0.01"}}, "column_options: give columns= too"),
        ({"columns": {}, "column_options": {"zone": "UTC"}}, "column_options has no option 'zone'; it has"),
        ({"columns": {}, "column_options": {"price_unit": "3"}}, "price_unit: give a power of ten"),
        ({"columns": {}, "column_options": {"inexact": "guess"}}, "inexact: give 'raise' or 'round'"),
        ({"columns": {"price": "px"}, "dtype": OWN, "key": "id"}, "columns: they turn arrays into ticks"),
    ],
)
def test_options_of_columns_that_cannot_work_are_named(given: dict[str, Any], text: str) -> None:
    for make in (Dispatcher, CallerRun):
        with pytest.raises(ConfigurationError, match=text):
            make(2, "count", **given)


def test_a_field_that_a_tick_does_not_have_is_refused_when_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match="'pricee' is not a field of a tick"):
        Dispatcher(2, "count", columns={"instrument_id": "id", "pricee": "px"})


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"instrument_id": "nobody"}, "there is no column 'nobody' for instrument_id; there are id, px"),
        ({"price": "px"}, "name the field that holds the symbol's index"),
        ({"instrument_id": "id", "size": "wide"}, "record 2: column 'wide'.*9223372036854775809"),
        ({"instrument_id": "wide"}, "record 2: column 'wide'.*9223372036854775809"),
        ({"instrument_id": "id", "action": "long"}, "record 1: column 'long'.*TT"),
    ],
)
def test_columns_that_do_not_fit_the_array_are_refused_by_field_and_record(columns: dict[str, str], text: str) -> None:
    own = np.zeros(4, OWN)
    own["wide"][2], own["long"] = 2**63 + 1, [b"T", b"TT", b"T", b"T"]
    with Dispatcher(2, "count", workers=1, cores=None, columns=columns) as d:
        with pytest.raises(RecordTypeError, match=text):
            d.publish(own)
        assert d.statistics().accepted == 0
        with pytest.raises(RecordTypeError, match="columns: give an array with fields: float64 has none"):
            d.publish(np.zeros(3))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dtype": np.dtype("<u4")}, "dtype: uint32 has no fields"),
        ({"dtype": "no such"}, "dtype: 'no such' is not a dtype"),
        ({"dtype": [("key", "<u4"), ("o", object)], "key": "key"}, "this one has Python objects"),
        ({"dtype": [("key", "<u4"), ("x", "V1981")], "key": "key"}, "at most 1984 bytes, this one has 1985"),
        ({"dtype": [("key", "<u4")], "key": "other"}, "no field 'other'; its fields: key"),
        ({"dtype": [("key", ">u4")], "key": "key"}, "field 'key' is >u4"),
        ({"dtype": [("key", "<i4")], "key": "key"}, "field 'key' is int32"),
        ({"dtype": [("key", "<u4")], "key": "key"}, "'count' reads strand.TICK records"),
        ({"key": "price"}, "field 'price' is int64"),
        ({"dtype": [("key", "<u4")], "key": "key", "columns": {"size": "key"}}, "so leave dtype out"),
    ],
)
def test_a_dtype_that_cannot_work_is_refused_by_argument(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Dispatcher(2, "count", **options)


def test_a_dtype_may_be_given_as_a_list_of_fields() -> None:
    dtype = [("key", "<u4"), ("x", "<f4")]
    records = np.zeros(3, dtype)
    assert len(published(records, dtype=dtype, key="key")) == 3


def test_the_field_that_holds_the_key_is_named_in_the_error() -> None:
    dtype = np.dtype([("row", "<u4")])
    keeps = batch_handler(state=[("n", "u8")])(lambda symbol, ticks, row: None)
    with (
        Dispatcher(2, keeps, workers=1, cores=None, dtype=dtype, key="row") as d,
        pytest.raises(UnknownSymbolError, match="record 1: row is 2"),
    ):
        d.publish(np.array([(1,), (2,)], dtype))
