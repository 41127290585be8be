"""Options of the page that strand replay writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from strand.command.cli import cli
from strand.feeds.sample import sample_path

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--report", "run.txt"), "must end in one of .html"),
        (("--report", "/no/such/folder/run.html"), "no folder"),
        (("--report-symbols", "A"), "needs --report"),
        (("--report", "r.html", "--report-symbols", ","), "name a symbol"),
    ],
)
def test_options_that_cannot_work_are_refused(args: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(cli, ["replay", SAMPLE, *args])
    assert done.exit_code != 0
    assert words in done.output + str(done.exception)


def test_the_command_writes_the_page_of_the_symbols_asked_for(tmp_path: Path, undrawn: None) -> None:
    path = tmp_path / "run.html"
    done = CliRunner().invoke(
        cli, ["replay", SAMPLE, "--handler", "book", "--report", str(path), "--report-symbols", "AAAOA", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert "report written to" in done.stderr
    assert "Prices and volume of AAAOA over" in path.read_text("utf-8")
