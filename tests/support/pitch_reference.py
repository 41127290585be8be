"""PITCH once more, slowly: written from the specification with slices and int(), sharing nothing with the C decoder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tick_rows import tick_row

from strand import TICK, UNDEF_PRICE
from strand.ticks import Ticks

ORDER, TRADE, STATUS = 1, 2, 4
NON_DISPLAYED, ATTRIBUTED, RETAIL, BROKEN, SUMMARY, AUCTION = 1, 2, 7, 0x0A, 0x0B, 0x80
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# What follows the time and the type: n decimal, i base 36, c any letter, b side, t name.
BODIES = {
    "s": "t8", "A": "i12 b1 n6 t6 n10 c1", "d": "i12 b1 n6 t8 n10 c1 c4", "E": "i12 n6 i12", "X": "i12 n6",
    "P": "i12 b1 n6 t6 n10 i12", "r": "i12 b1 n6 t8 n10 i12", "B": "i12", "H": "t8 c1 c1 c2",
    "I": "t8 c1 n10 n10 n10 n10 n10", "J": "t8 c1 n10 n10", "R": "t8 c1",
}  # fmt: skip
PATTERNS = {
    "n": "[0-9]{%s}", "i": "[0-9A-Z]{%s}", "c": r"[\s\S]{%s}", "b": "[BS]{%s}", "t": "(?! )[ -~]{%s}",
}  # fmt: skip
LINES = {
    letter: re.compile("".join(f"({PATTERNS[code[0]] % code[1:]})" for code in ("n8", *body.split())))
    for letter, body in BODIES.items()
}
LENGTHS = {letter: 9 + sum(int(code[1:]) for code in body.split()) for letter, body in BODIES.items()}


def base36(value: int) -> str:
    text = ""
    while value:
        value, digit = divmod(value, 36)
        text = DIGITS[digit] + text
    return text.rjust(12, "0")


def message(letter: str, ms: int, *fields: Any) -> bytes:
    """Numbers go in as numbers (prices in units of 1e-4), text as text."""
    text = f"{ms:08}{letter}"
    for code, value in zip(BODIES[letter].split(), fields, strict=True):
        width = int(code[1:])
        match code[0]:
            case "n":
                text += f"{value:0{width}}"
            case "i":
                text += base36(value)
            case _:
                text += value.ljust(width)
    return text.encode("ascii")


@dataclass
class Decoded:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=lambda: [""])
    messages: int = 0
    unknown_orders: int = 0
    skipped: list[int] = field(default_factory=list)
    """Lines, from 1."""
    error: str | None = None
    """"truncated", "format" or None."""
    line: int = 0
    offset: int = 0

    @property
    def ticks(self) -> np.ndarray:
        return np.array(self.rows, TICK).view(Ticks)


def _fields(letter: str, values: list[Any]) -> dict[str, Any]:  # noqa: PLR0911
    match letter, *values:
        case (("A" | "d"), order, side, shares, _, price, display, *participant):
            flags = NON_DISPLAYED if display != "Y" else 0
            flags |= ATTRIBUTED if participant and participant[0][0] != " " else 0
            added = {"order_id": order, "size": shares, "price": price * 100_000, "flags": flags}
            return {**added, "action": b"A", "kind": ORDER, "side": b"B" if side == "B" else b"A"}
        case (("P" | "r"), order, side, shares, _, price, execution):
            traded = {"order_id": order, "size": shares, "price": price * 100_000, "ref_id": execution}
            return {**traded, "action": b"T", "kind": TRADE, "side": b"B" if side == "B" else b"A"}
        case "E", order, shares, execution:
            return {"order_id": order, "size": shares, "ref_id": execution, "action": b"F", "kind": ORDER}
        case "X", order, 0:
            return {"order_id": order, "action": b"N", "kind": ORDER}
        case "X", order, shares:
            return {"order_id": order, "size": shares, "action": b"C", "kind": ORDER}
        case "s", _:
            return {"action": b"R", "kind": ORDER}
        case "B", execution:
            return {"flags": BROKEN, "ref_id": execution}
        case "H", _, halt, sho, _:
            return {"flags": ord(halt) & 0x7F, "ref_id": ord(sho)}
        case "I", _, kind, reference, buy, sell, indicative, _:
            auction = {"flags": AUCTION | ord(kind) & 0x7F, "price": reference * 100_000, "ref_id": sell}
            return {**auction, "size": buy, "order_id": indicative * 100_000}
        case "J", _, kind, price, shares:
            summary = {"flags": SUMMARY, "ref_id": ord(kind), "price": price * 100_000}
            return {**summary, "size": shares}
        case "R", _, interest:
            side = {"B": b"B", "S": b"A"}.get(interest, b"N")
            return {"flags": RETAIL, "ref_id": ord(interest), "side": side}
    raise AssertionError(letter)


def _parse(letter: str, text: str) -> list[Any] | None:
    found = LINES[letter].fullmatch(text[:8] + text[9:])
    if found is None or int(found[1]) >= 86_400_000:
        return None
    readers = {"n": int, "i": lambda digits: int(digits, 36)}
    codes = ["n8", *BODIES[letter].split()]
    return [readers.get(code[0], str)(value) for code, value in zip(codes, found.groups(), strict=True)]


def decode(data: bytes, midnight_ns: int = 0, *, skip: bool = False) -> Decoded:
    decoded = Decoded()
    orders: dict[int, tuple[int, int]] = {}
    for number, whole in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", data), 1):
        text = whole.removesuffix(b"\n")
        last = text == whole
        text = text.removesuffix(b"\r") if len(text) < 256 else text
        body = text.removeprefix(b"S").decode("latin-1")
        letter = body[8:9]
        values = None
        error = "format"
        if text in (b"", b"H", b"Z"):
            decoded.offset += len(whole)
            continue
        if len(whole) - (not last) < 256:
            if letter in LENGTHS and len(body) == LENGTHS[letter]:
                values = _parse(letter, body)
            elif last and len(body) < LENGTHS.get(letter, 9):
                error = "truncated"
        if values is None:
            decoded.line = number
            if not skip:
                decoded.error = error
                return decoded
            decoded.skipped.append(number)
            decoded.offset += len(whole)
            continue
        ms, *values = values
        decoded.messages += 1
        blank = {"order_id": 0, "price": UNDEF_PRICE, "size": 0, "ref_id": 0, "side": b"N", "flags": 0, "kind": STATUS}
        row = {**blank, "action": b"N", "publisher_id": 0, "depth": 0, **_fields(letter, values)}
        row["instrument_id"] = 0
        names = [value for code, value in zip(BODIES[letter].split(), values, strict=True) if code[0] == "t"]
        if names:
            name = names[0].rstrip(" ")
            if name not in decoded.names:
                decoded.names.append(name)
            row["instrument_id"] = decoded.names.index(name)
        if letter in "Ad" and row["size"]:
            orders[row["order_id"]] = (row["instrument_id"], row["size"])
        if letter in "EX":
            index, left = orders.pop(row["order_id"], (0, 0))
            row["instrument_id"] = index
            decoded.unknown_orders += index == 0
            if left > row["size"]:
                orders[row["order_id"]] = (index, left - row["size"])
        row["ts_event"] = row["ts_recv"] = midnight_ns + ms * 1_000_000
        row["sequence"] = number
        decoded.rows.append(tick_row(row))
        decoded.offset += len(whole)
    return decoded


def every_type() -> list[bytes]:
    """One or more messages of each type, every field unlike its neighbours."""
    ms = 34_200_123
    return [
        message("s", ms, "ZVZZT"),
        message("H", ms, "AAPL", "T", "0", ""),
        message("H", ms, "BRK.A", "H", "1", ""),
        message("I", ms, "AAPL", "O", 1_500_100, 12_345, 67_890, 1_500_200, 1_500_300),
        message("I", ms, "AAPL", "C", 1, 9_999_999_999, 9_999_999_998, 2, 3),
        message("A", ms + 1, 0x1234567, "B", 100, "AAPL", 1_500_000, "Y"),
        message("A", ms + 2, 36**12 - 1, "S", 999_999, "MSFT", 9_999_999_999, "N"),
        message("d", ms + 3, 77, "S", 300, "BRK.A", 1, "Y", "ATTR"),
        message("d", ms + 4, 78, "B", 300, "ABCDEFGH", 2, "Y", ""),
        message("E", ms + 5, 0x1234567, 40, 901),
        message("X", ms + 6, 0x1234567, 10),
        message("E", ms + 7, 0x1234567, 50, 902),
        message("X", ms + 8, 0x1234567, 1),
        message("E", ms + 9, 36**12 - 1, 999_999, 903),
        message("P", ms + 10, 5, "B", 600, "AAPL", 1_500_400, 904),
        message("r", ms + 11, 6, "S", 700, "ABCDEFGH", 1_500_500, 905),
        message("B", ms + 12, 904),
        message("J", ms + 13, "AAPL", "O", 1_500_600, 70_000),
        message("R", ms + 14, "AAPL", "A"),
        message("R", ms + 15, "MSFT", "B"),
        message("R", ms + 16, "MSFT", "S"),
        message("X", ms + 17, 77, 300),
        message("s", 86_399_999, "AAPL"),
    ]
