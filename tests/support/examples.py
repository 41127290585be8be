"""Number of examples for a property that asks for a number of its own."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["examples"]

#: Examples per hundred, by profile. Under a sanitizer each takes several times as long.
_SHARE: Final = {"asan": 10, "proof": 1000}


def examples(n: int) -> int:
    """``n`` by the profile: a third of them in the test suite, ten times as many in ``make proof``, 8 at least."""
    return max(8, n * _SHARE.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 33) // 100)
