"""Handlers by name, and by module and attribute."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from strand.command.cli import cli
from strand.errors import ConfigurationError
from strand.handlers.loading import load_handler

pytestmark = pytest.mark.python


def test_a_function_that_returns_a_handler_has_its_arguments_as_options(mine: str) -> None:
    handler = load_handler(f"{mine}:every_nth", {"n": "5", "kind": "quote"})
    assert handler.state.names == ("n", "quote")
    with pytest.raises(ConfigurationError, match="it needs n; its options: n, a whole number; kind, text"):
        load_handler(f"{mine}:every_nth")


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        (
            "raises",
            r"raises: it raised ValueError: nothing is small enough \(options_.*\.py, line \d+\); its options: n",
        ),
        ("muddles", "muddles: it raised TypeError: unsupported operand"),
        ("by_place", "by_place: it needs n, and n cannot be given as an option"),
        ("makes_nothing", "makes_nothing: it returned None, which is no handler"),
        ("makes_a_number", "makes_a_number: it returned 5, which is no handler"),
        ("of_a_list", "of_a_list: it needs values, and values cannot be given"),
        ("of_what", "an annotation of of_what says nothing: name 'Nothing' is not defined"),
    ],
)
@pytest.mark.parametrize("command", [["replay", "no-file", "--handler"], ["handlers"]])
def test_a_function_that_makes_no_handler_is_an_error_in_one_line(
    mine: str, command: list[str], attribute: str, words: str
) -> None:
    done = CliRunner().invoke(cli, [*command, f"{mine}:{attribute}"])
    assert isinstance(done.exception, ConfigurationError)
    assert re.search(words, str(done.exception))
    assert "\n" not in str(done.exception)
    assert done.output == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", r"ZeroDivisionError: division by zero \(broken_.*\.py, line 1\)"),
        ("def (", "SyntaxError: .*line 1"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        (
            "import strand\n@strand.batch_handler(state=[('n', 'i8')])\ndef f(rows): ...",
            r"ConfigurationError: handler 'f': its arguments are .* \(broken_.*\.py, line 2\)",
        ),
    ],
)
def test_a_module_that_fails_when_it_is_imported_is_named(mine: str, text: str, words: str) -> None:
    name = f"broken_{len(text)}_{mine}"
    Path(f"{name}.py").write_text(text)
    with pytest.raises(ConfigurationError, match=f"handler: cannot import '{name}': {words}"):
        load_handler(f"{name}:f")


def test_a_name_that_a_module_lacks_is_said_to_be_missing(mine: str) -> None:
    there = "it has Object, after_book, by_place, every_nth, large, .*raises$"
    for missing, said in (("nothing_like_it", "has no 'nothing_like_it'"), ("", "is said, and none of its handlers")):
        with pytest.raises(ConfigurationError, match=rf"handler: module '{mine}' \(/.*{mine}\.py\) {said}; {there}"):
            load_handler(f"{mine}:{missing}")
    with pytest.raises(ConfigurationError, match=r"handler: module 'colorsys' \(.*\) has no 'x'; it has none$"):
        load_handler("colorsys:x")


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("sys.path.insert(0, 'front')", lambda path: ["front", *path]),
        ("sys.path.append('back')", lambda path: [*path, "back"]),
        ("sys.path.insert(0, os.getcwd())", lambda path: [str(Path.cwd()), *path]),
        ("sys.path.remove(os.getcwd())", lambda path: path),
        ("sys.path = ['new', *sys.path]", lambda path: ["new", *path]),
        ("sys.path.insert(0, 'front'); 1 / 0", lambda path: ["front", *path]),
    ],
)
def test_looking_for_a_module_leaves_sys_path_as_the_module_left_it(
    mine: str, text: str, changes: Callable[[list[str]], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"paths_{mine}"
    Path(f"{name}.py").write_text(f"import os, sys\n{text}")
    before = [*sys.path, str(Path.cwd())]
    monkeypatch.setattr(sys, "path", before.copy())
    with pytest.raises(ConfigurationError):
        load_handler(f"{name}:missing")
    assert sys.path == changes(before)


@pytest.mark.parametrize(
    ("attribute", "words"), [("Object", "it has no options"), ("no_handler", "annotate a function")]
)
def test_what_takes_no_options_says_so(mine: str, attribute: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_handler(f"{mine}:{attribute}", {"least": "9"})


def test_a_file_in_the_place_of_a_module_is_answered_with_its_module(mine: str) -> None:
    for name in (f"{mine}.py:large", f"./some/{mine}.py:large"):
        with pytest.raises(ConfigurationError, match=f"names a file: name its module, as {mine}:large, in the folder"):
            load_handler(name)
    with pytest.raises(ConfigurationError, match=f"name its module, as {mine}:FUNCTION"):
        load_handler(f"{mine}.py")
    with pytest.raises(ConfigurationError, match=f"; of {mine}.py name a function, as {mine}:FUNCTION$"):
        load_handler(mine)
