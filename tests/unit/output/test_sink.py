"""Where an output goes: a path or a sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strand.output.sinks import files_and_sinks

pytestmark = pytest.mark.python


class Nothing:
    def write(self, batch: Any) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


def test_paths_and_sinks_are_told_apart() -> None:
    sink = Nothing()
    assert files_and_sinks({"a": "a.npy", "b": Path("b.csv"), "c": sink}) == (
        {"a": "a.npy", "b": Path("b.csv")},
        {"c": sink},
    )
    assert files_and_sinks(None) == ({}, {})
