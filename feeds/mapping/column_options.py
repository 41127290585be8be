"""Options that hold for all columns alike, by name and type. They stand apart from their check, which imports
msgspec."""

# Not with annotations as text: the declarations of options stand in types.

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal, TypedDict


class ColumnOptions(TypedDict, total=False):
    """Options that hold for all columns alike, as users give them."""

    constants: Annotated[
        Mapping[str, int | str | bytes] | None, None, "Tick fields that have one value for all ticks, by name."
    ]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in the source\'s price is worth, a power of ten (``"0.01"``). None: currency.',
    ]
    size_unit: Annotated[
        str | Decimal | None, None, "What 1 in a tick's ``size`` is worth, for quantities that are fractions."
    ]
    inexact: Annotated[
        Literal["raise", "round"] | None,
        "raise",
        "At a price that is no whole number of 1e-9, or a size that is no whole number of ``size_unit``, "
        '``"raise"``, or ``"round"`` to the nearest, ties to even.\n``statistics()["rows_rounded"]`` counts rounded '
        "rows. A size above 0 that rounds to 0 is a bad row.",
    ]
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        None,
        "The unit of times that are plain numbers. None: what the file or the column's name says.\nIntegers that "
        "only ns can be need no word. Others are refused. Timestamps may have any unit.",
    ]
    nulls: Annotated[
        Literal["raise", "undefined"],
        "raise",
        '``"raise"``: a null or NaN is a bad row; ``"undefined"``: it is the field\'s undefined value, except in '
        "times and symbols.",
    ]
