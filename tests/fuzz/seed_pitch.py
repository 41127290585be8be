"""The seeds of fuzz_pitch.c: streams of every message type, and of each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from pitch_reference import every_type
from seed_itch import HEADERS


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = every_type()
    for name, header in HEADERS.items():
        yield f"{name}-plain", header + b"\n".join(bodies)
        yield f"{name}-sequenced", header + b"".join(b"S%s\r\n" % body for body in bodies)
    for at, body in enumerate(bodies):
        yield f"{at:02}-{chr(body[8])}", b"\1\x40\1" + (body + b"\n") * 4
    yield "long", b"\1\x10\1" + bodies[5] + b"x" * 400 + b"\n" + bodies[5]
