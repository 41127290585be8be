"""NASDAQ TotalView-ITCH 5.0 files, as they are or compressed.

Layout of the messages: Nasdaq, "TotalView-ITCH 5.0". The ticks of each message: csrc/codec/itch/itch.h.
csrc/codec/itch/itch.h. In short: ``instrument_id`` is the stock locate, and ``sequence`` the message's position in the
file from 1; ``ref_id`` is the new order of a replace (action M) or the match number of an execution; a delete is action
C of size 0, which stands for all that is left; executions without a price of their own carry ``UNDEF_PRICE``. ``flags``
of orders and trades are the constants of this module.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from strand.binding import itch as _itch
from strand.binding.itch import (
    ATTRIBUTED,
    BROKEN_TRADE,
    CROSS,
    CROSS_CLOSING,
    CROSS_HALT,
    CROSS_INTRADAY,
    CROSS_MASK,
    CROSS_OPENING,
    DIRECT_LISTING,
    DIRECT_LISTING_OPEN,
    IMBALANCE,
    IPO_CANCELED,
    IPO_QUOTING,
    LULD_COLLAR,
    NON_PRINTABLE,
    OPERATIONAL_HALT,
    OPERATIONAL_RESUME,
    REG_SHO,
    RETAIL_INTEREST,
    ItchDecoder,
)
from strand.feeds.formats.decoded import BATCH_STEP, DecodedFeed, times_since
from strand.feeds.formats.itch.directory import ItchNames, ItchSymbols, MarketEvent
from strand.feeds.formats.itch.stripes import StripedItch, worth_striping
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.sources import RawStream
from strand.feeds.io.streams import InflateLimits, InputStream
from strand.feeds.selection import Selection

__all__ = [
    "ATTRIBUTED",
    "BROKEN_TRADE",
    "CROSS",
    "CROSS_CLOSING",
    "CROSS_HALT",
    "CROSS_INTRADAY",
    "CROSS_MASK",
    "CROSS_OPENING",
    "DIRECT_LISTING",
    "DIRECT_LISTING_OPEN",
    "IMBALANCE",
    "IPO_CANCELED",
    "IPO_QUOTING",
    "LULD_COLLAR",
    "NON_PRINTABLE",
    "OPERATIONAL_HALT",
    "OPERATIONAL_RESUME",
    "REG_SHO",
    "RETAIL_INTEREST",
    "ItchFeed",
    "MarketEvent",
    "recognise",
]

_HEAD_BYTES: Final = 64
_DAY_NS: Final = 86_400_000_000_000


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` (16 bytes are enough) looks like ITCH 5.0.

    True when the first message has a known type, a length field that is 0 or that type's, and a time within a day.
    """
    if len(head) < 3:
        return False
    prefix = int.from_bytes(head[:2], "big")
    length = _itch.message_length(head[2])
    if length == 0 or prefix not in (0, length):
        return False
    return int.from_bytes(head[7:13].ljust(6, b"\0"), "big") < _DAY_NS


class ItchFeed(ItchNames, DecodedFeed):
    """Reads an ITCH 5.0 file as batches of ticks.

    Args:
        path: The file.
        date: The trading day, which the file does not say: ``datetime.date`` or ``"YYYY-MM-DD"``. By default it is
            taken from the file's name (``01302019.NASDAQ_ITCH50``, ``S010220-v50.txt.gz``, ``20190130...``). With
            neither, times count from 1970-01-01T00:00 instead of that day's midnight in New York, and ``info.date`` is
            None.
        on_bad_record: ``"raise"``, or ``"skip"`` to skip messages of unknown type or with an impossible field, and
            stretches in which the frames are out of step. ``skipped`` counts them and keeps some (docs/feeds/itch.md).
        select: Only these ticks are read; the decoder makes no others. None: all.
        batch_ticks: Ticks in a full batch, a multiple of 4,096.
        limits: How far a compressed file may expand; None: ``InflateLimits()``.

    Raises:
        UnknownFormatError: If the file does not start as ITCH 5.0 does.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
    """

    _decoder: ItchDecoder

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        date: dt.date | str | None = None,
        on_bad_record: Literal["raise", "skip"] = "raise",
        select: Selection | None = None,
        batch_ticks: int = 4 * BATCH_STEP,
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__(
            path,
            on_bad_record=on_bad_record,
            select=select,
            batch_ticks=batch_ticks,
            limits=limits,
            headroom=_itch.MAX_FRAME,
        )
        refusal = "does not start with an ITCH 5.0 message (a length of 0 or of the type's, then a known type)"
        _, names, details = self._read_head(_HEAD_BYTES, recognise, refusal)
        day = self._dated(date, names)
        self._options["attributes"] = True
        self._decoder = ItchDecoder(**self._options)
        self._used = False
        self._symbols = ItchSymbols(self._decoder)
        self._info = self._orders_info("itch50", _venue_in_names(names), day, details | times_since(day), _itch.FLAGS)

    @property
    def takes_feeder(self) -> bool:
        # Stripes of a selection are decoded beside this, and come as arrays.
        return super().takes_feeder and "keeps" not in self._options

    def _begin(self) -> ItchDecoder:
        if self._used:
            self._decoder = ItchDecoder(**self._options, directory_of=self._decoder)
            self._symbols.follow(self._decoder)
        self._used = True
        return self._decoder

    def _chunks_of(self, stream: InputStream) -> Chunks:
        if "keeps" in self._options and isinstance(stream, RawStream) and worth_striping(stream.size):
            return StripedItch(stream, self._decoder, headroom=self._headroom)
        return super()._chunks_of(stream)

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        ``messages``, ``ticks``, ``not_selected`` (ticks not made because they are not wanted), ``type_X`` (messages of
        type X), ``skipped_unknown_type``, ``skipped_bad_field``, ``skipped_bytes`` (searched for the next message),
        and what ``DecodedFeed`` adds of reading.
        """
        return super().statistics()


def _venue_in_names(names: Iterable[str]) -> str:
    """The market identifier: Nasdaq's other two markets name themselves in their files' names."""
    said = [Path(name).name.upper() for name in names]
    if any("PSX" in name for name in said):
        return "XPSX"
    return "XBOS" if any("BX_ITCH" in name for name in said) else "XNAS"
