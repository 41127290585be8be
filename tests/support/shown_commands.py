"""Commands as a page of the documentation shows them."""

from __future__ import annotations

import shlex

import click

from strand.command.cli import cli


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
