"""Makes the modules of tests/support importable: reference implementations shared by tests and fuzz seeds."""

from __future__ import annotations

import sys
from pathlib import Path

SUPPORT = str(Path(__file__).resolve().parent.parent / "support")
if SUPPORT not in sys.path:
    sys.path.insert(0, SUPPORT)
