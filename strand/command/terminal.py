"""A console whose text moves no cursor. It imports rich, which takes longer than the rest of a command's start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from strand.report.printing import printable

__all__ = ["TerminalConsole", "standard_output"]

#: Letters in a line, where no line is broken.
_ENDLESS: Final = 1 << 20


class TerminalConsole(Console):
    """A console that shows all text ``printable``."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See ``rich.console.Console.render``; what moves the cursor for rich itself is a control segment."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def standard_output() -> TerminalConsole:
    """A console as wide as the terminal. Elsewhere no line is broken and no cell is cut: what reads a pipe wants them
    whole."""
    console = TerminalConsole()
    return console if console.is_terminal else TerminalConsole(width=_ENDLESS)
