"""Sierra Chart's intraday data, written and read by struct alone: nothing here is Strand's."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

HEADER = 56
ENTRY = struct.Struct("<qffffIIII")
#: Values of open for a single trade, and for the first and the last part of one.
SINGLE, FIRST, LAST = 0.0, -1.99900095e37, -1.99900197e37
START = dt.datetime(1899, 12, 30, tzinfo=dt.UTC)
NOON = dt.datetime(2020, 1, 30, 12, tzinfo=dt.UTC)

#: us since 1899-12-30, open, high (ask), low (bid), close, trades, volume, volume at the bid, at the ask.
Record = tuple[int, float, float, float, float, int, int, int, int]


def header(size: int = HEADER, record: int = 40, version: int = 1) -> bytes:
    return struct.pack("<4sIIHHI", b"SCID", size, record, version, 0, 0).ljust(size, b"\0")


def file(records: Iterable[Record], **head: int) -> bytes:
    return header(**head) + b"".join(ENTRY.pack(*record) for record in records)


def at(moment: dt.datetime, micros: int = 0) -> int:
    return (moment - START) // dt.timedelta(microseconds=1) + micros


def trade(us: int, bid: float, ask: float, price: float, *, volume: int, at_ask: bool, kind: float = SINGLE) -> Record:
    return us, kind, ask, bid, price, 1, volume, 0 if at_ask else volume, volume if at_ask else 0


def some(seed: int, count: int = 20) -> list[Record]:
    """Made-up trades of a future, a quarter a step; some come in parts."""
    rng, us, made = random.Random(seed), at(NOON), []
    for number in range(count):
        us += rng.choice([0, 1, 250_000])
        bid, at_ask = 3300 + rng.randint(-40, 40) / 4, rng.random() < 0.5
        kind = {0: FIRST, 1: SINGLE, 2: LAST}.get(number % 9, SINGLE)
        made.append(
            trade(us, bid, bid + 0.25, bid + 0.25 * at_ask, volume=rng.randint(1, 60), at_ask=at_ask, kind=kind)
        )
    return made


def read(data: bytes) -> list[dict[str, Any]]:
    """The quote and the trade of each record: ns since 1970, prices in 1e-9."""

    def units(price: float) -> int:
        return int(Decimal(f"{price:.7g}") * 10**9)

    ticks: list[dict[str, Any]] = []
    for us, kind, ask, bid, price, _, volume, at_bid, at_ask in ENTRY.iter_unpack(data[HEADER:]):
        ns = (
            (START + dt.timedelta(microseconds=us) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(0, 0, 1)
        ) * 1000
        if kind <= 0:
            ticks.append({"ts_event": ns, "action": b"N", "bid_price": units(bid), "ask_price": units(ask)})
        side = b"B" if at_ask and not at_bid else b"A" if at_bid and not at_ask else b"N"
        part = 1 if kind == struct.unpack("<f", struct.pack("<f", FIRST))[0] else 0
        part |= 2 if kind == struct.unpack("<f", struct.pack("<f", LAST))[0] else 0
        ticks.append(
            {"ts_event": ns, "action": b"T", "price": units(price), "size": volume, "side": side, "flags": part}
        )
    return ticks
