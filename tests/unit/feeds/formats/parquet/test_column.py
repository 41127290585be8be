"""Arrow's columns become prices and times exactly, whatever their type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import T0, arrow, pa, parquet, table
from reading import read

from strand.errors import FormatError
from strand.feeds.formats.parquet.columns import arrow_column
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.feeds.mapping.values import scaled

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("times", "options"),
    [
        (pa.array([T0 // 10**9] * 2, pa.timestamp("s")), {}),
        (pa.array([T0 // 10**6] * 2, pa.timestamp("ms", "America/New_York")), {}),
        (pa.array([T0 // 10**3] * 2, pa.timestamp("us", "+05:30")), {}),
        (pa.array([T0] * 2, pa.timestamp("ns")), {}),
        (pa.array([T0 // 10**3] * 2, pa.int64()), {"time_unit": "us"}),
        (pa.array([T0] * 2, pa.uint64()), {}),
        (pa.array([T0 - 5 * 3600 * 10**9] * 2, pa.timestamp("ns")), {"zone": "America/New_York"}),
    ],
)
def test_times_of_any_unit_and_zone_are_the_same_instant(tmp_path: Path, times: Any, options: Any) -> None:
    ticks, error = read(ParquetFeed(arrow(tmp_path, table(2, timestamp=times)), **options))
    assert error is None
    assert ticks["ts_recv"].tolist() == [T0] * 2


@pytest.mark.parametrize(
    ("prices", "options", "expected"),
    [
        (pa.array([0.1, 100.1, 1e-9, -3.7]), {}, [10**8, 100_100_000_000, 1, -3_700_000_000]),
        (pa.array([150_000_000.5, 9_007_199.25]), {}, [150_000_000_500_000_000, 9_007_199_250_000_000]),
        (pa.array([100.1, 0.3], pa.float32()), {}, [100_100_000_000, 300_000_000]),
        (pa.array([1_000_100, 7]), {"price_unit": "0.0001"}, [100_010_000_000, 700_000]),
        (pa.array([Decimal("1.23"), Decimal("-5.00")]), {}, [1_230_000_000, -5 * 10**9]),
        (pa.array([Decimal("1.234567891000")]), {}, [1_234_567_891]),
        (pa.array([Decimal("1.5")], pa.decimal256(60, 30)), {}, [1_500_000_000]),
        (pa.array([0.1 + 0.2, 6e-10]), {"inexact": "round"}, [300_000_000, 1]),
    ],
)
def test_prices_become_units_of_a_billionth_exactly(
    tmp_path: Path, prices: Any, options: Any, expected: list[int]
) -> None:
    ticks, error = read(ParquetFeed(parquet(tmp_path, table(len(prices), price=prices)), **options))
    assert error is None
    assert ticks["price"].tolist() == expected


@given(st.lists(st.decimals(-(10**9), 10**9, places=9), min_size=1, max_size=20))
def test_a_float_means_its_shortest_decimal(prices: list[Decimal]) -> None:
    floats = [float(price) for price in prices]
    found = scaled(arrow_column(pa.array(floats)), 9)
    assert not isinstance(found, str)
    for i, number in enumerate(floats):
        units = Decimal(repr(number)) * 10**9
        inexact = found.inexact is not None and bool(found.inexact[i])
        assert inexact == (units != int(units))
        assert found.bad is None
        assert int(found.values[i]) == round(units)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("price", pa.array(["1.5"] * 2)),
        ("timestamp", pa.array([1.5] * 2)),
        ("timestamp", pa.array([dt.date(2020, 1, 1)] * 2)),
        ("size", pa.array(["1"] * 2)),
        ("symbol", pa.array([1.5] * 2)),
        ("side", pa.array([[1], [2]])),
    ],
)
def test_a_column_of_the_wrong_type_is_named_with_its_type(tmp_path: Path, column: str, values: Any) -> None:
    ticks, error = read(ParquetFeed(parquet(tmp_path, table(2, **{column: values}))))
    assert len(ticks) == 0
    assert isinstance(error, FormatError)
    assert column in str(error)
    assert str(values.type).split("<")[0] in str(error)
