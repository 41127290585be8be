"""DBN files in blocks: the same as by one publisher, whatever their records."""

from __future__ import annotations

import random
import struct
from functools import cache
from pathlib import Path
from typing import Any, Final

import dbn_reference as ref
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import strand
from strand import replay
from strand.errors import FeedError

#: A block of a DBN file has 128 KiB.
BLOCK: Final = 1 << 17
IDS: Final = range(1, 41)
NAMES: Final = {f"S{n}": [(*ref.ALL_DAYS, str(n))] for n in IDS}
#: Where a type has its receive time.
RECEIVED: Final = {0xA0: 40, 0x12: 16, 0x14: 16, 0x18: 16} | dict.fromkeys(
    (0x00, 0x01, 0x0A, 0xB1, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4), 32
)
SPAN: Final = 400_000
ECHOED: Final[dict[str, Any]] = {
    "a": np.dtype([("count", "<u8"), ("size", "<u4"), ("place", "u1")], align=True),
    "b": [("nth", "<u4")],
}
STEP: Final = ref.DAY // 4 // SPAN


def at(body: bytes, n: int, instrument: int, publisher: int = 3) -> bytes:
    """A record with another time, instrument and publisher. ``n``: how many steps behind noon."""
    changed = bytearray(body)
    struct.pack_into("<HIQ", changed, 2, publisher, instrument, ref.NOON + n * STEP)
    if where := RECEIVED.get(body[1]):
        struct.pack_into("<Q", changed, where, ref.NOON + n * STEP + 5)
    return bytes(changed)


def orders(count: int, ids: Any = IDS, first: int = 0) -> list[bytes]:
    draw, add, trade = random.Random(7), ref.mbo(), ref.mbo(action=b"T", side=b"N", size=0, flags=12)
    return [at(trade if n % 50 == 9 else add, first + n, draw.choice(ids)) for n in range(count)]


def mixed(count: int, version: int = 3) -> list[bytes]:
    """Records of every type but bars, whose times are their ends; of two publishers."""
    draw, pool = random.Random(11), [body for body in ref.every_type(version) if not 0x20 <= body[1] <= 0x24]
    return [at(draw.choice(pool), n, draw.choice(IDS), draw.choice((3, 3, 3, 4))) for n in range(count)]


def file_of(path: Path, records: list[bytes], names: Any = NAMES, version: int = 3, **changes: Any) -> Path:
    path.write_bytes(ref.metadata(version, names, **changes) + b"".join(records))
    return path


def what(result: strand.ReplayResult) -> tuple[Any, ...]:
    """All that must not depend on the way."""
    times = ("bytes_in", "bytes_out", "read_ns", "read_blocked_ns", "wait_ns")
    stats = {name: n for name, n in result.feed_statistics.items() if name not in times}
    skipped = dict(result.skipped.counts), sorted(result.skipped.samples)
    emitted = {name: np.asarray(output).tolist() for name, output in result.outputs.items()}
    rows = result.fingerprint, result.ticks_by_symbol.tolist(), emitted
    return result.ticks, rows, result.seen, stats, skipped


def both(path: Path, handler: Any = "count", workers: int = 1, **options: Any) -> tuple[Any, Any]:
    """A plain loop, and the same in blocks: on a busy machine, the first run whose strands were idle in time."""
    plain = replay(path, handler, workers=0, timeline=False, **options)
    for _ in range(5):
        blocks = replay(path, handler, workers=workers, cores=None, ingest="blocks", timeline=False, **options)
        if blocks.statistics.handled_in_blocks:
            break
    assert what(blocks) == what(plain)
    assert [str(each) for each in blocks.warnings] == [str(each) for each in plain.warnings]
    assert blocks.statistics.handled_in_blocks
    return plain, blocks


def errors(path: Path, **options: Any) -> Any:
    """The error that a plain loop and blocks raise, and what was handled before it."""
    found = []
    for way in ({"workers": 0}, {"workers": 2, "cores": None, "ingest": "blocks"}):
        with pytest.raises(FeedError) as caught:
            replay(path, "count", timeline=False, **options, **way)
        assert caught.value.partial is not None
        found.append((str(caught.value), what(caught.value.partial)))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.cells(1)
@pytest.mark.parametrize("handler", ["count", "book", "bbo"])
@pytest.mark.parametrize("workers", [1, 3])
def test_orders_in_blocks_are_as_in_turn(tmp_path: Path, handler: str, workers: int) -> None:
    plain, _ = both(file_of(tmp_path / "day.dbn", orders(150_000)), handler, workers)
    assert plain.ticks == 150_000
    assert plain.feed_statistics["doubtful_books"]
    assert plain.seen.zero_sizes


@pytest.mark.cells(1)
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("levels", [1, 10])
@pytest.mark.parametrize("handler", ["count", "trades"])
def test_records_of_mixed_types_in_blocks_are_as_in_turn(
    tmp_path: Path, version: int, levels: int, handler: str
) -> None:
    path = file_of(tmp_path / "day.dbn", mixed(90_000, version), version=version)
    plain, _ = both(path, handler, feed_options={"levels": levels})
    assert plain.feed_statistics["mixed_quotes"]
    for limit in (plain.ticks // 2, plain.ticks // 2 + 1, plain.ticks // 2 + 2):
        assert both(path, handler, limit=limit, feed_options={"levels": levels})[1].ticks == limit


@pytest.mark.parametrize("handler", ["count", "trades"])
def test_bars_in_blocks_are_four_trades_each(tmp_path: Path, handler: str) -> None:
    bar = next(body for body in ref.every_type(3) if body[1] == 0x21)
    path = file_of(tmp_path / "bars.dbn", [at(bar, n, n % 40 + 1) for n in range(60_000)])
    plain, _ = both(path, handler)
    assert plain.ticks == 240_000
    assert both(path, handler, limit=200_001)[1].ticks == 200_001


def test_a_failure_in_a_block_leaves_the_outputs_of_other_symbols_whole(tmp_path: Path, c_handlers: Path) -> None:
    echo = strand.native(c_handlers, "on_echo", state=[("ticks", "<u8")], never_publishes=True, outputs=ECHOED)
    records, found = orders(150_000), []
    records[110_000] = at(ref.mbo(flags=255), 110_000, 7)
    path = file_of(tmp_path / "day.dbn", records)
    for ingest in ("publish", "blocks"):
        way: dict[str, Any] = {"workers": 2, "cores": None, "ingest": ingest, "strands": "per-symbol"}
        result = replay(path, echo, timeline=False, on_error="quarantine", **way)
        assert (result.statistics.handled_in_blocks > 0) == (ingest == "blocks")
        dropped, emitted = dict(result.statistics.dropped), np.asarray(result.outputs["b"]).tolist()
        found.append((result.ticks, result.rows.array.tolist(), result.failures, emitted, dropped))
    assert found[0] == found[1]
    assert sum(found[0][4].values()) > 500


@pytest.mark.parametrize(("records", "levels"), [(orders(150_000), 1), (mixed(150_000), 10)])
def test_what_waits_behind_a_failure_in_a_block_keeps_its_place_in_the_outputs(
    tmp_path: Path, c_handlers: Path, monkeypatch: pytest.MonkeyPatch, records: list[bytes], levels: int
) -> None:
    """After a release the symbol's records lie among those of others, and the failed tick has none."""
    echo = strand.native(c_handlers, "on_echo", state=[("ticks", "<u8")], never_publishes=True, outputs=ECHOED)
    failing = at(ref.mbo(flags=255), 110_000, 7)
    path = file_of(tmp_path / "day.dbn", [*records[:110_000], failing, *records[110_001:]])
    started: list[strand.Dispatcher] = []
    start = strand.Dispatcher.__enter__
    monkeypatch.setattr(strand.Dispatcher, "__enter__", lambda d: started.append(start(d)) or started[-1])

    def releases(_: int) -> None:
        if started[-1].failures and started[-1] not in released:
            released.append(started[-1])
            started[-1].release("S7")

    released: list[strand.Dispatcher] = []
    found = []
    for ingest in ("publish", "blocks"):
        way: dict[str, Any] = {"workers": 2, "cores": None, "ingest": ingest, "strands": "per-symbol"}
        way |= {
            "limits": strand.Limits(capacity_ticks=150_000, memory_bytes=1 << 28),
            "feed_options": {"levels": levels},
        }
        result = replay(path, echo, timeline=False, on_error="quarantine", progress=releases, **way)
        assert (result.statistics.handled_in_blocks > 0) == (ingest == "blocks")
        emitted = [np.asarray(output).tolist() for output in result.outputs.values()]
        found.append((result.ticks, result.rows.array.tolist(), emitted))
    assert found[0] == found[1]
    assert len(released) == 2


@pytest.mark.parametrize(
    "selection",
    [
        {"symbols": ["S1*", "S2*", "S3*"]},
        {"start": ref.NOON + 20_000 * STEP},
        {"end": ref.NOON + 85_000 * STEP},
        {"symbols": ["S[2-9]*"], "start": ref.NOON + 9_000 * STEP, "end": ref.NOON + 140_000 * STEP},
    ],
)
def test_a_selection_is_judged_as_blocks_are_made(tmp_path: Path, selection: dict[str, Any]) -> None:
    import numpy as np

    times = {
        name: str(np.datetime64(value, "ns")) + "Z" if isinstance(value, int) else value
        for name, value in selection.items()
    }
    for name, records in (("orders", orders(150_000)), ("mixed", mixed(90_000))):
        plain, _ = both(file_of(tmp_path / f"{name}.dbn", records), **times)
        assert plain.feed_statistics["not_selected"]


def test_names_that_go_over_to_other_instruments_do_so_at_the_same_record(tmp_path: Path) -> None:
    """One name rolls at midnight, two instruments share one for a day, and an id means another name the day after."""
    import datetime as dt

    day = dt.date(1970, 1, 1) + dt.timedelta(days=ref.NOON // ref.DAY)
    end = dt.date(2500, 1, 1)
    next_day = day + dt.timedelta(days=1)
    names = NAMES | {
        "ROLLS": [(day, next_day, "101"), (next_day, end, "102")],
        "SHARED": [(day, end, "103")],
        "TURNS": [(day, next_day, "105"), (next_day, end, "106")],
        "OTHER": [(day, next_day, "106"), (next_day, end, "105")],
    }
    draw = random.Random(13)
    ids = [*IDS, 101, 102, 103, 105, 106]
    add = ref.mbo()
    # Midnight comes after 160,000 of them.
    records = [at(add, n * 5, draw.choice(ids[:-5] if n % 97 else ids)) for n in range(170_000)]
    plain, _ = both(file_of(tmp_path / "rolls.dbn", records, names))
    assert plain.feed_statistics["rolled_instruments"]


def test_what_is_no_plain_record_ends_blocks_and_is_as_in_turn(tmp_path: Path) -> None:
    """Unknown instruments and types, faults, symbol mappings, definitions, and times that run backwards."""
    mapping = bytearray(ref.record(0x16, bytes(160), instrument=50))
    mapping[89:92] = b"NEW"
    draw = random.Random(17)
    odd = [
        bytes(mapping),
        ref.record(0x16, bytes(160), instrument=51),
        at(ref.mbo(), 5, 60),
        at(ref.mbo(action=b"?"), 5, 3),
        at(ref.mbo(side=b"?"), 5, 3),
        ref.record(0x77, bytes(20)),
        ref.record(0xA0, bytes(48)),
        ref.mbo(received=1 << 63),
        ref.record(0x13, bytes(344)),
        ref.record(0x17, bytes(304)),
    ]
    for turn in range(3):
        records = orders(160_000)
        for body in odd * (turn + 1):
            records.insert(draw.randrange(70_000, len(records)), body)
        path = file_of(tmp_path / f"{turn}.dbn", records)
        plain, _ = both(path, feed_options={"on_bad_record": "skip"})
        assert plain.skipped
        errors(path)


def test_a_file_that_is_cut_or_out_of_step_ends_at_the_same_byte(tmp_path: Path) -> None:
    path = file_of(tmp_path / "day.dbn", orders(130_000))
    data = path.read_bytes()
    first = len(data) - 130_000 * 56
    for end in (len(data) - 9, first + 20 * BLOCK + 1, first + 30 * BLOCK):
        path.write_bytes(data[:end])
        if (end - first) % 56:
            assert f"byte {first + (end - first) // 56 * 56}: " in errors(path)[0]
        else:
            both(path)
    path.write_bytes(data[: first + 100_000 * 56] + b"\3" + data[first + 100_000 * 56 + 1 :])
    assert f"byte {first + 100_000 * 56}: " in errors(path)[0]


def full_of_orders(n: int, shift: int) -> bytes:
    """A system message of sound orders, behind which records go on: a guess within it succeeds falsely."""
    return ref.record(0x17, bytes(shift) + at(ref.mbo(), n, 3) * 17)


@pytest.mark.parametrize("shift", [0, 4, 12])
def test_records_that_lie_within_records_fool_nobody(tmp_path: Path, shift: int) -> None:
    """System messages that are full of sound orders, so that each guess may be wrong."""
    real = orders(80_000)
    records = real[:75_000]
    for n, body in enumerate(real[75_000:], 75_000):
        records += [full_of_orders(n, shift)] * (1 + n % 2)
        records.append(body)
    plain, _ = both(file_of(tmp_path / "within.dbn", records))
    assert plain.ticks == 80_000


@cache
def lead() -> bytes:
    """Bytes that are more than what is decoded in turn before the first block."""
    return b"".join(orders(17_000, first=-17_000))


@cache
def part(kind: str, seed: int, number: int) -> bytes:
    """Records of a block and more.

    ``usual``: orders. ``mixed``: of every type. ``within``: each second one is full of sound orders, so that guesses
    succeed falsely. ``odd``: some are decoded in turn."""
    draw, found, size = random.Random(seed), [], 0
    pool = [body for body in ref.every_type(3) if not 0x20 <= body[1] <= 0x24] if kind == "mixed" else [ref.mbo()]
    strange = (ref.mbo(action=b"?"), ref.record(0x77, bytes(20)), at(ref.mbo(), 0, 60), ref.record(0x13, bytes(344)))
    while size < BLOCK + 999:
        n = 10_000 * number + len(found)
        record = at(draw.choice(pool), n, draw.choice(IDS))
        if kind == "within":
            record += full_of_orders(n, 4 * seed)
        elif kind == "odd" and draw.random() < 0.001:
            record += draw.choice(strange)
        found.append(record)
        size += len(record)
    return b"".join(found)


def test_any_file_in_blocks_is_what_a_plain_loop_makes_of_it(tmp_path: Path) -> None:
    """Files with faults at any byte of a record, cut at any byte: records lie across blocks' edges at any distance."""
    in_blocks = 0

    @example({"made": [("within", n) for n in range(4)], "shift": 0}, {}, (2, "count"))
    @example({"made": [("usual", n % 3) for n in range(5)], "shift": 3}, {"without": 9}, (2, "bbo"))
    @example(
        {"made": [("usual", 0), ("within", 1), ("odd", 2), ("mixed", 1)], "shift": 1}, {"limit": 24_999}, (3, "book")
    )
    @given(
        st.fixed_dictionaries(
            {
                "made": st.lists(
                    st.tuples(st.sampled_from(["usual", "mixed", "within", "odd"]), st.integers(0, 2)),
                    min_size=3,
                    max_size=6,
                ),
                "shift": st.integers(0, 40),
            },
            optional={
                "faults": st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3),
                "cut": st.floats(0.5, 1),
            },
        ),
        st.fixed_dictionaries(
            {},
            optional={
                "limit": st.integers(1, 30_000),
                "without": st.integers(2, 30),
            },
        ),
        st.tuples(st.integers(1, 5), st.sampled_from(["count", "book", "vwap", "bbo"])),
    )
    @settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=12,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def compare(about: dict[str, Any], selection: dict[str, Any], how: tuple[int, str]) -> None:
        nonlocal in_blocks
        head = ref.metadata(3, NAMES)
        data = bytearray(lead() + at(ref.mbo(), 0, 3) * about["shift"])
        for number, (kind, seed) in enumerate(about["made"]):
            data += part(kind, seed, number)
        for place, value in about.get("faults", ()):
            data[int(place * (len(data) - 1))] = value
        path = tmp_path / "day.dbn"
        path.write_bytes(head + data[: int(about.get("cut", 1) * len(data))])
        found, (workers, handler) = [], how
        if every := selection.pop("without", 0):
            selection["symbols"] = [f"S{n}" for n in IDS if n % every]
        for way in ({"workers": 0}, {"workers": workers, "cores": None, "ingest": "blocks"}):
            for options in ({}, {"on_bad_record": "skip"}):
                try:
                    result = replay(path, handler, timeline=False, feed_options=options, **selection, **way)
                except FeedError as error:
                    partial = error.partial
                    found.append((str(error), None if partial is None else what(partial)))
                else:
                    found.append(("", what(result)))
                    in_blocks += result.statistics.handled_in_blocks
        assert found[:2] == found[2:]

    compare()
    assert in_blocks
