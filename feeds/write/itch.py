"""Ticks as NASDAQ TotalView-ITCH 5.0: each message in the one form that reads back as its tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from strand.binding import itch
from strand.feeds.base import TickBatch
from strand.feeds.write.check import Found, Misfits, Target, fields_that_differ, misfits
from strand.ticks import KIND_ORDER, KIND_STATUS, KIND_TRADE, UNDEF_PRICE, picked, zeros

__all__ = ["ItchTicks"]

_PRICE_UNIT: Final = 100_000  # 1e-4 in 1e-9
_PREFIX: Final = 2
#: Ticks encoded at a time: few enough that their intermediate arrays stay in the caches.
_SLICE: Final = 8192
_NAMELESS: Final = np.bytes_(b" " * 8)
_HEADER: Final = [("length", ">u2"), ("type", "S1"), ("locate", ">u2"), ("tracking", ">u2"), ("time", "V6")]
_ORDER: Final = [("order", ">u8"), ("side", "S1"), ("size", ">u4"), ("stock", "S8"), ("price", ">u4")]
#: Fields behind the header, by type. Those that no tick has are left as zeros, or as spaces where they are text.
_LAYOUTS: Final = {
    kind: np.dtype(_HEADER + fields)
    for kind, fields in {
        b"A": _ORDER,
        b"F": [*_ORDER, ("mpid", "S4")],
        b"E": [("order", ">u8"), ("size", ">u4"), ("ref", ">u8")],
        b"C": [("order", ">u8"), ("size", ">u4"), ("ref", ">u8"), ("printable", "S1"), ("price", ">u4")],
        b"X": [("order", ">u8"), ("size", ">u4")],
        b"D": [("order", ">u8")],
        b"U": [("order", ">u8"), ("ref", ">u8"), ("size", ">u4"), ("price", ">u4")],
        b"P": [*_ORDER, ("ref", ">u8")],
        b"Q": [("wide", ">u8"), ("stock", "S8"), ("price", ">u4"), ("ref", ">u8"), ("cross", "S1")],
        b"H": [("stock", "S8"), ("state", "S1"), ("reserved", "S1"), ("reason", ">u4")],
        b"I": [("wide", ">u8"), ("ref", ">u8"), ("direction", "S1"), ("stock", "S8"), ("far", ">u4"), ("near", ">u4"),
               ("price", ">u4"), ("cross", "S1"), ("variation", "S1")],
        b"B": [("ref", ">u8")],
        b"J": [("stock", "S8"), ("price", ">u4"), ("upper", ">u4"), ("lower", ">u4"), ("size", ">u4")],
        b"K": [("stock", "S8"), ("reason", ">u4"), ("qualifier", "S1"), ("price", ">u4")],
        b"Y": [("stock", "S8"), ("letter", "u1")],
        b"h": [("stock", "S8"), ("letters", ">u2")],
        b"N": [("stock", "S8"), ("letter", "u1")],
        b"O": [("stock", "S8"), ("open", "S1"), ("least", ">u4"), ("most", ">u4"), ("price", ">u4"), ("at", ">u8"),
               ("lower", ">u4"), ("upper", ">u4")],
        b"R": [("stock", "S8"), ("market", "S2"), ("lot", ">u4"), ("attributes", "S9"), ("leverage", ">u4"),
               ("inverse", "S1")],
    }.items()
}  # fmt: skip
_WIDEST: Final = max(layout.itemsize for layout in _LAYOUTS.values())
_STATUSES: Final = {
    itch.BROKEN_TRADE: b"B", itch.LULD_COLLAR: b"J", itch.IPO_QUOTING: b"K", itch.IPO_CANCELED: b"K",
    itch.REG_SHO: b"Y", itch.OPERATIONAL_HALT: b"h", itch.OPERATIONAL_RESUME: b"h", itch.RETAIL_INTEREST: b"N",
    itch.DIRECT_LISTING: b"O", itch.DIRECT_LISTING_OPEN: b"O",
}  # fmt: skip
#: The message type by the flags of a status tick: a small number has its own type, a letter is a trading state, and all
#: from 0x80 on are imbalances.
_STATUS_TYPES: Final = np.array(
    [_STATUSES.get(i, b"I" if i & itch.IMBALANCE else b"H" if chr(i).isalpha() else b"?") for i in range(256)], "S1"
)
#: In an ITCH file the sequence is the message's position.
_IGNORED: Final = ("sequence",)
_CROSSES: Final = {itch.CROSS_OPENING: b"O", itch.CROSS_CLOSING: b"C", itch.CROSS_HALT: b"H", itch.CROSS_INTRADAY: b"I"}


class ItchTicks(Target):
    """A file of ITCH 5.0 messages.

    A symbol is announced by a directory message right before its first tick. Values that a message cannot hold do not
    fit: each batch is read back, and ``misfits`` takes a tick that comes out different, or refuses it. ``sequence`` is
    not looked at: in an ITCH file it is the message's position.
    """

    def __init__(self, file: BinaryIO, misfits: Misfits, midnight_ns: int) -> None:
        super().__init__(file, misfits)
        self._midnight_ns = midnight_ns
        self._announced = np.zeros(itch.LOCATES, np.bool_)
        self._decoder = self._new_decoder()
        self._shift: int | None = None
        self._known: list[str] | None = None
        self._stocks = np.zeros(0, "S8")
        self._is_stock = np.zeros(0, np.bool_)

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        parts = [self._write_some(ticks[at : at + _SLICE], symbols) for at in range(0, len(ticks), _SLICE)]
        if sum(map(len, parts)) == len(ticks):
            return ticks
        return np.concatenate(parts)

    def _write_some(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        if self._shift is None:  # a locate of 0 is none
            self._shift = 1 if len(symbols) and symbols[0] else 0
        if list(symbols) != self._known:
            self._known, self._stocks, self._is_stock = list(symbols), *_stock_names(symbols)
        types = _types_of(ticks)
        found = self._impossible(ticks, types)
        fits = found == ""
        data, first = self._encode(ticks[fits], types[fits])
        if not self._reads_back(ticks[fits], data):
            found[fits] = misfits(ticks[fits], self._read_back, _IGNORED)
            self._decoder = self._new_decoder()
            fits = found == ""
            data, first = self._encode(ticks[fits], types[fits])
            if not self._reads_back(ticks[fits], data):
                raise RuntimeError("ticks that ITCH holds one by one do not read back together")
        ticks = self._fitting(ticks, found, symbols)
        self._announced[first] = True
        self._file.write(data)
        return ticks

    def _impossible(self, ticks: TickBatch, types: npt.NDArray[Any]) -> Found:
        """The field of each tick for which there is no message, or no stock."""
        found = np.zeros(len(ticks), "U16")
        for kind, field in ((None, "kind"), (KIND_ORDER, "action"), (KIND_STATUS, "flags")):
            found[(types == b"?") & ((ticks["kind"] == kind) if kind is not None else True)] = field
        keys = self._locates(ticks)
        found[(keys >= itch.LOCATES) | (keys == 0)] = "instrument_id"
        named = np.flatnonzero(ticks["instrument_id"] < len(self._is_stock))
        found[named[~self._is_stock[ticks["instrument_id"][named]]]] = "symbols"
        return found

    def _locates(self, ticks: TickBatch) -> npt.NDArray[np.int64]:
        locates: npt.NDArray[np.int64] = ticks["instrument_id"].astype(np.int64) + int(self._shift or 0)
        return locates

    def _new_decoder(self) -> itch.ItchDecoder:
        return itch.ItchDecoder(midnight_ns=self._midnight_ns, skip=False)

    def _reads_back(self, ticks: TickBatch, data: bytes) -> bool:
        again, sound = _decoded(self._decoder, len(ticks), data)
        return (
            sound
            and len(again) == len(ticks)
            and not (fields_that_differ(self._located(ticks), again, _IGNORED) != "").any()
        )

    def _read_back(self, ticks: TickBatch) -> tuple[TickBatch, bool]:
        """Reads ticks back as a file of its own, since a decoder goes on from message to message."""
        data, _ = self._encode(ticks, _types_of(ticks))
        again, sound = _decoded(self._new_decoder(), len(ticks), data)
        again["instrument_id"] -= np.uint32(self._shift or 0)
        return again, sound

    def _located(self, ticks: TickBatch) -> TickBatch:
        expected = ticks.copy()
        expected["instrument_id"] = self._locates(ticks)
        return expected

    def _encode(self, ticks: TickBatch, types: npt.NDArray[Any]) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The messages, and the locates that they announce."""
        keys, places, names = self._locates(ticks), ticks["instrument_id"].astype(np.int64), self._stocks
        if (missing := int(places.max(initial=-1)) + 1 - len(names)) > 0:
            names = np.concatenate([names, np.full(missing, _NAMELESS)])
        first = self._announce(keys, names, places)
        # One message per row, as wide as the widest. A symbol's directory message has its own row before its first
        # tick.
        is_first = np.zeros(len(ticks), np.int64)
        is_first[first] = 1
        row_of = np.arange(len(ticks)) + np.cumsum(is_first)
        rows = np.zeros((len(ticks) + len(first), _WIDEST), np.uint8)
        lengths = np.zeros(len(rows), np.int64)
        for kind, layout in _LAYOUTS.items():
            chosen = first if kind == b"R" else np.flatnonzero(types == kind)
            if not len(chosen):
                continue
            messages = np.zeros(len(chosen), layout)
            messages["length"] = layout.itemsize - _PREFIX
            messages["type"] = kind
            messages["locate"] = keys[chosen]
            _fill(messages, kind, picked(ticks, chosen), names[places[chosen]], np.int64(self._midnight_ns))
            to = row_of[chosen] - 1 if kind == b"R" else row_of[chosen]
            opaque = np.dtype(f"V{layout.itemsize}")
            np.ndarray((len(rows),), opaque, buffer=rows, strides=(_WIDEST,))[to] = messages.view(opaque)
            lengths[to] = layout.itemsize
        return rows[np.arange(_WIDEST) < lengths[:, None]].tobytes(), keys[first]

    def _announce(
        self, keys: npt.NDArray[np.int64], names: npt.NDArray[Any], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The ticks that are the first of a symbol with a name."""
        fresh = np.flatnonzero(~self._announced[keys] & (names != _NAMELESS)[places])
        if not len(fresh):
            return fresh
        _, at = np.unique(keys[fresh], return_index=True)
        first: npt.NDArray[np.int64] = fresh[np.sort(at)]
        return first


def _decoded(decoder: itch.ItchDecoder, count: int, data: bytes) -> tuple[TickBatch, bool]:
    again = zeros(count + 1)
    made, used, sound = decoder.decode(memoryview(data), last=False, out=again)
    return again[:made], sound and used == len(data)


def _types_of(ticks: TickBatch) -> npt.NDArray[Any]:
    kind, action, size, flags = ticks["kind"], ticks["action"], ticks["size"], ticks["flags"]
    order, trade, status = kind == KIND_ORDER, kind == KIND_TRADE, kind == KIND_STATUS
    priced = ticks["price"] != UNDEF_PRICE
    by_flags = _STATUS_TYPES[flags]
    conditions = [
        order & (action == b"A") & (flags & itch.ATTRIBUTED == 0),
        order & (action == b"A"),
        order & (action == b"F") & ~priced,
        order & (action == b"F"),
        order & (action == b"C") & (size > 0),
        order & (action == b"C"),
        order & (action == b"N"),
        order & (action == b"M"),
        trade & (flags & itch.CROSS == 0),
        trade,
        status,
    ]
    letters: list[Any] = [np.bytes_(letter) for letter in b"A F E C X D X U P Q".split()]
    types: npt.NDArray[Any] = np.select(conditions, [*letters, by_flags], np.bytes_(b"?"))
    return types


def _fill(messages: Any, kind: bytes, ticks: TickBatch, stocks: npt.NDArray[Any], midnight_ns: np.int64) -> None:
    fields = messages.dtype.names
    since = np.zeros(len(ticks), np.int64) if kind == b"R" else ticks["ts_recv"] - midnight_ns
    messages["time"] = np.ascontiguousarray(since.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]).view("V6")[:, 0]
    flags = ticks["flags"]
    undefined = ticks["price"] == UNDEF_PRICE
    values = {
        "order": ticks["order_id"],
        "size": ticks["size"],
        "wide": ticks["size"],
        "ref": ticks["ref_id"],
        "stock": stocks,
        # A value that is cut off here is found when the batch is read back.
        "price": (np.where(undefined, 0, ticks["price"]) // _PRICE_UNIT).astype(np.uint64).astype(np.uint32),
        "side": np.where(ticks["side"] == b"A", b"S", ticks["side"]),
        "mpid": b"    ",
        "printable": np.where(flags & itch.NON_PRINTABLE != 0, b"N", b"Y"),
        "state": flags.view("S1") if kind == b"H" else b" ",
        "reserved": b" ",
        "reason": ticks["ref_id"].astype(np.uint32),
        "direction": np.where(ticks["side"] == b"A", b"S", ticks["side"]),
        "variation": b" ",
        "market": b"  ",
        "lot": 100,
        "attributes": b"NCZ P   N",
        "inverse": b"N",
        "upper": (ticks["ref_id"] // np.uint64(_PRICE_UNIT)).astype(np.uint32),
        "lower": (ticks["order_id"] // np.uint64(_PRICE_UNIT)).astype(np.uint32),
        "qualifier": np.where(flags == itch.IPO_QUOTING, b"A", b"C"),
        "letter": ticks["ref_id"].astype(np.uint8),
        "letters": ticks["ref_id"].astype(np.uint16),
        "open": np.where(flags == itch.DIRECT_LISTING_OPEN, b"Y", b"N"),
    }
    for field in fields:
        if field in values:
            messages[field] = values[field]
    if kind == b"Q":
        messages["cross"] = b" "
        for bits, letter in _CROSSES.items():
            messages["cross"][flags & itch.CROSS_MASK == bits] = letter
    elif kind == b"I":
        messages["cross"] = (flags & 0x7F).astype(np.uint8).view("S1")


def _stock_names(symbols: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The names as stocks, and whether each is one: at most 8 printable ASCII characters."""
    is_stock = [len(name) <= 8 and all(" " < letter <= "~" for letter in name) for name in symbols]
    stocks = [name.encode().ljust(8) if fits else b"" for name, fits in zip(symbols, is_stock, strict=True)]
    return np.array(stocks or [_NAMELESS], "S8"), np.array(is_stock, np.bool_)
