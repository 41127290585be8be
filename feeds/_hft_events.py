"""hftbacktest's event arrays (version 2) as ticks. Layout: its documentation, "Data"."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.feeds.mapping.records import BadRecordError
from strand.feeds.mapping.units import PRICE_POWER, Units, float_units
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, UNDEF_PRICE, limits, zeros

__all__ = ["EXCHANGE", "LOCAL", "HftEvents", "is_hft_events", "symbol_of"]

#: In ``flags``, beside the event's number: what the event is valid for.
EXCHANGE: Final = 0x40
LOCAL: Final = 0x80

_EXCHANGE_EVENT: Final = 1 << 31
_LOCAL_EVENT: Final = 1 << 30
_BUY_EVENT: Final = 1 << 29
_SELL_EVENT: Final = 1 << 28
_NUMBER: Final = 0xFF
_DEPTH: Final = 1
# By the event's number: action and kind.
_EVENTS: Final = {
    1: (b"M", KIND_QUOTE),  # depth: the quantity at a price; 0 takes the price away, action C
    2: (b"T", KIND_TRADE),
    3: (b"R", KIND_QUOTE),  # depth cleared up to the price
    4: (b"A", KIND_QUOTE),  # depth of a snapshot
    5: (b"M", KIND_QUOTE),  # best bid or offer; in `flags`, the 4 of its number says so
    10: (b"A", KIND_ORDER),
    11: (b"C", KIND_ORDER),
    12: (b"M", KIND_ORDER),
    13: (b"F", KIND_ORDER),
}
_KINDS: Final = {"ev": "u8", "exch_ts": "i8", "local_ts": "i8", "px": "f8", "qty": "f8", "order_id": "u8",
                 "ival": "i8", "fval": "f8"}  # fmt: skip

Array = npt.NDArray[Any]


def is_hft_events(dtype: np.dtype[Any]) -> bool:
    """Whether records have the fields of hftbacktest's events."""
    return dtype.names == tuple(_KINDS) and all(dtype[name].str[1:] == kind for name, kind in _KINDS.items())


def symbol_of(path: Path) -> str:
    """The one symbol of such a file, which does not say it: the file's name up to the first dot."""
    return path.name.split(".", 1)[0]


class HftEvents:
    """Conversion of hftbacktest's events to ticks of key 0.

    ``ts_event`` is exch_ts, ``ts_recv`` local_ts, ``ref_id`` ival in two's complement, ``sequence`` the record's
    position in the file from 1; ``flags`` is the event's number plus ``EXCHANGE`` and ``LOCAL``; fval is left out, and
    order_id of quotes. A price stands for its shortest decimal, none is ``UNDEF_PRICE``; a price that is no whole
    number of 1e-9, and a qty that is none of ten to the ``size_power``, is refused, or with ``rounds`` rounded to the
    nearest; ``rounded``: in how many of the latest records. Events that are valid at the exchange only make no tick:
    the same event comes again in the order it was received.
    """

    def __init__(self, size_power: int, *, rounds: bool) -> None:
        self._size_power, self._rounds, self.rounded = size_power, rounds, 0
        self._actions = np.zeros(256, "S1")
        self._kinds = np.zeros(256, np.uint16)
        for number, (action, kind) in _EVENTS.items():
            self._actions[number], self._kinds[number] = action, kind

    def ticks(self, records: Array, position: int) -> Array:
        """Ticks of ``records``, whose first one is number ``position`` of the file, from 0.

        Raises BadRecordError for the first one that cannot be a tick.
        """
        events = records["ev"].astype(np.uint64)
        kept = (events & _LOCAL_EVENT != 0) | (events & _EXCHANGE_EVENT == 0)
        rows = np.flatnonzero(kept)
        records, events = records[rows], events[rows]
        numbers = (events & _NUMBER).astype(np.uint8)
        price = float_units(records["px"].astype("<f8"), PRICE_POWER)
        size = float_units(records["qty"].astype("<f8"), -self._size_power)
        self._check(records, rows, numbers, (price, size))
        prices, sizes = price.values, size.values
        rounded = [each.inexact for each in (price, size) if each.inexact is not None]
        self.rounded = int(np.count_nonzero(np.logical_or.reduce(rounded))) if rounded else 0

        out = zeros(len(records))
        out["ts_event"] = records["exch_ts"]
        out["ts_recv"] = records["local_ts"]
        out["order_id"] = np.where(self._kinds[numbers] == KIND_QUOTE, 0, records["order_id"])
        out["price"] = np.where(np.isnan(records["px"]), UNDEF_PRICE, prices)
        out["size"] = sizes
        out["sequence"] = rows + (position + 1)
        out["ref_id"] = records["ival"].astype(np.int64).view(np.uint64)
        out["action"] = np.where((numbers == _DEPTH) & (sizes == 0), b"C", self._actions[numbers])
        out["side"] = np.where(events & _BUY_EVENT != 0, b"B", np.where(events & _SELL_EVENT != 0, b"A", b"N"))
        out["kind"] = self._kinds[numbers]
        out["flags"] = (
            numbers
            | np.where(events & _EXCHANGE_EVENT != 0, EXCHANGE, 0).astype(np.uint8)
            | np.where(events & _LOCAL_EVENT != 0, LOCAL, 0).astype(np.uint8)
        )
        return out

    def _check(self, records: Array, rows: Array, numbers: npt.NDArray[np.uint8], amounts: tuple[Units, Units]) -> None:
        price, size = amounts
        faults = [
            (self._kinds[numbers] == 0, "ev", "is no event of hftbacktest's"),
            (records["exch_ts"] < 0, "exch_ts", "is no time"),
            (records["local_ts"] < 0, "local_ts", "is no time"),
            *_faults(price, "price", "px", self._rounds),
            *_faults(size, "size", "qty", self._rounds),
            (np.isnan(records["qty"]), "qty", "is no number"),
        ]
        found = [(int(np.argmax(bad)), field, why) for bad, field, why in faults if bad.any()]
        if found:
            index, field, why = min(found)
            raise BadRecordError(int(rows[index]), f"field {field!r}: {records[field][index]!r} {why}")


def _faults(found: Units, field: str, column: str, rounds: bool) -> list[tuple[npt.NDArray[np.bool_], str, str]]:
    """What is wrong with numbers for a price or a size: the rows, the column, and the words for it."""
    lowest, highest = limits(field)
    values = found.values
    beyond = (values < lowest) | (values > highest)
    faults = [(beyond if found.bad is None else beyond | found.bad, column, f"is outside what a {field} holds")]
    if found.inexact is not None and not rounds:
        unit = "1e-9" if field == "price" else "size_unit"
        why = f"is no whole number of units of {unit}: inexact='round' rounds it to the nearest"
        faults.append((found.inexact, column, why))
    elif found.inexact is not None and field == "size":
        faults.append((found.inexact & (values == 0), column, "rounds to 0: give a finer size_unit"))
    return faults
