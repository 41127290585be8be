"""The command line in a process of its own."""

from __future__ import annotations

import subprocess

from warm_python import run_warm


def strand(*args: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own. ``run_here`` is quicker, where only its output matters."""
    return run_warm("-m", "strand", *args)
