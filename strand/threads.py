"""Waiting for threads that an interrupt may have kept from starting."""

from __future__ import annotations

import threading
from contextlib import suppress

__all__ = ["join"]


def join(thread: threading.Thread) -> None:
    """Waits for the thread's end. One whose ``start`` an interrupt cut short has not begun, as far as it knows: it has
    been told to stop, and finds that out when it does begin."""
    with suppress(RuntimeError):
        thread.join()
