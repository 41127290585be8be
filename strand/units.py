"""Meaning of the numbers in rows and records: their unit, and the values that stand for nothing.

A handler declares it once, in the dtype of its row or record: ``[("high", PRICE), ("volume", SIZE), ("n", "<i8")]``.
The numbers themselves stay exact integers; ``.units`` of rows and of outputs names their units, and tables, files and
pages go by the same declaration. A field of a plain dtype declares nothing: tables show it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np

from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.ticks import UNDEF_PRICE
from strand.validate import several, shown, text

__all__ = [
    "BY_NAME",
    "COUNT",
    "INNER",
    "LETTER",
    "NOTIONAL",
    "NO_SIZE_UNIT",
    "PRICE",
    "RATIO",
    "SIZE",
    "SIZE_SQUARED",
    "SPAN",
    "TIME",
    "TOTAL",
    "Given",
    "Meaning",
    "Unit",
    "declare",
    "layout_from_json",
    "layout_to_json",
    "meaning_of",
    "prefixed",
    "undeclared",
    "unit_of",
]

_KEY: Final = "strand"
#: Why no size has a unit in some merged feeds.
NO_SIZE_UNIT: Final = (
    "the merged files have sizes in different units: read them with one size unit (size_unit= of their readers), or "
    "replay them one by one"
)
_NEVER: Final = (UNDEF_PRICE, -1 - UNDEF_PRICE)

#: Conditions for a number to be defined: fields beside it, with their least values. None: the field has to be defined.
Given: TypeAlias = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Meaning:
    """Meaning of a field's values. ``quantity``: one of the keys of ``QUANTITIES``. ``none``: values that stand for
    nothing. ``given``: other fields that a value needs. ``each``: of an array, whose values tables show in columns of
    their own: what their names begin with, ``"bid_price"`` for ``bid_price_1`` and so on. Empty: a column of lists."""

    quantity: str
    none: tuple[int, ...] = ()
    given: Given = field(default_factory=dict)
    each: str = ""


#: Each quantity with what 1 of it is in a field of integers, and what that is called.
QUANTITIES: Final[Mapping[str, tuple[Decimal | None, str]]] = {
    "price": (Decimal("1E-9"), "units of currency"),
    "size": (Decimal(1), "units of the instrument"),
    "total": (Decimal(1), "units of the instrument"),
    "size squared": (Decimal(1), "squared units of the instrument"),
    "notional": (Decimal(1), "units of currency"),
    "time": (Decimal("1E-9"), "s since 1970-01-01 UTC"),
    "span": (Decimal("1E-9"), "s"),
    "count": (Decimal(1), ""),
    "ratio": (Decimal(1), ""),
    "letter": (None, "the number of a letter, 0: none"),
    "inner": (None, "the handler's own"),
    "raw": (None, "not declared"),
}
_SIZES: Final = {"size": 1, "total": 1, "size squared": 2, "notional": 1}


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a field's numbers. ``quantity``: ``"price"``, ``"size"``, ``"total"``, ``"notional"``, ``"time"``,
    ``"span"``, ``"count"``, ``"ratio"`` and others. ``scale``: what 1 is worth, exactly: a price in units of currency,
    a size in units of the instrument, a time in seconds; None where that is not known, or means nothing."""

    quantity: str
    scale: Decimal | None

    def __str__(self) -> str:
        words = QUANTITIES[self.quantity][1]
        if self.scale is None or not words:
            return words or self.quantity
        return f"{self.scale.normalize()} {words}" if self.scale != 1 else words


def _dtype(form: str, meaning: Meaning) -> np.dtype[Any]:
    return np.dtype(form, metadata={_KEY: meaning})


#: A price: i8 in units of 1e-9, f8 in units of currency; the greatest and the least i8 are none.
PRICE: Final = _dtype("<i8", Meaning("price", none=_NEVER))
#: A size or volume: i8 in the feed's ``size_unit``.
SIZE: Final = _dtype("<i8", Meaning("size"))
#: A sum of sizes that does not wrap: i8 in the feed's ``size_unit``. A compiled handler that adds to it beyond
#: 2**63 - 1 fails on that tick; Python and C add by ``strand.add_total`` and ``sd_add_total``.
TOTAL: Final = _dtype("<i8", Meaning("total"))
#: The same squared, as in a variance: f8.
SIZE_SQUARED: Final = _dtype("<f8", Meaning("size squared"))
#: Sums of price x size: f8, of prices in units of currency and sizes in the feed's ``size_unit``.
NOTIONAL: Final = _dtype("<f8", Meaning("notional"))
#: A moment: i8, ns since the UNIX epoch, UTC.
TIME: Final = _dtype("<i8", Meaning("time", none=_NEVER))
#: A length of time: i8, ns.
SPAN: Final = _dtype("<i8", Meaning("span"))
#: Count: i8.
COUNT: Final = _dtype("<i8", Meaning("count"))
#: A number without a unit: f8.
RATIO: Final = _dtype("<f8", Meaning("ratio"))
#: The number of a letter: u4.
LETTER: Final = _dtype("<u4", Meaning("letter", none=(0,)))
#: Working state of a handler that no table shows, such as half of a sum of 128 bits: i8.
INNER: Final = _dtype("<i8", Meaning("inner"))
#: Declarations for users' annotations, by the name of the quantity.
BY_NAME: Final[Mapping[str, np.dtype[Any]]] = {
    "price": PRICE, "size": SIZE, "total": TOTAL, "notional": NOTIONAL, "time": TIME, "span": SPAN, "count": COUNT,
    "ratio": RATIO,
}  # fmt: skip


def declare(
    like: np.dtype[Any],
    form: str | None = None,
    *,
    none: Sequence[int] | None = None,
    given: Given | None = None,
    each: str | None = None,
) -> np.dtype[Any]:
    """A field's dtype, from one of those above. ``form``: its own dtype, as ``"<f8"``: prices that are floats are in
    units of currency. ``none``: integers that stand for nothing. ``given``: fields beside it without which it is
    undefined, as ``{"trades": 1}``: before there is one trade. ``each``: of an array, the stem of the names of its
    columns: ``"level"`` for ``level_1`` and so on; without it tables have a column of lists. Raises ConfigurationError
    for what is none of these."""
    if not isinstance(like, np.dtype):
        raise ConfigurationError("like", f"{shown(like)} is not a dtype like strand.units.PRICE")
    meaning = meaning_of(like)
    try:
        kind = np.dtype(like.str if form is None else text("form", form))
    except (TypeError, ValueError, SyntaxError):
        raise ConfigurationError("form", f"{shown(form)} is not a dtype like '<f8'") from None
    if none is None:
        none = meaning.none if kind.kind in "iu" else ()
    return _dtype(
        kind.str,
        replace(
            meaning,
            none=tuple(several("none", none, "[0]")),
            given=meaning.given if given is None else given,
            each=meaning.each if each is None else text("each", each),
        ),
    )


def prefixed(fields: Sequence[tuple[Any, ...]], prefix: str, given: Given) -> list[tuple[Any, ...]]:
    """Fields under other names, which also need what is given. ``fields``: as numpy takes them, (name, dtype) or
    (name, dtype, shape); ``prefix``: what comes before each name; ``given``: fields beside them, under their new names,
    and the least number of each below which these are undefined."""
    found = []
    for name, dtype, *shape in fields:
        dtype = np.dtype(dtype)
        meaning = meaning_of(dtype)
        needs = {**given, **{prefix + other: minimum for other, minimum in meaning.given.items()}}
        found.append((prefix + name, dtype if meaning.quantity == "raw" else declare(dtype, given=needs), *shape))
    return found


_RAW: Final = Meaning("raw")


def meaning_of(dtype: np.dtype[Any]) -> Meaning:
    """Meaning that a field's dtype declares, or the dtype of an array's elements."""
    metadata = dtype.base.metadata
    found = None if metadata is None else metadata.get(_KEY)
    return found if isinstance(found, Meaning) else _RAW


def undeclared(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Same layout without its declarations, which numpy's files have no room for; the dtype itself, where it declares
    nothing."""
    if not _declares(dtype):
        return dtype
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((undeclared(base), shape))
    if dtype.fields is None:
        return np.dtype(dtype.str)
    names = list(dtype.names or ())
    return np.dtype(
        {
            "names": names,
            "formats": [undeclared(dtype.fields[name][0]) for name in names],
            "offsets": [dtype.fields[name][1] for name in names],
            "itemsize": dtype.itemsize,
        }
    )


def layout_to_json(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Layout of a dtype with its fields' declarations, as JSON has it; ``layout_from_json`` makes the dtype of it
    again."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": layout_to_json(base), "shape": list(shape)}
    if dtype.fields is not None:
        fields = [[name, dtype.fields[name][1], layout_to_json(dtype.fields[name][0])] for name in dtype.names or ()]
        return {"fields": fields, "itemsize": dtype.itemsize}
    meaning = meaning_of(dtype)
    if meaning is _RAW:
        return {"form": dtype.str}
    declared = {"quantity": meaning.quantity, "none": list(meaning.none), "given": dict(meaning.given)}
    if meaning.each:
        declared["each"] = meaning.each
    return {"form": dtype.str, "meaning": declared}


def layout_from_json(layout: Mapping[str, Any]) -> np.dtype[Any]:
    """See ``layout_to_json``. Raises KeyError, TypeError or ValueError for what is none."""
    if "of" in layout:
        return np.dtype((layout_from_json(layout["of"]), tuple(layout["shape"])))
    if "fields" in layout:
        names, offsets, formats = zip(*layout["fields"], strict=True) if layout["fields"] else ((), (), ())
        made: Any = {"names": list(names), "formats": [layout_from_json(form) for form in formats]}
        made |= {"offsets": list(offsets), "itemsize": layout["itemsize"]}
        found: np.dtype[Any] = np.dtype(made)
        return found
    if "meaning" not in layout:
        return np.dtype(str(layout["form"]))
    declared = layout["meaning"]
    if declared["quantity"] not in QUANTITIES:
        raise ValueError(f"{declared['quantity']!r} is not a quantity")
    return _dtype(
        layout["form"],
        Meaning(declared["quantity"], tuple(declared["none"]), dict(declared["given"]), declared.get("each", "")),
    )


def _declares(dtype: np.dtype[Any]) -> bool:
    base = dtype.base
    if base.fields is None:
        return base.metadata is not None
    return any(_declares(about[0]) for about in base.fields.values())


def unit_of(dtype: np.dtype[Any], size_unit: float | None) -> Unit:
    """The unit of a field's numbers. ``dtype``: the field's, with what it declares; ``size_unit``: what 1 in a size is
    worth in the feed, in units of the instrument; None where nobody knows."""
    meaning = meaning_of(dtype)
    scale = QUANTITIES[meaning.quantity][0]
    if dtype.base.kind == "f" and meaning.quantity == "price":
        scale = Decimal(1)
    power = _SIZES.get(meaning.quantity, 0)
    if power and scale is not None:
        scale = None if size_unit is None else scale * Decimal(repr(size_unit)) ** power
    return Unit(meaning.quantity, scale)
