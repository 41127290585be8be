"""``tools/prose.py`` finds long sentences, broken lines and long paragraphs, and nothing in tables and code.

It finds docstrings that begin with a question, and shows sentences of many pronouns.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.python

SOUND = f"""\
# A heading of any length {"and more " * 40}

A first sentence. A second one has `code {"and more " * 40}`, and [text](https://example.org/{"a" * 300}):
the next line begins behind a colon.

| a table | {"and more " * 40} |
|---|---|
| a | b |

- An item that ends (in brackets.)
  And **another line.**

```python
line = "ends
within" {"and more " * 40}
```
"""


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "tools/prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sound_document_has_no_fault(prose: ModuleType) -> None:
    assert [*prose.faults(SOUND)] == []


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("# One\n\nIt ends here.\nA line that\nis broken.\n", 4, "the line ends within a sentence"),
        ("- an item, whose line\n  is broken\n", 1, "the line ends within a sentence"),
        ("One.\n\n" + "word " * 25 + "`code`.\n", 3, "a sentence has 26 words: " + ("word " * 8) + "..."),
        ("One.\n" * 7, 1, "the paragraph has 7 lines"),
    ],
)
def test_each_fault_is_found_with_its_line(prose: ModuleType, text: str, line: int, fault: str) -> None:
    assert [*prose.faults(text)] == [(line, fault)]


def test_the_documents_of_all_folders_are_looked_at(prose: ModuleType) -> None:
    found = {str(path.relative_to(ROOT)) for path in prose.documents(ROOT)}
    assert {"README.md", "CHANGELOG.md", "docs/design.md", "docs/howto/pairs.md", "csrc/engine/README.md"} <= found
    assert "docs/proof.md" not in found


MODULE = '''"""What a module is."""


class Rows:
    """Rows of a run. What they hold is theirs."""

    def at(self, key):
        """
        Whether a row is there.
        """

    async def wait(self):
        """Waits for ``it, its, them``, how long it takes."""


def whole(value):
    """Howard's rule."""
    """What comes second is no docstring."""
'''


def test_a_docstring_that_begins_with_a_question_is_a_fault(prose: ModuleType) -> None:
    found = [(line, fault.partition(":")[0]) for line, fault in prose.docstring_faults(MODULE)]
    assert found == [(1, "the docstring begins with What"), (8, "the docstring begins with Whether")]


@pytest.mark.parametrize("word", ["What", "Which", "How", "Where", "When", "Whether", "Who"])
def test_no_question_begins_a_docstring(prose: ModuleType, word: str) -> None:
    assert len([*prose.docstring_faults(f'"""{word} it is."""')]) == 1


def test_sentences_with_three_pronouns_are_shown_and_code_is_none(prose: ModuleType) -> None:
    assert [*prose.many_pronouns(MODULE)] == [(5, "What they hold is theirs.")]


def test_docstrings_of_the_whole_library_are_looked_at(prose: ModuleType) -> None:
    found = {str(path.relative_to(ROOT)) for path in prose.modules(ROOT)}
    assert {"strand/__init__.py", "strand/handlers/base.py", "feeds/base.py", "feeds/formats/csv/reader.py"} <= found
