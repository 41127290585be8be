"""Numbers as figures and pages write them."""

from __future__ import annotations

__all__ = ["count"]


def count(n: float) -> str:
    """1200000 as 1.2M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= size:
            return f"{n / size:g}{unit}"
    return f"{n:g}"
