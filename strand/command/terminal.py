"""Text for a terminal: names come from files, and a control character in one would move the cursor or hide a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

__all__ = ["TerminalConsole", "printable"]


def printable(text: str) -> str:
    """The text with each character that is not to be seen as its escape, such as ``\\x1b``; ends of lines stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        letter if letter == "\n" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


class TerminalConsole(Console):
    """A console that shows all text ``printable``."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See ``rich.console.Console.render``; what moves the cursor for rich itself is a control segment."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
