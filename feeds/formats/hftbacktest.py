"""hftbacktest's event arrays (version 2) as ticks. Layout: its documentation, "Data"."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from strand.feeds.base import TicksAre
from strand.feeds.mapping.columns import Columns, Reading
from strand.feeds.mapping.records import BadRecordError, numpy_column
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, Flags

__all__ = ["EXCHANGE", "LAST", "LOCAL", "HftEvents", "is_hft_events", "symbol_of"]

#: In ``flags``, beside the event's number: what the event is valid for.
EXCHANGE: Final = 0x40
LOCAL: Final = 0x80
#: The last event of a ``local_ts``.
LAST: Final = 0x20

_EXCHANGE_EVENT: Final = 1 << 31
_LOCAL_EVENT: Final = 1 << 30
_BUY_EVENT: Final = 1 << 29
_SELL_EVENT: Final = 1 << 28
_NUMBER: Final = 0xFF
_DEPTH: Final = 1
_TRADE: Final = 2
_FIRST_ORDER: Final = 10
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
#: The columns that ticks are made of, by field; the first ones as they lie in the events.
_AS_THEY_ARE: Final = ("exch_ts", "local_ts", "px", "qty")
_COLUMNS: Final = dict(
    zip(("ts_event", "ts_recv", "price", "size"), _AS_THEY_ARE, strict=True), order_id="order_id", ref_id="ival",
    action="action", side="side", kind="kind", flags="flags",
)  # fmt: skip

Array = npt.NDArray[Any]


def is_hft_events(dtype: np.dtype[Any]) -> bool:
    """True if records have the fields of hftbacktest's events."""
    return dtype.names == tuple(_KINDS) and all(dtype[name].str[1:] == kind for name, kind in _KINDS.items())


def symbol_of(path: Path) -> str:
    """Symbol of a file that names none: the file's name up to the first dot."""
    return path.name.split(".", 1)[0]


class HftEvents:
    """Conversion of hftbacktest's events to ticks of key 0, by the rules of columns.

    ``ts_event`` is exch_ts, ``ts_recv`` local_ts, ``ref_id`` ival in two's complement, ``sequence`` the record's
    position in the file from 1; ``flags`` is the event's number plus ``EXCHANGE`` and ``LOCAL``, and the reader adds 32
    at the last event of a local_ts; fval is left out, and order_id of quotes. A price stands for its shortest decimal,
    none is ``UNDEF_PRICE``; a price has to be a whole number of 1e-9, and a qty of ten to the ``size_power``. Others
    are refused, or with ``rounds`` rounded to the nearest; ``rounded``: in how many of the latest records. Events that
    are valid at the exchange only make no tick: the same event comes again in the order it was received.
    """

    #: The number of a best bid or offer has 4, which no other event of action M and kind quote has. Events of one
    #: local_ts are what a strategy sees at once: the last one has 32.
    flags: ClassVar = Flags(best=4, last=LAST, other=0xDB)

    def __init__(self, size_power: int, *, rounds: bool) -> None:
        reading = Reading(size_power=size_power, rounds=rounds, undefined_nulls=True, time_unit="ns", own=True)
        self._columns = Columns(list(_COLUMNS.values()), _COLUMNS, {}, reading)
        self.rounded = 0
        self._actions = np.zeros(256, np.uint8)
        self._kinds = np.zeros(256, np.uint16)
        for number, (action, kind) in _EVENTS.items():
            self._actions[number], self._kinds[number] = ord(action), kind

    @staticmethod
    def meaning(pieces: Iterable[Array]) -> TicksAre:
        """Meaning of a file's ticks, from as few of its records as show it.

        Fills of single orders count where no trade reports them: in files with both, as those made of Databento's
        orders, a fill repeats what a trade said, and a cancel or a modify follows it.
        """
        orders = False
        for records in pieces:
            numbers = records["ev"] & _NUMBER
            orders = orders or bool((numbers >= _FIRST_ORDER).any())
            if not orders:
                return "plain"
            if (numbers == _TRADE).any():
                return "dbn-orders"
        return "plain"

    def ticks(self, records: Array, position: int) -> Array:
        """Ticks of ``records``, whose first one is number ``position`` of the file, from 0.

        Raises BadRecordError for the first one that cannot be a tick.
        """
        events = records["ev"].astype(np.uint64)
        rows = np.flatnonzero((events & _LOCAL_EVENT != 0) | (events & _EXCHANGE_EVENT == 0))
        records, events = records[rows], events[rows]
        numbers = (events & _NUMBER).astype(np.uint8)
        of = {name: records[name] for name in _AS_THEY_ARE}
        of["order_id"] = np.where(self._kinds[numbers] == KIND_QUOTE, 0, records["order_id"])
        of["ival"] = records["ival"].astype(np.int64).view(np.uint64)
        of["action"] = self._actions[numbers]
        ask = np.where(events & _SELL_EVENT != 0, ord("A"), ord("N"))
        of["side"] = np.where(events & _BUY_EVENT != 0, ord("B"), ask)
        of["kind"] = self._kinds[numbers]
        of["flags"] = (
            numbers
            | np.where(events & _EXCHANGE_EVENT != 0, EXCHANGE, 0).astype(np.uint8)
            | np.where(events & _LOCAL_EVENT != 0, LOCAL, 0).astype(np.uint8)
        )
        places = (rows + (position + 1)).astype(np.uint64)
        keys = np.zeros(len(records), np.uint32)
        made = self._columns.convert(lambda name: numpy_column(of[name]), places, keys)
        bad = [] if made.first is None else [(made.first.index, made.first.column, made.first.problem)]
        for wrong, column, why in (
            (self._kinds[numbers] == 0, "ev", "is not an event of hftbacktest"),
            (np.isnan(records["qty"]), "qty", "is not a number"),
        ):
            if wrong.any():
                index = int(np.argmax(wrong))
                bad.append((index, column, f"{records[column][index]} {why}"))
        if bad:
            index, column, problem = min(bad)
            raise BadRecordError(int(rows[index]), f"column {column!r}: {problem}")
        self.rounded = 0 if made.inexact is None else int(np.count_nonzero(made.inexact))
        made.ticks["action"][(numbers == _DEPTH) & (made.ticks["size"] == 0)] = b"C"
        return made.ticks
