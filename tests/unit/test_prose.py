"""``tools/prose.py`` finds long sentences, broken lines and long paragraphs, and nothing in tables and code."""

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
