"""Cboe PITCH in text: historical files and logs of TCP sessions, as they are or compressed.

Layout of the messages: Cboe, "US Equities TCP Depth of Book (PITCH) Specification". The ticks of each message:
csrc/codec/pitch/pitch.h and docs/feeds/pitch.md. ``flags`` of orders,
auctions and other status ticks are constants of this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final, Unpack

from strand.binding import decoders as _pitch
from strand.binding.decoders import (
    ATTRIBUTED,
    AUCTION,
    AUCTION_SUMMARY,
    BROKEN_TRADE,
    NON_DISPLAYED,
    RETAIL_INTEREST,
    PitchDecoder,
)
from strand.feeds.formats.decoded import DecodedFeed, orders_info, times_since
from strand.feeds.formats.options import DatedOptions
from strand.options import named_options
from strand.ticks import Flags

__all__ = [
    "ATTRIBUTED", "AUCTION", "AUCTION_SUMMARY", "BROKEN_TRADE", "NON_DISPLAYED", "RETAIL_INTEREST", "PitchFeed",
    "recognise",
]  # fmt: skip

_HEAD_BYTES: Final = 4096
#: No bit of an order or a trade says that it does not count.
_FLAGS: Final = Flags(other=NON_DISPLAYED | ATTRIBUTED)
_MESSAGE: Final = re.compile(rb"S?(?P<ms>\d{8})(?P<type>[sAdEXPrBHIJR])")


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` looks like PITCH.

    True when the first line starts with a time within a day and a known type, and is as long as that type's messages.
    Empty lines and packets of a session are passed over.
    """
    lines = head.split(b"\n")
    for at, line in enumerate(lines):
        text = line.removesuffix(b"\r")
        if text in (b"", b"H", b"Z"):
            continue
        found = _MESSAGE.match(text)
        if found is None or int(found["ms"]) >= 86_400_000:
            return False
        length = _pitch.message_length(found["type"][0]) + text.startswith(b"S")
        return len(text) == length or (at == len(lines) - 1 and len(text) < length)
    return False


@named_options("PitchFeed()", declares=DatedOptions)
class PitchFeed(DecodedFeed):
    """Reads a PITCH file as batches of ticks. Lines that are no messages are damage.

    Args:
        path: The file.

    Raises:
        UnknownFormatError: If the file does not start as PITCH does.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
    """

    _decoder: PitchDecoder

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[DatedOptions]) -> None:
        super().__init__(path, options, headroom=_pitch.MAX_LINE)
        refusal = "does not start with a PITCH message (eight digits of time, then a known type)"
        _, names, details = self._read_head(_HEAD_BYTES, recognise, refusal)
        day = self._dated(options["date"], names)
        self._decoder = PitchDecoder(**self._options)
        self._names: list[str] = [""]
        self._info = orders_info("pitch", self._path, "Cboe", day, details | times_since(day), flags=_FLAGS)

    @property
    def symbols(self) -> Sequence[str]:
        """Names in the order they first come, ``""`` before them: grows while batches are read."""
        if len(self._names) < self._decoder.symbol_count:
            self._names = self._decoder.symbols()
        return self._names

    @property
    def max_symbols(self) -> int:
        """65,536: PITCH names symbols in each message, and does not say how many there are."""
        return _pitch.SYMBOLS

    def _begin(self) -> PitchDecoder:
        _ = self.symbols  # those of the last iteration stay known: they come in the same order again
        self._decoder = PitchDecoder(**self._options)
        return self._decoder
