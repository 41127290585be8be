"""Figures as parts of a page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from strand.report.canvas import PLACEHOLDERS, inline_svg, new_figure, styled

pytestmark = pytest.mark.python


pytest.importorskip("matplotlib")


def figure() -> object:
    with styled(PLACEHOLDERS):
        found = new_figure(2, PLACEHOLDERS)
        found.subplots().plot([1, 2], [3, 4], color=PLACEHOLDERS.one)
    return found


def test_colours_become_variables_and_the_description_is_text() -> None:
    text = inline_svg(figure(), 'a "b" <c> & d')
    assert "var(--one)" in text
    assert not any(colour in text for colour in ("#0a0b01", "#0a0b04", "<metadata"))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("aria-label") == 'a "b" <c> & d'
    assert "width" not in root.attrib


def test_one_figure_drawn_twice_is_one_text() -> None:
    assert inline_svg(figure(), "x") == inline_svg(figure(), "x")
