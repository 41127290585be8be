"""ITCH 5.0 once more, slowly: written from the specification with struct, sharing nothing with the C decoder."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tick_rows import tick_row

from strand import TICK, UNDEF_PRICE
from strand.ticks import Ticks

# What follows type, locate, tracking number and time.
BODIES = {
    "S": "c", "R": "8sccIcc2scccccIc", "H": "8scc4s", "Y": "8sc", "L": "4s8sccc", "V": "QQQ", "W": "c", "K": "8sIcI",
    "J": "8sIIII", "h": "8scc", "A": "QcI8sI", "F": "QcI8sI4s", "E": "QIQ", "C": "QIQcI", "X": "QI", "D": "Q",
    "U": "QQII", "P": "QcI8sIQ", "Q": "Q8sIQc", "B": "Q", "I": "QQc8sIIIcc", "N": "8sc", "O": "8scIIIQII",
}  # fmt: skip
STRUCTS = {letter: struct.Struct(">cHH6s" + body) for letter, body in BODIES.items()}
DAY_NS = 86_400 * 10**9
SYNC_FRAMES = 4
NON_PRINTABLE, ATTRIBUTED, CROSS, IMBALANCE = 1, 2, 4, 0x80
CROSSES = {b"O": 0x10, b"C": 0x20, b"H": 0x30, b"I": 0x40}
ORDER, TRADE, STATUS = 1, 2, 4


def message(letter: str, locate: int, ns: int, *fields: Any, tracking: int = 0) -> bytes:
    return STRUCTS[letter].pack(letter.encode(), locate, tracking, ns.to_bytes(6, "big"), *fields)


def frame(body: bytes, length: int | None = None) -> bytes:
    return (len(body) if length is None else length).to_bytes(2, "big") + body


def directory(locate: int, name: bytes) -> bytes:
    rest = (b"N", b"N", 100, b"N", b"A", b"Z ", b"P", b"N", b"N", b"2", b"N", 0, b"N")
    return message("R", locate, 1, name.ljust(8), *rest)


def deletes(count: int, locate: int = 1) -> bytes:
    """A stream of messages whose order ids count up, which their order can be told by."""
    return b"".join(frame(message("D", locate, i, i)) for i in range(count))


@dataclass
class Decoded:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    messages: int = 0
    skipped: int = 0
    searched: int = 0
    """Bytes passed over because the frames were out of step."""
    error: str | None = None
    """"truncated", "format" or None."""
    offset: int = 0
    """Of the frame in error, else the bytes read."""

    @property
    def ticks(self) -> np.ndarray:
        return np.array(self.rows, TICK).view(Ticks)


def _side(letter: bytes) -> bytes:
    return {b"B": b"B", b"S": b"A"}[letter]


def _shares(shares: int) -> int:
    if shares >= 1 << 63:
        raise KeyError("no size holds it")
    return shares


def _tick(letter: str, fields: tuple[Any, ...]) -> dict[str, Any] | None:  # noqa: PLR0911
    match letter, *fields:
        case "A", order, side, shares, _, price:
            return {"order_id": order, "price": price * 100_000, "size": shares, "action": b"A", "side": _side(side)}
        case "F", order, side, shares, stock, price, _:
            return {**(_tick("A", (order, side, shares, stock, price)) or {}), "flags": ATTRIBUTED}
        case "E", order, shares, match:
            return {"order_id": order, "size": shares, "ref_id": match, "action": b"F"}
        case "C", order, shares, match, printable, price:
            flags = NON_PRINTABLE if printable == b"N" else 0
            executed = {"order_id": order, "size": shares, "ref_id": match, "action": b"F"}
            return {**executed, "price": price * 100_000, "flags": flags}
        case "X", order, 0:
            return {"order_id": order, "action": b"N"}
        case "X", order, shares:
            return {"order_id": order, "size": shares, "action": b"C"}
        case "D", order:
            return {"order_id": order, "action": b"C"}
        case "U", old, new, shares, price:
            return {"order_id": old, "ref_id": new, "size": shares, "price": price * 100_000, "action": b"M"}
        case "P", order, side, shares, _, price, match:
            traded = {"order_id": order, "side": _side(side), "size": shares, "ref_id": match, "kind": TRADE}
            return {**traded, "price": price * 100_000, "action": b"T"}
        case "Q", shares, _, price, match, cross:
            flags = CROSS | CROSSES.get(cross, 0)
            crossed = {"size": _shares(shares), "flags": flags, "ref_id": match, "kind": TRADE}
            return {**crossed, "price": price * 100_000, "action": b"T"}
        case "H", _, state, _, reason:
            halt = {"flags": state[0] & 0x7F, "ref_id": int.from_bytes(reason, "big")}
            return {**halt, "action": b"N", "kind": STATUS}
        case "I", paired, imbalance, direction, _, _, _, reference, cross, _:
            side = {b"B": b"B", b"S": b"A"}.get(direction, b"N")
            flags = IMBALANCE | cross[0] & 0x7F
            status = {"size": _shares(paired), "side": side, "flags": flags, "ref_id": imbalance, "kind": STATUS}
            return {**status, "price": reference * 100_000, "action": b"N"}
        case "B", match:
            return _status(0x0A, ref_id=match)
        case "J", _, reference, upper, lower, extension:
            collar = _status(6, price=reference * 100_000, ref_id=upper * 100_000, order_id=lower * 100_000)
            return {**collar, "size": extension}
        case "K", _, second, qualifier, price:
            return _status(4 if qualifier == b"A" else 5, ref_id=second, price=price * 100_000)
        case "Y", _, action:
            return _status(3, ref_id=action[0])
        case "h", _, market, action:
            return _status(1 if action == b"H" else 2, ref_id=market[0] << 8 | action[0])
        case "N", _, interest:
            return _status(7, ref_id=interest[0], side={b"B": b"B", b"S": b"A"}.get(interest, b"N"))
        case "O", _, eligible, _, _, near, _, lower, upper:
            listing = _status(9 if eligible == b"Y" else 8, price=near * 100_000)
            return {**listing, "order_id": lower * 100_000, "ref_id": upper * 100_000}
    return None


def _status(flags: int, **fields: Any) -> dict[str, Any]:
    return {"flags": flags, "action": b"N", "kind": STATUS, **fields}


def _frame_at(data: bytes, at: int, names: dict[int, str], true_lengths: bool) -> int | None:
    """Offset of the end of the frame that may start there; None where none does."""
    layout = STRUCTS.get(chr(data[at + 2])) if at + 3 <= len(data) else None
    if layout is None or at + 2 + layout.size > len(data):
        return None
    length = int.from_bytes(data[at : at + 2], "big")
    if length != layout.size and (length != 0 or true_lengths):
        return None
    letter, locate, _, time = layout.unpack_from(data, at + 2)[:4]
    if int.from_bytes(time, "big") >= DAY_NS:
        return None
    if names and letter not in (b"S", b"V", b"W", b"R") and locate not in names:
        return None
    return at + 2 + layout.size


def _in_step(data: bytes, at: int, names: dict[int, str], true_lengths: bool) -> bool:
    for i in range(SYNC_FRAMES):
        if at == len(data) and i:
            return True
        end = _frame_at(data, at, names, true_lengths)
        if end is None:
            return False
        at = end
    return True


def _name(decoded: Decoded, locate: int, name: bytes) -> None:
    if name[0] == 0x20 or any(not 0x20 <= byte <= 0x7E for byte in name):
        raise KeyError(name)
    text = name.decode().rstrip()
    if decoded.names.setdefault(locate, text) != text:
        raise KeyError(name)


def _clears(decoded: Decoded, ns: int) -> list[Any]:
    """A new day: a record for each locate that has a name."""
    blank = {"order_id": 0, "price": UNDEF_PRICE, "size": 0, "ref_id": 0, "side": b"N", "flags": 0, "action": b"R"}
    row = {**blank, "publisher_id": 0, "depth": 0, "kind": STATUS, "ts_event": ns, "ts_recv": ns}
    named = sorted(locate for locate in decoded.names if locate)
    return [tick_row(row | {"instrument_id": locate, "sequence": decoded.messages}) for locate in named]


def decode(data: bytes, midnight_ns: int = 0, *, skip: bool = False) -> Decoded:
    decoded = Decoded()
    at, true_lengths, cleared = 0, False, 0
    while at < len(data):
        decoded.offset = at
        length = int.from_bytes(data[at : at + 2], "big")
        if len(data) - at == 2 and length == 0 and true_lengths:
            at += 2
            break
        fault = None
        letter = chr(data[at + 2]) if len(data) - at > 2 else ""
        layout = STRUCTS.get(letter)
        size = layout.size if layout else length
        if not letter:
            fault = "truncated"
        elif length > 256 or length not in (0, size) or (layout is None and (length == 0 or not skip)):
            fault = "format"
        elif len(data) - at - 2 < size:
            fault = "truncated"
        if fault is not None:
            if not skip:
                decoded.error = fault
                return decoded
            decoded.messages += 1
            decoded.skipped += 1
            start = at
            at += 1
            while at < len(data) and not _in_step(data, at, decoded.names, true_lengths):
                at += 1
            decoded.searched += at - start
            continue
        decoded.messages += 1
        try:
            if layout is None:
                raise KeyError(letter)
            _, locate, _, time, *fields = layout.unpack_from(data, at + 2)
            if letter == "R":
                _name(decoded, locate, fields[0])
            tick = _tick(letter, tuple(fields))
            since = decoded.messages - 1 - cleared
            if letter == "S" and fields[0] == b"O" and 0 < len(decoded.names) <= since:
                cleared = decoded.messages
                decoded.rows += _clears(decoded, midnight_ns + int.from_bytes(time, "big"))
        except KeyError:
            if not skip:
                decoded.messages -= 1
                decoded.error = "format"
                return decoded
            decoded.skipped += 1
        else:
            if tick is not None:
                ns = midnight_ns + int.from_bytes(time, "big")
                blank = {"order_id": 0, "price": UNDEF_PRICE, "size": 0, "ref_id": 0, "side": b"N", "flags": 0}
                row = {**blank, "publisher_id": 0, "depth": 0, "kind": ORDER, **tick}
                row |= {"ts_event": ns, "ts_recv": ns, "instrument_id": locate, "sequence": decoded.messages}
                decoded.rows.append(tick_row(row))
        true_lengths |= length != 0
        at += 2 + size
    decoded.offset = at
    return decoded


def every_type() -> list[bytes]:
    """One or more messages of each type, every field unlike its neighbours."""
    ns = 34_200_000_000_123
    return [
        message("S", 0, ns, b"O"),
        directory(7, b"AAPL"),
        directory(13, b"BRK.A"),
        message("H", 7, ns, b"AAPL    ", b"T", b" ", b"IPO1"),
        message("Y", 7, ns, b"AAPL    ", b"0"),
        message("L", 7, ns, b"MMKR", b"AAPL    ", b"Y", b"N", b"A"),
        message("V", 0, ns, 1, 2, 3),
        message("W", 0, ns, b"1"),
        message("K", 7, ns, b"AAPL    ", 36_000, b"A", 123_400),
        message("J", 7, ns, b"AAPL    ", 1, 2, 3, 4),
        message("h", 7, ns, b"AAPL    ", b"Q", b"H"),
        message("h", 7, ns, b"AAPL    ", b"B", b"T"),
        message("K", 7, ns, b"AAPL    ", 36_001, b"C", 0),
        message("A", 7, ns + 1, 0x0102030405060708, b"B", 0x11121314, b"AAPL    ", 0x21222324),
        message("A", 13, ns + 2, 2, b"S", 200, b"BRK.A   ", 0xFFFFFFFF),
        message("F", 7, ns + 3, 3, b"S", 300, b"AAPL    ", 1_500_100, b"NSDQ"),
        message("E", 7, ns + 4, 4, 400, 0x3132333435363738),
        message("C", 7, ns + 5, 5, 500, 55, b"N", 1_500_200),
        message("C", 7, ns + 6, 5, 501, 56, b"Y", 1_500_300),
        message("X", 7, ns + 7, 6, 600),
        message("D", 7, ns + 8, 7),
        message("U", 7, ns + 9, 8, 88, 800, 1_500_400),
        message("P", 7, ns + 10, 0, b"B", 900, b"AAPL    ", 1_500_500, 99),
        message("P", 7, ns + 11, 0, b"S", 901, b"AAPL    ", 1_500_600, 100),
        message("Q", 7, ns + 12, 1_000, b"AAPL    ", 1_500_700, 111, b"O"),
        message("Q", 7, ns + 13, 1 << 32, b"AAPL    ", 1_500_800, 112, b"C"),
        message("Q", 7, ns + 14, (1 << 32) - 1, b"AAPL    ", 0, 113, b"H"),
        message("B", 7, ns + 15, 111),
        message("I", 7, ns + 16, 10, 20, b"S", b"AAPL    ", 1, 2, 1_500_900, b"O", b"L"),
        message("I", 7, ns + 17, 1 << 40, 21, b"O", b"AAPL    ", 1, 2, 3, b"C", b"L"),
        message("N", 7, ns + 18, b"AAPL    ", b"B"),
        message("N", 7, ns + 18, b"AAPL    ", b"A"),
        message("O", 7, ns + 19, b"AAPL    ", b"N", 6, 5, 4, 3, 2, 1),
        message("O", 7, ns + 19, b"AAPL    ", b"Y", 1, 2, 3, 4, 5, 6),
        message("S", 0, (1 << 48) - 1, b"C"),
    ]
