"""Colours: told apart by the colour-blind, in order of brightness, on light and on dark ground."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

__all__ = ["DARK", "LIGHT", "Palette", "css"]


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
