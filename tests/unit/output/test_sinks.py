"""Sinks of a user's own get an output's records in order, from one thread, and have one end."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from engine_support import ticks_for, wait_until

from strand import Dispatcher, batch_handler, replay
from strand.caller.run import CallerRun
from strand.dispatch.workers import Workers
from strand.errors import ConfigurationError, HandlerError, SinkError, StrandError, WouldDeadlockError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.fingerprint import OutputDigest

pytestmark = pytest.mark.python

RECORD = np.dtype([("size", "<u4")])
NAMES = ["AA", "BB", "CC"]


@batch_handler(state=[("ticks", "<i8")], outputs={"a": RECORD, "b": RECORD})
def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    if (ticks["flags"] == 255).any():
        raise ValueError(symbol)
    for name in ("a", "b"):
        ctx.emit(ticks["size"].astype("<u4").view(RECORD), at=np.arange(len(ticks)), output=name)
    row["ticks"] += len(ticks)


class Noted:
    """A sink that notes its calls in a list that several may share, and does what ``acts`` has for a method first."""

    def __init__(self, name: str = "a", calls: list[str] | None = None, **acts: Callable[[], Any]) -> None:
        self.calls: list[str] = [] if calls is None else calls
        self.batches: list[npt.NDArray[Any]] = []
        self.threads: set[int] = set()
        self._name = name
        self._acts = acts

    def _note(self, method: str) -> None:
        self.calls.append(f"{self._name} {method}")
        self._acts.get(method, int)()

    def write(self, batch: npt.NDArray[Any]) -> None:
        self._note("write")
        self.threads.add(threading.get_ident())
        self.batches.append(batch)

    def close(self) -> None:
        self._note("close")

    def abort(self) -> None:
        self._note("abort")

    @property
    def ends(self) -> list[str]:
        """All calls but those of ``write``."""
        return [call for call in self.calls if not call.endswith(" write")]

    def sizes(self) -> list[int]:
        return [size for batch in self.batches for size in batch["size"].tolist()]


def stream(n: int = 3000) -> npt.NDArray[Any]:
    ticks = ticks_for(np.arange(n) % 3)
    ticks["ts_recv"] += 1_700_000_000_000_000_000
    return ticks


def fails() -> None:
    raise ValueError("no more of this")


def interrupted() -> None:
    raise KeyboardInterrupt


def run(out: Any, *, loop: Any = Dispatcher, ticks: npt.NDArray[Any] | None = None, **options: Any) -> Any:
    options = {"workers": 2, "cores": None} | options if loop is Dispatcher else options
    with loop(NAMES, on_ticks, out=out, **options) as d:
        for part in np.array_split(stream() if ticks is None else ticks, 30):
            d.publish(part)
        d.drain()
    return d


LOOPS = pytest.mark.parametrize("loop", [Dispatcher, CallerRun])


@LOOPS
def test_a_sink_gets_all_records_in_order_from_one_thread_and_is_closed_once(loop: Any) -> None:
    sink = Noted()
    d = run({"a": sink}, loop=loop)
    assert sink.sizes() == list(range(3000))
    assert sink.ends == ["a close"]
    assert sink.calls[-1] == "a close"
    assert len(sink.threads) == 1
    assert (threading.get_ident() in sink.threads) == (loop is CallerRun)
    np.testing.assert_array_equal(np.concatenate(sink.batches), d.outputs["b"].array())
    assert d.outputs["a"].records == 3000


def test_batches_know_their_units_and_symbols_and_may_be_kept() -> None:
    sink = Noted()
    run({"a": sink})
    batch: Any = sink.batches[0]
    columns = batch.columns()
    assert columns["symbol"].tolist() == [NAMES[key] for key in batch["instrument_id"].tolist()]
    assert batch.units["ts"].quantity == "time"


def test_an_output_that_goes_to_a_sink_is_not_collected_and_has_its_digest() -> None:
    d = run({"a": Noted()})
    assert not d.outputs["a"].is_collected
    for ask in (d.outputs["a"].array, d.outputs["a"].take, lambda: list(d.outputs["a"])):
        with pytest.raises(ConfigurationError, match="output 'a' is given to a sink and not collected"):
            ask()
    alone = OutputDigest(d.outputs["b"].dtype, d.symbols)
    alone.add(d.outputs["b"].array())
    assert d.outputs["a"].digested().digest() == alone.digest()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_replay_takes_a_sink_and_has_the_fingerprint_it_has_without(workers: int) -> None:
    day: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}, "limit": 20_000, "workers": workers}
    sink = Noted()
    result = replay(sample_path(), on_ticks, out={"a": sink}, **day)
    assert result.fingerprint == replay(sample_path(), on_ticks, **day).fingerprint
    assert result.outputs.keys() == {"b"}
    assert sink.sizes() == result.outputs["b"]["size"].tolist()
    assert sink.ends == ["a close"]
    assert not result.written


# ---- the end


def test_no_sink_is_closed_before_all_have_had_their_last_batch(tmp_path: Path) -> None:
    calls: list[str] = []
    path = tmp_path / "b.npy"
    gate = threading.Event()
    seen: list[bool] = []

    def wait() -> None:
        assert gate.wait(60)
        seen.append(path.exists())

    slow = Noted("a", calls, write=wait)
    with Dispatcher(NAMES, on_ticks, out={"a": slow, "b": path}, workers=1, cores=None) as d:
        d.publish(stream(30))
        wait_until(lambda: calls == ["a write"])
        threading.Timer(0.2, gate.set).start()
    assert seen
    assert not any(seen)
    assert calls[-1] == "a close"
    assert len(np.load(path)) == 30


@LOOPS
def test_a_sink_whose_write_raises_fails_the_run_by_name_and_no_sink_is_closed(loop: Any, tmp_path: Path) -> None:
    path = tmp_path / "b.npy"
    path.write_bytes(b"what was there")
    sink = Noted("a", write=fails)
    with pytest.raises(SinkError, match="output 'a': write of its sink failed: ValueError: no more of this") as raised:
        run({"a": sink, "b": path}, loop=loop)
    assert (raised.value.output, raised.value.method) == ("a", "write")
    assert isinstance(raised.value.__cause__, ValueError)
    assert sink.calls == ["a write", "a abort"]
    assert path.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [path]


@LOOPS
def test_where_one_cannot_be_closed_those_that_are_still_open_are_aborted(loop: Any) -> None:
    calls: list[str] = []
    with pytest.raises(SinkError, match="'b': close of its sink failed"):
        run({"a": Noted("a", calls), "b": Noted("b", calls, close=fails)}, loop=loop)
    assert [call for call in calls if not call.endswith("write")] == ["b close", "a abort"]


def test_what_abort_raises_is_a_note_of_the_first_error_and_keeps_no_other_sink_from_its_end() -> None:
    calls: list[str] = []
    with pytest.raises(SinkError, match="'a': write") as raised:
        run({"a": Noted("a", calls, write=fails, abort=fails), "b": Noted("b", calls)})
    assert sorted(call for call in calls if not call.endswith("write")) == ["a abort", "b abort"]
    assert raised.value.__notes__ == ["then: output 'a': abort of its sink failed: ValueError: no more of this"]


def test_an_iteration_ends_where_a_sink_has_failed() -> None:
    ended = threading.Event()
    d = Dispatcher(NAMES, on_ticks, out={"a": Noted(write=fails)}, workers=1, cores=None).start()
    reader = threading.Thread(target=lambda: (list(d.outputs["b"]), ended.set()))
    reader.start()
    d.publish(stream(30))
    assert ended.wait(60)
    with pytest.raises(SinkError):
        d.drain()
    d.stop(drain=False)
    reader.join(60)


@LOOPS
def test_a_failing_handler_and_an_interrupt_close_the_sinks_with_what_is_final(loop: Any) -> None:
    ticks = stream()
    ticks["flags"][1500] = 255
    failed, left = Noted(), Noted()
    with pytest.raises(HandlerError):
        run({"a": failed}, loop=loop, ticks=ticks)
    assert failed.ends == ["a close"]
    assert failed.sizes() == sorted(set(failed.sizes()))
    assert len(failed.sizes()) < 3000
    with pytest.raises(KeyboardInterrupt), loop(NAMES, on_ticks, out={"a": left}) as d:
        d.publish(stream(30))
        d.drain()
        raise KeyboardInterrupt
    assert left.ends == ["a close"]
    assert left.sizes() == list(range(30))


def test_an_interrupt_while_records_are_merged_aborts_the_sinks() -> None:
    sink, other = Noted("a", write=interrupted), Noted("b")
    with pytest.raises(KeyboardInterrupt):
        run({"a": sink, "b": other}, loop=CallerRun)
    assert sink.ends == ["a abort"]
    assert other.ends == ["b abort"]


@pytest.mark.parametrize("where", ["workers", "file"])
def test_a_start_that_fails_aborts_the_sinks_and_leaves_files_as_they_were(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, path = Noted(), tmp_path / "b.npy"
    if where == "workers":
        path.write_bytes(b"what was there")
        monkeypatch.setattr(Workers, "start", lambda *_: fails())
    else:
        path.mkdir()
    d = Dispatcher(NAMES, on_ticks, out={"a": sink, "b": path}, workers=1, cores=None)
    with pytest.raises((ValueError, StrandError)):
        d.start()
    assert sink.calls == ["a abort"]
    assert list(tmp_path.iterdir()) == [path]
    d.stop()
    assert sink.calls == ["a abort"]
    assert path.is_dir() or path.read_bytes() == b"what was there"


def test_a_dispatcher_that_never_started_aborts_its_sinks_when_it_is_stopped() -> None:
    sink = Noted()
    d = Dispatcher(NAMES, on_ticks, out={"a": sink}, workers=1, cores=None)
    d.stop()
    d.stop()
    assert sink.calls == ["a abort"]
    assert list(d.outputs["b"]) == []


@pytest.mark.filterwarnings("ignore:a Dispatcher was deleted:ResourceWarning")
def test_a_dispatcher_that_is_dropped_without_a_stop_aborts_its_sinks(tmp_path: Path) -> None:
    sink = Noted()
    d = Dispatcher(NAMES, on_ticks, out={"a": sink, "b": tmp_path / "b.npy"}, workers=1, cores=None).start()
    d.publish(stream(30))
    del d
    gc.collect()
    wait_until(lambda: sink.ends == ["a abort"])
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_in_a_forked_child_no_sink_has_an_end() -> None:
    sink = Noted()
    with Dispatcher(NAMES, on_ticks, out={"a": sink}, workers=1, cores=None) as d:
        d.publish(stream(30))
        d.drain()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            d.stop(drain=False)
            os._exit(len(sink.ends))
        assert os.waitpid(child, 0)[1] == 0
    assert sink.ends == ["a close"]


@LOOPS
def test_what_a_run_has_collected_goes_with_it_and_waits_for_no_garbage_collection(loop: Any) -> None:
    gc.collect()
    gc.disable()
    try:
        d = run({}, loop=loop)
        collected = weakref.ref(d.outputs["a"]._collected)
        assert collected() is not None
        del d
        assert collected() is None
    finally:
        gc.enable()


# ---- what a sink may not do, and what is none


@pytest.mark.parametrize(
    ("method", "wait"),
    [
        ("write", lambda d: d.drain()),
        ("write", lambda d: d.stop()),
        ("write", lambda d: d.call("AA", int)),
        ("write", lambda d: d.outputs["b"].array()),
        ("write", lambda d: list(d.outputs["b"])),
        ("close", lambda d: d.stop()),
        ("close", lambda d: list(d.outputs["b"])),
        ("abort", lambda d: d.stop()),
        ("abort", lambda d: list(d.outputs["b"])),
    ],
)
def test_a_sink_that_waits_for_its_dispatcher_is_an_error_and_no_hang(method: str, wait: Callable[[Any], Any]) -> None:
    acts: dict[str, Any] = {method: lambda: wait(d)}
    if method == "abort":
        acts["write"] = fails
    d = Dispatcher(NAMES, on_ticks, out={"a": Noted(**acts)}, workers=1, cores=None)
    with pytest.raises(SinkError) as raised, d:
        d.publish(stream(30))
        d.drain()
        d.outputs["b"].array()
    if method == "abort":
        assert "WouldDeadlockError" in raised.value.__notes__[0]
    else:
        assert isinstance(raised.value.__cause__, WouldDeadlockError)
