"""The seeds of fuzz_itch_blocks.c: a directory, and days of several blocks, with a message of each type among them."""

from __future__ import annotations

from collections.abc import Iterator

from itch_reference import directory, every_type, frame, message

#: Skip, guesses and a selection; ticks; bytes in turn: what fuzz_itch_blocks.c reads first.
HEADERS = (
    b"\2\xff\x20", b"\0\xff\1", b"\3\xff\x40", b"\2\x30\x10", b"\6\xff\x20", b"\x1f\xff\x10", b"\x0e\x20\1"
)  # fmt: skip


def seeds() -> Iterator[tuple[str, bytes]]:
    bodies = [body for body in every_type() if chr(body[0]) not in "RSVW"]
    named = b"".join(frame(directory(locate, b"S%d" % locate)) for locate in range(1, 4))
    deletes = b"".join(frame(message("D", 1 + i % 3, i, i)) for i in range(90))
    plain = b"".join(map(frame, bodies))
    for header in HEADERS:
        name = header.hex()
        yield f"quiet-{name}", header + named + deletes
        yield f"day-{name}", header + named + deletes[:1000] + plain + deletes[1000:]
        yield f"noise-{name}", header + named + deletes + b"\0\x05zzz" + deletes + plain[:-3]
    standings = b"".join(frame(body) for body in bodies if body[:1] == b"L") * 40
    yield "to-the-limit", b"\2\x1d\x10" + named + deletes[: 30 * len(frame(message("D", 1, 1, 1)))] + standings
    for body in bodies:
        late = b"".join(frame(body) + frame(message("D", 1, i, 1 << 40)) for i in range(40))
        yield f"all-{chr(body[0])}", HEADERS[0] + named + frame(body) * 40 + late
