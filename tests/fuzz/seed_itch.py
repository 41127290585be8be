"""The seeds of fuzz_itch.c: streams of every message type, and of each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from itch_reference import every_type, frame

#: Skip and selection, bytes a call less one, ticks a call less one: what fuzz_itch.c and fuzz_pitch.c read first.
HEADERS = {
    "whole": b"\0\xff\xff",
    "bytes": b"\0\0\0",
    "skip": b"\1\x60\2",
    "some": b"\3\x60\2",
    "late": b"\6\x60\2",
}


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = every_type()
    for name, header in HEADERS.items():
        yield f"{name}-true", header + b"".join(map(frame, bodies))
        yield f"{name}-zero", header + b"".join(frame(body, 0) for body in bodies)
    for at, body in enumerate(bodies):
        yield f"{at:02}-{chr(body[0])}", b"\1\x40\1" + frame(body) * 4
    for header in (b"\1\x10\1", b"\3\xff\x20"):
        lost = frame(b"z" * 9, 300) + b"".join(map(frame, bodies)) + b"\xff" + b"".join(map(frame, bodies[:6]))
        yield f"lost-{header[0]}", header + lost
    yield "unknown", b"\1\x10\1" + frame(b"z" * 100) + frame(bodies[0])
