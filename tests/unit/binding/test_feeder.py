"""Ticks that are published as they are decoded: in every format the same as by batches, whatever ends it."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import os
import random
import re
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import dbn_reference
import iex_reference
import itch_reference
import numpy as np
import pcap_reference
import pytest

import strand
from strand.binding.feeder import CAPACITY
from strand.dispatch.publishers import Publishers
from strand.errors import BackpressureError, FeedError, FormatError, HandlerError, TruncatedFeedError
from strand.feeds.formats.dbn import DbnFeed
from strand.feeds.formats.decoded import DecodedFeed
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed, write_pitch
from strand.replaying.run import Run

_MESSAGES: Final = 80_000
FORMATS: Final = ("itch50", "dbn", "pitch", "pcap", "iex")
_DAY: Final = {"date": SAMPLE_DATE}
OPTIONS: Final = {"itch50": _DAY, "dbn": {"levels": 10}, "pitch": _DAY, "pcap": _DAY, "iex": {}}

#: A record that on_bad_record="skip" passes over.
STRANGE: Final = {
    "itch50": b"\0\x0c" + b"?" * 12,
    "dbn": dbn_reference.record(0x99, b""),
    "pitch": b"no message\n",
    **dict.fromkeys(
        ("pcap", "iex"), struct.pack("<IIII", 1_548_858_600, 0, 20, 100) + bytes(12) + b"\x08\0" + bytes(6)
    ),
}


def write_day(form: str, folder: Path) -> Path:
    """The day as a file whose name ends in its format's."""
    path = folder / f"day.{form}"
    if form == "pitch":
        write_pitch(SyntheticFeed(100, _MESSAGES, seed=5, date=SAMPLE_DATE), path)
        return path
    if form in ("dbn", "iex"):
        path.write_bytes(b"".join(_dbn() if form == "dbn" else _iex()))
        return path
    bodies = _bodies(gzip.decompress(sample_path().read_bytes()))
    path.write_bytes(b"".join(_pcap(bodies) if form == "pcap" else map(itch_reference.frame, bodies)))
    return path


def _bodies(itch: bytes) -> list[bytes]:
    """The first messages."""
    bodies, at = [], 0
    while len(bodies) < _MESSAGES:
        length = int.from_bytes(itch[at : at + 2], "big")
        bodies.append(itch[at + 2 : at + 2 + length])
        at += 2 + length
    return bodies


def _pcap(bodies: list[bytes]) -> Iterator[bytes]:
    """The messages, seven in a packet; one packet of a hundred comes before the one ahead of it."""
    packets = []
    for first in range(0, len(bodies), 7):
        frame = pcap_reference.ethernet(
            pcap_reference.ipv4(pcap_reference.udp(pcap_reference.mold(first + 1, bodies[first : first + 7])))
        )
        packets.append((1_548_858_600 * 10**9 + first * 1000, frame))
    for at in range(0, len(packets) - 1, 100):
        packets[at], packets[at + 1] = packets[at + 1], packets[at]
    yield pcap_reference.pcap(packets)


def _iex() -> Iterator[bytes]:
    """Levels and trades of DEEP, seven messages in a packet."""
    rng, ref = random.Random(8), iex_reference
    names = [f"{letter}{i}" for letter in "ABMNZ" for i in range(4)]
    bodies = []
    for i in range(_MESSAGES):
        letter, name, ns = rng.choice("8855T"), rng.choice(names), ref.OPEN + i * 1000
        bodies.append(
            ref.message(
                letter, 0, ns, name, rng.randint(0, 900), rng.randint(990_000, 1_000_000), *[i] * (letter == "T")
            )
        )
    yield pcap_reference.pcap(ref.packets(bodies, 7, protocol=ref.DEEP))


def _dbn() -> Iterator[bytes]:
    """Orders of instruments that the metadata names or not, a record of eleven ticks now and then, and new names."""
    ref = dbn_reference
    today = dt.date(1970, 1, 1) + dt.timedelta(days=ref.NOON // ref.DAY)
    yield ref.metadata(3, {"ONE": [(today, today + dt.timedelta(days=1), "1")]})
    for i, time in zip(range(_MESSAGES), itertools.count(ref.NOON, 1000)):
        instrument = i * i % 41
        order = {"order": i + 1, "price": 10**9 + i % 50, "sequence": i + 1}
        yield ref.mbo(**order, received=time, instrument=instrument, event=time)
        if i % 97 == 0 or 14_000 < i < 16_000:
            yield ref.record(0x0A, ref.head(b"T") + ref.levels(10), instrument=instrument, event=time)
        if i % 4999 == 4998:
            names = struct.pack("<B71sB71sQQ", 1, b"a", 1, f"NEW{i}".encode(), 0, 0)
            yield ref.record(0x16, names, instrument=instrument, event=time)


@pytest.fixture(scope="module", params=FORMATS)
def day(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each format."""
    return write_day(request.param, tmp_path_factory.mktemp("feeder"))


@pytest.fixture(scope="module")
def itch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, uncompressed."""
    return write_day("itch50", tmp_path_factory.mktemp("feeder"))


@pytest.fixture(params=["feeder", "batches"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(monkeypatch, request.param)
    return str(request.param)


#: Some of the symbols that each format's day has.
SOME = {".itch50": "*[A-M]", ".dbn": "*1*", ".pitch": "*[A-M]", ".pcap": "*[A-M]", ".iex": "[A-M]*"}


def offsets_of(path: Path, batches: int, **options: Any) -> list[int]:
    """The byte at which so many batches end, between two records."""
    feed = strand.feeds.open(path, **OPTIONS[path.suffix[1:]], **options)
    assert isinstance(feed, DecodedFeed)
    base = feed._metadata.size if isinstance(feed, DbnFeed) else 0
    ends = itertools.islice(feed.batches(), batches)
    return [base + feed._decoder.statistics()["bytes_decoded"] for _ in ends]


def choose(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Batches are what every feed gives, and what a run takes where somebody wants to see them."""
    if way == "batches":
        monkeypatch.setattr(Run, "may_feed", lambda *_: False)


def replayed(path: Path, handler: Any = "book", **options: Any) -> Any:
    form = "itch50" if path.suffix == ".gz" else path.suffix[1:]
    feed_options = OPTIONS[form] | options.pop("feed_options", {})
    return strand.replay(path, handler, feed_options=feed_options, **({"workers": 2} | options))


def found(result: Any) -> dict[str, Any]:
    """All that does not hang on time."""
    timeless = {
        name: count
        for name, count in result.feed_statistics.items()
        if not name.endswith("_ns") and name not in ("bytes_out", "bytes_in")
    }
    return {
        "rows": result.rows.array.tobytes(),
        "ticks": result.ticks,
        "by_symbol": result.ticks_by_symbol.tolist(),
        "symbols": list(result.symbols),
        "feed": timeless,
        "skipped": dict(result.skipped.counts),
        "samples": list(result.skipped.samples),
        "accepted": result.statistics.accepted,
        "fingerprint": result.fingerprint,
    }


def both(monkeypatch: pytest.MonkeyPatch, path: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of a replay by a feeder, and by batches; an error's partial result and its text, where it ends with
    one."""
    ends = []
    for way in ("feeder", "batches"):
        with monkeypatch.context() as patch:
            choose(patch, way)
            try:
                ends.append(found(replayed(path, **options)))
            except FeedError as error:
                assert error.partial is not None
                ends.append(found(error.partial) | {"error": str(error), "kind": type(error)})
    return ends[0], ends[1]


def test_a_run_is_fed_where_nobody_wants_to_see_batches(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[bool] = []
    may = Run.may_feed
    monkeypatch.setattr(Run, "may_feed", lambda run, source: fed.append(may(run, source)) or fed[-1])
    replayed(day)
    assert fed == [True]
    replayed(day, workers=0)
    replayed(day, watch=1)
    replayed(day, fingerprint_every=20_000)
    replayed(day, "bars")
    assert fed[1:] == [False] * 4
    replayed(day, symbols=[SOME[day.suffix]])
    # Stripes of a selection of ITCH are decoded beside the run.
    assert fed[5:] == [day.suffix != ".itch50"]


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 3}, {"strands": "per-symbol"}, {"idle": "park"}])
def test_a_feeder_gives_what_batches_give(day: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    feeder, batches = both(monkeypatch, day, **options)
    assert feeder == batches
    assert feeder["ticks"] == sum(feeder["by_symbol"]) > 10 * CAPACITY


def test_a_feeder_gives_what_batches_give_of_a_selection(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feeder, batches = both(monkeypatch, day, symbols=[SOME[day.suffix]])
    assert feeder == batches
    assert 4 * CAPACITY < feeder["ticks"] < replayed(day, "count").ticks


def test_a_compressed_file_is_fed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    feeder, batches = both(monkeypatch, sample_path())
    assert feeder == batches


def test_a_feeder_ends_at_the_limit_exactly(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 4 * CAPACITY
    for limit in (
        1,
        first - 1,
        first,
        first + 1,
        first + CAPACITY - 1,
        first + CAPACITY,
        first + CAPACITY + 1,
        40_003,
    ):
        with monkeypatch.context() as patch:
            feeder = replayed(day, limit=limit)
            choose(patch, "batches")
            batches = replayed(day, limit=limit)
        assert feeder.ticks == limit == feeder.statistics.handled
        assert feeder.ticks_by_symbol.tolist() == batches.ticks_by_symbol.tolist()
        assert feeder.rows.array.tobytes() == batches.rows.array.tobytes()


def test_every_tick_before_a_fault_is_handled(day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, damaged = day.read_bytes(), tmp_path / f"damaged{day.suffix}"
    rng = random.Random(3)
    for at in [700_000, len(data) // 2, len(data) - 1, *(rng.randrange(600_000, len(data)) for _ in range(2))]:
        damaged.write_bytes(data[:at])
        feeder, batches = both(monkeypatch, damaged, handler="count")
        assert feeder == batches
        assert feeder["ticks"] == sum(feeder["by_symbol"]) == feeder["accepted"]
        assert feeder.get("kind", TruncatedFeedError) is TruncatedFeedError
    offset = offsets_of(day, 3)[-1]
    damaged.write_bytes(data[:offset] + STRANGE[day.suffix[1:]] + data[offset:])
    feeder, batches = both(monkeypatch, damaged, handler="count")
    assert feeder == batches
    assert feeder["kind"] is FormatError
    assert f" byte {offset:,}" in feeder["error"] or f" {offset}" in feeder["error"]


def test_what_is_skipped_is_counted_and_sampled_alike(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = offsets_of(day, 6)
    data, path = day.read_bytes(), tmp_path / f"strange{day.suffix}"
    pieces = [data[a:b] for a, b in itertools.pairwise([0, *offsets, len(data)])]
    path.write_bytes(STRANGE[day.suffix[1:]].join(pieces))
    feeder, batches = both(monkeypatch, path, feed_options={"on_bad_record": "skip"})
    assert feeder == batches
    assert sum(feeder["skipped"].values()) == len(offsets)
    # Of DBN the first of each reason is kept.
    assert len(feeder["samples"]) == (1 if day.suffix == ".dbn" else len(offsets))


def test_samples_are_taken_before_the_decoder_has_no_place_for_more(
    itch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = offsets_of(itch, 16, batch_ticks=CAPACITY)
    data, path = itch.read_bytes(), tmp_path / "strange.itch50"
    pieces = [data[a:b] for a, b in itertools.pairwise([0, *offsets, len(data)])]
    # Of one kind more than a decoder has places for, and of another one behind them.
    odd = b"\0\x24A" + bytes(18) + b"?" + bytes(16)
    path.write_bytes((3 * STRANGE["itch50"]).join(pieces[:16]) + odd + pieces[16])
    feeder, batches = both(monkeypatch, path, handler="count", feed_options={"on_bad_record": "skip"})
    assert feeder == batches
    assert feeder["skipped"] == {"unknown type": 45, "bad side": 1}
    assert feeder["samples"][-1].reason == "bad side"


def test_a_failing_handler_is_named_with_its_tick(day: Path, way: str) -> None:
    counted = replayed(day, "count")
    busiest = counted.symbols[int(np.argmax(counted.ticks_by_symbol))]
    last = int(counted.ticks_by_symbol.max()) - 1

    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        if symbol == busiest and row["n"] > last:
            raise ValueError("no more")

    with pytest.raises(HandlerError, match="no more") as caught:
        replayed(day, fails)
    assert caught.value.symbol == busiest


def test_a_full_strand_refuses_ticks_of_a_feeder(day: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, waited = threading.Event(), set[int]()
    error = Publishers._error

    def tell(*args: Any) -> Exception:
        refused.set()
        return error(*args)

    monkeypatch.setattr(Publishers, "_error", tell)

    @strand.batch_handler(state=[("n", "u8")])
    def waits(symbol: str, ticks: Any, row: Any) -> None:
        # The first batch, which is an array in any case, has room. Then both workers wait until something has not.
        if int(ticks["sequence"][-1]) > 4 * CAPACITY and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            refused.wait(60)

    with pytest.raises(BackpressureError, match="strands are full") as caught:
        replayed(day, waits, on_full="raise", capacity_ticks=1_000)
    assert len(caught.value.rejected) > 0
    published = re.search(r" of ([\d,]+) records", str(caught.value))
    assert published is not None
    assert (int(published[1].replace(",", "")) < 2 * CAPACITY) == (way == "feeder")


def test_what_is_dropped_is_counted_as_published(day: Path, way: str) -> None:
    result = replayed(day, "spin", on_full="drop_newest", capacity_ticks=64, workers=1, publisher_drains=False)
    counts = result.statistics
    assert result.ticks == counts.accepted == result.ticks_by_symbol.sum()
    assert counts.handled + sum(counts.dropped.values()) == counts.accepted


def test_progress_is_told_of_every_tick_and_may_end_it(day: Path, way: str) -> None:
    seen: list[int] = []
    assert replayed(day, progress=seen.append).ticks == seen[-1]
    assert seen == sorted(seen)
    assert replayed(day, progress=seen.append, limit=45_001).ticks == seen[-1]

    def stop(ticks: int) -> None:
        if ticks > 30_000:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        replayed(day, progress=stop)


def test_a_feed_that_is_closed_in_the_middle_ends_with_what_it_decoded(day: Path, way: str) -> None:
    feed = strand.feeds.open(day, **OPTIONS[day.suffix[1:]])

    def close(ticks: int) -> None:
        if ticks > 30_000:
            feed.close()

    with pytest.raises(FeedError, match="closed") as caught:
        strand.replay(feed, "count", workers=1, progress=close)
    partial = caught.value.partial
    assert partial is not None
    assert (
        partial.ticks == partial.feed_statistics["ticks"] == partial.ticks_by_symbol.sum() == partial.statistics.handled
    )


def test_an_interrupt_between_pieces_leaves_counts_that_agree(day: Path, way: str) -> None:
    def interrupt(ticks: int) -> None:
        if ticks > 30_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        # Nothing is watched, but an interrupt has a result.
        replayed(day, "count", watch=0, progress=interrupt)
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks == partial.statistics.accepted == partial.ticks_by_symbol.sum()
    assert partial.rows.array["ticks"].sum() == partial.ticks


def test_an_interrupt_amid_ticks_leaves_counts_that_agree(day: Path, way: str) -> None:
    sent: list[int] = []

    @strand.batch_handler(state=[("n", "u8")])
    def interrupts(symbol: str, ticks: Any, row: Any) -> None:
        row["n"] += len(ticks)
        if row["n"] > 200 and not sent:
            sent.append(threading.get_ident())
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        # With a result, as a run with something to watch has one.
        replayed(day, interrupts, watch=0, workers=1, capacity_ticks=1000)
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.ticks == partial.statistics.accepted == partial.ticks_by_symbol.sum()
    assert partial.rows.array["n"].sum() == partial.ticks
    assert threading.get_ident() not in sent


def test_a_paced_replay_gives_the_same(day: Path) -> None:
    assert found(replayed(day, speed=1e9, workers=1)) == found(replayed(day, workers=1))


def every_other(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch[::2]


class Derived(ItchFeed):
    def batches(self) -> Iterator[Any]:  # type: ignore[override]
        return every_other(super().batches())


class Wrapped:
    def __init__(self, feed: ItchFeed) -> None:
        self._feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._feed, name)

    def batches(self) -> Iterator[Any]:
        return every_other(self._feed.batches())


def replaced(feed: ItchFeed) -> ItchFeed:
    own = feed.batches
    feed.batches = lambda: every_other(own())  # type: ignore[method-assign, assignment, return-value]
    return feed


@pytest.mark.parametrize("kind", ["derived", "wrapped", "replaced"])
def test_a_feed_with_batches_of_its_own_is_asked_for_them(itch: Path, kind: str) -> None:
    def feed() -> Any:
        if kind == "derived":
            return Derived(itch, date=SAMPLE_DATE)
        plain = ItchFeed(itch, date=SAMPLE_DATE)
        return Wrapped(plain) if kind == "wrapped" else replaced(plain)

    ticks = sum(len(batch) for batch in feed().batches())
    assert strand.replay(feed(), "count", workers=1).ticks == ticks
    assert 35_000 < ticks < 45_000
