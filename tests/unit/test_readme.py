"""What the README shows runs as it is printed."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from pathlib import Path

import pytest
from command_here import run_here
from shown_commands import check_command, commands_on
from warm_python import run_warm

pytestmark = pytest.mark.python

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text()
EXAMPLE, WITH_AN_OUTPUT, WITH_A_DISPATCHER, WITH_TASKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
COMMANDS = commands_on(README)


def test_the_example_runs_and_counts_every_tick_of_the_sample(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    script = tmp_path / "example.py"
    script.write_text(EXAMPLE)
    done = run_warm(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200,500 ticks")
    assert re.search(r"AAAHD: [1-9]\d* trades, [1-9]\d* shares, high [1-9]", done.stdout)


def test_the_example_with_an_output_writes_bars(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    script = tmp_path / "example.py"
    script.write_text(WITH_AN_OUTPUT)
    done = run_warm(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    bars = (tmp_path / "bars.csv").read_text().splitlines()
    assert re.fullmatch(rf"\(.*bars\.csv'\), {len(bars) - 1}\) [0-9a-f]{{32}}\n", done.stdout), done.stdout


def test_the_example_with_a_dispatcher_runs_and_handles_all(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(WITH_A_DISPATCHER)
    done = run_warm(script)
    assert (done.returncode, done.stdout) == (0, "500 1000\n"), done.stderr


def shown_after(prompt: str) -> list[str]:
    """The lines the README shows after a prompt, down to the next prompt or the end of the block."""
    after = TEXT.split(f"    $ {prompt}\n")[1].splitlines()
    return list(itertools.takewhile(lambda line: re.match(r"    [^$.]", line), after))


def test_the_output_shown_is_what_the_commands_shown_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    for line in (line for line in COMMANDS if "day.itch50.gz" in line):
        done = run_here(*shlex.split(line)[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        if line.startswith("strand info"):
            shown = [row.strip() for row in shown_after(line)]
            assert len(shown) > 5
            assert [row.strip() for row in done.stdout.splitlines()][: len(shown)] == shown
    rows = [row.strip() for row in shown_after("head -2 rows.csv")]
    assert (tmp_path / "rows.csv").read_text().splitlines()[:2] == rows


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_shown_has_the_subcommand_and_options_it_names(line: str) -> None:
    check_command(line)


def test_the_example_of_tasks_prints_what_it_says() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(WITH_TASKS, "README.md", "exec"), {})
    said = re.findall(r"print\(.*\)  # (.*)", WITH_TASKS)
    assert len(said) == 4
    assert printed.getvalue().splitlines() == said


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) > 5
