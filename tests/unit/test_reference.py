"""The reference has every public name, and the docstrings list the parameters and errors that there are."""

from __future__ import annotations

import builtins
import concurrent.futures
import dataclasses
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
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

ENTRY = re.compile(r"    (\*{0,2}\w+(?:, \w+)*): \S")

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


def members(found: Any) -> dict[str, Any]:
    """What strand's own classes give a class, and what a module has; of properties, what reads them."""
    kinds = reversed(found.__mro__) if inspect.isclass(found) else [found] if inspect.ismodule(found) else []
    inside: dict[str, Any] = {}
    for kind in kinds:
        if (kind.__module__ if inspect.isclass(kind) else kind.__name__).startswith("strand"):
            inside |= {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    readers = {name: getattr(value, "fget", None) or getattr(value, "func", value) for name, value in inside.items()}
    return {name: getattr(value, "__func__", value) for name, value in readers.items()}


def documented() -> Iterator[tuple[str, Any]]:
    """Each class and function of the reference, and their methods and properties."""
    for name in sorted(DOCUMENTED):
        found = named(name)
        inside = {f"{name}.{one}": value for one, value in members(found).items()}
        for called, value in {name: found, **inside}.items():
            if inspect.isfunction(value) or inspect.isclass(value):
                yield called, value


def entries(about: Any, section: str) -> list[str]:
    """The names that a section of a docstring in Google's style has an entry for."""
    text = inspect.getdoc(about) or ""
    if f"\n{section}:\n" not in text:
        return []
    lines = text.split(f"\n{section}:\n")[1].split("\n\n")[0].splitlines()
    return [name for line in lines if (entry := ENTRY.match(line)) for name in entry[1].split(", ")]


def parameters_of(called: Any) -> list[str]:
    function = inspect.unwrap(called.__init__ if inspect.isclass(called) else called)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        stars.get(one.kind, "") + one.name
        for one in inspect.signature(function).parameters.values()
        if one.name not in ("self", "cls") and one.name[0] != "_"
    ]


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
def test_the_docstring_of_what_users_call_has_an_entry_for_each_parameter(name: str) -> None:
    called = named(name)
    found = entries(called, "Args")
    # Of those with a star the text before may say enough.
    assert found == [one for one in parameters_of(called) if one[0] != "*" or one in found]


@pytest.mark.parametrize("name", sorted(name for name in DOCUMENTED if inspect.isclass(named(name))))
def test_a_class_that_lists_parameters_or_attributes_lists_all_of_them_in_order(name: str) -> None:
    found = named(name)
    if made := entries(found, "Args"):
        assert made == [one for one in parameters_of(found) if one[0] != "*" or one in made]
    if (shown := entries(found, "Attributes")) and dataclasses.is_dataclass(found):
        assert shown == [one.name for one in dataclasses.fields(found) if one.name[0] != "_"]


def test_docstrings_have_entries_for_parameters_and_errors_that_there_are() -> None:
    wrong = []
    n_entries = 0
    for name, about in documented():
        args, raised = entries(about, "Args"), entries(about, "Raises")
        n_entries += len(args) + len(raised)
        text = inspect.getdoc(about) or ""
        wrong += [f"{name}: no parameter {one}" for one in args if one not in parameters_of(about)]
        known = (errors, builtins, concurrent.futures)
        wrong += [f"{name}: no error {one}" for one in raised if not any(hasattr(where, one) for where in known)]
        wrong += [
            f"{name}: an entry without text: {line}" for line in text.splitlines() if re.match(r"    \w+:$", line)
        ]
    assert wrong == []
    assert n_entries > 500


def test_pages_become_links_and_literals_end() -> None:
    assert layout().linked("``x``s do ``it`` (docs/feeds/csv.md).") == "``x``\\ s do ``it`` (:doc:`/feeds/csv`)."


def test_parameters_of_ours_are_not_shown() -> None:
    assert layout().without_private("(a, *, b=1, _c=f(2), d=3)") == "(a, *, b=1, d=3)"
    assert layout().without_private("(path, *, _more=None)") == "(path)"


def test_no_part_of_a_property_s_first_line_is_taken_for_its_type() -> None:
    sphinx: Any = None
    for what, hidden in (("property", True), ("method", False)):
        lines = ["What it has: a word.", "", "More: of it."]
        layout()._begin(sphinx, what, "strand.a", None, None, lines)
        assert (":" not in lines[0]) is hidden
        assert lines[2] == "More: of it."
        layout()._process(sphinx, what, "strand.a", None, None, lines)
        assert lines[0] == "What it has: a word."
