"""Handlers written for numba, run as plain Python: in a process of its own, as numba asks its environment once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from written_for_numba import fingerprints

import strand
from strand.handlers.loading import is_jit_disabled, resolve
from strand.testing import feed, reference

pytestmark = pytest.mark.python

SUPPORT = Path(__file__).resolve().parents[2] / "support"


def test_without_the_compiler_rows_and_outputs_are_the_same_bits() -> None:
    pytest.importorskip("numba")
    code = (
        f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\nimport written_for_numba\n"
        "for workers in (0, 2):\n    print(*written_for_numba.fingerprints(workers))\n"
        "print('numba' in sys.modules)\n"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == lines[1].split() == fingerprints(2)
    assert lines[2] == "False"


@pytest.mark.python
def test_python_runs_the_function_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @strand.handler(state={"n": "u8"}, outputs={"all": {"n": "u8", "price": "i8"}})
    def keeps(row: Any, tick: Any, emit: Any) -> None:
        seen.append((row.n, tick.size))
        row["n"] += 1
        emit.all(row.n, price=tick.price)

    ticks = feed([("A", 1, 1.5, 7), ("A", 2, 2.5, 9)])
    assert not is_jit_disabled()
    assert resolve(keeps) is keeps
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    result = reference(ticks, keeps)
    assert seen == [(0, 7), (1, 9)]
    assert result.rows["A"]["n"] == 2
    assert result.outputs["all"]["price"].tolist() == [1_500_000_000, 2_500_000_000]


@pytest.mark.python
def test_what_numba_would_refuse_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    @strand.handler(state={"n": "u8"})
    def misspelt(row: Any, tick: Any) -> None:
        row.m = 1

    @strand.handler(state={"n": "u8"}, outputs={"all": {"n": "u8", "price": "i8"}})
    def too_few(row: Any, tick: Any, emit: Any) -> None:
        emit.all(1)

    for handler, said in ((misspelt, "there is no field 'm'; there are n"), (too_few, "emit.all takes n, price")):
        with pytest.raises(strand.errors.HandlerError, match=said):
            reference(feed([("A", 1, 1.5, 7)]), handler)
