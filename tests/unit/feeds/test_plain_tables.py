"""Tables of plain columns: CSV, Parquet, Arrow and numpy say the same of times, and of where an event ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, FormatError
from strand.feeds.write.conversion import convert

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

FORMATS = ("parquet", "feather", "npz")


def written(folder: Path, kind: str, columns: Mapping[str, Any]) -> Path:
    path = folder / f"table.{kind}"
    if kind == "npz":
        arrays = {name: np.asarray(values) for name, values in columns.items() if name != "symbol"}
        records: Any = np.zeros(len(next(iter(arrays.values()))), [(name, each.dtype) for name, each in arrays.items()])
        for name, each in arrays.items():
            records[name] = each
        np.savez(path, ticks=records)
    elif kind == "parquet":
        parquet.write_table(pa.table(columns), path)
    else:
        feather.write_feather(pa.table(columns), path, compression="uncompressed")
    return path


def options_of(kind: str, **more: Any) -> dict[str, Any]:
    one = {"symbol": "X"} if kind == "npz" else {}
    return {**one, "columns": {}, **more}


TEXTS = {
    "iso": ("2026-03-09T09:30:00.25-04:00", None, "UTC"),
    "bare": ("2026-03-09 09:30:00.25", None, "America/New_York"),
    "day first": ("09.03.2026 09:30:00.25", "%d.%m.%Y %H:%M:%S.%f", "America/New_York"),
    "twelve hours": ("03/09/26 01:30:00.25 PM", "%m/%d/%y %I:%M:%S.%f %p", "UTC"),
}
WANTED = 1_773_063_000_250_000_000


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("form", TEXTS)
def test_texts_are_times_by_the_vocabulary_of_profiles(tmp_path: Path, kind: str, form: str) -> None:
    text, pattern, zone = TEXTS[form]
    path = written(tmp_path, kind, {"symbol": ["X", "X"], "t": [text, text], "price": [1.5, 2.5], "size": [1, 2]})
    keys = {"column": "t", "unit": "stamp"} if pattern is None else {"column": "t", "format": pattern}
    more = {"zone": zone}
    with strand.feeds.open(path, **options_of(kind, columns={"ts_event": keys}, **more)) as feed:
        assert feed.to_numpy()["ts_recv"].tolist() == [WANTED] * 2
    if pattern is None:
        with strand.feeds.open(path, **options_of(kind, columns={"ts_event": "t"}, **more)) as feed:
            assert feed.to_numpy()["ts_event"].tolist() == [WANTED] * 2


def test_a_text_that_is_no_time_is_named_with_its_row_and_the_forms(tmp_path: Path) -> None:
    columns = {"symbol": ["X"] * 3, "price": [1.0] * 3}
    path = written(tmp_path, "parquet", {**columns, "t": ["2026-01-05T10:00:00", "05.01.2026 10:00", None]})
    with strand.feeds.open(path, columns={"ts_event": "t"}) as feed, pytest.raises(FormatError, match=r"row 2.*format"):
        feed.to_numpy()
    path = written(tmp_path, "parquet", {**columns, "t": ["2026-11-01T01:30:00"] * 3})
    found = strand.feeds.open(path, columns={"ts_event": "t"}, zone="America/New_York")
    with found as feed, pytest.raises(FormatError, match=r"row 1.*comes twice.*UTC"):
        feed.to_numpy()
    path = written(tmp_path, "parquet", {**columns, "t": ["930"] * 3})
    with pytest.raises(ConfigurationError, match="clock without its date"):
        strand.feeds.open(path, columns={"ts_event": {"column": "t", "format": "%H%M"}})


def book_changes() -> dict[str, Any]:
    """Messages of several rows: a bid leaves and another comes, so that a row alone shows a crossed or empty top."""
    times, sides, prices, sizes = [], [], [], []
    for at in range(50):
        new, old = at % 7, (at - 1) % 7
        for side, price, size in (
            ("B", 100 + new, 5), ("A", 101 + new, 6), ("B", 100 + old, 0), ("A", 101 + old, 0),
        ):  # fmt: skip
            times.append((1_767_600_000 + at) * 10**9)
            sides.append(side)
            prices.append(float(price))
            sizes.append(size)
    return {"symbol": ["X"] * len(times), "ts_recv": times, "side": sides, "price": prices, "size": sizes}


@pytest.mark.parametrize("kind", [*FORMATS, "csv"])
def test_rows_of_one_message_change_the_book_at_its_last_one(tmp_path: Path, kind: str) -> None:
    columns = book_changes()
    constants = {"action": "M", "kind": 3}
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
        (tmp_path / "table.toml").write_text(
            'event = "ts_recv"\n[symbol]\ncolumn = "symbol"\n[fields]\nside = "side"\nprice = "price"\nsize = "size"\n'
            'action = { constant = "M" }\nkind = { constant = "quote" }\n'
            'ts_recv = { column = "ts_recv", unit = "ns" }\n'
        )
        path, options = tmp_path / "table.csv", {"profile": tmp_path / "table.toml"}
    else:
        path = written(tmp_path, kind, columns)
        options = options_of(kind, columns={"side": "side"}, constants=constants, event="ts_recv")
    with strand.feeds.open(path, **options) as feed:
        ticks = feed.to_numpy()
    assert np.flatnonzero(ticks["flags"] & 128).tolist() == list(range(3, 200, 4))
    tops = strand.replay(path, "bbo", feed_options=options, workers=0).outputs["bbo"]
    plain = [((100 + at % 7) * 10**9, (101 + at % 7) * 10**9) for at in range(50)]
    assert [(top["bid"], top["ask"]) for top in tops] == plain
    convert(path, tmp_path / "own.parquet", feed_options=options)
    again = strand.replay(tmp_path / "own.parquet", "bbo", workers=2, cores=None)
    assert again.fingerprint == strand.replay(path, "bbo", feed_options=options, workers=1, cores=None).fingerprint


@pytest.mark.parametrize("kind", FORMATS)
def test_an_event_of_no_field_or_of_flags_that_say_it_is_refused(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, book_changes())
    for event, flags, match in (("flags", None, "have in common"), ("ts_recv", {"last": 128}, "already")):
        with pytest.raises(ConfigurationError, match=match):
            strand.feeds.open(path, **options_of(kind, event=event, flags=flags))


@pytest.mark.parametrize("to", ["parquet", "npz", "arrow"])
def test_a_converted_file_still_says_that_whole_prices_were_taken_for_currency(tmp_path: Path, to: str) -> None:
    columns = {"symbol": ["X"] * 2, "ts_recv": [1_767_600_000 * 10**9] * 2, "price": [10, 11], "size": [1, 2]}
    convert(written(tmp_path, "parquet", columns), tmp_path / f"own.{to}")
    kinds = [warning.kind for warning in strand.replay(tmp_path / f"own.{to}", "vwap").warnings]
    assert "whole-number prices" in kinds
