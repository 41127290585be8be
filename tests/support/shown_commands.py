"""Commands as a page of the documentation shows them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from strand.command.cli import cli


def commands_on(page: Path) -> list[str]:
    """The lines of a page that are commands, ``strand ...``."""
    return re.findall(r"^    ((?:mkdir \S+ && )?strand .*)$", page.read_text("utf-8"), flags=re.M)


def words_of(line: str) -> list[str]:
    """Words after ``strand``, without a comment behind them."""
    words = shlex.split(line, comments=True)
    return words[words.index("strand") + 1 :]


def check_command(line: str) -> None:
    """Asserts that a command has the subcommand and the options that a line names."""
    command: click.Command = cli
    words = words_of(line)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"{words[0]!r} is no command"
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
