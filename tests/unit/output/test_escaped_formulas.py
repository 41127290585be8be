"""``escape_formulas``: CSV files whose text no spreadsheet runs, from the command and from Python; numbers stay."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import strand
from strand.command.cli import cli
from strand.feeds.write.npy import write_npy
from strand.ticks import KIND_TRADE, zeros

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")
NAMES = ["=1+1", "+A", "-B", "@C", "A=B", "D", "'=E"]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A trade of each symbol, at a negative price."""
    ticks = zeros(len(NAMES))
    ticks["instrument_id"], ticks["kind"], ticks["action"] = np.arange(len(NAMES)), KIND_TRADE, b"T"
    ticks["ts_recv"], ticks["price"], ticks["size"] = np.arange(len(NAMES)) + 1, -1_500_000_000, 2
    write_npy(tmp_path / "day.npz", ticks, NAMES)
    return tmp_path / "day.npz"


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def escaped(name: str) -> str:
    return f"'{name}" if name[0] in "=+-@\t\r" else name


@pytest.mark.parametrize("escapes", [True, False])
@pytest.mark.parametrize("workers", [0, 1])
def test_names_are_escaped_where_that_is_asked_for_and_numbers_never(
    day: Path, tmp_path: Path, workers: int, escapes: bool
) -> None:
    options: dict[str, Any] = {"escape_formulas": True} if escapes else {}
    out = tmp_path / "bars.csv"
    strand.replay(day, strand.bars("1m"), workers=workers, out={"bars": out}, **options)
    found = cells(out)
    assert sorted(row["symbol"] for row in found) == sorted(map(escaped, NAMES) if escapes else NAMES)
    assert {row["open"] for row in found} == {"-1.5"}


@pytest.mark.parametrize("flags", [["--escape-formulas"], []])
def test_the_command_writes_rows_and_outputs_so(day: Path, tmp_path: Path, flags: list[str]) -> None:
    rows, bars = tmp_path / "rows.csv", tmp_path / "bars.csv"
    done = CliRunner().invoke(
        cli,
        [
            "replay",
            str(day),
            "--handler",
            "bars",
            "--set",
            "every=1m",
            "--out",
            str(rows),
            "--out",
            f"bars={bars}",
            *flags,
        ],
    )
    assert done.exit_code == 0, done.output
    expected = sorted(map(escaped, NAMES) if flags else NAMES)
    assert sorted(row["symbol"] for row in cells(rows)) == expected
    assert sorted(row["symbol"] for row in cells(bars)) == expected


def test_other_formats_keep_the_names(day: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "bars.parquet"
    strand.replay(day, strand.bars("1m"), out={"bars": out}, escape_formulas=True)
    assert sorted(pq.read_table(out)["symbol"].to_pylist()) == sorted(NAMES)
