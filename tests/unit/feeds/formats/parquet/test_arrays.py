"""Columns of Arrow as arrays of numpy."""

from __future__ import annotations

from typing import Any

import pytest

from strand.feeds.formats.parquet.columns import numbers

pytestmark = pytest.mark.python
pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()])
def test_parts_of_columns_with_and_without_nulls_become_arrays(kind: Any) -> None:
    for values in ([], [1, 2, 3, 4], [None, 2, None, 4], [None] * 4):
        column = pa.array(values, kind)
        for part in (column, column.slice(1), column.slice(1, 2), column.slice(4)):
            found = numbers(part, null=7)
            assert found.dtype == kind.to_pandas_dtype()
            assert found.tolist() == [7 if value is None else value for value in part.to_pylist()]
