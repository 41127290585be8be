"""Handlers whose runs differ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_runs import HANDLERS


@pytest.fixture
def handlers(tmp_path: Path, order_day: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of handlers. Two of them differ from tick 1,700 on."""
    ticks, _ = order_day
    ticks["sequence"] = np.arange(len(ticks))
    ticks["size"][:] = 3
    name = f"handlers_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(HANDLERS.replace("{after}", "1699"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    __import__(name)
    return sys.modules[name]
