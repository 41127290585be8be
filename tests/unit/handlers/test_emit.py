"""Every kind of handler emits: compiled by numba, in C, Python's by batches and by ticks, and chains of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emitting import OUTPUTS, ROW, run
from engine_support import ticks_for

from strand import Dispatcher, Handler, batch_handler, chain, handler, native
from strand.errors import ConfigurationError, HandlerError


@handler(state=ROW, outputs=OUTPUTS)
def compiled(row: Any, tick: Any, emit: Any) -> None:
    row.ticks += 1
    row.volume += tick.size
    for place in range(tick.depth):
        emit.seen(row.volume, place=place)
    if row.ticks % 2 == 0:
        half = np.float32(tick.size / 2)
        emit.even(halves=np.array([half, half], dtype=np.float32), size=tick.size)


def stream(n: int = 4000, symbols: int = 6) -> npt.NDArray[Any]:
    ticks = ticks_for(np.random.default_rng(n).integers(0, symbols, n))
    ticks["depth"] = ticks["size"] % 3
    return ticks


def serial(ticks: npt.NDArray[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"seen": [], "even": []}
    counts: dict[int, list[int]] = {}
    for number, tick in enumerate(ticks):
        key = int(tick["instrument_id"])
        row = counts.setdefault(key, [0, 0])
        row[0] += 1
        row[1] += int(tick["size"])
        head = (number, int(tick["sequence"]), int(tick["ts_recv"]), key)
        found["seen"] += [(*head, row[1], place) for place in range(tick["depth"])]
        if row[0] % 2 == 0:
            found["even"].append((*head, int(tick["size"]), [tick["size"] / 2] * 2))
    return found


@pytest.mark.parametrize(
    ("arguments", "outputs", "match"),
    [
        ("row, tick", {"x": [("n", "<u8")]}, "outputs= is for its argument emit, which it does not have"),
        ("row, tick, emit", None, "give outputs= to declare what its argument emit is"),
    ],
)
def test_emit_and_outputs_go_together(arguments: str, outputs: Any, match: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def on_tick({arguments}): pass", space)
    with pytest.raises(ConfigurationError, match=match):
        handler(state=ROW, outputs=outputs)(space["on_tick"])


def doubled(name: str, output: str) -> Handler:
    """Emits twice the size of each tick."""
    rows = [("double", "<u8")]

    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((ticks["size"].astype(np.uint64) * 2).view(rows), at=np.arange(len(ticks)))

    return batch_handler(state=ROW, name=name, outputs={output: rows})(on_ticks)


@pytest.mark.parametrize("workers", [1, 3])
def test_all_handlers_of_a_chain_emit(c_handlers: Path, workers: int) -> None:
    ticks = stream()
    echo = native(
        c_handlers, "on_echo", state=[("ticks", "<u8")], never_publishes=True,
        outputs={"echoed": np.dtype([("count", "<u8"), ("size", "<u4"), ("place", "u1")], align=True),
                 "fifth": [("nth", "<u4")]},
    )  # fmt: skip
    alone = run(echo, ticks, workers=1)
    whole = {**alone, **serial(ticks)}
    assert run(chain(echo, compiled), ticks, workers=workers) == whole
    found = run(chain(echo, compiled, doubled("last", "double")), ticks, workers=workers)
    assert [record[-1] for record in found.pop("double")] == (ticks["size"].astype(int) * 2).tolist()
    assert found == whole


@pytest.mark.python
def test_handlers_of_a_chain_may_share_an_output_and_emit_in_their_order() -> None:
    ticks = stream(300)
    rows = [("n", "<u8")]

    @handler(state=ROW, outputs={"x": rows}, cache=False)
    def once(row: Any, tick: Any, emit: Any) -> None:
        emit.x(1)

    @handler(state=ROW, outputs={"x": rows}, cache=False)
    def twice(row: Any, tick: Any, emit: Any) -> None:
        emit.x(2)

    found = run(chain(once, twice), ticks, workers=2)["x"]
    assert [record[-1] for record in found] == [1, 2] * len(ticks)
    assert [record[0] for record in found] == np.repeat(np.arange(len(ticks)), 2).tolist()


def test_what_compiled_handlers_before_it_emitted_stays_where_python_fails_on_a_batch() -> None:
    @handler(state=ROW, outputs={"x": [("n", "<u8")]}, cache=False)
    def counts(row: Any, tick: Any, emit: Any) -> None:
        row.ticks += 1
        emit.x(row.ticks)

    calls: list[int] = []

    @batch_handler(state=ROW, outputs={"y": [("n", "<u8")]})
    def fails(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(ticks["sequence"].view([("n", "<u8")]), at=np.arange(len(ticks)))
        calls.append(len(ticks))
        if len(calls) == 1:
            raise ValueError("once")

    with Dispatcher(1, chain(counts, fails), workers=1, cores=None, on_error="quarantine") as d:
        d.publish(ticks_for([0] * 6))
        d.drain()
        d.release(0)
    assert calls == [6, 5]
    assert d.outputs["x"].array()["n"].tolist() == [1, 2, 3, 4, 5, 6]
    assert d.outputs["y"].array()["n"].tolist() == [2, 3, 4, 5, 6]


def test_a_handler_without_outputs_is_told_so_when_it_emits() -> None:
    @batch_handler(state=ROW)
    def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit((1,), at=0)

    with pytest.raises(HandlerError, match="declares none"), Dispatcher(1, on_ticks, workers=1, cores=None) as d:
        d.publish(ticks_for([0]))
        d.drain()
