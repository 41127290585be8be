"""The seeds of fuzz_dbn.c: streams of every type of record, and of each by itself."""

from __future__ import annotations

from collections.abc import Iterator

from dbn_reference import every_type, mbo, record


def seeds() -> Iterator[tuple[str, bytes]]:
    for version in (1, 2, 3):
        bodies = every_type(version)
        # skip, version and levels; bytes a call less one; ticks a call less eleven: the header fuzz_dbn.c reads.
        choice = 1 | (version - 1) << 1 | 0x90
        yield f"whole-{version}", bytes([choice & ~1, 255, 255]) + b"".join(bodies)
        yield f"bytes-{version}", bytes([choice, 0, 0]) + b"".join(bodies)
        for at, body in enumerate(bodies):
            yield f"{version}-{at:02}", bytes([choice, 90, 1]) + body * 4
    many = b"".join(mbo(instrument=i % 40, event=i * 10**13) for i in range(60))
    yield "instruments", b"\1\x40\2" + many
    yield "mapping", b"\1\x40\2" + record(0x16, bytes(160)) + mbo()
