"""IEX once more, slowly: written from its specifications with struct, sharing nothing with the C decoder.

Prices go in in units of 1e-4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pcap_reference as capture

from strand import TICK, UNDEF_PRICE
from strand.ticks import Ticks

TOPS_1_5, TOPS, DEEP, DEEP_PLUS = 0x8002, 0x8003, 0x8004, 0x8005
ORDER, TRADE, QUOTE, STATUS = 1, 2, 3, 4
SESSION = 1_150_681_088
MICRO = 1000

# What follows the type: flags or a letter, the time, the symbol (but for S), then these, as struct writes them.
BODIES = {
    "S": "", "D": "IqB", "H": "4s", "I": "", "O": "", "P": "c", "E": "", "Q": "IqqI", "8": "Iq", "5": "Iq",
    "T": "IqQ", "B": "IqQ", "X": "q", "A": "IqqIcBIqqqq", "a": "QIq", "M": "QIq", "R": "Q", "L": "QIqQ", "C": "",
}  # fmt: skip
HEADS = {letter: "<cBq" + ("" if letter == "S" else "8s") for letter in BODIES}
LENGTHS = {letter: struct.calcsize(HEADS[letter] + body) for letter, body in BODIES.items()}


def message(letter: str, value: int | str, ns: int, symbol: str = "", *fields: Any) -> bytes:
    value = ord(value) if isinstance(value, str) else value
    names = [] if letter == "S" else [symbol.ljust(8).encode()]
    head = struct.pack(HEADS[letter], letter.encode(), value, ns, *names)
    return head + struct.pack("<" + BODIES[letter], *fields)


def frame(body: bytes) -> bytes:
    return struct.pack("<H", len(body)) + body


def segment(
    sequence: int, bodies: Sequence[bytes], *, protocol: int = TOPS, session: int = SESSION, channel: int = 1,
    count: int | None = None, version: int = 1, length: int | None = None, sent: int = 18,
) -> bytes:  # fmt: skip
    """A packet of IEX-TP."""
    payload = b"".join(map(frame, bodies))
    count, length = len(bodies) if count is None else count, len(payload) if length is None else length
    head = (version, 0, protocol, channel, session, length, count, 17, sequence, sent)
    return struct.pack("<BBHIIHHqqq", *head) + payload


def datagram(payload: bytes, port: int = 10_378) -> bytes:
    return capture.ethernet(capture.ipv4(capture.udp(payload, port)))


@dataclass
class Decoded:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=lambda: [""])
    events: list[tuple[int, str]] = field(default_factory=list)
    messages: int = 0
    unknown: int = 0
    skipped: list[int] = field(default_factory=list)
    """Numbers of messages."""
    error: int | None = None
    """The number of the message that ends it."""

    @property
    def ticks(self) -> np.ndarray:
        return np.array(self.rows, TICK).view(Ticks)


def _price(value: int) -> int:
    nano = value * 100_000
    if not -(1 << 63) <= nano < 1 << 63:
        raise ValueError("no tick holds the price")
    return nano


def _quoted(price: int, size: int) -> tuple[int, int]:
    return (_price(price), size) if price and size else (UNDEF_PRICE, 0)


def _fields(letter: str, value: int, *rest: Any) -> dict[str, Any]:  # noqa: PLR0911
    match letter, *rest:
        case "Q", bid_size, bid, ask, ask_size:
            _price(bid), _price(ask)
            (price, size), (asked, wanted) = _quoted(bid, bid_size), _quoted(ask, ask_size)
            both = {"price": price, "size": size, "order_id": asked, "ref_id": wanted}
            return {**both, "kind": QUOTE, "action": b"M", "flags": value}
        case (("8" | "5"), size, price):
            side = b"B" if letter == "8" else b"A"
            level = {"kind": QUOTE, "action": b"M", "side": side, "flags": value & 1}
            return {**level, "size": size, "price": _price(price)}
        case "T", size, price, trade:
            traded = {"size": size, "price": _price(price), "ref_id": trade, "flags": value & 0xF8}
            return {**traded, "kind": TRADE, "action": b"T"}
        case "B", size, price, trade:
            return {"size": size, "price": _price(price), "ref_id": trade, "flags": 0x0A}
        case "a", order, size, price:
            if chr(value) not in "85":
                raise ValueError("no side")
            added = {"order_id": order, "size": size, "price": _price(price), "kind": ORDER, "action": b"A"}
            return {**added, "side": b"B" if chr(value) == "8" else b"A"}
        case "M", order, size, price:
            kept = value & 1
            changed = {"order_id": order, "size": size, "price": _price(price), "kind": ORDER, "action": b"M"}
            return {**changed, "flags": kept, "ref_id": 0 if kept else order}
        case "R", order:
            return {"order_id": order, "kind": ORDER, "action": b"C"}
        case "L", order, size, price, trade:
            filled = {"order_id": order, "size": size, "price": _price(price), "ref_id": trade, "kind": ORDER}
            return {**filled, "action": b"F", "flags": value & 0xF8}
        case ("C",):
            return {"kind": ORDER, "action": b"R"}
        case "A", paired, reference, indicative, imbalance, side, _, _, _, _, _, _:
            known = {"flags": 0x80 | value & 0x7F, "size": paired, "price": _price(reference), "ref_id": imbalance}
            return {
                **known, "order_id": _price(indicative) % (1 << 64), "side": {b"B": b"B", b"S": b"A"}.get(side, b"N"),
            }  # fmt: skip
        case "H", reason:
            return {"flags": value & 0x7F, "ref_id": int.from_bytes(reason, "big")}
        case ("O",):
            return {"flags": 1 if chr(value) == "O" else 2, "ref_id": value}
        case "P", detail:
            return {"flags": 3, "ref_id": ord("0") + value, "order_id": ord(detail)}
        case ("I",):
            return {"flags": 7, "ref_id": value, "side": {"A": b"B", "B": b"A"}.get(chr(value), b"N")}
        case "X", price:
            return {"flags": 0x0C, "ref_id": value, "price": _price(price)}
        case ("E",):
            return {"flags": 0x0D, "ref_id": value}
        case "D", lot, close, tier:
            return {"flags": 0x0E, "ref_id": value, "size": lot, "price": _price(close), "order_id": tier}
    raise AssertionError(letter)


def decode(bodies: Iterable[bytes], *, first: int = 1, skip: bool = False, ns: int | None = None) -> Decoded:
    """Ticks of messages from number ``first`` on; ``ns``: their capture time, None: each one's own time."""
    decoded = Decoded()
    for number, body in enumerate(bodies, first):
        letter = chr(body[0]) if body else ""
        if body and letter not in BODIES:
            decoded.unknown += 1
            continue
        try:
            if not body or len(body) < LENGTHS[letter]:
                raise ValueError("short")
            _, value, at, *rest = struct.unpack_from(HEADS[letter] + BODIES[letter], body)
            if letter == "S":
                decoded.events.append((at, chr(value)))
                continue
            name = rest.pop(0).decode("ascii")
            if not name.isprintable() or name.startswith(" "):
                raise ValueError("no name")
            known = _fields(letter, value, *rest)
        except ValueError:
            decoded.skipped.append(number)
            if skip:
                continue
            decoded.error = number
            break
        name = name.rstrip(" ")
        if name not in decoded.names:
            decoded.names.append(name)
        tick = np.zeros((), TICK).view(Ticks)
        given = {"price": UNDEF_PRICE, "action": b"N", "side": b"N", "kind": STATUS, **known}
        for key, content in given.items():
            tick[key] = content
        tick["ts_event"], tick["ts_recv"], tick["sequence"] = at, at if ns is None else ns, number
        tick["instrument_id"] = decoded.names.index(name)
        decoded.rows.append(tuple(tick.item()))
        decoded.messages += 1
    return decoded


OPEN = 1_580_394_600 * 10**9


def every_type(letters: Iterable[str] = BODIES) -> list[bytes]:
    """Messages of these types, with their least and greatest values among them."""
    auction = (400, 991_000, 990_500, 7, b"S", 1, 1_580_418_000, 990_700, 990_000, 900_000, 1_080_000)
    given = {
        "S": [("O", OPEN), ("S", OPEN + 1)],
        "D": [(0x80, OPEN, "ZIEXT", 100, 990_500, 1), (0xE0, OPEN, "ABCDEFGH", 0xFFFFFFFF, 0, 2)],
        "H": [("T", OPEN, "ZIEXT", b"    "), ("H", OPEN, "AAPL", b"T1  "), ("O", OPEN, "AAPL", b"IPO2")],
        "I": [("A", OPEN, "AAPL"), ("B", OPEN, "AAPL"), ("C", OPEN, "MSFT"), (" ", OPEN, "MSFT")],
        "O": [("O", OPEN, "AAPL"), ("N", OPEN, "AAPL")],
        "P": [(1, OPEN, "AAPL", b"A"), (0, OPEN, "AAPL", b" ")],
        "E": [("O", OPEN, "AAPL"), ("C", OPEN, "BRK.A")],
        "Q": [
            (0, OPEN + 2, "AAPL", 100, 990_500, 990_600, 200), (0x40, OPEN + 3, "AAPL", 0, 0, 990_600, 200),
            (0xC0, OPEN + 4, "MSFT", 0, 0, 0, 0), (0, OPEN + 5, "MSFT", 0xFFFFFFFF, 1, 1 << 40, 1),
        ],
        "8": [(0, OPEN + 6, "AAPL", 300, 990_400), (1, OPEN + 6, "AAPL", 0, 990_500)],
        "5": [(1, OPEN + 7, "AAPL", 300, 990_700), (1, OPEN + 8, "AAPL", 0xFFFFFFFF, 990_800)],
        "T": [(0xF8, OPEN + 9, "AAPL", 100, 990_550, 1), (0x20, OPEN + 9, "MSFT", 7, 1, (1 << 64) - 1)],
        "B": [(0x20, OPEN + 10, "MSFT", 7, 1, 429_974)],
        "X": [("Q", OPEN + 11, "ZIEXT", 990_500), ("M", OPEN + 12, "ZIEXT", 0)],
        "A": [("O", OPEN + 13, "ZIEXT", *auction), ("V", OPEN + 13, "ZIEXT", 0, 0, 0, 0, b"N", *(0,) * 6)],
        "a": [("8", OPEN + 14, "AAPL", 1, 100, 990_500), ("5", OPEN + 14, "AAPL", 27_866_022_694_354_954, 5, 990_900)],
        "M": [(1, OPEN + 15, "AAPL", 1, 90, 990_500), (0, OPEN + 15, "AAPL", 1, 80, 990_500)],
        "L": [(0xE8, OPEN + 16, "AAPL", 1, 30, 990_550, 167_830)],
        "R": [(0, OPEN + 17, "AAPL", 1)],
        "C": [(0, OPEN + 18, "AAPL")],
    }  # fmt: skip
    return [message(letter, *fields) for letter in letters for fields in given[letter]]


#: The types of each protocol.
TYPES = {TOPS_1_5: "SDHOPQTB", TOPS: "SDHIOPQTXBA", DEEP: "SDHIOPE85TXBA", DEEP_PLUS: "SDHIOPEaMRLTBC"}


def packets(bodies: Sequence[bytes], size: int = 3, *, first: int = 1, **options: Any) -> list[tuple[int, bytes]]:
    """Capture times and frames of packets of up to ``size`` messages, with a heartbeat before them."""
    beat = [(OPEN, datagram(segment(first, [], **options)))]
    return beat + [
        (OPEN + (at + 1) * MICRO, datagram(segment(first + at, bodies[at : at + size], **options)))
        for at in range(0, len(bodies), size)
    ]


def captured(bodies: Sequence[bytes], size: int = 3, *, skip: bool = False) -> Decoded:
    """The ticks of the messages of ``packets``."""
    decoded = decode(bodies, skip=skip)
    recv, sequence = list(TICK.names or ()).index("ts_recv"), list(TICK.names or ()).index("sequence_low")
    for at, row in enumerate(decoded.rows):
        first = (row[sequence] - 1) // size * size
        decoded.rows[at] = (*row[:recv], OPEN + (first + 1) * MICRO, *row[recv + 1 :])
    return decoded
