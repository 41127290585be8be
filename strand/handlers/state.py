"""A symbol's row of state, as users declare it."""

from __future__ import annotations

from typing import Any

import numpy as np

from strand.errors import ConfigurationError

__all__ = ["row_dtype"]


def row_dtype(state: Any) -> np.dtype[Any]:
    """The dtype of a row. Raises ConfigurationError for what cannot be one."""
    try:
        dtype: np.dtype[Any] = np.dtype(state)
    except TypeError as error:
        raise ConfigurationError(f"state: {state!r} is no dtype: {error}") from error
    if dtype.names is None:
        raise ConfigurationError("state: give a structured dtype, for example [('volume', 'u8')]")
    if dtype.hasobject:
        raise ConfigurationError("state: rows are plain memory and cannot hold Python objects")
    return dtype
