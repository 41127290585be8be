"""The seeds of fuzz_dbn_blocks.c: records of every type, and of each by itself, for several blocks."""

from __future__ import annotations

from collections.abc import Iterator

from dbn_reference import every_type, mbo, record

#: Skip, guesses and version; ticks; bytes in turn: what fuzz_dbn_blocks.c reads first.
HEADERS = (b"\x02\xff\x40", b"\x0b\xff\x01", b"\x2a\xff\x80", b"\x02\x30\x10", b"\x42\xff\x20")


def seeds() -> Iterator[tuple[str, bytes]]:
    many = b"".join(mbo(instrument=i % 7, event=i * 10**9) for i in range(60))
    rolls = b"".join(mbo(instrument=40 + (i > 30), event=i, received=i) for i in range(60))
    for header in HEADERS:
        yield f"rolls-{header.hex()}", header + rolls
        bodies = every_type((header[0] >> 2 & 3) % 3 + 1)
        name = header.hex()
        yield f"orders-{name}", header + many
        yield f"mixed-{name}", header + many[:560] + b"".join(bodies) + many[560:]
        yield f"mapped-{name}", header + many[:1680] + record(0x16, bytes(160)) + many[1680:]
        yield f"cut-{name}", header + many[:-5]
    for at, body in enumerate(every_type(1)):
        yield f"all-{at:02}", b"\x22\xff\x40" + body * (3000 // len(body))
