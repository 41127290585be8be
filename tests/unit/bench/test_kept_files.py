"""Files that benchmarks keep are whole, and are those of the options; fresh processes keep what Python compiles."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

import blocks
import paired
import tables

polars = pytest.importorskip("polars")
pytestmark = pytest.mark.python


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    "make", [lambda path: tables.trades(path, 10), lambda path: paired._table(path.suffix[1:], 10)]
)
def test_a_table_whose_writing_is_interrupted_is_made_anew(
    make: Callable[[Path], Path], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired, "_kept", lambda name: tmp_path / name)
    write = getattr(polars.DataFrame, f"write_{ending}")

    def interrupted(frame: Any, file: Any) -> None:
        write(frame.head(3), file)
        raise KeyboardInterrupt

    path = tmp_path / f"trades.{ending}"
    with monkeypatch.context() as patched:
        patched.setattr(polars.DataFrame, f"write_{ending}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make(path)
    assert list(tmp_path.iterdir()) == []
    assert len(getattr(polars, f"read_{ending}")(make(path))) == 10


def test_days_of_other_symbols_are_other_files(tmp_path: Path) -> None:
    few, many = blocks.day(tmp_path, 1_000, 3), blocks.day(tmp_path, 1_000, 300)
    assert few.stat().st_size < many.stat().st_size, "each symbol has a message that names it"


def test_a_fresh_process_keeps_what_python_compiles() -> None:
    code = "from turns import alone; print(alone(eval, '__import__(\"sys\").dont_write_bytecode'))"
    ran = subprocess.run(
        [sys.executable, "-B", "-c", code], cwd=Path(blocks.__file__).parent, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
