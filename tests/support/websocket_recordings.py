"""Recordings of a WebSocket's messages, and what is read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from reading import read
from websocket_server import TRADES

import strand
from strand.errors import FeedError
from strand.feeds.formats.json.profile import read_profile
from strand.feeds.formats.json.reader import RecordedMessages
from strand.feeds.formats.websocket import Header, MessageRecorder

HEADER = Header(read_profile(TRADES), "ws://127.0.0.1:1/", "raise", (), 16, 1 << 16)


def recorded(path: Path, *messages: str | bytes, header: Header = HEADER) -> Path:
    """A recording of messages, 1 s apart."""
    with MessageRecorder(path, header) as recorder:
        recorder.event("connected", "to a server", 10**18)
        for at, data in enumerate(messages, 1):
            recorder.message(data, 10**18 + at * 10**9)
    return path


def taken(path: Path, **options: Any) -> tuple[np.ndarray, FeedError | None]:
    """The ticks, and the error behind them."""
    try:
        with RecordedMessages(path, **options) as feed:
            return read(feed)
    except FeedError as error:
        return strand.ticks.empty(0), error
