"""Options that hold for all columns alike, by name and type. They stand apart from their check, which imports
msgspec."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, TypedDict

__all__ = ["ColumnOptions"]


class ColumnOptions(TypedDict, total=False):
    """Options that hold for all columns alike, as users give them."""

    constants: Mapping[str, int | str | bytes] | None
    price_unit: str | Decimal | None
    size_unit: str | Decimal | None
    time_unit: Literal["s", "ms", "us", "ns"] | None
    inexact: Literal["raise", "round"] | None
    nulls: Literal["raise", "undefined"]
