"""What ``strand replay`` shows of its result, and of a run whose results went to files."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_here import run_here

from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python

RUN = ("replay", sample_path(), "--date", SAMPLE_DATE, "--workers", "0", "--limit", "60000")


def rows_of(text: str) -> list[str]:
    """The symbols of the table's lines."""
    return [line.split()[0] for line in text.splitlines() if line.startswith("AA")]


def test_ten_rows_are_shown_or_as_many_as_are_asked_for() -> None:
    assert len(rows_of(run_here(*RUN, "--handler", "vwap").stdout)) == 10
    assert len(rows_of(run_here(*RUN, "--handler", "vwap", "--top", "3").stdout)) == 3


def test_symbols_that_are_named_are_all_shown() -> None:
    names = [f"AAA{a}{b}" for a in "ABC" for b in "ABCD"]
    assert sorted(rows_of(run_here(*RUN, "--symbols", ",".join(names)).stdout)) == names


def test_rows_are_sorted_by_a_field(tmp_path: Path) -> None:
    shown = run_here(*RUN, "--handler", "vwap", "--sort", "volume").stdout.splitlines()
    at = shown[0].split().index("volume")
    volumes = [int(line.split()[at].replace(",", "")) for line in shown if line.startswith("AA")]
    assert volumes == sorted(volumes, reverse=True)
    refused = run_here(*RUN, "--handler", "vwap", "--sort", "nothing", "--out", tmp_path / "rows.csv")
    assert refused.returncode == 2
    assert refused.stderr.startswith("strand: sort: the rows have no field 'nothing'; there are symbol, ticks, trades")
    assert not list(tmp_path.iterdir())


def test_of_results_in_files_the_figures_are_shown_and_rows_where_asked_for(tmp_path: Path) -> None:
    out = ("--handler", "bbo", "--out", f"bbo={tmp_path / 'bbo.npy'}")
    lines = run_here(*RUN, *out).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["60,000", "bbo:"]
    assert len(rows_of(run_here(*RUN, *out, "--top", "2").stdout)) == 2


def test_v_reports_the_run_in_full() -> None:
    text = run_here(*RUN, "-v").stdout
    assert rows_of(text)
    for words in ("warnings: none", "limited by", "fingerprint: ", "p99.9"):
        assert words in text


def test_json_has_all_and_takes_none_of_these() -> None:
    for option in (("--top", "2"), ("--sort", "ticks"), ("-v",)):
        done = run_here(*RUN, "--json", *option)
        assert done.returncode == 2
        assert "--json has all of the run" in done.stderr
