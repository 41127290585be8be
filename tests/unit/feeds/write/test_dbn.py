"""Ticks written as DBN: what it keeps, and names and venues that it cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dbn_reference
import numpy as np
import pytest
from array_feed import order_feed
from converted import assert_same, read

import strand
from strand import UNDEF_PRICE
from strand.errors import ConfigurationError
from strand.feeds.synthetic import SyntheticFeed
from strand.feeds.write.conversion import convert
from strand.ticks import KIND_STATUS, zeros

pytestmark = pytest.mark.python
databento_dbn = pytest.importorskip("databento_dbn")


@pytest.fixture
def mbo(tmp_path: Path) -> Path:
    """MBO records of two instruments as DBN."""
    names = {name: [(*dbn_reference.ALL_DAYS, str(i))] for i, name in ((8, "ES"), (7, "NQ"))}
    start = dbn_reference.metadata(3, names, schema=databento_dbn.Schema.MBO)
    letters = [(a, s) for a in (b"A", b"C", b"M", b"R", b"T", b"F", b"N") for s in (b"A", b"B", b"N")]
    body = b"".join(
        dbn_reference.mbo(
            order=i, price=UNDEF_PRICE if i % 9 == 0 else i * 10**9 + i, action=letters[i % 21][0],
            side=letters[i % 21][1], instrument=7 + i % 2, received=dbn_reference.NOON + i, sequence=i, flags=i % 256,
        )
        for i in range(1000)
    )  # fmt: skip
    path = tmp_path / "in.dbn"
    path.write_bytes(start + body)
    return path


def test_dbn_survives_any_detour(tmp_path: Path, mbo: Path) -> None:
    expected = read(mbo)
    convert(mbo, tmp_path / "a.dbn")
    assert_same(read(tmp_path / "a.dbn"), expected)
    library = dbn_reference.by_library((tmp_path / "a.dbn").read_bytes())
    np.testing.assert_array_equal(dbn_reference.ticks_of(library, {0: 0, 1: 1}), expected[0])
    for name in ("b.parquet", "b.npz", "b.dbn.zst", "b.dbn.gz"):
        convert(tmp_path / "a.dbn", tmp_path / name)
        assert_same(read(tmp_path / name), expected)
    for between in ("b.parquet", "b.npz"):
        convert(tmp_path / between, tmp_path / "c.dbn")
        # All but the data set's name is the same, which an .npz has no room for.
        assert_same(read(tmp_path / "c.dbn"), expected)
    convert(tmp_path / "b.parquet", tmp_path / "c.dbn")
    assert (tmp_path / "c.dbn").read_bytes() == (tmp_path / "a.dbn").read_bytes()


def order(**changes: Any) -> np.ndarray:
    tick = zeros(3)
    tick["ts_event"] = tick["ts_recv"] = 1_767_589_200 * 10**9 + 12
    tick["price"], tick["size"], tick["order_id"], tick["kind"] = 10**9, 5, 1, 1
    tick["action"], tick["side"], tick["sequence"] = b"A", b"B", [1, 2, 3]
    for name, value in changes.items():
        tick[1:2][name] = value
    return tick


@pytest.mark.parametrize("name", ["BÜX", "A\tB", "\U0001f600", "x" * 71])
@pytest.mark.parametrize("learnt", [0, 2])
def test_a_name_that_dbn_cannot_hold_is_said_and_nothing_is_left(tmp_path: Path, name: str, learnt: int) -> None:
    ticks = order().repeat(2)
    with pytest.raises(ConfigurationError) as raised:
        convert(order_feed(ticks, [name], batches=1, known_from=learnt), tmp_path / "a.dbn")
    assert f"symbols: {name!r} " in str(raised.value) or f"and {name!r} is not one" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("venue", ["ABCDEFGHIJKLMNOPQ", "B\u00d6RSE"])
def test_a_venue_that_dbn_cannot_hold_is_said_and_nothing_is_left(tmp_path: Path, venue: str) -> None:
    with pytest.raises(ConfigurationError, match=r"venue: .* printable ASCII .* convert to Parquet or npz"):
        convert(order_feed(order(), ["A"], venue=venue), tmp_path / "a.dbn")
    assert list(tmp_path.iterdir()) == []


def test_what_dbn_cannot_hold_is_left_out_by_option_and_counted_and_the_rest_is_whole(tmp_path: Path) -> None:
    """A day of ITCH has status ticks and executions with a reference, which MBO records cannot say."""
    day = tmp_path / "day.itch50"
    SyntheticFeed(5, 3_000, seed=3, date="2026-01-05").write_itch(day)
    source = strand.feeds.open(day, date="2026-01-05").to_numpy()
    with pytest.raises(ConfigurationError, match="--on-unwritable skip"):
        convert(day, tmp_path / "day.dbn", date="2026-01-05")
    written = convert(day, tmp_path / "day.dbn", date="2026-01-05", on_unwritable="skip")
    again = strand.feeds.open(tmp_path / "day.dbn").to_numpy()
    assert written.ticks == len(again)
    assert written.ticks + sum(written.left_out.values()) == len(source)
    assert 0 < len(again) < len(source)
    kept = np.isin(source["sequence"], again["sequence"])
    for name in ("ts_recv", "ts_event", "order_id", "price", "size", "flags", "action", "side", "kind", "sequence"):
        assert (again[name] == source[kept][name]).all(), name
    assert ((source[~kept]["ref_id"] != 0) | (source[~kept]["kind"] == KIND_STATUS)).all()
