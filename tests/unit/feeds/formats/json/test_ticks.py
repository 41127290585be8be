"""JSON messages become ticks: their times, what is rounded, and numbers that no field reads."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from json_lines import LINES, TRADE, profile, write
from reading import read

import strand
from strand import feeds
from strand.errors import ConfigurationError

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


def kraken(kept: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], list[tuple[list[Any], list[Any]]]]:
    """Messages of a venue that sends the best ``kept`` levels of each side, and says nothing of a level that others
    push beyond them; and the levels after each message, best first."""
    sides: tuple[dict[int, int], dict[int, int]] = ({}, {})
    messages, books, middle = [], [], 1_000
    shown: tuple[list[Any], list[Any]] = ([], [])
    for number in range(600):
        middle += int(rng.integers(-4, 5))
        changes = []
        for side, before, sign in zip(sides, shown, (-1, 1), strict=True):
            for price in [price for price in side if sign * (price - middle) <= 0]:
                del side[price]
            for distance in rng.integers(1, 25, 3).tolist():
                price = middle + sign * distance
                if side.pop(price, None) is None:
                    side[price] = int(rng.integers(1, 99))
            for distance in range(1, kept + 25):
                if len(side) < kept + 2:
                    side.setdefault(middle + sign * distance, 5)
            now = sorted(side.items(), key=lambda level, sign=sign: sign * level[0])[:kept]
            gone = [(price, 0) for price, _ in before if price not in side and sign * (price - now[-1][0]) < 0]
            changed = [*(level for level in now if level not in before), *gone]
            changes.append([changed[at] for at in rng.permutation(len(changed))])
            before[:] = now
        messages.append({"s": "BTC/USD", "t": number + 1, "new": not number, "b": changes[0], "a": changes[1]})
        books.append(([*shown[0]], [*shown[1]]))
    return messages, books


def test_levels_that_a_venue_s_bound_pushes_out_are_removed_at_the_end_of_the_message(tmp_path: Path) -> None:
    messages, books = kraken(10, np.random.default_rng(3))
    rules = [
        {"where": {"new": new}, "each": side, "more": side == "b", "kind": "quote", "symbol": "s", "snapshot": new,
         "fields": {"price": "0", "size": "1", "side": {"constant": side.upper()}, "action": {"constant": "M"},
                    "ts_event": {"column": "t", "unit": "s"}}}
        for new in (True, False) for side in "ba"
    ]  # fmt: skip
    path = tmp_path / "kraken.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    seen: dict[bool, list[Any]] = {}
    for bounded in (True, False):
        bound = {"book_levels": 10} if bounded else {}
        result = strand.replay(
            path, strand.chain(strand.depth(top=12), strand.bbo()), workers=1, cores=None,
            feed_options={"profile": {"message": rules, **bound}},
        )  # fmt: skip
        book = result.books["BTC/USD"]
        seen[bounded] = [
            [(price // 10**9, size) for price, size in side.tolist()] for side in (book.bids(), book.asks())
        ]
        tops = [
            [
                row[name] // 10**9 if name in ("bid", "ask") else row[name]
                for name in ("bid", "bid_size", "ask", "ask_size")
            ]
            for row in result.outputs["bbo"]
        ]
        wanted = [[*bids[0], *asks[0]] for bids, asks in books]
        wanted = [top for top, before in zip(wanted, [None, *wanted], strict=False) if top != before]
        assert (tops == wanted) is bounded
        assert bool(result.warnings) is not bounded
    assert tuple(seen[True]) == books[-1]
    assert tuple(seen[False]) != books[-1]
    with pytest.raises(ConfigurationError, match=r"book_levels: 0 is not a whole number"):
        feeds.open(path, profile={"message": rules, "book_levels": 0})
