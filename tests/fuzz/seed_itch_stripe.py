"""The seeds of fuzz_itch_stripe.c: a directory, and messages of all types, more than once."""

from __future__ import annotations

from collections.abc import Iterator

from itch_reference import directory, every_type, frame, message


def seeds() -> Iterator[tuple[str, bytes]]:
    plain = b"".join(frame(body) for body in every_type() if chr(body[0]) not in "RSVW")
    named = b"".join(frame(directory(locate, b"S%d" % locate)) for locate in range(1, 4))
    deletes = b"".join(frame(message("D", 1 + i % 3, i, i)) for i in range(60))
    # how, bytes a stripe, bytes a piece, ticks a stripe: the header fuzz_itch_stripe.c reads.
    for header in (b"\0\x20\0\xff", b"\2\x40\x10\x20", b"\3\x10\xff\3", b"\x0b\x30\0\xff", b"\6\xff\xff\xff"):
        name = header.hex()
        yield f"day-{name}", header + named + deletes + plain * 2 + deletes
        yield f"late-{name}", header + deletes + named + plain + deletes
        yield f"noise-{name}", header + named + deletes + b"\0\x05zzz" + deletes + plain[:-3]
