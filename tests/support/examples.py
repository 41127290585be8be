"""Number of examples for a property that asks for more than its profile."""

from __future__ import annotations

import os

__all__ = ["examples"]


def examples(n: int) -> int:
    """``n``; a tenth of them, 8 at least, under a sanitizer, where each takes several times as long."""
    return max(8, n // 10) if os.environ.get("HYPOTHESIS_PROFILE") == "asan" else n
