"""Check of the English in documents and docstrings: part of `make lint`.

    python tools/prose.py               names the faults, and fails if there are any
    python tools/prose.py --pronouns    shows the sentences of docstrings with three pronouns or more

A line of a paragraph ends where a sentence ends, a sentence has at most 25 words, and a paragraph at most six lines.
Headings, tables and code are not looked at. Code in a line counts as one word, and `;` and `:` end a sentence.

A docstring begins with a noun or a verb, and so with none of the words in `QUESTIONS`. Tests are not looked at.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
#: `make proof` writes this page.
WRITTEN = ROOT / "docs/proof.md"
WORDS, LINES, PRONOUNS = 25, 6, 3
#: A docstring that begins with one of these names nothing and does nothing.
QUESTIONS = frozenset(("What", "Which", "How", "Where", "When", "Whether", "Who", "Whom", "Whose", "Why"))
_END = re.compile(r"[.:;!?][)*\"]*$")
_SENTENCE = re.compile(r"(?<=[.:;!?])[)*\"]*\s+")
_PRONOUN = re.compile(
    r"\b(it|its|itself|they|them|their|theirs|those|these|one|ones|another|others|what|who|whom|whose)\b", re.IGNORECASE
)


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


def modules(root: Path) -> list[Path]:
    """Every Python file but those of tests."""
    folders = ("strand", "feeds", "bench", "examples", "docs", "tools")
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Each docstring of a Python file, with its line from 1."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found is not None:
                yield node.body[0].lineno, found


def docstring_faults(text: str) -> Iterator[tuple[int, str]]:
    """Each docstring of a Python file that begins with a question, with its line from 1."""
    for line, found in docstrings(text):
        word = re.match(r"\w*", found)
        if word is not None and word[0] in QUESTIONS:
            yield line, f"the docstring begins with {word[0]}: name the thing, or say what it does"


def many_pronouns(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence in the docstrings of a Python file with three pronouns or more, with the docstring's line."""
    for line, found in docstrings(text):
        for paragraph in found.split("\n\n"):
            for sentence in _SENTENCE.split(" ".join(paragraph.split())):
                if len(_PRONOUN.findall(re.sub(r"``.*?``", "code", sentence))) >= PRONOUNS:
                    yield line, sentence


def main(arguments: list[str]) -> int:
    """1 where a document or a docstring has a fault."""
    checks = [(documents, faults), (modules, docstring_faults)]
    if arguments == ["--pronouns"]:
        checks = [(modules, many_pronouns)]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for files, check in checks
        for path in files(ROOT)
        for line, fault in check(path.read_text("utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found) and checks[0][1] is faults


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
