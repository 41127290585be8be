"""The seeds of fuzz_columns.c: times that are there and are not, numbers around their bounds, bytes in long runs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

AMOUNTS = (0, 1, -1, 99_999, 100_000, 100_001, 2**32 - 1, 2**32, 2**63 - 1, -(2**63))
NS = 1_700_000_000_000_000_000


def seeds() -> Iterator[tuple[str, bytes]]:
    """One file a unit and number of rows."""
    for unit in (1, 10, 100_000, 10**8):
        for rows in (0, 1, 3, len(AMOUNTS), 150):
            events = [AMOUNTS[n % len(AMOUNTS)] for n in range(rows)]
            head = struct.pack("<QqBB14x", 2**64 - 2, unit, 8, 0)
            columns = struct.pack(f"<{rows}q{rows}q{rows}I", *events, *range(NS, NS + rows), *range(rows))
            yield f"{unit}-{rows}", head + columns
