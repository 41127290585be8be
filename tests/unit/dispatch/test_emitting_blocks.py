"""Outputs, timers and ends in blocks: what one publisher and a plain loop give, record by record and byte by byte."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import alarms
import numpy as np
import pytest
from engine_support import balanced

import strand
from strand import Dispatcher, native, replay
from strand.errors import HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import zeros

TICKS: Final = 400_000
#: Blocks are of batches that are long enough, where the file is compressed, or of the file.
SOURCES: Final = ("day.itch50.gz", "day.itch50")
READS: Final[dict[str, Any]] = {"feed_options": {"date": SAMPLE_DATE, "batch_ticks": 1 << 16}, "timeline": False}
LOOP: Final[dict[str, Any]] = {"workers": 0}
PUBLISH: Final[dict[str, Any]] = {"workers": 2, "cores": None, "ingest": "publish"}
BLOCKS: Final[dict[str, Any]] = {"workers": 2, "cores": None, "ingest": "blocks"}
WAYS: Final = (LOOP, PUBLISH, BLOCKS)
HANDLERS: Final[dict[str, tuple[Callable[[], Any], tuple[str, ...]]]] = {
    "bbo": (lambda: "bbo", ("bbo",)),
    "trades": (lambda: "trades", ("trades",)),
    "chain": (lambda: strand.chain("bbo", "trades"), ("bbo", "trades")),
    "bars": (lambda: "bars", ("bars",)),
    "seconds": (lambda: strand.handlers.bars(every="1s", partial=True), ("bars",)),
}
SEEN: Final = np.dtype([("count", "<u8"), ("size", "<u4"), ("place", "u1")], align=True)
FIFTH: Final = np.dtype([("nth", "<u4")])


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the sources."""
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "day.itch50.gz").write_bytes(sample_path().read_bytes())
    (folder / "day.itch50").write_bytes(gzip.decompress(sample_path().read_bytes()))
    return folder


def emitted(result: Any) -> dict[str, Any]:
    return {name: np.asarray(output).tolist() for name, output in result.outputs.items()}


@pytest.mark.cells(1)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", HANDLERS)
def test_files_of_outputs_are_byte_for_byte_those_of_a_publisher(
    days: Path, tmp_path: Path, name: str, source: str
) -> None:
    make, names = HANDLERS[name]
    found = []
    for ending in ("parquet", "csv", "npy"):
        for n, way in enumerate(WAYS):
            folder = tmp_path / ending / str(n)
            folder.mkdir(parents=True)
            out = {each: folder / f"{each}.{ending}" for each in names}
            result = replay(days / source, make(), out=out, **READS, **way)
            assert (result.statistics.handled_in_blocks > 0) == (way is BLOCKS)
            found.append((result.fingerprint, result.ticks, [path.read_bytes() for path in out.values()]))
        assert found[-3] == found[-2] == found[-1]
        assert all(found[-1][2])


@pytest.mark.cells(1)
@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("day.itch50.gz", {"limit": 70_001}),
        ("day.itch50", {"limit": 70_001}),
        ("day.itch50", {"limit": 199_999}),
        ("day.itch50.gz", {"until": "13:00"}),
        ("day.itch50", {"until": "13:00"}),
        ("day.itch50", {"until": ("AAAHD", 3_000)}),
        ("day.itch50.gz", {"fingerprint_every": 50_000}),
        ("day.itch50", {"symbols": ["A*", "*[D-M]"]}),
        ("day.itch50", {"symbols": ["*[!Z]"], "start": "10:00", "limit": 90_000}),
    ],
)
@pytest.mark.parametrize("name", HANDLERS)
def test_a_limit_a_time_and_a_selection_cut_outputs_where_they_cut_those_of_a_plain_loop(
    days: Path, name: str, source: str, options: dict[str, Any]
) -> None:
    make, _ = HANDLERS[name]
    kwargs = READS | options
    loop, blocks = (replay(days / source, make(), **kwargs, **way) for way in (LOOP, BLOCKS))
    assert blocks.statistics.handled_in_blocks > 0
    assert blocks.ticks == loop.ticks
    assert blocks.fingerprint == loop.fingerprint
    assert emitted(blocks) == emitted(loop)


@pytest.mark.parametrize("source", SOURCES)
def test_records_that_are_skipped_leave_no_gap_in_outputs(days: Path, tmp_path: Path, source: str) -> None:
    data, path = (days / "day.itch50").read_bytes(), tmp_path / source
    at, cuts = 0, []
    while at < len(data) - 2:
        at += 2 + int.from_bytes(data[at : at + 2], "big")
        cuts.append(at)
    parts = [data[a:b] for a, b in zip([0, *cuts[60_000::30_000]], [*cuts[60_000::30_000], len(data)], strict=True)]
    data = (b"\0\x0c" + b"?" * 12).join(parts)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    options = READS | {"feed_options": READS["feed_options"] | {"on_bad_record": "skip"}}
    loop, blocks = (replay(path, strand.chain("bbo", "trades"), **options, **way) for way in (LOOP, BLOCKS))
    assert blocks.skipped == loop.skipped
    assert loop.skipped
    assert emitted(blocks) == emitted(loop)
    assert blocks.statistics.handled_in_blocks > 0


def echo(library: Path) -> Any:
    return native(library, "on_echo", state=[("ticks", "<u8")], never_publishes=True, outputs={"a": SEEN, "b": FIFTH})


def ticks_of(symbols: int, n: int = TICKS) -> Any:
    """Ticks with up to three echoes, in the order of their times."""
    draw, ticks = np.random.default_rng(n), zeros(n)
    ticks["instrument_id"] = draw.zipf(1.3, n).clip(1, symbols) - 1
    ticks["depth"], ticks["size"] = draw.integers(0, 4, n), draw.integers(1, 1 << 30, n)
    ticks["ts_recv"] = 1_000 + np.cumsum(draw.integers(0, 9, n))
    ticks["sequence_low"] = np.arange(1, n + 1)
    return ticks


def dispatched(handler: Any, ticks: Any, symbols: int, way: dict[str, Any], **options: Any) -> tuple[Any, ...]:
    """The records that ticks in three calls emit, their rows, and how many went in blocks."""
    with Dispatcher(symbols, handler, **way, **options) as d:
        for part in np.array_split(ticks, 3):
            d.publish(part)
        d.drain()
        blocks, rows = d.statistics().handled_in_blocks, d.rows.array.tolist()
        balanced(d)
    return {name: output.array().tolist() for name, output in d.outputs.items()}, rows, blocks


@pytest.mark.parametrize("symbols", [1, 7, 3_000])
def test_several_records_a_tick_keep_their_order_with_little_memory_for_outputs(c_handlers: Path, symbols: int) -> None:
    ticks = ticks_of(symbols)
    publish = dispatched(echo(c_handlers), ticks, symbols, PUBLISH)
    for workers in (1, 3):
        way, memory = BLOCKS | {"workers": workers}, 6_000_000
        blocks = dispatched(echo(c_handlers), ticks, symbols, way, limits=strand.Limits(output_memory=memory))
        assert blocks[:2] == publish[:2]
        assert blocks[2] > 0


@pytest.mark.parametrize("yields", [False, True])
def test_timers_and_ends_fire_at_their_places(c_handlers: Path, yields: bool) -> None:
    for symbols in (1, 40):
        handler, ticks = alarms.in_c(c_handlers, 0x5DEECE66D, yields=yields), ticks_of(symbols, 120_000)
        publish, blocks = (dispatched(handler, ticks, symbols, way) for way in (PUBLISH, BLOCKS))
        assert blocks[:2] == publish[:2]
        assert blocks[2] > 0


@pytest.mark.cells(1)
@pytest.mark.parametrize("yields", [False, True])
@pytest.mark.parametrize("emits", [False, True])
def test_timers_and_ends_of_a_file_fire_at_their_places(
    days: Path, c_handlers: Path, yields: bool, emits: bool
) -> None:
    handler = alarms.in_c(c_handlers, 0x5DEECE66D, yields=yields, emits=emits)
    found = []
    for way in WAYS:
        result = replay(days / "day.itch50", handler, **READS, **way)
        assert (result.statistics.handled_in_blocks > 0) == (way is BLOCKS)
        found.append((result.fingerprint, emitted(result), np.asarray(result.rows.array).tolist()))
    assert found[0] == found[1] == found[2]


def test_times_that_run_backwards_are_left_to_the_publisher(c_handlers: Path) -> None:
    ticks = ticks_of(9)
    ticks["ts_recv"][200_000] = 5
    handler = alarms.in_c(c_handlers, 7)
    publish, blocks = (dispatched(handler, ticks, 9, way) for way in (PUBLISH, BLOCKS))
    assert blocks[:2] == publish[:2]
    assert 0 < blocks[2] < TICKS


def test_what_waits_behind_a_failure_keeps_its_place_in_the_outputs(c_handlers: Path) -> None:
    """After a release the symbol's records lie among those of others, and the failed tick has none."""
    ticks, found = ticks_of(11), []
    at = np.flatnonzero(ticks["instrument_id"] == 3)[5_000]
    ticks["flags"][at] = 255
    for way in (PUBLISH, BLOCKS):
        limits = strand.Limits(capacity_ticks=TICKS, memory_bytes=1 << 28)
        options: dict[str, Any] = {"on_error": "quarantine", "strands": "per-symbol", "limits": limits}
        with Dispatcher(11, echo(c_handlers), **way, **options) as d:
            d.publish(ticks)
            while d.statistics().dropped["failed"] == 0:
                pass
            d.release(3)
            d.drain()
            assert (d.statistics().handled_in_blocks > 0) == (way is BLOCKS)
            balanced(d)
        found.append({name: output.array().tolist() for name, output in d.outputs.items()})
    assert found[0] == found[1]
    assert len(found[0]["a"]) == int(ticks["depth"].sum()) - int(ticks["depth"][at])


@pytest.mark.parametrize("source", SOURCES)
def test_a_failure_gives_the_outputs_before_it(days: Path, c_handlers: Path, tmp_path: Path, source: str) -> None:
    fails = native(
        c_handlers,
        "on_fail",
        state=[("ticks", "<u8"), ("volume", "<u8")],
        never_publishes=True,
        outputs={"none": FIFTH},
    )
    bomb = native(
        c_handlers,
        "on_bomb",
        state=[("ticks", "<u8"), ("volume", "<u8")],
        never_publishes=True,
        outputs={"none": FIFTH},
        wake="wake_bomb",
    )
    for handler in (fails, bomb):
        errors = []
        for way in WAYS:
            with pytest.raises(HandlerError) as caught:
                replay(days / source, handler, out={"none": tmp_path / "none.npy"}, **READS, **way)
            left = [(path.name, path.read_bytes()) for path in tmp_path.iterdir()]
            errors.append((caught.value.symbol, caught.value.sequence, str(caught.value), left))
        assert errors[0] == errors[1] == errors[2]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("wanted", [1, 120_000])
def test_an_interrupt_leaves_files_of_what_was_handled(days: Path, tmp_path: Path, wanted: int, source: str) -> None:
    path, sent = tmp_path / "bbo.npy", []

    def interrupts(handled: int) -> None:
        if handled >= wanted and not sent:
            sent.append(handled)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        replay(days / source, "bbo", out={"bbo": path}, progress=interrupts, **READS, **BLOCKS)
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks < 200_500
    loop = replay(days / source, "bbo", limit=partial.ticks, **READS, **LOOP)
    assert partial.fingerprint == loop.fingerprint
    assert np.load(path).tolist() == emitted(loop)["bbo"]
