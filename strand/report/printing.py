"""Text for a terminal: names come from files, and a control character in one would move the cursor or hide a line."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """The text with each character that is not to be seen as its escape, such as ``\\x1b``; ends of lines stay."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        letter if letter == "\n" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
