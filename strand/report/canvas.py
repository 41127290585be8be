"""Figures: their colours, their canvas, and their text as SVG."""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from typing import Any, Final

from strand.fixed import dataclass
from strand.lazy import imported
from strand.zones import FeedClock


@dataclass(frozen=True, slots=True)
class Palette:
    """``ink`` writes, ``quiet`` writes what matters less, ``rule`` draws axes, ``one`` to ``three`` draw data (blue,
    orange and green, after Okabe and Ito, https://jfly.uni-koeln.de/color/)."""

    ink: str
    quiet: str
    rule: str
    one: str
    two: str
    three: str
    ground: str


LIGHT: Final = Palette("#1b2329", "#5b6770", "#c9d0d5", "#0072b2", "#d55e00", "#00805f", "#ffffff")
DARK: Final = Palette("#e6eaed", "#9aa6af", "#3d474f", "#5ab4f0", "#f59a57", "#3ecfa4", "#14191d")


def css(palette: Palette) -> str:
    """The palette as CSS variables."""
    return " ".join(f"--{name}: {colour};" for name, colour in asdict(palette).items())


#: Inches.
WIDTH: Final = 9.5


def matplotlib(module: str = "") -> Any:
    """The package, or one of its modules. Raises MissingExtraError."""
    return imported(f"matplotlib.{module}" if module else "matplotlib", "plot", "plotting")


def new_figure(height: float, palette: Palette) -> Any:
    """An empty figure that notebooks show by themselves, whatever is set up in them. Raises MissingExtraError."""
    base: Any = matplotlib("figure").Figure

    class RunFigure(base):  # type: ignore[misc]
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=120)
            return picture.getvalue()

    return RunFigure(figsize=(WIDTH, height), layout="constrained", facecolor=palette.ground)


def styled(palette: Palette, **others: Any) -> AbstractContextManager[None]:
    """Applies the project's style to figures that are made or written in the block, and leaves the user's settings
    alone."""
    style = {
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlecolor": palette.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": palette.rule,
        "axes.facecolor": "none",
        "axes.labelcolor": palette.quiet,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": palette.rule,
        "grid.linewidth": 0.5,
        "xtick.color": palette.rule,
        "ytick.color": palette.rule,
        "xtick.labelcolor": palette.quiet,
        "ytick.labelcolor": palette.quiet,
        "text.color": palette.ink,
        "legend.frameon": False,
        # A name with two dollars in it is no formula.
        "text.parse_math": False,
    }
    block: AbstractContextManager[None] = matplotlib().rc_context(style | others)
    return block


def feed_time_axis(axis: Any, clock: FeedClock, words: str) -> None:
    """Times below an axis of dates, by a clock, which is named behind ``words``."""
    dates = matplotlib("dates")
    locator = dates.AutoDateLocator(tz=clock.zone)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=clock.zone))
    axis.set_xlabel(f"{words}, {clock.name}")


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
