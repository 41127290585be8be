"""MoldUDP64 packets, written from the specification with struct."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from itch_reference import frame

SESSION = b"SESSION001"
END = 0xFFFF


def packet(sequence: int, bodies: Sequence[bytes], *, session: bytes = SESSION, count: int | None = None) -> bytes:
    """``count``: what the header says, when that is not how many bodies there are."""
    header = struct.pack(">10sQH", session.ljust(10), sequence, len(bodies) if count is None else count)
    return header + b"".join(map(frame, bodies))


def heartbeat(sequence: int, *, session: bytes = SESSION) -> bytes:
    return packet(sequence, [], session=session)


def end_of_session(sequence: int, *, session: bytes = SESSION) -> bytes:
    return packet(sequence, [], session=session, count=END)


def blocks(data: bytes) -> list[bytes]:
    """The bodies in a row of blocks."""
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at)
        found.append(data[at + 2 : at + 2 + length])
        at += 2 + length
    return found
