"""Ticks and trades as plain Python values, made of the records of a batch."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.ticks import UNDEF_PRICE

__all__ = ["Tick", "Trade", "as_ticks", "as_trades", "trades_by_place"]


class Tick(NamedTuple):
    """A tick of ``strand.TICK`` with its fields as attributes: plain Python values, which may be kept.

    Attributes:
        ts_event: The venue's time, ns since the UNIX epoch.
        ts_recv: The time of capture, ns since the UNIX epoch; 0 or less: none.
        order_id: The order; 0: none. Of a quote with both sides the ask's price: read ``ask_price``.
        price: In units of 1e-9 of the currency; ``UNDEF_PRICE``: none.
        size: In units that the feed names (``feed.info.size_unit``).
        instrument_id: The index of the symbol in the feed's table of symbols, from 0.
        sequence_low: The lower 32 bits of ``sequence``.
        ref_id: The new order of a replace, or the match number of a trade. Of a quote with both sides the ask's size:
            read ``ask_size``.
        publisher_id: The venue or data set; 0: unknown.
        action: What happened, bytes of one letter.
        side: The side, bytes of one letter.
        flags: Bits that depend on the format.
        depth: The level of the book that the record speaks of; 0: the top, or no level.
        kind: What the record is, a ``KIND_`` constant of ``strand.ticks``.
        sequence_high: The upper 8 bits of ``sequence``.
    """

    ts_event: int
    ts_recv: int
    order_id: int
    price: int
    size: int
    instrument_id: int
    sequence_low: int
    ref_id: int
    publisher_id: int
    action: bytes
    side: bytes
    flags: int
    depth: int
    kind: int
    sequence_high: int

    @property
    def sequence(self) -> int:
        """The venue's number of the message, else its place in the file, from 1: the whole number, which lies in two
        fields.
        """
        return self.sequence_high << 32 | self.sequence_low

    @property
    def bid_price(self) -> int:
        """The bid's price of a quote, in 1e-9; ``UNDEF_PRICE`` if it speaks of the ask alone."""
        return UNDEF_PRICE if self.side == b"A" else self.price

    @property
    def bid_size(self) -> int:
        """The bid's size of a quote; 0 if it speaks of the ask alone."""
        return 0 if self.side == b"A" else self.size

    @property
    def ask_price(self) -> int:
        """The ask's price of a quote, in 1e-9; ``UNDEF_PRICE`` if it speaks of the bid alone."""
        if self.side == b"B":
            return UNDEF_PRICE
        return self.price if self.side == b"A" else _signed(self.order_id)

    @property
    def ask_size(self) -> int:
        """The ask's size of a quote; 0 if it speaks of the bid alone."""
        if self.side == b"B":
            return 0
        return self.size if self.side == b"A" else _signed(self.ref_id)


class Trade(NamedTuple):
    """A trade, a record of ``strand.ticks.TRADE``, with its fields as attributes: plain Python values, which may be
    kept.

    Attributes:
        ts_event: The venue's time, ns since the UNIX epoch.
        ts_recv: The time of capture, ns since the UNIX epoch; 0 or less: none.
        order_id: The order that rested; 0: the feed does not say.
        price: In units of 1e-9 of the currency.
        size: In units that the feed names (``feed.info.size_unit``).
        instrument_id: The index of the symbol in the feed's table of symbols, from 0.
        publisher_id: The venue or data set; 0: unknown.
        aggressor: Bytes of one letter: ``A`` a seller, ``B`` a buyer, ``N`` unknown.
        hidden: Whether the trade met an order that was not displayed.
        match_id: The venue's number of the match; 0: the feed does not say.
        sequence: The venue's number of the message, else its place in the file, from 1.
        cross: Whether the trade is an auction's.
    """

    ts_event: int
    ts_recv: int
    order_id: int
    price: int
    size: int
    instrument_id: int
    publisher_id: int
    aggressor: bytes
    hidden: bool
    match_id: int
    sequence: int
    cross: bool


def _signed(word: int) -> int:
    """The i8 of the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word


#: Unpacked so a tick takes a third of what numpy's tolist() does; from bytes, for to find out how a structured array's
#: memory is laid out takes more than a copy of it.
_FIELDS: Final = struct.Struct("<qqQqqIIQHccBBBB")
_new_tick: Final = partial(tuple.__new__, Tick)
_TRADE_FIELDS: Final = struct.Struct("<qqQqqIHc?Qq?7x")
_new_trade: Final = partial(tuple.__new__, Trade)


def as_ticks(ticks: npt.NDArray[Any]) -> Iterator[Tick]:
    """Records of ``strand.TICK`` as Python values."""
    return map(_new_tick, _FIELDS.iter_unpack(ticks.tobytes()))


def as_trades(trades: npt.NDArray[Any]) -> Iterator[Trade]:
    """Records of ``strand.ticks.TRADE`` as Python values."""
    return map(_new_trade, _TRADE_FIELDS.iter_unpack(trades.tobytes()))


def trades_by_place(trades: npt.NDArray[Any]) -> dict[int, Trade]:
    """Trades of a batch by the position of their tick, from records that each tick has."""
    places = np.flatnonzero(trades["size"] >= 0)
    return dict(zip(places.tolist(), as_trades(trades[places]), strict=True))
