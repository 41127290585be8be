"""Databento DBN files of version 1 to 3, as they are or compressed. Extra ``[dbn]``.

The package ``databento-dbn`` reads a file's metadata; csrc/codec/dbn/dbn.c decodes the records. Its header says what
each becomes as a tick, and docs/feeds/dbn.md has the same in a table. Prices are in units of 1e-9 already, ``flags``
are DBN's; those of status, imbalance and statistics ticks, and of bars, are the constants of this module.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal

from strand.binding import dbn as _dbn
from strand.binding.dbn import (
    IMBALANCE,
    QUOTING,
    SHORT_SELL_RESTRICTED,
    STATISTIC,
    TRADING,
    DbnDecoder,
    Question,
)
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.base import FeedInfo
from strand.feeds.formats.dbn.metadata import SymbolTable, name_in_mapping, read_metadata
from strand.feeds.formats.decoded import DecodedFeed, file_bytes
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.streams import InflateLimits, InputStream
from strand.feeds.mapping.rolls import roll_text
from strand.feeds.selection import Selection
from strand.validate import one_of, whole

__all__ = [
    "IMBALANCE",
    "QUOTING",
    "SHORT_SELL_RESTRICTED",
    "STATISTIC",
    "TRADING",
    "DbnFeed",
    "recognise",
]

_LAST_NS: Final = (1 << 64) - 1
_NEWEST_CONCEIVABLE: Final = 32
# Room for instruments that the metadata does not name: few where it names any.
_SPARE_BESIDE_NAMES: Final = 4096
_SPARE_ALONE: Final = 65536
# Bytes of a record, and its ticks, of schemas whose files hold nothing else and always make as many.
_RECORDS: Final = {"mbo": (56, 1), "trades": (48, 1), "bbo-1s": (80, 1), "bbo-1m": (80, 1), "cbbo-1s": (80, 1),
                   "cbbo-1m": (80, 1), "ohlcv-1s": (56, 4), "ohlcv-1m": (56, 4), "ohlcv-1h": (56, 4),
                   "ohlcv-1d": (56, 4)}  # fmt: skip
#: The length of a bar by schema, in ns.
_BAR_NS: Final = {"ohlcv-1s": 10**9, "ohlcv-1m": 60 * 10**9, "ohlcv-1h": 3600 * 10**9, "ohlcv-1d": 86400 * 10**9,
                  "ohlcv-eod": 86400 * 10**9}  # fmt: skip
#: The same by the count of a type's records in statistics. The old type does not give it.
_BAR_TYPES: Final = {"type_11": 0, **{f"type_{0x20 + at:02x}": ns for at, ns in enumerate(_BAR_NS.values())}}


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` has DBN's letters and a version."""
    return head.startswith(b"DBN") and len(head) >= 8 and 0 < head[3] < _NEWEST_CONCEIVABLE


class DbnFeed(DecodedFeed):
    """Reads a DBN file of any schema, or of several, as batches of ticks.

    The metadata maps ids to names by UTC day; a record's day is that of its receive time if it has one. A symbol has
    one ``instrument_id``, whatever ids it had in the file. Symbol mapping records of a live stream count from their
    place on. An instrument without a name is called ``id:N``.

    Args:
        path: The file.
        on_bad_record: ``"raise"``, or ``"skip"`` to skip and count bad records: those of unknown type, of a length that
            their type does not have, or with an impossible letter. A file that is cut or out of step is an error either
            way.
        select: Only these ticks are read; others are skipped before ticks are made. None: all.
        levels: How many levels of an MBP-10 record become quotes, 1 to 10.
        bars: The schema of the file's bars, such as ``"ohlcv-1m"``, where the metadata names no schema: a recording of
            a live stream, or several schemas in a file. Without it handlers take a bar for a trade at the bar's end.
        max_symbols: The greatest number of symbols. None: those that the metadata names and 4,096 more, or 65,536 if it
            names none.
        batch_ticks: Ticks in a full batch.
        limits: How far a compressed file may expand; None: ``InflateLimits()``.

    Raises:
        FormatError: If the file has no sound metadata.
        TruncatedFeedError: If the file ends within its metadata.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
        MissingExtraError: If the package ``databento-dbn`` is not installed.
    """

    batch_step: ClassVar = 1
    _decoder: DbnDecoder

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        on_bad_record: Literal["raise", "skip"] = "raise",
        select: Selection | None = None,
        levels: int = 1,
        bars: str | None = None,
        max_symbols: int | None = None,
        batch_ticks: int = 16384,
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__(
            path,
            on_bad_record=on_bad_record,
            select=None,  # the table of symbols and the decoder have it
            batch_ticks=whole("batch_ticks", batch_ticks, 1, 1 << 24),
            limits=limits,
            headroom=_dbn.MAX_RECORD,
        )
        self._skip = on_bad_record == "skip"
        self._select = select if select is not None else Selection()
        self._levels = whole("levels", levels, 1, _dbn.LEVELS)
        with self._open_stream() as stream:
            self._metadata = metadata = read_metadata(stream, self._path)
            details = self._details_of(stream)
        self._tail = 8 if metadata.decoded.ts_out else 0
        self._table = SymbolTable(self._select.keeps, _dbn.UNWANTED)
        self._table.learn(metadata.decoded, self._path)
        self._max_symbols = self._checked_max_symbols(max_symbols)
        self._table.max_symbols = self._max_symbols
        self._decoder = self._new_decoder()
        self._info = FeedInfo(
            format="dbn",
            path=str(self._path),
            date=metadata.date,
            venue=metadata.decoded.dataset,
            price_unit=1e-9,
            ticks="dbn-orders" if metadata.details()["schema"] == "mbo" else "dbn",
            bars=self._bars_of(metadata.decoded.schema, bars),
            details=metadata.details() | details,
            zone=metadata.zone,
        )

    @property
    def info(self) -> FeedInfo:
        """Description from the metadata: ``venue`` is the data set, ``date`` the UTC date that the data starts on."""
        roll = self._decoder.first_roll
        if roll is None:
            return self._info
        key, before, after, time = roll
        text = roll_text(self._table.names[key], before, after, time)
        return replace(self._info, details=self._info.details | {"examples": {"rolled_instruments": text}})

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``: the metadata's first, then others in the order they come."""
        return self._table.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def count(self) -> int | None:
        """The number of ticks; None if it is not cheap to know.

        It is known if every record makes as many, the file is not compressed, and nothing is left out. Besides, no name
        may go over to another instrument.
        """
        record = _RECORDS.get(str(self._metadata.decoded.schema))
        size = file_bytes(self._path)
        if (
            record is None
            or size is None
            or self._select
            or self._table.may_roll
            or self._info.details["compression"] != "none"
        ):
            return None
        records, rest = divmod(size - self._metadata.size, record[0] + self._tail)
        return None if rest else records * record[1]

    def _begin(self) -> DbnDecoder:
        self._decoder = decoder = self._new_decoder()
        decoder.fill(*self._table.arrays())
        return decoder

    def _new_decoder(self) -> DbnDecoder:
        first, end = self._select.start_ns or 0, self._select.end_ns
        return DbnDecoder(
            version=self._metadata.version,
            skip=self._skip,
            tail=self._tail,
            levels=self._levels,
            span=(first, _LAST_NS) if end is None else (first, end - 1) if end > 0 else (1, 0),
            asks=self._answer,
            base=self._metadata.size,
        )

    def _chunks_of(self, stream: InputStream) -> Chunks:
        try:
            read_metadata(stream, self._path)
        except BaseException:
            stream.close()
            raise
        return super()._chunks_of(stream)

    def _answer(self, decoder: DbnDecoder, question: Question) -> FeedError | None:
        """Answers a decoder that stopped with a question. Returns an error where there is no answer."""
        record = question.mapping
        try:
            if record is None:
                decoder.add(question.instrument, *self._table.unmapped(question.instrument, question.time_ns))
            else:
                instrument, name = name_in_mapping(record, self._tail)
                decoder.replace(instrument, self._table.key(name))
        except OverflowError as error:
            return FormatError(
                f"{error} is one symbol more than the {self._max_symbols} there is room for: give max_symbols= if the "
                "file really has so many",
                path=self._path,
                offset=decoder.place,
            )
        except ValueError as error:
            assert record is not None
            if not self._skip:
                return FormatError(f"holds {error}", path=self._path, offset=decoder.place - len(record))
            self.skipped.add("symbol mapping", offset=decoder.place - len(record), text=str(error))
        return None

    @staticmethod
    def _bars_of(schema: object, given: str | None) -> int | None:
        """The length of all bars in ns. ``schema``: the metadata's; ``given``: the option."""
        if given is None:
            return _BAR_NS.get(str(schema))
        if schema is not None:
            raise ConfigurationError(f"bars: the file says that its schema is {schema}: leave bars out")
        return list(_BAR_NS.values())[one_of("bars", given, _BAR_NS)]

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        ``records``, ``ticks``, ``type_XX`` (records of type 0xXX), ``not_selected`` (ticks and records passed over by
        the selection), ``skipped_records``, ``doubtful_books`` (records of ticks with the flag F_MAYBE_BAD_BOOK),
        ``doubtful_times`` (with F_BAD_TS_RECV outside of a snapshot), ``bars_as_trades`` (bars of another length than
        ``FeedInfo.bars``, which handlers take for trades at the bars' ends), ``rolled_instruments`` (names that went
        over to another instrument: a clear record comes before its first tick), ``unnamed_instruments`` (instrument ids
        that have no name on a day of their records), ``bytes_in`` (of the file), ``bytes_out`` (uncompressed), and
        ``read_ns``, ``read_blocked_ns``, ``wait_ns`` as an ITCH feed has them.
        """
        counts = super().statistics()
        others = (name for name, ns in _BAR_TYPES.items() if ns != self._info.bars)
        as_trades = sum(counts.get(name, 0) for name in others)
        return {**counts, "bars_as_trades": as_trades, "unnamed_instruments": len(self._table.unnamed)}

    def _checked_max_symbols(self, max_symbols: int | None) -> int:
        named = len(self._table.names)
        if max_symbols is None:
            return named + _SPARE_BESIDE_NAMES if named else _SPARE_ALONE
        return whole("max_symbols", max_symbols, max(1, named), (1 << 24) - 1)
