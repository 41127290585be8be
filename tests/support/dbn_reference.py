"""DBN records written by struct and read by databento-dbn: the reference for the decoder."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from strand import UNDEF_PRICE
from strand.ticks import zeros

UNDEF_TIME = (1 << 64) - 1
DAY = 86_400 * 10**9
NOON = 20_000 * DAY + DAY // 2
#: From and to, of what has one name for ever.
ALL_DAYS = (dt.date(1970, 1, 1), dt.date(2500, 1, 1))


def record(rtype: int, body: bytes, *, instrument: int = 7, event: int = NOON, publisher: int = 3) -> bytes:
    length = 16 + len(body)
    assert length % 4 == 0
    return struct.pack("<BBHIQ", length // 4, rtype, publisher, instrument, event) + body


def mbo(
    *, order: int = 1, price: int = 10**9, size: int = 5, flags: int = 128, action: bytes = b"A", side: bytes = b"B",
    received: int = NOON + 5, sequence: int = 9, **header: Any,
) -> bytes:  # fmt: skip
    body = struct.pack("<QqIBBccQiI", order, price, size, flags, 2, action, side, received, -3, sequence)
    return record(0xA0, body, **header)


def head(action: bytes = b"T", side: bytes = b"A", price: int = 5 * 10**9, size: int = 4, depth: int = 1) -> bytes:
    return struct.pack("<qIccBBQiI", price, size, action, side, 130, depth, NOON + 7, 1, 77)


def levels(count: int) -> bytes:
    return b"".join(struct.pack("<qqIIII", 10**9 - i, 10**9 + i, 10 + i, 20 + i, 1, 2) for i in range(count))


def every_type(version: int) -> list[bytes]:
    """A record of each type that becomes ticks, and of those that are counted."""
    empty = struct.pack("<qqIIII", UNDEF_PRICE, UNDEF_PRICE, 0, 0, 0, 0)
    statistic = (
        struct.pack("<QQqiIiHHBB6x", NOON, UNDEF_TIME, 10**9, -6, 8, 0, 5, 1, 1, 0)
        if version < 3
        else struct.pack("<QQqqIiHHBB18x", NOON, UNDEF_TIME, 10**9, 1 << 40, 8, 0, 5, 1, 1, 0)
    )
    sample = struct.pack("<qIxcBxQ4xI", 5, 6, b"N", 4, NOON, 11)
    return [
        mbo(),
        mbo(action=b"T", side=b"N", price=UNDEF_PRICE, received=UNDEF_TIME),
        record(0x00, head()),
        record(0x01, head() + levels(1)),
        record(0x01, head(b"C") + levels(1), event=UNDEF_TIME),
        record(0x0A, head(b"A") + levels(4) + 6 * empty),
        record(0x0A, head() + levels(10)),
        record(0xB1, head(b"M", depth=0) + levels(1)),
        record(0xC2, head(depth=0) + levels(1)),
        *(record(rtype, sample + levels(1)) for rtype in (0xC0, 0xC1, 0xC3, 0xC4)),
        *(
            record(rtype, struct.pack("<qqqqQ", 4, 9, 2, 5, 1 << 33 if rtype == 0x23 else 60))
            for rtype in (0x20, 0x21, 0x22, 0x23, 0x24)
        ),
        record(0x12, struct.pack("<QHHHccc7x", NOON, 7, 1, 2, b"Y", b"N", b"Y")),
        record(
            0x14,
            struct.pack(
                "<QqQqqqqqqIIIIccBBBcc1x", NOON, 4, 0, 0, 0, 0, 0, 0, 0, 55, 66, 0, 0, b"C", b"A", 0, 0, 0, b"N", b"~"
            ),
        ),
        record(0x18, statistic),
        record(0x17, struct.pack("<64s", b"hello") if version == 1 else struct.pack("<303sB", b"hello", 0)),
    ]


def metadata(version: int, mappings: dict[str, list[tuple[Any, Any, str]]], **changes: Any) -> bytes:
    """A file's metadata as the library writes it."""
    import databento_dbn as dbn

    options: dict[str, Any] = {
        "dataset": "GLBX.MDP3",
        "start": NOON,
        "stype_in": dbn.SType.RAW_SYMBOL,
        "stype_out": dbn.SType.INSTRUMENT_ID,
        "schema": None,
        "symbols": list(mappings),
        "partial": [],
        "not_found": [],
        "mappings": [
            SimpleNamespace(
                raw_symbol=name,
                intervals=[
                    SimpleNamespace(start_date=start, end_date=end, symbol=symbol) for start, end, symbol in intervals
                ],
            )
            for name, intervals in mappings.items()
        ],
        "version": version,
    }
    return bytes(dbn.Metadata(**(options | changes)).encode())


def by_library(data: bytes) -> list[Any]:
    """The records of a file, as the library has them."""
    import databento_dbn as dbn

    decoder = dbn.DBNDecoder()
    decoder.write(data)
    return [found for found in decoder.decode() if not isinstance(found, dbn.Metadata)]


def ticks_of(records: Iterable[Any], keys: dict[int, int], depth: int = 1) -> np.ndarray:
    """Ticks of the library's records, by the rules in the header of csrc/codec/dbn/dbn.h."""
    rows = [row for position, found in enumerate(records, 1) for row in _rows(found, position, keys, depth)]
    out = zeros(len(rows))
    for at, row in enumerate(rows):
        tick = out[at]
        for name, value in row.items():
            tick[name] = value
    return out


def _rows(found: Any, position: int, keys: dict[int, int], depth: int) -> list[dict[str, Any]]:  # noqa: PLR0911
    rtype = int(found.rtype)
    event, received = found.ts_event, getattr(found, "ts_recv", UNDEF_TIME)
    row: dict[str, Any] = {
        "ts_event": next((t for t in (event, received) if t != UNDEF_TIME), 0),
        "ts_recv": next((t for t in (received, event) if t != UNDEF_TIME), 0),
        "price": UNDEF_PRICE,
        "instrument_id": keys.get(found.instrument_id, 0),
        "sequence": getattr(found, "sequence", position),
        "publisher_id": int(found.publisher_id),
        "action": b"N",
        "side": b"N",
    }
    if rtype == 0xA0:
        action = str(found.action)
        kind = {"T": 2, "N": 0}.get(action, 1)
        return [
            row | _event(found) | {"order_id": found.order_id, "kind": kind},
        ]
    if rtype == 0x00:
        return [row | _event(found) | {"kind": 2, "depth": found.depth}]
    if rtype in (0x01, 0x0A, 0xB1, 0xC2):
        event_row = row | _event(found) | {"kind": 2, "depth": getattr(found, "depth", 0)}
        wanted = [
            (i, level)
            for i, level in enumerate(found.levels[: depth if rtype == 0x0A else 1])
            if i == 0 or level.bid_px != UNDEF_PRICE or level.ask_px != UNDEF_PRICE
        ]
        quotes = [event_row | _quote(level, i) for i, level in wanted]
        for inner in quotes[:-1]:
            inner["flags"] &= ~128  # the last level ends the event
        if str(found.action) == "T":
            quotes[-1]["flags"] |= 128  # the book before a trade is whole
        return quotes + [event_row] * (str(found.action) == "T")
    if rtype in (0xC0, 0xC1, 0xC3, 0xC4):
        return [row | _quote(found.levels[0], 0) | {"flags": int(found.flags) | 128}]
    if rtype == 0x12:
        flags = sum(
            bit * (letter is True)
            for bit, letter in ((1, found.is_trading), (2, found.is_quoting), (4, found.is_short_sell_restricted))
        )
        ref = int(found.action) | int(found.reason) << 16 | int(found.trading_event) << 32
        return [row | {"kind": 4, "flags": flags, "ref_id": ref}]
    if rtype == 0x14:
        more = {"price": found.ref_price, "size": found.paired_qty, "ref_id": found.total_imbalance_qty}
        flags = 0x80 | ord(str(found.auction_type))
        return [row | more | {"kind": 4, "side": str(found.side).encode(), "flags": flags}]
    if rtype == 0x18:
        size = 0 if found.quantity == (1 << 63) - 1 else found.quantity
        more = {"price": found.price, "kind": 4, "ref_id": int(found.stat_type)}
        return [row | more | {"size": size, "flags": 0x10}]
    if rtype in (0x20, 0x21, 0x22, 0x23, 0x24):
        end = event + {0x20: 1, 0x21: 60, 0x22: 3600}.get(rtype, 86_400) * 10**9
        bar = row | {"ts_recv": end, "action": b"T", "kind": 2}
        corners = [
            bar | {"price": price, "depth": i}
            for i, price in enumerate((found.open, found.high, found.low, found.close))
        ]
        corners[3] |= {"size": found.volume}
        return corners
    return []


def _event(found: Any) -> dict[str, Any]:
    return {
        "price": found.price,
        "size": found.size,
        "action": str(found.action).encode(),
        "side": str(found.side).encode(),
        "flags": int(found.flags),
    }


def _quote(level: Any, depth: int) -> dict[str, Any]:
    return {
        "price": level.bid_px, "order_id": level.ask_px & UNDEF_TIME, "size": level.bid_sz, "ref_id": level.ask_sz,
        "side": b"N", "depth": depth, "kind": 3,
    }  # fmt: skip
