"""Feeds that come over the network: MoldUDP64 on one line or two, and JSON over a WebSocket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strand.moved import refuse_missing

if not TYPE_CHECKING:
    __getattr__ = partial(refuse_missing, __name__)
