"""Values as JSON has them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["to_json"]


def to_json(value: Any) -> Any:
    """A field's value as JSON has it."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [to_json(v) for v in value] if isinstance(value, list | tuple) else value
