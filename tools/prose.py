"""How documents are written: part of `make lint`.

    python tools/prose.py

A line of a paragraph ends where a sentence ends, a sentence has at most 25 words, and a paragraph at most six lines.
Headings, tables and code are not looked at. Code in a line counts as one word, and `;` and `:` end a sentence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
#: `make proof` writes this page.
WRITTEN = ROOT / "docs/proof.md"
WORDS, LINES = 25, 6
_END = re.compile(r"[.:;!?][)*\"]*$")
_SENTENCE = re.compile(r"(?<=[.:;!?])[)*\"]*\s+")


def documents(root: Path) -> list[Path]:
    """Every document of the project."""
    found = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "csrc").rglob("*.md")]
    return sorted(path for path in found if path != WRITTEN and "_build" not in path.parts)


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Each fault of a document, with its line from 1."""
    before = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline" and before == "paragraph_open" and token.map is not None:
            first, lines = token.map[0] + 1, _lines(token)
            if len(lines) > LINES:
                yield first, f"the paragraph has {len(lines)} lines"
            for number, line in enumerate(lines[:-1], first):
                if not _END.search(line):
                    yield number, "the line ends within a sentence"
            for sentence in _SENTENCE.split(" ".join(lines)):
                if (words := sum(1 for word in sentence.split() if re.search(r"\w", word))) > WORDS:
                    yield first, f"a sentence has {words} words: {sentence[:40]}..."
        before = token.type


def _lines(token: Token) -> list[str]:
    """The lines of a paragraph as they are read: text of links, and a word for each piece of code."""
    pieces = []
    for child in token.children or []:
        if child.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif child.type == "code_inline":
            pieces.append("code")
        else:
            pieces.append(child.content)
    return "".join(pieces).split("\n")


def main() -> int:
    """1 where a document has a fault."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in documents(ROOT)
        for line, fault in faults(path.read_text("utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
