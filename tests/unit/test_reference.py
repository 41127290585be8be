"""The reference has every public name, and docstrings are laid out as lists."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import strand
from strand import errors, feeds, testing
from strand.handlers.builtin import BUILTIN

pytestmark = pytest.mark.python

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = "\n".join(page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
DOCUMENTED = set(re.findall(r"^\.\. (?:auto\w+|py:data):: ([\w.]+)", TEXT, flags=re.MULTILINE))
#: Not a class or function of its own: the page says in words what it is.
IN_WORDS = {"strand.feeds.TickBatch", "strand.testing.ListFeed"}


#: Functions, and readers, which users make; most other classes are made by strand.
CALLED = set(re.findall(r"^\.\. autofunction:: ([\w.]+)", TEXT, flags=re.MULTILINE)) | {
    name for name in DOCUMENTED if name.startswith("strand.feeds.") and name.endswith("Feed")
} - {"strand.feeds.Feed"}


def named(name: str) -> Any:
    first, *parts = name.split(".")
    path, found = first, importlib.import_module(first)
    for part in parts:
        path += f".{part}"
        found = getattr(found, part) if part in dir(found) else importlib.import_module(path)
    return found


def layout() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docstrings", DOCS / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference() -> None:
    names = {f"strand.{name}" for name in strand.__all__} | {f"strand.feeds.{name}" for name in feeds.__all__}
    names |= {f"strand.testing.{name}" for name in testing.__all__} - IN_WORDS
    missing = names - DOCUMENTED - {"strand.StrandError"} - IN_WORDS
    assert missing == set(), "add them to a page of docs/reference"
    assert "strand.errors" in DOCUMENTED
    assert errors.StrandError.__module__ == "strand.errors"


def test_every_built_in_handler_that_takes_options_is_in_the_reference() -> None:
    made = {name for name, built in BUILTIN.items() if hasattr(strand, name)}
    assert len(made) > 8
    assert {f"strand.{name}" for name in made} - DOCUMENTED == set()


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_what_the_reference_names_is_there_and_has_a_docstring(name: str) -> None:
    assert getattr(named(name), "__doc__", None)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_the_docstring_of_what_users_call_says_what_each_parameter_means(name: str) -> None:
    called = named(name)
    text = inspect.getdoc(called) or ""
    # What a call takes as another one does is said there.
    function = inspect.unwrap(called.__init__ if inspect.isclass(called) else called)
    parameters = list(inspect.signature(function).parameters.values())[inspect.isclass(called) :]
    own = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and not one.name.startswith("_")]
    assert [one for one in own if not re.search(rf"\b{one}\b", text)] == []


def test_what_is_said_of_parameters_and_errors_becomes_a_list() -> None:
    lines = [
        "``x``s do ``it``, ``so``. ``path``: a file; ``size``, ``count``: numbers,",
        "above 0. ``mode`` is a word. ``other`` is none of them.",
        "Raises ConfigurationError for others (docs/feeds/csv.md).",
    ]
    assert [line for line in layout().laid_out(lines, frozenset({"mode"})) if line] == [
        "``x``\\ s do ``it``, ``so``.",
        "* **path**: a file.",
        "* **size**, **count**: numbers, above 0.",
        "* **mode** is a word. ``other`` is none of them.",
        "* *Raises*: ConfigurationError for others (:doc:`/feeds/csv`).",
    ]


def test_a_table_of_a_docstring_stays_one_and_code_is_left_alone() -> None:
    lines = ["| a | b |", "|---|---|", "| c | d |", "", "    with x: y", "", "- one", "- two"]
    assert [line for line in layout().laid_out(lines) if line] == [
        ".. list-table::",
        "   :header-rows: 1",
        "   * - a",
        "     - b",
        "   * - c",
        "     - d",
        "    with x: y",
        "- one",
        "- two",
    ]
