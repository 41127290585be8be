"""The options of columns by name and type: what imports them for the names alone needs no msgspec."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.python


def test_names_of_options_are_had_without_what_checks_them() -> None:
    program = "import sys, strand.feeds.reader_options\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    found = done.stdout.split()
    assert "strand.feeds.mapping.column_options" in found
    assert not {"msgspec", "strand.feeds.mapping.options"} & {*found}
