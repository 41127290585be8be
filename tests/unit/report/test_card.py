"""A result in a notebook."""

from __future__ import annotations

import pytest

import strand

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from page_reader import Reader

pytestmark = pytest.mark.python


def test_a_notebook_shows_a_result_as_a_small_table(day: strand.ReplayResult) -> None:
    html = day._repr_html_()
    text = Reader(html).text
    for words in ("200,500 of 500 symbols", "M ticks/s", "p99", "dropped nothing", "AAAHD 4,514"):
        assert words in text, words
    assert len(html) < 3000
