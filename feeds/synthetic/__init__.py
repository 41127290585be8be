"""Made-up trading days: the market, what it is calibrated to, how close it comes, and its files in several formats."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strand.moved import refuse_missing

if not TYPE_CHECKING:
    __getattr__ = partial(refuse_missing, __name__)
