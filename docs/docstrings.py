"""Changes to docstrings, which are in Google's style, for Sphinx: links to pages, and parts that are no user's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["linked", "setup", "with_policies", "without_private"]

_PAGE = re.compile(r"(?<![\w`/])docs/([\w/-]+)\.md")
#: A literal with letters right behind it, which reStructuredText takes for no end.
_LITERAL = re.compile(r"(``.+?``)([A-Za-z]?)")
#: Stands for a colon while napoleon reads.
_COLON = "\ue000"


def linked(line: str) -> str:
    """The pages that a line names become links, and each literal of it has an end."""
    apart = _LITERAL.sub(lambda found: rf"{found[1]}\ {found[2]}" if found[2] else found[1], line)
    return _PAGE.sub(r":doc:`/\1`", apart)


def without_private(signature: str) -> str:
    """A parameter whose name begins with an underline is none of the user's."""
    shown = re.sub(r", _\w+(?:=(?:[^,()]|\([^()]*\))*)?(?=[,)])", "", signature)
    return shown.replace(", *)", ")")


def with_policies(page: str) -> str:
    """A page with the class of each policy in place of the line ``.. policies::``."""
    if "\n.. policies::\n" not in page:
        return page
    from strand.policies.policy import POLICIES

    entries = "\n".join(f".. autoclass:: strand.{kind.__name__}\n   :members:\n" for kind in POLICIES.values())
    return page.replace("\n.. policies::\n", f"\n{entries}")


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    source[:] = map(with_policies, source)


def _begin(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes the text before a colon in the first line of a property for its type: so it is shown none."""
    if what in ("property", "attribute") and lines:
        lines[0] = lines[0].replace(":", _COLON)


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [linked(line.replace(_COLON, ":")) for line in lines]


def _sign(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    return (without_private(signature) if signature else signature), returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _begin, priority=400)  # napoleon has 500
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _sign)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
