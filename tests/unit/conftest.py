"""Makes the modules of tests/support importable, and what tests of several folders take."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SUPPORT = str(Path(__file__).resolve().parent.parent / "support")
if SUPPORT not in sys.path:
    sys.path.insert(0, SUPPORT)


@pytest.fixture
def order_day() -> tuple[Any, tuple[str, ...]]:
    """A generated day of orders that a test may change: its ticks, and names by index."""
    from array_feed import synthetic_day

    ticks, names = synthetic_day()
    return ticks.copy(), names


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of own handlers in the current folder."""
    from own_handlers import MODULE

    name = f"options_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.fixture
def threads_come_back() -> Iterator[None]:
    """After the test there are no threads but those before it."""
    gc.collect()
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws no figures, which takes seconds: these tests read the words beside them."""
    from strand.report import html

    monkeypatch.setattr(html, "_figure", lambda _result, _kind, description, *_: description)
