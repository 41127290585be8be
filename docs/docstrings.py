"""Lays docstrings out for the reference: what is said of a parameter, and what is raised, is an item of a list.

A docstring says it in sentences: ``workers``: threads that drain. Raises ConfigurationError for ... The lines of the
docstring stay what they are; only the page has them apart.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["laid_out", "setup"]

#: A sentence that says what parameters mean: it begins a paragraph or follows a sentence.
_PARAMETERS = re.compile(r"(?:^|(?<=[.;:)] ))(?=``\w+``(?:(?:, | and |, and )``\w+``)*: )")
_NAMES = re.compile(r"^((?:``\w+``(?:, and | and |, )?)+): (.*)$", re.DOTALL)
_RAISES = re.compile(r"(?:^|(?<=[.)] ))(?=Raises [A-Z])")
#: A place between two sentences, of which the second begins with a name; and that name.
_SENTENCES = re.compile(r"(?<=[.)]) (?=``\w+`` )")
_SUBJECT = re.compile(r"``(\w+)``(?= )")
#: A literal with letters right behind it, which reStructuredText takes for no end.
_LITERAL = re.compile(r"(``.+?``)([A-Za-z]?)")
_PAGE = re.compile(r"(?<![\w`/])docs/([\w/-]+)\.md")


def _items(paragraph: str, parameters: frozenset[str]) -> list[str]:
    """A paragraph that is plain text, as itself or as items."""
    pieces = [
        piece.strip()
        for part in _RAISES.split(paragraph)
        for sentences in _PARAMETERS.split(part)
        for piece in _SENTENCES.split(sentences)
    ]
    found: list[str] = []
    for piece in filter(None, pieces):
        subject = _SUBJECT.match(piece)
        if named := _NAMES.match(piece):
            names = named[1].replace("``", "**")
            found.append(f"* {names}: {re.sub(';$', '.', named[2])}")
        elif piece.startswith("Raises "):
            found.append(f"* *Raises*: {piece.removeprefix('Raises ')}")
        elif subject and subject[1] in parameters:
            found.append(f"* **{subject[1]}**{piece[subject.end() :]}")
        elif found:
            found[-1] += f" {piece}"
        else:
            found.append(piece)
    return found


def _linked(text: str) -> str:
    """Pages that it names become links, and each literal has an end."""
    apart = _LITERAL.sub(lambda found: rf"{found[1]}\ {found[2]}" if found[2] else found[1], text)
    return _PAGE.sub(r":doc:`/\1`", apart)


def _table(lines: list[str]) -> list[str]:
    """The rows of a table as Markdown has it, whose second line is a rule."""
    found = [".. list-table::", "   :header-rows: 1", ""]
    for line in [lines[0], *lines[2:]]:
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        found += [f"   {'  ' if number else '* '}- {cell}" for number, cell in enumerate(cells)]
    return found


def laid_out(lines: list[str], parameters: frozenset[str] = frozenset()) -> list[str]:
    """The lines of a docstring, as reStructuredText with lists. ``parameters``: those of what it is about."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        if all(line.startswith("|") for line in paragraph.splitlines()):
            found += [*_table(paragraph.splitlines()), ""]
            continue
        plain = not any(line.startswith((" ", "-", "*", "+", "|", ">>>")) for line in paragraph.splitlines())
        if not plain:
            found += [*paragraph.splitlines(), ""]
            continue
        for item in _items(" ".join(paragraph.splitlines()), parameters):
            found += [_linked(item), ""]
    return found


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    try:
        parameters = frozenset(inspect.signature(obj).parameters)
    except (TypeError, ValueError):  # a constant, or what C made
        parameters = frozenset()
    lines[:] = laid_out(lines, parameters)


def _without_private(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A parameter whose name begins with an underline is none of the user's."""
    return (re.sub(r", _\w+(?:=(?:[^,()]|\([^()]*\))*)?(?=[,)])", "", signature) if signature else signature), returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _without_private)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
