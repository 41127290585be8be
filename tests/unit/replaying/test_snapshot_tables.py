"""Snapshots as tables."""

from __future__ import annotations

import pytest

import strand
from strand import testing


def test_tables_are_in_natural_units_and_null_before_the_first_tick() -> None:
    pytest.importorskip("pyarrow")
    ticks = [("B", 10, 2.5, 1), ("A", 20, 1, 1), ("B", 30, 3, 1)]
    wanted = strand.snapshot(every="10ns", fields=["last_price", "trades"], symbols=["A", "B"])
    found = strand.replay(testing.feed(ticks), "trades", snapshot=wanted, workers=1).snapshots
    assert found is not None
    wide = found["last_price"].to_arrow().to_pydict()
    assert wide.pop("ts")[0].value == 10
    assert wide == {"A": [None, 1.0, 1.0], "B": [2.5, 2.5, 3.0]}
    long = found.to_arrow(prices="integer").to_pydict()
    assert [each.value for each in long["ts"]] == [10, 10, 20, 20, 30, 30]
    assert long["symbol"] == ["A", "B"] * 3
    assert long["last_price"] == [None, 2_500_000_000, 1_000_000_000, 2_500_000_000, 1_000_000_000, 3_000_000_000]
    assert long["trades"] == [None, 1, 1, 1, 1, 2]
    pytest.importorskip("pandas")
    frame = found["trades"].to_pandas()
    assert (frame.index.name, list(frame.columns)) == ("ts", ["A", "B"])
    assert frame["B"].tolist() == [1, 1, 2]
    assert "3 times, 2 symbols" in repr(found)
    assert "3 times, 2 symbols" in repr(found["trades"])
