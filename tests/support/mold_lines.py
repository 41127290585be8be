"""Lines of MoldUDP64 on this machine: what sends on them, and a feed that listens."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import itch_reference as ref

from strand.feeds.live.mold import MoldFeed
from strand.feeds.live.options import Address

DATE = "2026-01-05"
HERE = "127.0.0.1:0"
# Ends a test that waits for what does not come.
BOUND_S = 60.0


def order(n: int, locate: int = 1) -> bytes:
    return ref.message("A", locate, 1_000 + n, n, b"B", 100, b"AAA".ljust(8), 10_000)


def orders(first: int, end: int) -> list[bytes]:
    return [order(n) for n in range(first, end)]


@contextlib.contextmanager
def sender(*addresses: Address) -> Iterator[Any]:
    """A function that sends a packet on a line."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        yield lambda line, data: sock.sendto(data, (addresses[line].host, addresses[line].port))


def listen(*, lines: int = 1, **options: Any) -> MoldFeed:
    return MoldFeed(*[HERE] * lines, **{"date": DATE, "max_seconds": BOUND_S, "receive_bytes": 1 << 16, **options})
