"""Outputs that handlers declare."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

import numpy as np

from strand.errors import ConfigurationError
from strand.handlers.base import SingleHandler
from strand.handlers.state import check_attributes, row_dtype
from strand.validate import mapping

__all__ = ["check_fields", "output_dtypes"]

#: Columns that every output has beside the declared ones, in some kinds of files at least.
TAKEN = ("number", "sequence", "ts", "instrument_id", "symbol", "feed")
#: Bytes of the largest record.
LARGEST = 16_384


def output_dtypes(outputs: Mapping[str, Any] | None) -> dict[str, np.dtype[Any]]:
    """Records by output, in the order of the handler's numbers. Raises ConfigurationError for what cannot be one."""
    found: dict[str, np.dtype[Any]] = {}
    for name, declared in mapping("outputs", outputs or {}, "{'bars': BAR}").items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError("outputs", f"{name!r} cannot be an output's name: take one like 'bars'")
        dtype = row_dtype(declared, f"outputs.{name}")
        taken = [field for field in dtype.names or () if field in TAKEN]
        if taken:
            raise ConfigurationError(
                f"outputs.{name}", f"every record has a column {taken[0]!r} already: take another name"
            )
        if not 0 < dtype.itemsize <= LARGEST:
            raise ConfigurationError(f"outputs.{name}", f"a record has {dtype.itemsize} bytes, and at most {LARGEST}")
        found[name] = dtype
    return found


def check_fields(handler: SingleHandler, **more: np.dtype[Any]) -> None:
    """Raises ConfigurationError for a record of a compiled handler with a field that its code cannot name. ``more``:
    records that it has beside state, parameters and outputs."""
    records = {"state": handler.state, **more, **{f"outputs.{name}": one for name, one in handler.outputs.items()}}
    if handler.params is not None:
        records["params"] = handler.params.dtype
    for called, dtype in records.items():
        check_attributes(called, dtype, f"handler {handler.name!r}")
