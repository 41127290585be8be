"""The command in the process of the tests, for what it says: to start one takes most of a second."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

from strand.command.cli import main


def run_here(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m strand`` with these arguments here, and returns its output and status. Exceptions that it does
    not catch come through."""
    words = ["strand", *map(str, args)]
    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or "."),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "path", [str(cwd or Path.cwd()), *sys.path]),
    ):
        try:
            main()
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            status = ended.code
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())
