"""Empty figures in the project's style; the only place that asks whether matplotlib is there."""

from __future__ import annotations

import importlib
import io
from contextlib import AbstractContextManager
from typing import Any, Final

from strand.errors import MissingExtraError
from strand.report.palette import Palette

__all__ = ["matplotlib", "new_figure", "styled"]

#: Inches.
WIDTH: Final = 9.5


def matplotlib(module: str = "") -> Any:
    """The package, or one of its modules. Raises MissingExtraError."""
    try:
        return importlib.import_module(f"matplotlib.{module}" if module else "matplotlib")
    except ImportError as error:
        raise MissingExtraError("plotting", "matplotlib", "plot") from error


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
