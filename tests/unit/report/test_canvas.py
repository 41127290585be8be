"""Empty figures, and the style of what is drawn into them."""

from __future__ import annotations

import sys

import pytest

from strand.errors import MissingExtraError
from strand.report.canvas import DARK, LIGHT, WIDTH, matplotlib, new_figure, styled

pytestmark = pytest.mark.python


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"strand\[plot\]"):
        matplotlib()


def test_a_figure_shows_itself_as_a_picture_and_needs_no_window() -> None:
    pytest.importorskip("matplotlib")
    figure = new_figure(2, DARK)
    assert figure.get_size_inches().tolist() == [WIDTH, 2]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_style_holds_in_its_block_alone() -> None:
    pytest.importorskip("matplotlib")
    before = dict(matplotlib().rcParams)
    with styled(LIGHT, **{"font.size": 5}):
        assert matplotlib().rcParams["text.color"] == LIGHT.ink
        assert matplotlib().rcParams["font.size"] == 5
    assert dict(matplotlib().rcParams) == before
