"""A source without one tick, or none of it chosen, is an error unless that is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import itch_reference as itch
import numpy as np
import pcap_reference as capture
import pytest
from array_feed import order_feed
from command_here import run_here

import strand
from strand.errors import EmptyFeedError, UnknownSymbolError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python


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
