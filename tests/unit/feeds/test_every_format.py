"""Every format alike: selections, sizes of batches, ends of iterations, missing packages, and nothing to read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import itch_reference as itch
import numpy as np
import pcap_reference as capture
import pytest
from array_feed import order_feed
from command_here import run_here
from small_files import FILES, SmallFile, options_of

import strand
from strand import feeds
from strand.errors import EmptyFeedError, MissingExtraError, UnknownSymbolError
from strand.feeds.base import Selection
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import is_clear

pytestmark = pytest.mark.python


Open = Any
#: One in four of the profiles of CSV, which have one reader.
SOME = [file for at, file in enumerate(FILES) if file.format != "csv" or at % 4 == 0]


@pytest.fixture(scope="module", params=SOME, ids=lambda file: file.name)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A function that opens the file with further options."""
    file: SmallFile = request.param
    if not file.available:
        pytest.skip(f"{file.name} needs {', '.join(file.needs)}")
    folder = tmp_path_factory.mktemp("format")
    path = file.write(folder)
    options = options_of(file, folder)
    # Decoders take whole pages of ticks, and a message of JSON is never cut.
    least = {"itch": 4096, "recording": 4096, "pcap": 4096, "iex": 4096, "pitch": 4096, "jsonl": 100}.get(
        file.format, 24
    )

    def open_file(**more: Any) -> Any:
        return feeds.open(path, **options, **more)

    open_file.batch_ticks = least  # type: ignore[attr-defined]
    return open_file


def taken(feed: Any) -> list[tuple[str, bytes]]:
    with feed:
        parts = [batch.copy() for batch in feed]
        names = list(feed.symbols)
    return named(np.concatenate(parts), names) if parts else []


def named(ticks: Any, names: list[str]) -> list[tuple[str, bytes]]:
    """Ticks in their order, with the name in the place of the number; without clear records."""
    ticks = ticks[~is_clear(ticks)]
    keys, ticks["instrument_id"] = ticks["instrument_id"].tolist(), 0
    return [(names[key] if key < len(names) else "", tick.tobytes()) for key, tick in zip(keys, ticks, strict=True)]


def selections(ticks: Any, names: list[str]) -> Iterator[Selection]:
    had = [names[key] for key in dict.fromkeys(ticks["instrument_id"].tolist()) if key < len(names) and names[key]]
    moments = np.sort(ticks["ts_recv"].astype(np.int64))
    low, high = (int(moments[len(moments) * part // 3]) for part in (1, 2))
    yield Selection((), low)
    yield Selection((), None, high)
    if had:
        yield Selection((had[0],))
        yield Selection((had[-1][:1] + "*", had[0]), low, max(high, low + 1))


def test_a_selection_gives_what_a_mask_over_all_ticks_gives(opened: Open) -> None:
    with opened() as feed:
        ticks, names = feed.to_numpy(), list(feed.symbols)
    for select in selections(ticks, names):
        given = {"symbols": list(select.symbols), "start": select.start_ns, "end": select.end_ns}
        found = taken(opened(**{name: value for name, value in given.items() if value}))
        assert found == named(ticks[select.mask(ticks, select.keys(names))], names), select


def test_batches_are_no_longer_than_asked_for_and_give_the_same_ticks_each_time(opened: Open) -> None:
    whole = taken(opened())
    feed = opened(batch_ticks=opened.batch_ticks)
    sizes = [len(batch) for batch in feed]
    assert max(sizes) <= opened.batch_ticks
    assert feed.count() in (None, sum(sizes))
    assert taken(feed) == whole


@pytest.mark.usefixtures("threads_come_back")
def test_an_iteration_that_nobody_finishes_leaves_no_thread_and_no_descriptor(opened: Open) -> None:
    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    list(opened())  # a first use opens what stays open
    before = descriptors()
    for _ in range(3):
        with opened(batch_ticks=opened.batch_ticks) as feed:
            next(iter(feed))
    assert descriptors() == before


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("csv lobster", "pyarrow", "csv"),
        ("lean of trades", "pyarrow", "csv"),
        ("parquet", "pyarrow", "parquet"),
        ("dbn of orders", "databento_dbn", "dbn"),
    ],
)
def test_without_its_package_the_extra_is_named(
    name: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (file for file in FILES if file.name == name)
    if not file.available:
        pytest.skip(f"{file.name} needs {', '.join(file.needs)}")
    path = file.write(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"strand\[{extra}\]"), feeds.open(path) as feed:
        list(feed)


# ---- A source without one tick, or none of it chosen, is an error unless that is allowed


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A capture of one packet that is no MoldUDP64."""
    path = tmp_path / "other.pcap"
    path.write_bytes(capture.pcap([(1_700_000_000 * 10**9, capture.ethernet(capture.ipv4(capture.udp(b"\1" * 10))))]))
    return path


COMMANDS = {
    "replay": ("replay", "{path}", "--handler", "bars", "--out", "bars={folder}/out.csv"),
    "info": ("info", "{path}"),
    "convert": ("convert", "{path}", "{folder}/out.npz"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_capture_that_holds_nothing_readable_is_no_success(other: Path, tmp_path: Path, command: str) -> None:
    args = [part.format(path=other, folder=tmp_path) for part in COMMANDS[command]]
    done = run_here(*args)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "check that this is the right file, or allow that with" in done.stderr
    assert "other_packets 1" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["other.pcap"]
    allowed = run_here(*args, "--allow-empty")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert (tmp_path / "out.npz").exists() == (command == "convert")
    assert (tmp_path / "out.csv").exists() == (command == "replay")


def test_blanked_headers_are_what_the_error_names_where_they_are_seen(tmp_path: Path) -> None:
    bodies = [itch.message("D", 1, number, number) for number in range(2)]
    blanked, heartbeat = capture.mold(0, bodies, session=bytes(10)), capture.mold(0, [], session=bytes(10))
    frames = [capture.ethernet(capture.ipv4(capture.udp(payload))) for payload in (blanked, heartbeat, bytes(60))]
    path = tmp_path / "20190130.pcap"
    path.write_bytes(capture.pcap([(1_548_858_600 * 10**9, frame) for frame in frames]))
    for choice in ([], ["--start", "09:30"]):
        done = run_here("info", path, *choice)
        assert done.returncode == 2
        assert "read packets with zeros for session and sequence by blank_headers=True (--feed " in done.stderr
        assert "other_packets 3, blank_packets 1)" in done.stderr
        assert run_here("info", path, *choice, "--feed", "blank_headers=true").returncode == 0


@pytest.mark.parametrize("command", ["replay", "info", "convert"])
def test_a_selection_without_one_tick_is_no_success(tmp_path: Path, command: str) -> None:
    args = [command, str(sample_path()), "--date", SAMPLE_DATE, "--start", "21:00", "--end", "22:00", "--json"]
    if command == "convert":
        args.insert(2, str(tmp_path / "out.npz"))
    done = run_here(*args)
    assert done.returncode == 2
    assert "choose more of it (symbols, start, end, position), or allow that" in done.stderr
    assert not list(tmp_path.iterdir())
    allowed = run_here(*args, "--allow-empty")
    assert allowed.returncode == 0, allowed.stderr
    assert json.loads(allowed.stdout)["ticks"] == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_replay_raises_before_anything_is_made_and_gives_rows_without_ticks_where_told(
    tmp_path: Path, workers: int
) -> None:
    path = tmp_path / "none.npy"
    write_npy(path, strand.ticks.zeros(0))
    with pytest.raises(EmptyFeedError, match="nothing in it is a tick that npy reads"):
        strand.replay(path, "bars", workers=workers, out={"bars": tmp_path / "bars.csv"}, fingerprints=tmp_path / "fp")
    assert [found.name for found in tmp_path.iterdir()] == ["none.npy"]
    result = strand.replay(path, "count", workers=workers, allow_empty=True)
    assert result.ticks == 0
    assert not result.ticks_by_symbol.any()
    with pytest.raises(EmptyFeedError):
        convert(path, tmp_path / "out.npz")
    assert convert(path, tmp_path / "out.npz", allow_empty=True).ticks == 0


def test_a_position_behind_the_last_tick_and_batches_of_nothing_are_empty_too() -> None:
    ticks = strand.ticks.zeros(10)
    with pytest.raises(EmptyFeedError, match="position"):
        strand.replay(order_feed(ticks, ["A"]), "count", position=10)
    assert strand.replay(order_feed(ticks, ["A"]), "count", position=9).ticks == 1
    with pytest.raises(EmptyFeedError):
        strand.replay(order_feed(ticks[:0], ["A"]), "count")


def test_a_name_that_nothing_has_is_still_an_unknown_symbol(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, ticks=strand.ticks.zeros(3).view(np.ndarray), symbols=np.array(["A"]))
    for allow in (False, True):
        with pytest.raises(UnknownSymbolError):
            strand.replay(path, "count", symbols=["B"], allow_empty=allow)
