"""The page of a run, its figures, and what a notebook shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner
from engine_support import ticks_for

import strand
from strand import replay
from strand.command.cli import cli
from strand.distribution import install_command
from strand.errors import MissingExtraError
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.sample import sample_path
from strand.report import html
from strand.report.html import page

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from page_reader import Named, Reader

pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


@pytest.fixture(scope="module")
def day_page(day: strand.ReplayResult) -> str:
    return page(day, handler="book")


def test_what_the_publisher_waited_for_is_named_as_it_was(day: strand.ReplayResult, undrawn: None) -> None:
    for compression, inflater, work in (
        ("none", None, "reading"),
        ("zip", None, "reading"),  # stored as it is
        ("gzip", "zlib", "reading and inflating"),
    ):
        info = replace(day.info, details={"compression": compression, "inflater": inflater})
        run = replace(day, info=info, wall_s=10.0, setup_s=1.0, feed_s=6.0, input_wait_s=5.0)
        note = html.contents(run, (), "count", "")["sections"][0].note
        assert f"set-up 10%, {work} 50%, decoding 10%," in note


def test_the_page_asks_the_network_for_nothing(day_page: str) -> None:
    text = day_page
    found = Reader(text)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "script" not in found.tags
    assert "default-src 'none'" in text
    outside = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert len(text) < 500_000


def test_the_page_says_what_the_run_did(day: strand.ReplayResult, day_page: str) -> None:
    text = Reader(day_page).text
    assert f"Fingerprint {day.fingerprint}" in text
    for words in (
        "All 200,500 ticks handled", "of 500 symbols", "handler book", "2 workers", "M ticks/s", "AAAHD", "worker 0",
        "publishers", "p99.9", "queue depth, max", "Handler time", "messages", "feed time, America/New_York",
        "seconds since the run began", "bid", "ask",
    ):  # fmt: skip
        assert words in text, words
    assert "end to end" not in text


def test_what_went_wrong_comes_first(day: strand.ReplayResult, undrawn: None) -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        if symbol == "B":
            raise ValueError("not this one")

    result = replay(Named(["A", "B"]), fails, on_error="quarantine", capacity_ticks=64)
    text = Reader(page(result)).text
    assert "All 10,000 ticks handled" not in text
    assert "quarantined" in text
    assert "handler 'fails' failed on B" in text
    assert "Ended early: byte 7" in Reader(page(day, error="byte 7")).text


def test_names_are_text_and_never_markup() -> None:
    name, path = "<b>&\"'$x$", "<script>alert(1)</script>"
    result = replay(Named([name, "B"], path), "count", watch=2)
    found = Reader(page(result, handler="<i>", error="<u>"))
    assert not {"script", "b", "i", "u"} & found.tags
    assert "<script>alert(1)" in found.text
    assert found.text.count(name) >= 2
    assert "<b>" not in result._repr_html_()


def test_every_section_stands_at_1_and_at_64_workers() -> None:
    for workers in (1, 64):
        result = replay(Named([f"S{i}" for i in range(3)]), "vwap", workers=workers, cores=None, watch=2)
        found = Reader(page(result))
        assert f"worker {workers - 1}" in found.text
        assert ("details" in found.tags) == (workers == 64)
        assert found.text.count("seconds since the run began") == 2


def test_a_run_without_ticks_or_timeline_has_a_page_too() -> None:
    for result in (
        replay(Named(["A"], ticks=0), "count", watch=1, allow_empty=True),
        replay(Named(["A"]), "count", timeline=False),
    ):
        assert f"All {result.ticks:,} ticks handled" in Reader(page(result, symbols=["A"])).text


def test_the_hottest_symbols_have_the_time_of_their_handlers_where_it_is_known(undrawn: None) -> None:
    ways: dict[str, Any] = {"strands": "per-symbol", "publisher_drains": False, "cores": None}
    result = replay(sample_path(), "book", workers=1, watch=1, **ways)
    assert "of all handlers' time AAAHD 4,514 2.3%" in Reader(page(result)).text
    shared = replay(sample_path(), "book", workers=1, watch=1, strands=1)
    assert "of all handlers' time" not in Reader(page(shared)).text


def test_symbols_that_were_not_there_are_named(day: strand.ReplayResult, undrawn: None) -> None:
    text = Reader(page(day, symbols=["NOSUCH", "AAAHD"])).text
    assert "Not seen in this run: NOSUCH" in text


def test_a_page_that_cannot_be_made_leaves_the_file_as_it_was(
    undrawn: None, day: strand.ReplayResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.html"
    day.report(path)
    before = path.read_bytes()
    monkeypatch.setattr(html, "_footer", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        day.report(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("package", "extra"), [("jinja2", "report"), ("matplotlib", "plot")])
def test_a_missing_package_is_named_before_anything_runs(
    package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = CliRunner().invoke(cli, ["replay", SAMPLE, "--report", str(tmp_path / "r.html")])
    assert isinstance(done.exception, MissingExtraError)
    assert install_command(extra) in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_a_run_that_a_cut_file_ended_says_so(tmp_path: Path, undrawn: None) -> None:
    day, path = tmp_path / "day.itch50", tmp_path / "run.html"
    runner = CliRunner()
    assert runner.invoke(cli, ["gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)]).exit_code == 0
    day.write_bytes(day.read_bytes()[:-7])
    assert runner.invoke(cli, ["replay", str(day), "--report", str(path)]).exit_code != 0
    assert "Ended early" in Reader(path.read_text("utf-8")).text


def test_the_page_of_a_run_that_an_interrupt_ended_says_so_at_full_speed_too(
    undrawn: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = NpyFeed.batches

    def interrupted(feed: NpyFeed) -> Iterator[npt.NDArray[Any]]:
        yield next(whole(feed))[:1_000]
        raise KeyboardInterrupt

    np.save(tmp_path / "ticks.npy", ticks_for(np.arange(5_000) % 3))
    monkeypatch.setattr(NpyFeed, "batches", interrupted)
    CliRunner().invoke(cli, ["replay", str(tmp_path / "ticks.npy"), "--report", str(tmp_path / "page.html")])
    words = " ".join(Reader((tmp_path / "page.html").read_text()).words)
    assert "interrupted" in words
    assert "1,000" in words
