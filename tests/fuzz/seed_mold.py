"""The seeds of fuzz_mold.c: streams with losses, overlaps, leaps, ends and raw packets."""

from __future__ import annotations

from collections.abc import Iterator

from mold_wire import end_of_session, heartbeat, packet

TICK, RAW, LEAP, SEND, SEND_AHEAD, SEND_LONG, SEND_BACK = range(7)
ANY, FROM_FIRST, LIMITED, STOP, HIGH = 0x08, 0x09, 0x0A, 0x0C, 0x18


def operation(line: int, what: int, a: int = 0, b: int = 0, variant: int = 0) -> bytes:
    """The line is the first byte's remainder by 3, which the variant's bits are chosen to leave as wanted."""
    for low in range(4):
        kind = variant << 5 | what << 2 | low
        if kind % 3 == line:
            return bytes([kind, a, b])
    raise AssertionError


def raw(line: int, data: bytes) -> bytes:
    return operation(line, RAW, len(data) & 255, len(data) >> 8) + data


def seeds() -> Iterator[tuple[str, bytes]]:
    both = [operation(line, SEND, 0, 20) for line in (0, 1) for _ in range(5)]
    ahead = [operation(0, SEND, 0, 8), operation(1, SEND_AHEAD, 9, 8), operation(2, SEND_BACK, 8, 16)]
    ticks = [operation(0, TICK, 200)]
    leaps = [operation(0, LEAP, 3, 20), operation(0, SEND, 0, 8), operation(0, LEAP, 255, 31)]
    raws = [raw(0, packet(1, [b"ab", b"cd"])), raw(1, heartbeat(9)), raw(0, end_of_session(9)), raw(1, b"\0" * 30)]
    ended = [operation(0, SEND, 0, 6, 2), operation(1, SEND, 0, 6, 1)]
    many = [operation(0, SEND_AHEAD, at, 2) for at in range(2, 80)]
    streams = {
        "both": both, "ahead": ahead + ticks, "leaps": both + leaps + both + ticks, "raw": raws, "ended": both + ended,
        "many": many + both + ticks, "all": both + ahead + leaps + raws + many + ticks + ended,
    }  # fmt: skip
    for name, operations in streams.items():
        for options in (ANY, FROM_FIRST, LIMITED, STOP, HIGH):
            yield f"{name}-{options:02x}", bytes([options, 3, 50, 90]) + b"".join(operations)
