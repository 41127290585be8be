"""Ticks written as Parquet are read back bit for bit, and what it cannot hold is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parquet_files import write_own
from reading import read

from strand import TICK
from strand.errors import ConfigurationError
from strand.feeds import Selection
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.feeds.write.targets import Misfits, ParquetTicks
from strand.ticks import Ticks

pytestmark = pytest.mark.python
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def own_ticks(count: int, symbols: int) -> np.ndarray:
    ticks = np.frombuffer(np.random.default_rng(count).bytes(64 * count), TICK).copy().view(Ticks)
    ticks["instrument_id"] %= symbols
    for name in ("ts_event", "ts_recv", "size"):
        ticks[name] &= (1 << 63) - 1
    for name in ("action", "side"):
        ticks[name] = np.array([b"A", b"", b"x", b"\x01", b"N"])[np.arange(count) % 5]
    return ticks


def test_what_strand_writes_it_reads_back_bit_for_bit_and_others_can_read_it(tmp_path: Path) -> None:
    ticks, names = own_ticks(1000, 5), ["AB", "", "C", "É", "E", "unused"]
    write_own(tmp_path / "a.parquet", ticks, names)
    feed = ParquetFeed(tmp_path / "a.parquet", batch_ticks=300)
    again, error = read(feed)
    assert error is None
    assert again.tobytes() == ticks.tobytes()
    assert list(feed.symbols) == names
    assert (feed.max_symbols, feed.info.date, feed.info.venue) == (6, "2020-01-02", "V")
    by_pyarrow = pq.read_table(tmp_path / "a.parquet")
    assert by_pyarrow["symbol"].to_pylist() == [names[i] for i in ticks["instrument_id"].tolist()]
    assert by_pyarrow["price"].to_pylist() == ticks["price"].tolist()
    assert by_pyarrow["ts_recv"].cast(pa.int64()).to_pylist() == ticks["ts_recv"].tolist()
    chosen, _ = read(ParquetFeed(tmp_path / "a.parquet", select=Selection(("AB",))))
    assert chosen.tobytes() == ticks[ticks["instrument_id"] == 0].tobytes()


@pytest.mark.parametrize(("field", "value"), [("action", b"\xff"), ("size", -1), ("price", -(2**63)), ("ts_recv", -1)])
def test_what_parquet_cannot_hold_is_refused_by_field(tmp_path: Path, field: str, value: Any) -> None:
    ticks = own_ticks(10, 1)
    ticks[field][3] = value
    with (tmp_path / "a").open("wb") as file, pytest.raises(ConfigurationError, match=field):
        ParquetTicks(file, Misfits("Parquet")).write(ticks, ["A"])
