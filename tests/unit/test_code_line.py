"""A line of code as text."""

from __future__ import annotations

import pytest

from strand.brief import CodeLine

pytestmark = pytest.mark.python


def test_it_names_file_and_line_and_its_text_where_there_is_one() -> None:
    assert str(CodeLine("mine.py", 3, "x = 1")) == "mine.py:3: x = 1"
    assert str(CodeLine("<stdin>", 3, "")) == "<stdin>:3"
