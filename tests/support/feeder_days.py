"""A day in each format that a feeder takes, of some eighty thousand ticks, and what is no record there."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import dbn_reference
import itch_reference
import pcap_reference

from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed, write_pitch

__all__ = ["FORMATS", "OPTIONS", "STRANGE", "write_day"]

_MESSAGES: Final = 80_000
FORMATS: Final = ("itch50", "dbn", "pitch", "pcap")
_DAY: Final = {"date": SAMPLE_DATE}
OPTIONS: Final = {"itch50": _DAY, "dbn": {"levels": 10}, "pitch": _DAY, "pcap": _DAY}

#: A record that on_bad_record="skip" passes over.
STRANGE: Final = {
    "itch50": b"\0\x0c" + b"?" * 12,
    "dbn": dbn_reference.record(0x99, b""),
    "pitch": b"no message\n",
    "pcap": struct.pack("<IIII", 1_548_858_600, 0, 20, 100) + bytes(12) + b"\x08\0" + bytes(6),
}


def write_day(form: str, folder: Path) -> Path:
    """The day as a file whose name ends in its format's."""
    path = folder / f"day.{form}"
    if form == "pitch":
        write_pitch(SyntheticFeed(100, _MESSAGES, seed=5, date=SAMPLE_DATE), path)
        return path
    if form == "dbn":
        path.write_bytes(b"".join(_dbn()))
        return path
    bodies = _bodies(gzip.decompress(sample_path().read_bytes()))
    path.write_bytes(b"".join(_pcap(bodies) if form == "pcap" else map(itch_reference.frame, bodies)))
    return path


def _bodies(itch: bytes) -> list[bytes]:
    """The first messages."""
    bodies, at = [], 0
    while len(bodies) < _MESSAGES:
        length = int.from_bytes(itch[at : at + 2], "big")
        bodies.append(itch[at + 2 : at + 2 + length])
        at += 2 + length
    return bodies


def _pcap(bodies: list[bytes]) -> Iterator[bytes]:
    """The messages, seven in a packet; one packet of a hundred comes before the one ahead of it."""
    packets = []
    for first in range(0, len(bodies), 7):
        frame = pcap_reference.ethernet(
            pcap_reference.ipv4(pcap_reference.udp(pcap_reference.mold(first + 1, bodies[first : first + 7])))
        )
        packets.append((1_548_858_600 * 10**9 + first * 1000, frame))
    for at in range(0, len(packets) - 1, 100):
        packets[at], packets[at + 1] = packets[at + 1], packets[at]
    yield pcap_reference.pcap(packets)


def _dbn() -> Iterator[bytes]:
    """Orders of instruments that the metadata names or not, a record of eleven ticks now and then, and new names."""
    ref = dbn_reference
    today = dt.date(1970, 1, 1) + dt.timedelta(days=ref.NOON // ref.DAY)
    yield ref.metadata(3, {"ONE": [(today, today + dt.timedelta(days=1), "1")]})
    for i, time in zip(range(_MESSAGES), itertools.count(ref.NOON, 1000)):
        instrument = i * i % 41
        order = {"order": i + 1, "price": 10**9 + i % 50, "sequence": i + 1}
        yield ref.mbo(**order, received=time, instrument=instrument, event=time)
        if i % 97 == 0 or 14_000 < i < 16_000:
            yield ref.record(0x0A, ref.head(b"T") + ref.levels(10), instrument=instrument, event=time)
        if i % 4999 == 4998:
            names = struct.pack("<B71sB71sQQ", 1, b"a", 1, f"NEW{i}".encode(), 0, 0)
            yield ref.record(0x16, names, instrument=instrument, event=time)
