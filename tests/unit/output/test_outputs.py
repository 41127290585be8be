"""Outputs of handlers come in the order of the ticks, whatever the run; rows of baskets, and what a notebook shows."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import balanced, beside, numbered, ticks_for, wait_until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_reader import Named, Reader

import strand
from strand import Dispatcher, Handler, batch_handler, native, testing
from strand.caller.run import CallerRun
from strand.dispatch.configuration import Limits, Pool, grouped
from strand.errors import BackpressureError, ConfigurationError, HandlerError, RecordTypeError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.memory import PIECE_BYTES, Memory
from strand.output.notebook import MAX_COLUMNS, MAX_ROWS, facts_html, table_html
from strand.output.records import merged_dtype
from strand.output.rows import BasketRows
from strand.replaying.result import ReplayResult
from strand.symbols import MAX_COMPLETIONS, SymbolTable
from strand.units import PRICE

ROW = [("ticks", "<u8")]
SEEN = np.dtype([("count", "<u8"), ("size", "<u4"), ("place", "u1")], align=True)
FIFTH = np.dtype([("nth", "<u4")])
OUTPUTS = {"seen": SEEN, "fifth": FIFTH}


def echo(library: Path, *, never_publishes: bool = True) -> Handler:
    return native(library, "on_echo", state=ROW, never_publishes=never_publishes, outputs=OUTPUTS)


@batch_handler(state=ROW, outputs=OUTPUTS, name="echo in Python")
def echo_in_python(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    count = row["ticks"] + np.arange(1, len(ticks) + 1, dtype=np.uint64)
    at = np.repeat(np.arange(len(ticks)), ticks["depth"])
    seen = np.zeros(len(at), SEEN)
    seen["count"], seen["size"] = count[at], ticks["size"][at]
    seen["place"] = np.arange(len(at)) - np.repeat(
        np.cumsum(ticks["depth"], dtype=np.int64) - ticks["depth"], ticks["depth"]
    )
    ctx.emit(seen, at=at, output="seen")
    fifth = np.flatnonzero(count % 5 == 0)
    ctx.emit(count[fifth].astype(FIFTH["nth"]).view(FIFTH), at=fifth, output="fifth")
    row["ticks"] += len(ticks)


def stream(keys: npt.ArrayLike, seed: int = 0) -> npt.NDArray[Any]:
    """Ticks with as many echoes as a seed says, and times that now and then run back."""
    ticks = ticks_for(keys)
    random = np.random.default_rng(seed)
    ticks["depth"] = random.integers(0, 4, len(ticks))
    ticks["sequence"] = random.integers(0, 1 << 40, len(ticks))
    ticks["ts_recv"] = 1000 + np.arange(len(ticks)) * 10 - random.integers(0, 40, len(ticks))
    return ticks


def serial(ticks: npt.NDArray[Any], fails: Callable[[Any], bool] | None = None) -> dict[str, npt.NDArray[Any]]:
    """The records of a plain loop: the reference. A tick it fails on counts and emits nothing."""
    found: dict[str, list[Any]] = {"seen": [], "fifth": []}
    counts: dict[int, int] = {}
    time = 0
    columns = (ticks[name].tolist() for name in ("instrument_id", "ts_recv", "sequence", "size", "depth"))
    for number, (key, received, sequence, size, places) in enumerate(zip(*columns, strict=True)):
        time = max(time, received)
        counts[key] = counts.get(key, 0) + 1
        if fails is not None and fails(ticks[number]):
            continue
        head = (number, sequence, time, key)
        found["seen"] += [(*head, counts[key], size, place) for place in range(places)]
        if counts[key] % 5 == 0:
            found["fifth"].append((*head, counts[key]))
    return {name: np.array(rows, merged_dtype(OUTPUTS[name])) for name, rows in found.items()}


def collected(d: Dispatcher) -> dict[str, npt.NDArray[Any]]:
    return {name: output.array() for name, output in d.outputs.items()}


def same(found: dict[str, npt.NDArray[Any]], expected: dict[str, npt.NDArray[Any]]) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "workers": draw(st.integers(1, 4)),
        "capacity_ticks": draw(st.sampled_from([1, 2, 31, 100, 65_536])),
        "budget_ticks": draw(st.sampled_from([1, 3, 31, 4096])),
        "batch_ticks": draw(st.sampled_from([1, 5, 64, 4096])),
        "strands": draw(st.sampled_from(["auto", "per-symbol", 1, 3])),
        "publisher_drains": draw(st.booleans()),
        "idle": draw(st.sampled_from(["backoff", "park"])),
        "_counters_start": draw(st.sampled_from([0, 2**32 - 7, 2**64 - 7])),
        "cores": None,
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    keys=st.lists(st.integers(0, 7), max_size=600),
    cuts=st.integers(1, 8),
    kind=st.sampled_from(["python", "C", "C, never publishes"]),
    options=options(),
)
def test_any_workers_grouping_and_batches_give_what_a_plain_loop_emits(
    c_handlers: Path, keys: list[int], cuts: int, kind: str, options: dict[str, Any]
) -> None:
    ticks = stream(keys, len(keys))
    handler = echo_in_python if kind == "python" else echo(c_handlers, never_publishes=kind == "C, never publishes")
    with Dispatcher(8, handler, **options) as d:
        for part in np.array_split(ticks, cuts):
            d.publish(part)
    same(collected(d), serial(ticks))
    balanced(d)


@pytest.mark.parametrize("publisher_drains", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_what_a_call_emits_in_several_turns_is_put_in_order_amid_what_is_in_order_already(
    c_handlers: Path, workers: int, publisher_drains: bool
) -> None:
    ticks = stream(np.random.default_rng(2).integers(0, 300, 120_000))
    third = len(ticks) // 3
    ticks["depth"][:third] = ticks["depth"][-third:] = 1
    handler = native(c_handlers, "on_echo_in_turns", state=ROW, never_publishes=True, outputs=OUTPUTS)
    with Dispatcher(300, handler, workers=workers, cores=None, publisher_drains=publisher_drains) as d:
        for part in np.array_split(ticks, 60):
            d.publish(part)
    found = d.outputs["seen"].array()
    depth = ticks["depth"].astype(np.int64)
    np.testing.assert_array_equal(found["number"], np.repeat(np.arange(len(ticks)), depth))
    np.testing.assert_array_equal(found["instrument_id"], np.repeat(ticks["instrument_id"], depth))
    np.testing.assert_array_equal(found["size"], np.repeat(ticks["size"], depth))
    np.testing.assert_array_equal(found["place"], np.arange(depth.sum()) - np.repeat(np.cumsum(depth) - depth, depth))


def test_a_batch_that_is_kept_stays_as_it_is_while_the_memory_of_others_is_used_again(c_handlers: Path) -> None:
    ticks = stream(np.random.default_rng(3).integers(0, 300, 300_000))
    kept: list[npt.NDArray[Any]] = []
    places: list[int] = []
    taken = 0
    with Dispatcher(300, echo(c_handlers), workers=2, cores=None) as d:
        for part in np.array_split(ticks, 40):
            d.publish(part)
            d.drain()
            batch = next(iter(d.outputs["seen"]))
            if len(places) % 3 == 0:
                kept.append(batch)
            places.append(taken)
            taken += len(batch)
    expected = serial(ticks)["seen"]
    assert taken * expected.itemsize > 4 * PIECE_BYTES
    for at, batch in zip(places[::3], kept, strict=True):
        np.testing.assert_array_equal(batch, expected[at : at + len(batch)])


def test_a_record_at_the_greatest_time_there_is_comes_out(c_handlers: Path) -> None:
    ticks = stream([0, 1, 0])
    ticks["ts_recv"], ticks["depth"] = 2**63 - 1, 1
    with Dispatcher(2, echo(c_handlers), workers=1, cores=None) as d:
        d.publish(ticks)
    same(collected(d), serial(ticks))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    keys=st.lists(st.integers(0, 7), min_size=1, max_size=400),
    on_full=st.sampled_from(["drop_oldest", "conflate"]),
    options=options(),
)
def test_of_what_is_dropped_nothing_is_emitted_and_the_rest_keeps_its_numbers(
    c_handlers: Path, keys: list[int], on_full: str, options: dict[str, Any]
) -> None:
    ticks = stream(keys)
    ticks["depth"] = 1
    options |= {"on_full": on_full, "strands": "per-symbol", "capacity_ticks": 3}
    with Dispatcher(8, echo(c_handlers), **options) as d:
        d.publish(ticks)
    seen = d.outputs["seen"].array()
    s = d.statistics()
    assert len(seen) == s.handled
    assert (np.diff(seen["number"].astype(np.int64)) > 0).all()
    whose = ticks[seen["number"].astype(np.int64)]
    np.testing.assert_array_equal(seen["size"], whose["size"])
    np.testing.assert_array_equal(seen["instrument_id"], whose["instrument_id"])
    np.testing.assert_array_equal(seen["ts"], np.maximum.accumulate(ticks["ts_recv"])[seen["number"].astype(np.int64)])


@pytest.mark.parametrize("publisher_drains", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_tick_a_handler_fails_on_emits_nothing_and_the_others_do(
    c_handlers: Path, workers: int, publisher_drains: bool
) -> None:
    keys = np.random.default_rng(2).integers(0, 20, 30_000)
    ticks = stream(keys)
    bad = np.arange(100, len(ticks), 997)
    ticks["flags"][bad] = 255
    options: dict[str, Any] = {"workers": workers, "publisher_drains": publisher_drains, "strands": "per-symbol"}
    with Dispatcher(20, echo(c_handlers), on_error="quarantine", cores=None, **options) as d:
        for part in np.array_split(ticks, 300):
            d.publish(part)
            while True:
                d.drain()
                held = [key for key in range(20) if d.inspect(key).quarantined]
                for key in held:
                    d.release(key)
                if not held:
                    break
    same(collected(d), serial(ticks, lambda tick: tick["flags"] == 255))


def test_what_a_python_batch_emitted_before_it_raised_is_not_emitted() -> None:
    tries = []

    @batch_handler(state=ROW, outputs={"x": [("n", "<u8")]})
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(ticks["sequence"].view([("n", "<u8")]), at=np.arange(len(ticks)))
        tries.append(len(ticks))
        if len(tries) == 1:
            raise ValueError("the first time")

    with Dispatcher(1, on_ticks, workers=1, cores=None, on_error="quarantine") as d:
        d.publish(ticks_for([0] * 5))
        d.drain()
        d.release(0)
    # The tick it failed on is done with; those behind it come again.
    assert d.outputs["x"].array()["n"].tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("loop", [Dispatcher, CallerRun])
def test_an_interrupt_in_a_handler_s_end_ends_the_outputs(loop: Any, tmp_path: Path) -> None:
    def on_finish(symbol: str, row: Any) -> None:
        raise KeyboardInterrupt

    @batch_handler(state=ROW, outputs={"x": [("n", "<u8")], "y": [("n", "<u8")]}, on_finish=on_finish)
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        for name in ("x", "y"):
            ctx.emit(ticks["sequence"].astype("<u8").view([("n", "<u8")]), at=np.arange(len(ticks)), output=name)

    with pytest.raises(KeyboardInterrupt), loop(1, on_ticks, out={"y": tmp_path / "y.npy"}) as d:
        d.publish(ticks_for([0] * 5))
        d.drain()
    assert sum(len(batch) for batch in d.outputs["x"]) == 5  # and no wait for more
    assert len(np.load(tmp_path / "y.npy")) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["y.npy"]


@pytest.mark.parametrize("loop", [Dispatcher, CallerRun])
def test_memory_for_batches_goes_with_its_run(loop: Any, c_handlers: Path) -> None:
    def alive() -> int:
        gc.collect()
        return sum(type(found) is Memory for found in gc.get_objects())

    before = alive()
    for _ in range(3):
        with loop(3, echo(c_handlers)) as d:
            d.publish(stream([0, 1, 2] * 100))
            d.drain()
        assert len(d.outputs["seen"].array())
        del d
    assert alive() == before


def test_a_stop_without_draining_leaves_all_before_the_first_tick_that_was_not_handled(c_handlers: Path) -> None:
    ticks = stream(np.random.default_rng(4).integers(0, 5, 5_000))
    d = Dispatcher(5, echo(c_handlers), workers=2, cores=None, strands="per-symbol", publisher_drains=False)
    with d:
        d.publish(ticks[:1000])
        d.drain()
        d.pause(3)
        d.publish(ticks[1000:])
        wait_until(lambda: d.statistics().pending == np.count_nonzero(ticks["instrument_id"][1000:] == 3))
        d.stop(drain=False)
    first = 1000 + int(np.flatnonzero(ticks["instrument_id"][1000:] == 3)[0])
    whole = serial(ticks)
    same(collected(d), {name: array[array["number"] < first] for name, array in whole.items()})


def test_a_paused_strand_holds_back_what_comes_after_it_until_it_is_resumed(c_handlers: Path) -> None:
    ticks = stream(np.arange(4000) % 4)
    with Dispatcher(4, echo(c_handlers), workers=2, cores=None, strands="per-symbol") as d:
        d.pause(1)
        d.publish(ticks)
        wait_until(lambda: d.statistics().pending == 1000)
        assert d.outputs["seen"].records <= ticks["depth"][0]
        d.resume(1)
        d.drain()
        wait_until(lambda: d.outputs["seen"].records == ticks["depth"].sum())
    same(collected(d), serial(ticks))


def test_records_that_wait_for_a_timer_of_a_paused_strand_are_not_out() -> None:
    """A merge forgets which file a tick came from as soon as its records are out."""

    @strand.object_handler(outputs={"seen": [("n", "i8")]})
    class Timed:
        def on_start(self, ctx: Any) -> None:
            self._ctx = ctx

        def on_tick(self, tick: Any) -> None:
            self._ctx.emit((1,))
            if tick.instrument_id == 0:
                self._ctx.wake_at(tick.ts_recv + 2)

        def on_wake(self, time: int) -> None:
            self._ctx.emit((2,))

    ticks = strand.ticks.zeros(6)
    ticks["ts_recv"] = ticks["ts_event"] = 1 + np.arange(6)
    ticks["instrument_id"][1:] = 1
    with Dispatcher(["A", "B"], Timed, workers=1, cores=None, strands="per-symbol") as d:
        d.publish(ticks[:1])
        d.drain()
        d.pause("A")
        d.publish(ticks[1:])
        wait_until(lambda: d.statistics().handled == 6)
        wait_until(lambda: d.outputs["seen"].records == 2 and (d.outputs.merger.below or 0) > 1)
        assert d.outputs.merger.below == 2
        d.resume("A")
        d.drain()
        wait_until(lambda: d.outputs.merger.below == 6)
    assert d.outputs["seen"].array()["n"].tolist() == [1, 1, 2, 1, 1, 1, 1]


def test_batches_can_be_iterated_over_while_the_run_goes_on(c_handlers: Path) -> None:
    ticks = stream(np.arange(3000) % 7)
    batches: list[npt.NDArray[Any]] = []
    with Dispatcher(7, echo(c_handlers), workers=2, cores=None) as d:
        reader = threading.Thread(target=lambda: batches.extend(d.outputs["seen"]))
        reader.start()
        d.publish(ticks[:1000])
        wait_until(lambda: sum(map(len, batches)) == ticks["depth"][:1000].sum())
        d.publish(ticks[1000:])
    reader.join(60)
    np.testing.assert_array_equal(np.concatenate(batches), serial(ticks)["seen"])
    assert len(d.outputs["seen"].array()) == 0


def test_a_forked_process_can_look_at_what_was_collected_and_waits_for_no_thread(c_handlers: Path) -> None:
    ticks = stream(np.arange(1000) % 7)
    d = Dispatcher(7, echo(c_handlers), workers=1, cores=None)
    d.outputs.digest_all()
    with d:
        d.publish(ticks)
        d.drain()
        collected_here = len(d.outputs["seen"].array())
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            same_there = len(d.outputs["seen"].array()) == collected_here
            os._exit(0 if same_there and d.outputs.settled_digests() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert collected_here == ticks["depth"].sum()


def test_publishers_wait_for_the_merger_where_more_is_emitted_than_the_bound_allows(c_handlers: Path) -> None:
    ticks = stream(np.arange(150_000) % 3)
    ticks["depth"] = 3
    d = Dispatcher(
        3,
        echo(c_handlers),
        pool=Pool(workers=1, cores=None, max_publishers=1),
        strands="per-symbol",
        limits=Limits(output_memory=1 << 20),
    )
    with d:
        d.pause(1)
        with pytest.raises(BackpressureError):
            d.publish(ticks, timeout_s=1.0)
        assert d.statistics().accepted < 75_000
        accepted = d.statistics().accepted
        d.resume(1)
        d.publish(ticks[accepted:])
        d.drain()
    same(collected(d), serial(ticks))


def test_a_quarantined_strand_keeps_nobody_waiting_and_what_it_emits_too_late_is_counted(c_handlers: Path) -> None:
    ticks = stream(np.arange(200_000) % 3)
    ticks["depth"] = 1
    ticks["flags"][1] = 255
    options: dict[str, Any] = {"strands": "per-symbol", "max_publishers": 1, "output_memory": 1 << 20}
    with Dispatcher(3, echo(c_handlers), on_error="quarantine", **grouped(workers=1, cores=None, **options)) as d:
        d.publish(ticks, timeout_s=60)
        d.drain()
        pending = d.inspect(1).pending
        assert 0 < pending < np.count_nonzero(ticks["instrument_id"] == 1)
        d.release(1)
    seen = d.outputs["seen"].array()
    assert (np.diff(seen["number"].astype(np.int64)) > 0).all()
    others = seen[seen["instrument_id"] != 1]
    np.testing.assert_array_equal(others["number"], np.flatnonzero(ticks["instrument_id"] != 1))
    late_fifths = pending // 5
    assert np.count_nonzero(seen["instrument_id"] == 1) + d.outputs.late == pytest.approx(pending, abs=late_fifths + 1)
    assert d.outputs.late > 0


def test_several_publishers_numbers_rise_along_every_symbol(c_handlers: Path) -> None:
    parts = [stream(np.random.default_rng(i).integers(0, 6, 20_000)) for i in range(3)]
    for i, part in enumerate(parts):
        part["depth"] = 1
        part["size"] = np.arange(len(part)) * 4 + i
    with Dispatcher(6, echo(c_handlers), workers=2, cores=None, batch_ticks=16, strands="per-symbol") as d:
        threads = [threading.Thread(target=lambda p=p: [d.publish(c) for c in np.array_split(p, 400)]) for p in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = d.outputs["seen"].array()
    assert len(seen) == 60_000
    assert (np.diff(seen["number"].astype(np.int64)) > 0).all()
    assert (np.diff(seen["ts"].astype(np.int64)) >= 0).all()
    # The handler counted each symbol's ticks as it met them: in the order of their numbers.
    np.testing.assert_array_equal(seen["count"], numbered(seen["instrument_id"].astype(np.int64)))
    for i in range(3):
        for key in range(6):
            one = seen[(seen["size"] % 4 == i) & (seen["instrument_id"] == key)]
            assert (np.diff(one["size"].astype(np.int64)) > 0).all()


def test_two_handlers_may_share_an_output_of_one_dtype_only(c_handlers: Path) -> None:
    ticks = stream(np.arange(300) % 2)
    with Dispatcher(2, handlers={"#0": echo_in_python, "*": echo(c_handlers)}, workers=2, cores=None) as d:
        d.publish(ticks)
    same(collected(d), serial(ticks))
    other = native(c_handlers, "on_echo", state=ROW, outputs={"seen": FIFTH})
    with pytest.raises(ConfigurationError, match="one output needs one dtype"):
        Dispatcher(2, handlers={"#0": other, "*": echo(c_handlers)})


def test_emitting_from_c_to_an_output_that_was_not_declared_is_a_failure_that_says_so(c_handlers: Path) -> None:
    handler = native(c_handlers, "on_echo", state=ROW, outputs={"seen": SEEN})
    ticks = ticks_for([0] * 5)
    with (
        pytest.raises(HandlerError, match="emits to output 1 but has declared 1"),
        Dispatcher(1, handler, workers=1) as d,
    ):
        d.publish(ticks)
        d.drain()


@pytest.mark.parametrize(
    ("emit", "error", "match"),
    [
        (
            lambda ctx: ctx.emit(np.zeros(1, [("z", "<u4")]), at=0),
            RecordTypeError,
            "<u4.* were emitted, but .* is declared",
        ),
        (lambda ctx: ctx.emit("no", at=0), RecordTypeError, "is not a record"),
        (lambda ctx: ctx.emit((1,), at=3), IndexError, "3 is not a place in a batch of 3"),
        (lambda ctx: ctx.emit((1,), at=-1), IndexError, "-1 is not a place"),
        (lambda ctx: ctx.emit((1,), at=0.5), IndexError, "are not places of ticks"),
        (lambda ctx: ctx.emit((1,), at=0, output="y"), ConfigurationError, "declares x: not 'y'"),
    ],
)
def test_emitting_what_cannot_be_is_refused_by_name(
    emit: Callable[[Any], None], error: type[Exception], match: str
) -> None:
    caught: list[Exception] = []

    @batch_handler(state=ROW, outputs={"x": [("n", "<u8")]})
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        with pytest.raises(error, match=match) as raised:
            emit(ctx)
        caught.append(raised.value)

    with Dispatcher(1, on_ticks, workers=1, cores=None) as d:
        d.publish(ticks_for([0] * 3))
    assert len(caught) == 1


def test_a_bound_too_small_for_the_slots_is_refused_with_the_least_that_will_do(c_handlers: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"output_memory: 1000 bytes are too few .* give at least \d+"):
        Dispatcher(2, echo(c_handlers), workers=1, limits=Limits(output_memory=1000))
    for wrong in (-1, 1e8):
        with pytest.raises(ConfigurationError, match=r"output_memory: .* is not a whole number from 1"):
            Dispatcher(2, echo(c_handlers), workers=1, limits=Limits(output_memory=wrong))  # type: ignore[arg-type]


def test_what_was_emitted_is_there_right_after_a_drain(c_handlers: Path) -> None:
    ticks = ticks_for([0, 1, 2])
    ticks["depth"] = 1
    with Dispatcher(3, echo(c_handlers), workers=2, cores=None) as d:
        for turn in range(1, 200):
            d.publish(ticks)
            d.drain()
            assert len(d.outputs["seen"].array()) == 3 * turn


def test_outputs_can_be_looked_at_by_many_while_the_run_ends(c_handlers: Path) -> None:
    ticks = ticks_for([0, 1, 2] * 100)
    ticks["depth"] = 1
    for _ in range(20):
        d = Dispatcher(3, echo(c_handlers), workers=2, cores=None).start()
        with beside(*[d.outputs["seen"].array] * 3):
            d.publish(ticks)
            assert d.stop()
        assert len(d.outputs["seen"].array()) == 300


def test_a_dispatcher_without_outputs_has_none() -> None:
    d = Dispatcher(2, "count", workers=1)
    assert len(d.outputs) == 0
    with pytest.raises(KeyError, match="there are none"):
        d.outputs["bars"]


def test_an_idle_dispatcher_does_not_look_for_records_and_a_publish_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The merger's thread goes to sleep, here for ever: so it gives way a few times, and then not any more."""
    monkeypatch.setattr("strand.output.outputs.ASLEEP_S", 1e6)
    came = threading.Event()

    class Sink:
        def write(self, batch: Any) -> None:
            came.set()

        def close(self) -> None:
            pass

        abort = close

    def switches() -> int:
        (thread,) = (one for one in threading.enumerate() if one.name == "strand-outputs")
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        (line,) = (one for one in status.splitlines() if one.startswith("voluntary_ctxt"))
        return int(line.split()[1])

    with Dispatcher(2, echo_in_python, workers=1, out={"seen": Sink()}, cores=None) as dispatcher:

        def rests() -> bool:
            before = switches()
            threading.Event().wait(0.3)
            return before == switches()

        wait_until(rests)
        ticks = stream([0, 1])
        ticks["depth"] = 1
        dispatcher.publish(ticks)
        assert came.wait(60)


# ---- Tables in notebooks: well-formed, bounded and escaped


DAY = {"date": SAMPLE_DATE}
HOSTILE = '<script>alert("x")</script>'


@strand.batch_handler(state=[("last", PRICE), ("n", "i8")], outputs={"quotes": [("price", PRICE), ("parts", "i8", 9)]})
def seen(symbol: str, ticks: Any, row: Any, ctx: strand.Context) -> None:
    row["last"], row["n"] = 1_250_000_000, row["n"] + len(ticks)
    ctx.emit((1_250_000_000, range(9)), at=0)


def rows_in(html: str) -> int:
    return html.count("<tr>")


def test_rows_are_shown_in_natural_units_with_their_units() -> None:
    result = strand.replay(sample_path(), "book", feed_options=DAY, workers=1)
    html = result.rows._repr_html_()
    text = Reader(html).text
    for words in ("book: 500 symbols of 500", "AAAAA", "bid_price", "currency", f"{MAX_COLUMNS} of "):
        assert words in text, words
    row = result.rows["AAAAA"]
    if abs(int(row["bid_price"])) < 2**62:
        assert f"{row['bid_price'] / strand.PRICE_SCALE:,.9g}" in text
    assert "9223372036854775807" not in html.replace(",", "")


def test_eight_thousand_symbols_make_a_small_table() -> None:
    names = [f"S{i:04}" for i in range(8000)]
    with strand.Dispatcher(names, seen, workers=1) as dispatcher:
        dispatcher.publish(ticks_for(np.arange(8000)))
        dispatcher.drain()
        live = dispatcher.rows._repr_html_()
        records = dispatcher.outputs["quotes"].array()  # merges what is final: then it is counted
        outputs = dispatcher.outputs._repr_html_()
        assert "8,000 symbols of 8,000" in Reader(live).text
        assert "1.25" in Reader(live).text
        assert Reader(outputs).text.startswith("quotes, 8,000 records, collected field dtype unit")
    table = records._repr_html_()
    assert "8,000 records" in Reader(table).text
    assert "S0000 0" in Reader(table).text
    assert "0, 1, 2, 3, ..." in Reader(table).text
    for html in (live, table, dispatcher.rows._repr_html_()):
        assert rows_in(html) == MAX_ROWS + 2
        assert len(html) < 5000


def test_symbols_without_ticks_are_left_out_and_rows_of_several_handlers_have_a_table_each() -> None:
    with strand.Dispatcher(["A", "B", "C"], handlers={"A": seen, "*": "count"}, workers=1) as dispatcher:
        dispatcher.publish(ticks_for([0, 2, 2]))
        dispatcher.drain()
        first, second = dispatcher.rows._repr_html_().split("</table><table>")
        assert "seen: 1 symbol of 3" in Reader(f"{first}</table>").text
        assert "C 2" in Reader(f"<table>{second}").text
        assert ">B<" not in second
    with strand.Dispatcher(["A"], "count", workers=1) as dispatcher:
        assert "0 symbols of 1" in Reader(dispatcher.rows._repr_html_()).text


def test_names_are_escaped() -> None:
    result = strand.replay(Named([HOSTILE, "B"], path=HOSTILE), seen, workers=1)
    for html in (result._repr_html_(), result.rows._repr_html_(), result.outputs["quotes"]._repr_html_()):
        assert html is not None
        assert "<script" not in html
        assert "script" not in Reader(html).tags
        assert "&lt;script&gt;" in html
    assert "<script" not in table_html({HOSTILE: np.array([HOSTILE])}, {HOSTILE: HOSTILE}, note=HOSTILE)
    assert "<script" not in facts_html({HOSTILE: HOSTILE})


def test_sizes_whose_unit_nobody_knows_are_shown_as_they_are() -> None:
    handler = strand.vwap()
    rows = strand.replay(Named(["A"]), handler, workers=1).rows
    rows._tables[0].size_unit = None
    with pytest.raises(strand.StrandError):
        rows.table()
    assert "volume" in Reader(rows._repr_html_()).text


@pytest.mark.python
def test_cells_of_what_is_undefined_are_empty_and_what_is_long_is_cut() -> None:
    columns = {
        "masked": np.ma.MaskedArray([1, 2000], [True, False]),
        "float": np.array([np.nan, 1240923.2000000002]),
        "time": np.array(["NaT", "2026-01-05T14:30:00.123456789"], "M8[ns]"),
        "text": np.array(["a\nb", "x" * 500]),
    }
    html = table_html(columns, {"time": "UTC"}, note="two")
    text = Reader(html).text
    assert text.startswith("two masked float time text UTC a\\nb 2,000 1,240,923.2 2026-01-05 14:30:00.123 xxx")
    assert html.count("<td></td>") == 3
    assert len(html) < 700
    wide = table_html({f"c{i}": np.arange(50) for i in range(500)}, {}, note="wide")
    assert f"wide; {MAX_COLUMNS} of 500 columns" in Reader(wide).text
    assert rows_in(wide) == MAX_ROWS + 1


def test_keys_are_completed() -> None:
    with strand.Dispatcher(["AAPL", "MSFT"], strand.chain("book", seen), workers=1) as dispatcher:
        assert dispatcher.rows._ipython_key_completions_() == ["AAPL", "MSFT"]
        assert dispatcher.books._ipython_key_completions_() == ["AAPL", "MSFT"]
        assert dispatcher.outputs._ipython_key_completions_() == ["quotes"]


@pytest.mark.python
def test_names_to_complete_are_bounded_and_those_that_were_given() -> None:
    assert len(SymbolTable([f"S{i}" for i in range(20_000)]).offered(MAX_COMPLETIONS)) == MAX_COMPLETIONS
    table = SymbolTable.with_capacity(["", "A", "", "B"], 1_000_000)
    assert table.offered(MAX_COMPLETIONS) == ["A", "B"]
    assert (table.n_shown, SymbolTable(1_000_000).n_shown) == (2, 1_000_000)
    assert repr(table) == "<SymbolTable: 2 symbols, A, B>"
    assert SymbolTable(1_000_000).offered(3) == ["#0", "#1", "#2"]


# ---- The rows of baskets, by name and as tables


class Kept:
    price: Annotated[np.int64, "price"]
    n: np.int64


def handler(name: str, baskets: Any) -> Any:
    @strand.basket_handler(baskets=baskets, basket_state=Kept, kind="batch", name=name)
    def keeps(ticks: Any, basket: Any) -> None:
        basket["price"] = ticks["price"][-1]
        basket["n"] += len(ticks)

    return keeps


def run(**handlers: Any) -> ReplayResult:
    ticks = [("A", 1, 2.5, 1), ("B", 2, 3.5, 1), ("C", 3, 4.5, 1), ("D", 4, 5.5, 1)]
    return strand.replay(testing.feed(ticks), workers=1, cores=None, **handlers)


def test_rows_are_had_by_the_name_of_the_basket() -> None:
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    assert baskets.names == ("x", "y") == tuple(baskets)
    assert (len(baskets), baskets["x"]["n"], baskets["y"]["price"]) == (2, 2, 5_500_000_000)
    assert baskets.keys() == ["x", "y"]
    assert [(name, row["n"]) for name, row in baskets.items()] == [("x", 2), ("y", 1)]
    assert [row["n"] for row in baskets.values()] == [2, 1]
    assert "x" in baskets
    assert "A" not in baskets
    assert baskets.members("x") == (0, 1)
    assert baskets.array["n"].tolist() == [2, 1]
    with pytest.raises(KeyError, match="no basket is named 'z': there are x, y"):
        baskets["z"]


def test_tables_have_natural_units_and_the_baskets_names() -> None:
    pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    assert baskets.to_arrow().to_pydict() == {"basket": ["x", "y"], "price": [3.5, 5.5], "n": [2, 1]}
    assert polars.DataFrame(baskets).equals(baskets.to_polars())
    assert baskets.to_numpy().tolist() == [("x", 3_500_000_000, 2), ("y", 5_500_000_000, 1)]
    pytest.importorskip("pandas")
    assert baskets.to_pandas().loc["y", "price"] == 5.5


def test_units_are_those_that_the_basket_state_declares() -> None:
    baskets = run(handler=handler("h", {"x": ["A", "B"]})).baskets
    assert {name: unit.quantity for name, unit in baskets.units.items()} == {"price": "price", "n": "raw"}
    assert baskets.size_unit == baskets.size_unit_of("h") == 1.0
    with pytest.raises(KeyError, match="no handler with baskets is named 'other'"):
        baskets.units_of("other")


def test_of_several_handlers_a_table_is_of_one() -> None:
    one, two = handler("one", {"x": ["A", "B"]}), handler("two", {"y": ["D"]})
    baskets = run(handlers={"A": one, "B": one, "*": two}).baskets
    assert (baskets["x"]["n"], baskets["y"]["n"]) == (2, 1)
    assert baskets.to_numpy("two").tolist() == [("y", 5_500_000_000, 1)]
    with pytest.raises(ConfigurationError, match="give the name of a handler with baskets; there are one, two"):
        baskets.to_numpy()
    with pytest.raises(KeyError, match="'three'"):
        baskets.to_numpy("three")


def test_without_baskets_there_are_none() -> None:
    baskets = run(handler="count").baskets
    assert (len(baskets), baskets.records()) == (0, {})
    assert isinstance(baskets, BasketRows)
    with pytest.raises(ConfigurationError, match="give the name of a handler with baskets; there are none"):
        baskets.array  # noqa: B018


def test_some_of_them_are_copies_and_none_of_them_is_the_busiest_of_none() -> None:
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    some = baskets.of(["y"])
    assert (some.names, some["y"]["n"], some.members("y")) == (("y",), 1, (3,))
    some["y"]["n"] = 7
    assert baskets["y"]["n"] == 1
    ticks = np.array([1, 1, 1, 5])
    busiest = some.busiest(ticks)
    assert busiest is not None
    assert (busiest.names, busiest.ticks) == (("y",), 5)
    assert baskets.of([]).busiest(ticks) is None
