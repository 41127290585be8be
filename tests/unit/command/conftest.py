"""Fixtures of the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def handlers_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the handlers that sweeps run."""
    from sweep_commands import write_handlers

    monkeypatch.chdir(tmp_path)
    write_handlers(tmp_path)
    return tmp_path
