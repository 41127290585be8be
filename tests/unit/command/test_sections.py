"""The help of commands with many options."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from strand.command.cli import cli
from strand.command.parameters import SectionedCommand

pytestmark = pytest.mark.python

#: Options that one list may hold.
MAX_FLAT = 12


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found is not None
            yield from leaves(found, f"{name} {word}")
    else:
        yield name, command


COMMANDS = dict(leaves(cli, "strand"))
SECTIONED = {name: command for name, command in COMMANDS.items() if isinstance(command, SectionedCommand)}


def options_of(command: click.Command) -> list[str]:
    return [option.opts[-1] for option in command.params if isinstance(option, click.Option)]


def lines_of(command: click.Command) -> list[str]:
    context = click.Context(command, terminal_width=80, help_option_names=["-h", "--help"])
    return command.get_help(context).splitlines()


def test_a_command_with_many_options_has_sections() -> None:
    assert {name for name, command in COMMANDS.items() if len(options_of(command)) > MAX_FLAT} <= SECTIONED.keys()


@pytest.mark.parametrize("name", SECTIONED)
def test_every_option_is_in_a_section(name: str) -> None:
    command = SECTIONED[name]
    listed = {option for names in command.sections.values() for option in names}
    assert [option for option in options_of(command) if option not in listed] == []


@pytest.mark.parametrize("name", SECTIONED)
def test_the_help_has_every_option_once_and_help_itself_last(name: str) -> None:
    command = SECTIONED[name]
    shown = [found[0] for line in lines_of(command) if (found := re.findall(r"^  (?:-\w, )?(--[a-z-]+)", line))]
    assert sorted(shown) == sorted([*options_of(command), "--help"])
    assert shown[-1] == "--help"


def test_the_help_of_replay_begins_with_the_handler_and_ends_with_policies() -> None:
    heads = [line for line in lines_of(COMMANDS["strand replay"]) if line.endswith(":") and not line.startswith(" ")]
    assert heads[:3] == ["Handler:", "Output:", "Input:"]
    assert heads[-2:] == ["With --policy fair:", "Other:"]


def test_texts_of_all_sections_begin_in_one_column() -> None:
    shown = [line for line in lines_of(COMMANDS["strand replay"]) if re.match(r"  -.*  ", line)]
    assert len(shown) > 50
    assert {len(line) - len(re.split(r"\s{2,}", line, maxsplit=2)[2]) for line in shown} == {34}


def test_no_line_is_wider_than_the_terminal() -> None:
    assert [line for command in COMMANDS.values() for line in lines_of(command) if len(line) > 80] == []
