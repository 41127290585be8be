"""Ctrl-C while the command starts ends it with one line, as it does later.

Imports take up to a second. An interrupt in the middle of them would show a traceback of some import, and libraries in
C may turn it into an error of their own. Nothing is open by then, so the process just ends.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType
from typing import Final

#: The exit status after Ctrl-C.
INTERRUPTED: Final = 130


def _leave(_: int, __: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def begin() -> None:
    """Lets an interrupt end the process at once from now on, unless another handler was set for it.

    Imported modules stay until the end: a search of it for garbage takes a tenth of a short run, and so do the threads
    that numpy's linear algebra starts beside the workers.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def done() -> None:
    """Lets an interrupt raise KeyboardInterrupt from now on, if ``begin`` changed that, and garbage be collected."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
