"""The command line in a process of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from warm_python import run_warm


def strand(*args: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own. ``run_here`` is quicker, where only its output matters."""
    return run_warm("-m", "strand", *args)


@contextlib.contextmanager
def started(*args: str) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs; killed when the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "strand", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
