"""Options and keys of profiles that had another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["RENAMED"]

#: By what it was called: what it is called now.
RENAMED: Final[Mapping[str, str]] = {
    "worth": "unit", "price_scale": "price_unit", "size_scale": "size_unit", "fields": "columns", "path": "column",
    "symbol_constant": "symbol.constant", "iso": "stamp", "capacity": "max_symbols",
}  # fmt: skip
