"""Feeds and streams made of others: merged in the order of a replay, put in order, one symbol table for all, days that
end, and the selection of ticks. Knows no format.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strand.moved import refuse_missing

if not TYPE_CHECKING:
    __getattr__ = partial(refuse_missing, __name__)
