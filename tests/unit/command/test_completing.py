"""What the shell completes, and what it prints for that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from strand.command.cli import COMMANDS, cli
from strand.handlers import BUILTIN

pytestmark = pytest.mark.python

PAGE = Path(__file__).resolve().parents[3] / "docs/command.md"
STRAND = Path(sys.executable).parent / "strand"


def completed(line: str) -> list[str]:
    """What may follow the words of a line, of which the last one is incomplete."""
    *words, incomplete = line.split(" ")
    items = ShellComplete(cli, {}, "strand", "_STRAND_COMPLETE").get_completions(words, incomplete)
    return ["a file" if item.type == "file" else item.value for item in items]


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("") == sorted(COMMANDS)
    assert completed("re") == ["replay"]
    assert completed("replay --han") == ["--handler"]
    assert completed("replay --policy a") == ["aging"]
    assert completed("gen l") == ["lobster"]


def test_handlers_are_completed_by_name() -> None:
    assert completed("replay day.itch50 --handler ") == sorted(BUILTIN)
    assert completed("listen --handler b") == ["bars", "bbo", "book"]
    assert completed("handlers vw") == ["vwap"]


def test_options_of_the_handler_that_the_line_names_are_completed() -> None:
    assert completed("replay --handler bars --set ev") == ["every="]
    assert completed("listen --handler volatility --set pr") == ["price="]
    assert completed("replay --handler mymodule:mine --set e") == []


@pytest.mark.parametrize(
    "line",
    [
        "replay day", "info day", "convert day", "gen check day", "policy plan --from day", "serve day", "diff a",
        "diff a b --source day", "replay day --out rows", "replay day --config str", "replay day --save st",
        "replay day --fingerprints a", "listen --record to", "gen itch --out day",
    ],
)  # fmt: skip
def test_names_of_files_are_left_to_the_shell(line: str) -> None:
    assert completed(line) == ["a file"]


def test_a_file_behind_the_name_of_an_output_is_not_completed() -> None:
    assert completed("replay day --out bars=ba") == []


def test_the_lines_of_the_page_print_what_each_shell_reads() -> None:
    lines = re.findall(r"_STRAND_COMPLETE=(\w+) strand", PAGE.read_text("utf-8"))
    assert lines == ["bash_source", "zsh_source", "fish_source"]
    for shell in ("bash_source", "zsh_source"):
        environment = os.environ | {"_STRAND_COMPLETE": shell}
        done = subprocess.run([STRAND], env=environment, capture_output=True, text=True, timeout=100, check=False)
        if "Bash" in done.stderr:
            continue  # an older bash than completion needs
        assert (done.returncode, done.stderr) == (0, "")
        assert "_STRAND_COMPLETE" in done.stdout


def test_the_command_answers_a_shell() -> None:
    environment = os.environ | {
        "_STRAND_COMPLETE": "bash_complete",
        "COMP_WORDS": "strand handlers b",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([STRAND], env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "plain,bars\nplain,bbo\nplain,book\n"), done.stderr


def test_every_argument_that_names_a_file_is_completed() -> None:
    """So that a new command does not forget it."""
    bare = []
    commands: list[tuple[str, click.Command]] = [("strand", cli)]
    while commands:
        name, command = commands.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            found = [(f"{name} {one}", command.get_command(context, one)) for one in command.list_commands(context)]
            commands += [(path, one) for path, one in found if one is not None]
            continue
        for parameter in command.params:
            file = "FILE" in (getattr(parameter, "metavar", None) or "") or parameter.name in ("file", "files", "out")
            own = parameter._custom_shell_complete is not None
            if file and not own and not isinstance(parameter.type, (click.Path, click.File)):
                bare.append(f"{name} {parameter.name}")
    assert bare == []
