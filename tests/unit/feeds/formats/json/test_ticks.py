"""JSON messages become ticks: their times, what is rounded, and numbers that no field reads."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from json_lines import LINES, TRADE, profile, write
from reading import read

from strand import feeds

pytestmark = pytest.mark.python


def test_lines_without_a_time_of_receipt_have_that_of_their_event(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["", *LINES[:2]], None)
    ticks, error = read(feeds.open(path, profile=profile(tmp_path)))
    assert error is None
    assert ticks["ts_recv"].tolist() == ticks["ts_event"].tolist() == [10**6, *[2 * 10**6] * 3]
    ticks, error = read(feeds.open(write(path, LINES[1:], None), profile=profile(tmp_path)))
    assert len(ticks) == 3
    assert "line 2: message 2: has no time of receipt and no ts_event: map one" in str(error)


def test_what_is_no_whole_number_of_units_is_refused_or_rounded_and_counted(tmp_path: Path) -> None:
    amounts = ["0.00000001", "0.000000015", "0.000000025", "1"]
    lines = [{"data": {**TRADE, "q": amount}} for amount in amounts]
    path = write(tmp_path / "a.jsonl", lines)
    ticks, error = read(feeds.open(path, profile=profile(tmp_path)))
    assert ticks["size"].tolist() == [1]
    assert (
        "size: give size_unit='0.000000001': '0.000000015' is not a whole number of units of 1e-8: inexact='round'"
        in str(error)
    )
    feed = feeds.open(path, profile=profile(tmp_path), inexact="round")
    ticks, error = read(feed)
    assert error is None
    assert ticks["size"].tolist() == [round(Fraction(amount) * 10**8) for amount in amounts]
    assert feed.statistics()["rows_rounded"] == 2
    feed = feeds.open(path, profile=profile(tmp_path), size_unit="0.001", inexact="round")
    assert "rounds to 0: give a finer size_unit" in str(read(feed)[1])
    fine = feeds.open(path, profile=profile(tmp_path), size_unit="1e-9")
    assert read(fine)[0]["size"].tolist() == [10, 15, 25, 10**9]


def test_a_number_of_many_digits_that_no_field_reads_is_passed_over(tmp_path: Path) -> None:
    line = json.dumps({"data": TRADE | {"x": "HERE"}}).replace('"HERE"', "9" * 5000)
    ticks, error = read(feeds.open(write(tmp_path / "a.jsonl", [LINES[0], line]), profile=profile(tmp_path)))
    assert error is None
    ticks["ts_recv"], ticks["sequence"] = 0, 0
    assert ticks[:1].tobytes() == ticks[1:].tobytes()
