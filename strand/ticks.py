"""The tick: the 64-byte record that feeds produce and handlers read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, RecordTypeError
from strand.fixed import dataclass

__all__ = [
    "BY_NAME",
    "FIELDS",
    "KIND_NONE",
    "KIND_ORDER",
    "KIND_QUOTE",
    "KIND_STATUS",
    "KIND_TASK",
    "KIND_TRADE",
    "MAX_SEQUENCE",
    "PRICE_SCALE",
    "TICK",
    "TRADE",
    "UNDEF_PRICE",
    "Flags",
    "TickRecord",
    "Ticks",
    "aligned_ticks",
    "clear_records",
    "empty",
    "is_clear",
    "joined",
    "limits",
    "named",
    "picked",
    "zeros",
]

#: The price of a tick that has none.
UNDEF_PRICE: Final = (1 << 63) - 1
#: Units of ``price`` in one unit of currency.
PRICE_SCALE: Final = 1_000_000_000
#: The greatest ``sequence`` that a tick holds.
MAX_SEQUENCE: Final = (1 << 40) - 1

KIND_NONE: Final = 0
KIND_ORDER: Final = 1
KIND_TRADE: Final = 2
KIND_QUOTE: Final = 3
KIND_STATUS: Final = 4
KIND_TASK: Final = 5


def _sequence(field: Callable[[str], Any]) -> Any:
    return field("sequence_low").astype(np.int64) | field("sequence_high").astype(np.int64) << 32


def _bid_price(field: Callable[[str], Any]) -> Any:
    return np.where(field("side") == b"A", UNDEF_PRICE, field("price"))


def _bid_size(field: Callable[[str], Any]) -> Any:
    return np.where(field("side") == b"A", 0, field("size"))


def _ask(field: Callable[[str], Any], own: str, beside: str, none: int) -> Any:
    """A field of the ask: a quote of both sides has it beside the bid's."""
    side = field("side")
    return np.where(side == b"A", field(own), np.where(side == b"B", none, field(beside).astype(np.int64)))


#: What is read by a name of its own though it lies in several fields, as i8: the whole ``sequence``, and both sides of
#: a tick of kind quote. A side that a quote does not speak of has no price (``UNDEF_PRICE``) and size 0.
BY_NAME: Final[dict[str, Callable[[Callable[[str], Any]], Any]]] = {
    "sequence": _sequence,
    "bid_price": _bid_price,
    "bid_size": _bid_size,
    "ask_price": lambda field: _ask(field, "price", "order_id", UNDEF_PRICE),
    "ask_size": lambda field: _ask(field, "size", "ref_id", 0),
}


def _halves(sequence: Any) -> tuple[Any, Any]:
    """Values of ``sequence_low`` and ``sequence_high``. Raises RecordTypeError."""
    values = np.asarray(sequence)
    if values.dtype.kind not in "iu" or (values.size and (int(values.min()) < 0 or int(values.max()) > MAX_SEQUENCE)):
        wrong = values if values.dtype.kind not in "iu" else values[(values < 0) | (values > MAX_SEQUENCE)].flat[0]
        raise RecordTypeError(
            f"sequence: {wrong} is not a whole number from 0 to 2**40 - 1, which is what a tick can hold; "
            "order_id and ref_id hold ids of 64 bits"
        )
    whole = values.astype(np.uint64)
    return whole & 0xFFFFFFFF, whole >> 32


class TickRecord(np.void):  # type: ignore[misc]
    """Tick of an array: its fields, and those that ``BY_NAME`` names, by ``tick["sequence"]``."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key in BY_NAME:
            return BY_NAME[key](super().__getitem__)[()]
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str) and key == "sequence":
            low, high = _halves(value)
            super().__setitem__("sequence_low", low)
            super().__setitem__("sequence_high", high)
        else:
            super().__setitem__(key, value)


#: One tick, 64 bytes. Times are ns since the UNIX epoch, prices are in units of 1e-9, sizes in units that the feed
#: names, ``instrument_id`` is the dense index into the feed's symbol table, ``action`` and ``side`` are single ASCII
#: letters (docs/internals/ticks.md). What is measured is signed, so that numpy's differences are those of arithmetic.
TICK: Final = np.dtype(
    (
        TickRecord,
        [
            ("ts_event", "<i8"),
            ("ts_recv", "<i8"),
            ("order_id", "<u8"),
            ("price", "<i8"),
            ("size", "<i8"),
            ("instrument_id", "<u4"),
            ("sequence_low", "<u4"),
            ("ref_id", "<u8"),
            ("publisher_id", "<u2"),
            ("action", "S1"),
            ("side", "S1"),
            ("flags", "u1"),
            ("depth", "u1"),
            ("kind", "u1"),
            ("sequence_high", "u1"),
        ],
    )
)


@dataclass(frozen=True, slots=True)
class Flags:
    """Bits of a feed's ``flags`` by their meaning, as masks of a byte. 0: the feed has no such flag.

    Attributes:
        unprinted: On a trade: it does not count, because another record reports it, or because it was cancelled.
        cross: On a trade: it is an auction's.
        best: On a level that changed (action M): its price is the best one of its side.
        snapshot: On a level or an order: it is part of a snapshot, which replaces the book.
        last: On a level, a quote or an order: the venue's message ends with it. A feed without this flag ends an event
            at each tick.
        top: On an order: it is all of its side.
        other: Bits that a tick may have set with a meaning that is none of these.
    """

    unprinted: int = 0
    cross: int = 0
    best: int = 0
    snapshot: int = 0
    last: int = 0
    top: int = 0
    other: int = 0

    def __post_init__(self) -> None:
        for name, mask in self.as_dict().items():
            if isinstance(mask, bool) or not isinstance(mask, int) or not 0 <= mask <= 0xFF:
                raise ConfigurationError(f"flags.{name}", f"{mask!r} is not a mask of bits from 0 to 255")

    def as_dict(self) -> dict[str, int]:
        """The masks by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, given: Flags | Mapping[str, int]) -> Flags:
        """Flags from a table of masks by name. Raises ConfigurationError."""
        if isinstance(given, Flags):
            return given
        names = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping) or not set(given) <= set(names):
            raise ConfigurationError("flags", f"{given!r}: give a table of masks by name; there are {', '.join(names)}")
        return cls(**given)

    @classmethod
    def together(cls, all_flags: Iterable[Flags | None]) -> Flags | None:
        """The flags of several feeds as one. None if a bit that means something in one may mean another in a second."""
        found: list[Flags] = []
        for flags in all_flags:
            if flags is None:
                return None
            found.append(flags)
        union = cls(**{name: _any_bit(getattr(flags, name) for flags in found) for name in cls().as_dict()})
        for flags in found:
            for group in _GROUPS:  # ticks of one kind have flags of one group
                used = flags.other | _any_bit(getattr(flags, name) for name in group)
                if any(getattr(union, name) & ~getattr(flags, name) & used for name in group):
                    return None
        return union


#: Flags that ticks of one kind may have: of trades, and of orders, levels and quotes.
_GROUPS: Final = (("unprinted", "cross"), ("best", "snapshot", "last", "top"))


def _any_bit(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


#: One trade, 72 bytes, as handlers are given it that ask for trades (``on="trade"``). Times, ``sequence`` and
#: ``publisher_id`` are its tick's. ``order_id``: the order that rested, ``match_id``: the venue's number of the match;
#: 0 where the feed does not say. ``aggressor``: ``A`` a seller, ``B`` a buyer, ``N`` nobody can tell. ``hidden``: what
#: it met was not displayed; ``cross``: it is an auction's.
TRADE: Final = np.dtype(
    {
        "names": [
            "ts_event", "ts_recv", "order_id", "price", "size", "instrument_id", "publisher_id", "aggressor", "hidden",
            "match_id", "sequence", "cross",
        ],
        "formats": ["<i8", "<i8", "<u8", "<i8", "<i8", "<u4", "<u2", "S1", "?", "<u8", "<i8", "?"],
        "offsets": [0, 8, 16, 24, 32, 40, 44, 46, 47, 48, 56, 64],
        "itemsize": 72,
    }
)  # fmt: skip


class Ticks(np.ndarray[Any, Any]):
    """An array of ``TICK`` whose ticks are also read by the names of ``BY_NAME``.

    ``ticks["sequence"]`` is the whole sequence, i8 of the same shape. It can be assigned; a number beyond
    ``MAX_SEQUENCE`` raises RecordTypeError.
    """

    __array_priority__ = 1.0

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            plain = self.view(np.ndarray)
            if key in BY_NAME and self.dtype == TICK:
                made = BY_NAME[key](plain.__getitem__)
                made.flags.writeable = False  # a write to it would be lost
                return made
            return plain[key]
        if (
            isinstance(key, list)
            and self.dtype == TICK
            and any(name in BY_NAME for name in key if isinstance(name, str))
        ):
            columns = {name: self[name] for name in key}
            made = np.empty(self.shape, [(name, column.dtype) for name, column in columns.items()])
            for name, column in columns.items():
                made[name] = column
            return made
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str) and key == "sequence" and self.dtype == TICK:
            plain = self.view(np.ndarray)
            plain["sequence_low"], plain["sequence_high"] = _halves(value)
        else:
            super().__setitem__(key, value)


#: The fields of a tick as they are read and filled by name, with what they hold: ``sequence`` is one of them.
FIELDS: Final[dict[str, np.dtype[Any]]] = {
    "sequence" if name == "sequence_low" else name: np.dtype("<u8") if name == "sequence_low" else TICK[name]
    for name in TICK.names or ()
    if name != "sequence_high"
}


#: Two days before the last time of 64 bits, which many programs take for none: a zone or a timer may add to it.
_LATEST_NS: Final = (1 << 63) - 1 - 2 * 86_400 * 10**9
#: What a field may be filled with, from and to, where that is less than its type holds.
_LIMITS: Final = {
    "sequence": (0, MAX_SEQUENCE),
    "size": (0, (1 << 63) - 1),
    "ts_event": (0, _LATEST_NS),
    "ts_recv": (0, _LATEST_NS),
    "kind": (0, KIND_STATUS),
}


def limits(field: str) -> tuple[int, int]:
    """The least and the greatest number that a feed may put into a field of whole numbers. ``field``: its name, as
    ``"size"``. Raises KeyError for one that a tick does not have."""
    bounds = np.iinfo(FIELDS[field])
    return _LIMITS.get(field, (int(bounds.min), int(bounds.max)))


def zeros(count: int) -> Ticks:
    """Makes ticks whose fields are all zero.

    Args:
        count: How many ticks.

    Returns:
        An array of shape (count,), dtype ``TICK``.
    """
    return np.zeros(count, TICK).view(Ticks)


def empty(count: int) -> Ticks:
    """Makes ticks whose values are undefined.

    Args:
        count: How many ticks.

    Returns:
        An array of shape (count,), dtype ``TICK``.
    """
    return np.empty(count, TICK).view(Ticks)


def named(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Records as they are handed to users: ``Ticks`` where their dtype is ``TICK``, else the array itself.
    ``records``: shape (n,), of any structured dtype; they share their memory with what is returned."""
    return records.view(TICK, Ticks) if records.dtype == TICK else records


def clear_records(symbols: npt.NDArray[np.uint32], time: int | npt.NDArray[np.int64]) -> Ticks:
    """Clear records for the symbols, shape (n,): a new day, or another instrument, begins at ``time``, ns."""
    ticks = zeros(len(symbols))
    ticks["ts_event"] = ticks["ts_recv"] = time
    ticks["price"] = UNDEF_PRICE
    ticks["instrument_id"] = symbols
    ticks["kind"] = KIND_STATUS
    ticks["action"] = b"R"
    ticks["side"] = b"N"
    return ticks


def is_clear(ticks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """A mask of the clear records that say that nothing before it goes on, shape (n,)."""
    found: npt.NDArray[np.bool_] = (ticks["kind"] == KIND_STATUS) & (ticks["action"] == b"R")
    return found


def joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Joins all records of ``arrays`` in order: one array or more, of shape (n,) each and of one structured dtype.
    numpy would copy record by record and field by field: here each record is copied as one field."""
    dtype = arrays[0].dtype
    found: npt.NDArray[Any] = np.concatenate([array.view(f"V{dtype.itemsize}") for array in arrays]).view(dtype)
    return found


def picked(records: npt.NDArray[Any], chosen: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The ``chosen`` ones of records, by a mask or by their places, each copied as one field as ``joined`` does it."""
    return named(np.ascontiguousarray(records).view(f"V{records.dtype.itemsize}")[chosen].view(records.dtype))


def aligned_ticks(count: int, alignment: int = 64) -> Ticks:
    """Makes ticks whose values are undefined, at an aligned address.

    Args:
        count: How many ticks.
        alignment: The address is a multiple of so many bytes. By default it is that of a cache line, so that no tick
            lies across two.

    Returns:
        An array of shape (count,), dtype ``TICK``.
    """
    raw = np.empty(count * TICK.itemsize + alignment - 1, np.uint8)
    skip = -raw.ctypes.data % alignment
    return raw[skip : skip + count * TICK.itemsize].view(TICK).view(Ticks)
