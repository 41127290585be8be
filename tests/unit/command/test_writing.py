"""Where a command writes rows and outputs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from strand.command.showing import Writes, writing

pytestmark = pytest.mark.python


def run(*args: str) -> tuple[Result, list[Writes]]:
    found: list[Writes] = []

    @click.command()
    @writing
    def command(writes: Writes) -> None:
        found.append(writes)

    return CliRunner().invoke(command, args), found


def test_a_path_is_for_rows_and_one_with_a_name_for_an_output(tmp_path: Path) -> None:
    rows = str(tmp_path / "rows.csv")
    assert run("--out", rows, "--out", "bars=b.parquet", "--out", "x=y=z.npy")[1] == [
        Writes(Path(rows), {"bars": "b.parquet", "x": "y=z.npy"})
    ]
    assert run("--escape-formulas")[1] == [Writes(None, {}, True)]


def test_what_is_no_name_before_an_equals_sign_is_part_of_a_path(tmp_path: Path) -> None:
    rows = str(tmp_path / "a-b=c.npy")
    assert run("--out", rows)[1] == [Writes(Path(rows), {})]


@pytest.mark.parametrize(
    ("outs", "said"),
    [
        (["bars=a.npy", "bars=b.npy"], "'bars' is given twice"),
        (["a.npy", "b.npy"], "rows can go to one file"),
    ],
)
def test_two_files_for_one_thing_are_refused(outs: list[str], said: str) -> None:
    result, found = run(*(word for out in outs for word in ("--out", out)))
    assert result.exit_code == 2
    assert said in result.output
    assert found == []


def test_rows_that_cannot_be_written_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for path in (tmp_path / "rows.xyz", tmp_path / "none" / "rows.csv"):
        result, found = run("--out", str(path))
        assert found == []
        assert "out: " in str(result.exception)
