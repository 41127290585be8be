"""Figures as SVG to stand in a page: their text is text, their colours are the page's CSS variables."""

from __future__ import annotations

import io
import re
from dataclasses import fields
from typing import Any, Final

from strand.report.canvas import styled
from strand.report.palette import Palette

__all__ = ["PLACEHOLDERS", "inline_svg"]

#: Colours that nothing else is drawn in; each becomes the variable of its name.
PLACEHOLDERS: Final = Palette("#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05", "#0a0b06", "none")


def inline_svg(figure: Any, description: str) -> str:
    """The figure as an ``<svg>`` element as wide as where it stands; ``description`` is for who cannot see it."""
    text = io.StringIO()
    # The same figure gives the same bytes, and equal ids only where what they name is equal.
    with styled(PLACEHOLDERS, **{"svg.fonttype": "none", "svg.hashsalt": "strand"}):
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    opening, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    assert box is not None
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r'<g id="(?!p|m)[^"]*">', "<g>", rest)
    rest = re.sub(r"font: ([\w ]*?)([\d.]+px) [^;\"]*", r"font: \1\2 var(--font)", rest)
    for field in fields(Palette):
        colour = getattr(PLACEHOLDERS, field.name)
        if colour != "none":
            rest = rest.replace(colour, f"var(--{field.name})")
    label = _escape(description)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0]} '
        f'role="img" aria-label="{label}">{rest.strip()}'
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
