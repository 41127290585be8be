"""Captures of MoldUDP64: written, and read once more, slowly, sharing nothing with the C decoder."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import itch_reference as itch
import mold_wire
import numpy as np

from strand import TICK
from strand.ticks import Ticks

SESSION = b"000000001A"
PORT = 26477


mold = partial(mold_wire.packet, session=SESSION)


def udp(payload: bytes, port: int = PORT) -> bytes:
    return struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload


def ipv4(datagram: bytes, *, protocol: int = 17, fragment: int = 0x4000, options: bytes = b"") -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, words * 4 + len(datagram), 1, fragment, 64, protocol, 0)
    return head + bytes([10, 0, 0, 1, 233, 54, 12, 111]) + options + datagram


def ipv6(datagram: bytes, *, extensions: Sequence[int] = ()) -> bytes:
    chain = [*extensions, 17]
    body = b"".join(struct.pack(">BB6x8x", follower, 1) for follower in chain[1:]) + datagram
    return struct.pack(">IHBB", 6 << 28, len(body), chain[0], 64) + bytes(32) + body


def ethernet(network: bytes, *, tags: Sequence[int] = (), trailer: bytes = b"") -> bytes:
    kind = 0x86DD if network[0] >> 4 == 6 else 0x0800
    vlan = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return bytes(12) + vlan + struct.pack(">H", kind) + network + trailer


def cooked(network: bytes) -> bytes:
    return bytes(14) + struct.pack(">H", 0x86DD if network[0] >> 4 == 6 else 0x0800) + network


Packets = Iterable[tuple[int, bytes]]
"""Capture times in ns, and frames."""


def pcap(packets: Packets, *, order: str = "<", nanoseconds: bool = True, link: int = 1, snap: int = 1 << 18) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for ns, packet in packets:
        fraction = ns % 10**9 // (1 if nanoseconds else 1000)
        parts.append(struct.pack(order + "IIII", ns // 10**9, fraction, len(packet[:snap]), len(packet)))
        parts.append(packet[:snap])
    return b"".join(parts)


def block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def option(code: int, value: bytes, order: str) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def pcapng(
    packets: Packets, *, order: str = "<", resolution: int = 9, offset_s: int = 0, link: int = 1, snap: int = 1 << 18
) -> bytes:
    section = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    options = option(2, b"eth0", order) + option(9, bytes([resolution]), order)
    options += option(14, struct.pack(order + "q", offset_s), order) + option(0, b"", order)
    parts = [section, block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)]
    for i, (ns, packet) in enumerate(packets):
        ns -= offset_s * 10**9
        units = (ns << (resolution & 0x7F)) // 10**9 if resolution & 0x80 else ns * 10**resolution // 10**9
        head = struct.pack(order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(packet[:snap]), len(packet))
        parts.append(block(6, head + packet[:snap], order))
        if i % 3 == 0:
            parts.append(block(5, bytes(20 + i % 40), order))
    return b"".join(parts)


@dataclass
class Decoded:
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    duplicates: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """First missing message, and how many."""

    @property
    def ticks(self) -> np.ndarray:
        return np.array(self.rows, TICK).view(Ticks)


def arbitrate(
    packets: Iterable[tuple[int, int, Sequence[bytes]]], midnight_ns: int, hold: int = 255, hold_ns: int = 1 << 62
) -> Decoded:
    """Ticks of packets given as capture time, sequence and messages."""
    decoded = Decoded()
    turn = announced = since = 0
    at_hand: list[tuple[int, int, Sequence[bytes]]] = []

    def emit(ns: int, sequence: int, bodies: Sequence[bytes]) -> None:
        nonlocal turn
        for number, body in enumerate(bodies, sequence):
            if number < turn:
                continue
            turn = number + 1
            for row in itch.decode(itch.frame(body), midnight_ns).rows:
                tick = np.array(row, TICK).view(Ticks)
                tick["ts_recv"], tick["sequence"] = ns, number
                decoded.rows.append(tuple(tick.item()))

    def release(ns: int, over: bool) -> None:
        nonlocal since
        while at_hand:
            lowest = min(at_hand, key=lambda packet: (packet[1], -len(packet[2])))
            if lowest[1] > turn:
                if not over and len(at_hand) <= hold and ns - since <= hold_ns:
                    return
                skip_to(lowest[1])
            at_hand.remove(lowest)
            since = ns
            if lowest[1] + len(lowest[2]) <= turn:
                decoded.duplicates += 1
            emit(ns, *lowest[1:])

    def skip_to(sequence: int) -> None:
        nonlocal turn
        decoded.gaps.append((turn, sequence - turn))
        turn = sequence

    ns = 0
    for ns, sequence, bodies in packets:
        turn = turn or sequence
        announced = max(announced, sequence + len(bodies))
        if not bodies:
            continue
        if sequence > turn:
            if any(sequence == other[1] and len(other[2]) >= len(bodies) for other in at_hand):
                decoded.duplicates += 1
            else:
                since = since if at_hand else ns
                at_hand.append((ns, sequence, bodies))
        elif sequence + len(bodies) > turn:
            emit(ns, sequence, bodies)
        else:
            decoded.duplicates += 1
        release(ns, over=False)
    release(ns, over=True)
    if announced > turn:
        skip_to(announced)
    return decoded
