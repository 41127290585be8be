"""What the README shows runs as it is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from strand.cli import cli

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text()
EXAMPLE = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)[0]
COMMANDS = re.findall(r"^    (strand .*)$", TEXT, flags=re.M)


def test_the_example_runs_and_counts_every_tick_of_the_sample(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    script = tmp_path / "example.py"
    script.write_text(EXAMPLE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200,500 ticks")
    assert re.search(r"AAAHD: [1-9]\d* trades, [1-9]\d* shares, high [1-9]", done.stdout)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_shown_has_the_subcommand_and_options_it_names(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group):
        found = command.commands.get(words[0])
        assert found is not None, f"{words[0]!r} is no command"
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) > 5
