"""Sets of parameters, as a user gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from strand.errors import ConfigurationError

ParameterSet = dict[str, Any]


def parameter_sets(params: Any) -> list[ParameterSet]:
    """The sets, in their order: of a sequence of dicts, or a DataFrame of pandas or polars with a column a parameter.

    Raises ConfigurationError for what is neither, for no set at all, and for one that comes twice.
    """
    rows = params
    if hasattr(params, "to_dicts"):
        rows = params.to_dicts()
    elif hasattr(params, "to_dict") and not isinstance(params, Mapping):
        rows = params.to_dict("records")
    if isinstance(rows, Mapping | str) or not isinstance(rows, Sequence):
        raise ConfigurationError(
            "params", f"{type(params).__name__} is no list of dicts, one a set, and no DataFrame with one a row"
        )
    found: list[ParameterSet] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or not row or not all(isinstance(name, str) for name in row):
            raise ConfigurationError("params", f"set {number}: {row!r} is not a dict of parameters by name")
        text = text_of(row)
        if text in seen:
            raise ConfigurationError("params", f"set {number} is the same as set {seen[text]}: {text}")
        seen[text] = number
        found.append(dict(row))
    if not found:
        raise ConfigurationError("params", "there is no set")
    return found


def text_of(values: Mapping[str, Any]) -> str:
    """A set as one line of JSON, the same for the same values."""
    try:
        return json.dumps(_plain(values), sort_keys=True, allow_nan=True)
    except TypeError as error:
        raise ConfigurationError("params", f"{dict(values)!r}: a parameter is a number or text: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
