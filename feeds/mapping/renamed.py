"""Keys and words of profiles that had another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strand.feeds.base import RENAMED as OPTIONS

__all__ = ["RENAMED"]

#: By what it was called: what it is called now. Options and keys of profiles share some names.
RENAMED: Final[Mapping[str, str]] = {
    **OPTIONS, "worth": "unit", "path": "column", "symbol_constant": "symbol.constant", "iso": "stamp",
}  # fmt: skip
