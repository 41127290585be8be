"""The seeds of fuzz_pitch.c: streams of every message type, and of each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from pitch_reference import every_type


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = every_type()
    # skip and selection, bytes a call less one, ticks a call less one: the header fuzz_pitch.c reads.
    headers = {
        "whole": b"\0\xff\xff",
        "bytes": b"\0\0\0",
        "skip": b"\1\x60\2",
        "some": b"\3\x60\2",
        "late": b"\6\x60\2",
    }
    for name, header in headers.items():
        yield f"{name}-plain", header + b"\n".join(bodies)
        yield f"{name}-sequenced", header + b"".join(b"S%s\r\n" % body for body in bodies)
    for at, body in enumerate(bodies):
        yield f"{at:02}-{chr(body[8])}", b"\1\x40\1" + (body + b"\n") * 4
    yield "long", b"\1\x10\1" + bodies[5] + b"x" * 400 + b"\n" + bodies[5]
