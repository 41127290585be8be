"""Choice of a Parquet file's row groups that may hold rows of a selection, by their statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from strand.feeds.mapping.chosen import Reading
from strand.feeds.mapping.columns import Columns
from strand.feeds.mapping.values import NS_IN
from strand.feeds.selection import Selection

__all__ = ["group_filter"]

_WILD: Final = "*?["


def group_filter(
    columns: Columns, reading: Reading, select: Selection, schema: Any
) -> Callable[[Any, Mapping[str, int]], bool]:
    """Returns the test for row groups that may hold wanted rows. Without statistics, a row group may."""
    checks: list[Callable[[Any, Mapping[str, int]], bool]] = []
    factor = _time_factor(columns, reading, schema)
    if factor is not None and columns.time is not None and (select.start_ns is not None or select.end_ns is not None):
        column, start, end = columns.time, select.start_ns, select.end_ns

        def in_time(group: Any, places: Mapping[str, int]) -> bool:
            found = _bounds(group, places, column)
            if found is None:
                return True
            low, high = (int(bound) * factor for bound in found)
            return (end is None or low < end) and (start is None or high >= start)

        checks.append(in_time)
    name_column = columns.of.get("symbol")
    if (
        name_column is not None
        and select.symbols
        and not any(mark in name for name in select.symbols for mark in _WILD)
    ):
        wanted = [name.encode() for name in select.symbols]

        def has_symbol(group: Any, places: Mapping[str, int]) -> bool:
            found = _bounds(group, places, name_column)
            if found is None or not all(isinstance(bound, bytes) for bound in found):
                return True
            return any(found[0] <= name <= found[1] for name in wanted)

        checks.append(has_symbol)
    return lambda group, places: all(check(group, places) for check in checks)


def _bounds(group: Any, places: Mapping[str, int], column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column, as they are stored; None where they are not known.

    Nulls are no values, and may be what a bad row holds: a group with any is read.
    """
    place = places.get(column)
    statistics = None if place is None else group.column(place).statistics
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    return statistics.min_raw, statistics.max_raw


def _time_factor(columns: Columns, reading: Reading, schema: Any) -> int | None:
    """ns in a unit of the stored times; None where stored numbers are not in that order or not of that zone."""
    import pyarrow.types as kinds

    if columns.time is None:
        return None
    kind = schema.field(columns.time).type
    if kinds.is_timestamp(kind):
        return NS_IN[kind.unit] if kind.tz is not None or reading.time_zone is None else None
    # Unsigned ones are stored as signed numbers: beyond 2^63 they would look negative.
    whole = kinds.is_int64(kind) or kinds.is_int32(kind)
    return NS_IN[columns.time_unit] if whole and columns.time_unit is not None else None
