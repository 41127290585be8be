"""What a terminal would act on and not show, in a name of a file's own, is shown as its code."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.markup import escape
from rich.table import Table

from strand.command import cli
from strand.report.tables import TerminalConsole
from strand.ticks import zeros

pytestmark = pytest.mark.python

NASTY = "A\x1b[2J\x9b\u202eB"
SHOWN = r"A\x1b[2J\x9b\u202eB"


def test_a_console_shows_text_and_cells_so() -> None:
    shown = io.StringIO()
    console = TerminalConsole(file=shown, width=80)
    table = Table("name")
    table.add_row(NASTY + " " * 20 + ".")
    console.print(escape(NASTY))
    console.print(table)
    assert shown.getvalue().count(SHOWN) == 2
    assert shown.getvalue().replace("\n", "").isprintable()


@pytest.mark.parametrize("command", ["info", "replay"])
def test_names_in_a_report_and_in_an_error_move_no_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # no line is broken
    path = tmp_path / f"{NASTY}.npz"
    # A symbol's name has no control character, but may turn the line round.
    np.savez(path, ticks=zeros(3).view(np.ndarray), symbols=np.array(["A\u202eB"]))
    monkeypatch.setattr("sys.argv", ["strand", command, str(path)])
    cli.main()
    said = capsys.readouterr().out
    assert command == "replay" or r"\x1b" in said
    assert r"A\u202eB" in said
    assert said.replace("\n", "").isprintable()
    monkeypatch.setattr("sys.argv", ["strand", command, str(path), "--symbols", "none"])
    with pytest.raises(SystemExit):
        cli.main()
    error = capsys.readouterr().err
    assert error.replace("\n", "").isprintable()
