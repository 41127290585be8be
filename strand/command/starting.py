"""Ctrl-C while the command starts ends it with one line, as it does later.

Imports take up to a second. An interrupt in the middle of them would show a traceback of whatever was being imported,
and libraries in C may turn it into an error of their own. Nothing is open by then, so the process just ends.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

__all__ = ["INTERRUPTED", "begin", "done"]

#: The exit status after Ctrl-C.
INTERRUPTED: Final = 130


def _leave(_: int, __: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def begin() -> None:
    """From now on an interrupt ends the process at once, unless something else was arranged for it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def done() -> None:
    """From now on an interrupt raises KeyboardInterrupt, if ``begin`` changed that."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
