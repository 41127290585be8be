"""The seeds of fuzz_iex.c: streams of every message type, and of each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from iex_reference import every_type, frame
from seed_itch import HEADERS


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = every_type()
    for name, header in HEADERS.items():
        yield name, header + b"".join(map(frame, bodies))
    for at, body in enumerate(bodies):
        yield f"{at:02}-{body[0]:02x}", b"\1\x40\1" + frame(body) * 3 + frame(body + b"more")
    yield "unknown", b"\1\x10\1" + frame(b"z" * 400) + frame(b"") + frame(bodies[5][:9])
