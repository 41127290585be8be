"""Numbers of rows and records in natural units, for figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand.ticks import PRICE_SCALE, UNDEF_PRICE

__all__ = ["prices_of", "sizes_of"]


def prices_of(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Prices in units of currency, NaN where there is none: integers are in 1e-9, floats in that unit already."""
    found = values.astype(np.float64)
    if values.dtype.kind == "f":
        return found
    return np.where((values == UNDEF_PRICE) | (values == -1 - UNDEF_PRICE), np.nan, found / PRICE_SCALE)


def sizes_of(values: npt.NDArray[Any], size_unit: float | None) -> npt.NDArray[np.float64]:
    """Sizes in units of the instrument: integers count ``size_unit``, floats are in that unit already. NaN where nobody
    knows the unit, because merged files differ in it."""
    found = values.astype(np.float64)
    return found if values.dtype.kind == "f" else found * (np.nan if size_unit is None else size_unit)
