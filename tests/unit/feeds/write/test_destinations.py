"""Outputs onto inputs, and onto each other, whatever path leads there (feeds/write/destinations.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_here import run_here
from warm_python import run_warm

import strand
from strand.errors import ConfigurationError
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.live.mold import MoldFeed
from strand.feeds.live.websocket import WebSocketFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.synthetic import SyntheticFeed, write_lobster
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python

#: No reader takes it: a run that gets as far as reading says so, and not what is wrong with its outputs.
UNREADABLE = b"no format that anybody knows"


def itself(path: Path) -> str:
    return str(path)


def with_dots(path: Path) -> str:
    return f"{path.parent}/./../{path.parent.name}//{path.name}"


def a_symbolic_link(path: Path) -> str:
    link = path.with_stem("link")
    link.symlink_to(path.name)
    return str(link)


def a_link_to_the_folder(path: Path) -> str:
    folder = path.parent.with_name("elsewhere")
    folder.symlink_to(path.parent)
    return str(folder / path.name)


def a_hard_link(path: Path) -> str:
    link = path.with_stem("hard")
    link.hardlink_to(path)
    return str(link)


SPELLINGS = (itself, with_dots, a_symbolic_link, a_link_to_the_folder, a_hard_link)
Spelling = Callable[[Path], str]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "day.csv"
    path.write_bytes(UNREADABLE)
    return path


@pytest.fixture
def day(tmp_path: Path) -> Path:
    ticks = np.zeros(4, strand.TICK)
    ticks["ts_recv"] = np.arange(4)
    write_npy(tmp_path / "day.npy", ticks)
    return tmp_path / "day.npy"


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_an_output_that_is_the_input_is_refused_before_anything_is_read(source: Path, spelled: Spelling) -> None:
    out = spelled(source)
    with pytest.raises(ConfigurationError, match=r"out: .* is a file that is read"):
        convert(source, out, to="npy")
    with pytest.raises(ConfigurationError, match=r"out: bars: .* is a file that is read"):
        strand.replay(source, "bars", out={"bars": out})
    with pytest.raises(ConfigurationError, match=r"fingerprints: .* is a file that is read"):
        strand.replay(["-", source], fingerprints=out)
    assert source.read_bytes() == UNREADABLE


@pytest.mark.parametrize(
    ("options", "spelled"),
    [
        (("replay", "{in}", "--out", "{out}"), itself),
        (("replay", "{in}", "--handler", "bars", "--out", "bars={out}"), a_symbolic_link),
        (("replay", "{in}", "--fingerprints", "{out}"), a_hard_link),
        (("convert", "{in}", "{out}", "--to", "npy"), with_dots),
    ],
)
def test_the_command_refuses_it_with_one_line_and_exit_status_2(
    source: Path, options: tuple[str, ...], spelled: Spelling
) -> None:
    out = spelled(source)
    done = run_here(*(word.replace("{in}", str(source)).replace("{out}", out) for word in options))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "is a file that is read" in done.stderr
    assert source.read_bytes() == UNREADABLE


def test_a_report_is_an_output_too(source: Path) -> None:
    page = source.rename(source.with_suffix(".html"))
    done = run_here("replay", str(page), "--report", f"{page.parent}/./{page.name}")
    assert done.returncode == 2
    assert "report: " in done.stderr
    assert "is a file that is read" in done.stderr


def test_a_descriptor_and_standard_input_are_files_that_are_read(source: Path) -> None:
    with source.open("rb") as file:
        with pytest.raises(ConfigurationError, match="is a file that is read"):
            convert(source, f"/proc/self/fd/{file.fileno()}", to="npy")
        done = run_warm("-m", "strand", "convert", "-", source, "--to", "npy", stdin=file)
    assert done.returncode == 2
    assert "is a file that is read" in done.stderr
    assert source.read_bytes() == UNREADABLE


def test_lists_of_symbols_profiles_archives_and_folders_are_read_too(tmp_path: Path, source: Path) -> None:
    names = tmp_path / "names.csv"
    names.write_text("AA\n")
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(source, names, to="npy", symbols=[f"@{names}"])
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(source, names, to="npy", feed_options={"profile": str(names)})
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(f"{source}/member.csv", source, to="npy")
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(str(source.parent / "d*.csv"), a_hard_link(source), to="npy")


def test_of_a_folder_only_what_is_read_of_it_is_refused(day: Path) -> None:
    other = day.with_name("other.npz")
    other.write_bytes(UNREADABLE)
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(day.parent, day)
    assert convert(day.parent, other).ticks == 4  # nothing reads it: it may be replaced


def test_both_halves_of_a_recording_are_read(tmp_path: Path) -> None:
    frames, times = tmp_path / "day.itch", tmp_path / "day.itch.times"
    frames.write_bytes(UNREADABLE)
    times.write_bytes(b"SDTIMES1" + bytes(8))
    with pytest.raises(ConfigurationError, match=r"times is a file that is read"):
        convert(frames, times, to="npy")
    with pytest.raises(ConfigurationError, match=r"itch is a file that is read"):
        convert(times, frames, to="npy")


def test_an_open_feed_says_what_it_reads(day: Path) -> None:
    out = a_symbolic_link(day)
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        convert(NpyFeed(day), out)
    both = merge_feeds([NpyFeed(day), SyntheticFeed(3, 10, date="1970-01-01")])
    with pytest.raises(ConfigurationError, match="is a file that is read"):
        strand.replay(both, "bars", out={"bars": out}, symbols=["*"])
    both.close()


@pytest.mark.parametrize("spelled", SPELLINGS)
@pytest.mark.parametrize("exists", [True, False])
def test_two_outputs_to_one_file_are_refused(tmp_path: Path, source: Path, spelled: Spelling, exists: bool) -> None:
    out = tmp_path / "out" / "one.csv"
    out.parent.mkdir()
    if exists or spelled is a_hard_link:
        out.write_bytes(b"before")
    other = spelled(out)
    with pytest.raises(ConfigurationError, match="is written by out: bars too"):
        strand.replay(source, "bars", out={"bars": out}, fingerprints=other)
    with pytest.raises(ConfigurationError, match="is written by out: a too"):
        strand.Dispatcher(2, two_outputs, out={"a": out, "b": other})


@strand.batch_handler(state=[("n", "u8")], outputs={"a": [("x", "i8")], "b": [("x", "i8")]})
def two_outputs(symbol: str, ticks: np.ndarray, row: np.ndarray) -> None:
    """Emits to neither."""


def test_the_command_refuses_two_outputs_to_one_file(tmp_path: Path, source: Path) -> None:
    both = ("--out", f"bars={tmp_path}/two.csv", "--out", f"{tmp_path}/./two.csv")
    done = run_here("replay", str(source), "--handler", "bars", *both)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "give each output a file of its own" in done.stderr


def test_a_live_recording_is_no_other_output_and_no_file_that_is_read(tmp_path: Path) -> None:
    record = tmp_path / "today.csv"
    (tmp_path / "names").write_text("AA\n")
    with pytest.raises(ConfigurationError, match="is written by record too"):
        (tmp_path / "a.times").symlink_to("a")
        MoldFeed("127.0.0.1:0", record=tmp_path / "a")
    with pytest.raises(ConfigurationError, match=r"record: .* is a file that is read"):
        WebSocketFeed("ws://127.0.0.1:1", tmp_path / "names", record=f"{tmp_path}/./names")
    with MoldFeed("127.0.0.1:0", record=record) as feed, pytest.raises(ConfigurationError, match="written by record"):
        strand.replay(feed, "bars", out={"bars": f"{tmp_path}/./today.csv"})
    for option, taken in (("--out", record), ("--report", Path(f"{record}.times"))):
        done = run_here(
            "listen", "--line", "127.0.0.1:0", "--record", str(record), option, f"{tmp_path}/./{taken.name}"
        )
        assert done.returncode == 2
        assert "is written by record too" in done.stderr or option == "--report"
    done = run_here(
        "listen", "--line", "127.0.0.1:0", "--record", f"{tmp_path}/names", "--symbols", f"@{tmp_path}/names"
    )
    assert done.returncode == 2
    assert "record: " in done.stderr
    assert "is a file that is read" in done.stderr


def test_the_two_files_of_a_generated_pair_are_two(tmp_path: Path) -> None:
    (tmp_path / "a_orderbook.csv").symlink_to("a_message.csv")
    with pytest.raises(ConfigurationError, match="is written by messages too"):
        write_lobster(SyntheticFeed(2, 100), tmp_path / "a_message.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a_orderbook.csv"]


def test_what_differs_is_written(day: Path) -> None:
    written = convert(day, day.with_name("other.npy"))
    assert written.ticks == 4
    result = strand.replay(day, "bars", out={"bars": day.with_name("bars.csv")})
    assert result.written["bars"][0] == day.with_name("bars.csv")
