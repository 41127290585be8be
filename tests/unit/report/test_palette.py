"""Colours of pages and figures."""

from __future__ import annotations

import re
from dataclasses import astuple

import pytest

from strand.report.canvas import DARK, LIGHT, Palette, css

pytestmark = pytest.mark.python


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_what_is_written_can_be_read_on_the_ground(palette: Palette) -> None:
    for name, least in (("ink", 4.5), ("quiet", 4.5), ("one", 3), ("two", 3), ("three", 3)):
        pair = sorted((luminance(getattr(palette, name)), luminance(palette.ground)))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, name


def test_each_colour_is_a_variable() -> None:
    assert re.findall(r"--(\w+): (#\w{6});", css(LIGHT)) == list(zip(Palette.__slots__, astuple(LIGHT), strict=True))
