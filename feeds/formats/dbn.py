"""Databento DBN files of version 1 to 3, as they are or compressed. Extra ``[dbn]``.

The package ``databento-dbn`` reads a file's metadata; csrc/codec/dbn/dbn.c decodes the records. Its header says what
each becomes as a tick, and docs/feeds/dbn.md has the same in a table. Prices are in units of 1e-9 already, ``flags``
are DBN's; those of status, imbalance and statistics ticks, and of bars, are the constants of this module.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding import decoders as _dbn
from strand.binding.decoders import IMBALANCE, QUOTING, SHORT_SELL_RESTRICTED, STATISTIC, TRADING, DbnDecoder, Question
from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.base import FeedInfo, Selection, TickBatch
from strand.feeds.formats.decoded import DecodedFeed, details_of, file_bytes
from strand.feeds.formats.options import DbnOptions
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.sources import RawStream
from strand.feeds.io.streams import InputStream, open_stream
from strand.feeds.mapping.events import roll_text
from strand.fixed import dataclass
from strand.options import named_options
from strand.symbols import name_problem
from strand.validate import one_of, whole

__all__ = [
    "DAY_NS", "IMBALANCE", "QUOTING", "SHORT_SELL_RESTRICTED", "STATISTIC", "TRADING", "DbnFeed", "DbnMetadata",
    "SymbolTable", "name_in_mapping", "read_metadata", "recognise",
]  # fmt: skip

DAY_NS: Final = 86_400_000_000_000
_MAGIC: Final = b"DBN"
_PREFIX_BYTES: Final = 8
_VERSIONS: Final = range(1, 4)
# Two million symbols' worth.
_MAX_BYTES: Final = 256 << 20
#: By a data set's venue. Consolidated feeds of shares and options (DBEQ, EQUS, OPRA) have New York's hours.
#: CFE (XCBF) and Blue Ocean ATS (OCEA): the hours on Databento's pages of XCBF.PITCH ("CT") and OCEA.MEMOIR ("ET"). ICE
#: Europe Financials (IFLL) is of ICE Futures Europe, as IFEU is, whose circulars have hours in "local London time".
_ZONES: Final = {
    "GLBX": "America/Chicago", "XCBF": "America/Chicago", "IFEU": "Europe/London", "IFLL": "Europe/London",
    "NDEX": "Europe/Amsterdam", "XEUR": "Europe/Berlin", "XEEE": "Europe/Berlin",
} | dict.fromkeys(
    ("ARCX", "BATS", "BATY", "DBEQ", "EDGA", "EDGX", "EPRL", "EQUS", "IEXG", "IFUS", "MEMX", "OCEA", "OPRA", "XASE",
     "XBOS", "XCHI", "XCIS", "XNAS", "XNYS", "XPSX"), "America/New_York",
)  # fmt: skip
_LAST_NS: Final = (1 << 64) - 1
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class DbnMetadata:
    """``decoded``: a ``databento_dbn.Metadata``. ``version`` is the file's own; ``size`` counts the bytes up to the
    first record."""

    decoded: Any
    version: int
    size: int

    @property
    def date(self) -> str | None:
        """The UTC date that the data starts on."""
        start = self.decoded.start
        return _date_of(start).isoformat() if 0 < start < _LAST_NS else None

    @property
    def zone(self) -> str | None:
        """The time zone of the venue's sessions, where the data set is of one."""
        return _ZONES.get(str(self.decoded.dataset).partition(".")[0])

    def details(self) -> dict[str, Any]:
        """Details of the request that the file answers, as plain values."""
        decoded = self.decoded
        end = decoded.end if decoded.end is not None and 0 < decoded.end < _LAST_NS else None
        return {
            "version": self.version,
            "schema": None if decoded.schema is None else str(decoded.schema),
            "stype_in": None if decoded.stype_in is None else str(decoded.stype_in),
            "stype_out": str(decoded.stype_out),
            "start_ns": decoded.start,
            "end_ns": end,
            "limit": decoded.limit,
            "ts_out": bool(decoded.ts_out),
            "mapped_symbols": len(decoded.mappings),
            "partial": len(decoded.partial),
            "not_found": len(decoded.not_found),
        }


def read_metadata(stream: InputStream, path: str | Path) -> DbnMetadata:
    """Reads a stream up to its first record.

    Raises FormatError where there is no metadata of version 1 to 3, TruncatedFeedError where the file ends in it,
    MissingExtraError without the package ``databento-dbn``.
    """
    prefix = _read(stream, _PREFIX_BYTES, path, 0)
    if not prefix.startswith(_MAGIC):
        raise FormatError(f"starts with {prefix[:4].hex(' ')}, not with the letters DBN", path=path, offset=0)
    version, length = prefix[3], int.from_bytes(prefix[4:], "little")
    if version not in _VERSIONS:
        raise FormatError(f"is of DBN version {version}; versions 1 to 3 can be read", path=path, offset=3)
    if length > _MAX_BYTES:
        raise FormatError(f"its metadata claims to be {length} bytes long: the file is damaged", path=path, offset=4)
    body = _read(stream, length, path, _PREFIX_BYTES)
    return DbnMetadata(_decode(prefix + body, path), version, _PREFIX_BYTES + length)


def _read(stream: InputStream, size: int, path: str | Path, at: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise TruncatedFeedError("the input ends inside its metadata", path=path, offset=at + len(data))
    return data


def _decode(data: bytes, path: str | Path) -> Any:
    try:
        import databento_dbn
    except ImportError:
        raise MissingExtraError("reading DBN files", "databento-dbn", "dbn") from None
    try:
        return databento_dbn.Metadata.decode(data)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise FormatError(f"its metadata cannot be read: {error}", path=path, offset=_PREFIX_BYTES) from None


@dataclass(slots=True)
class SymbolTable:
    """Names by index, and the instrument ids that they stand for on each day.

    The metadata maps names to ids (or ids to names) by intervals of UTC days, the first included and the last not. A
    name has one index, whatever ids it has had. An id of no interval on a day is called ``id:N``.

    Attributes:
        unnamed: Ids that records had on a day for which the metadata has no name, the unwanted ones too.
    """

    keeps: Callable[[str], bool]
    unwanted: int
    names: list[str] = field(default_factory=list)
    max_symbols: int = 0
    unnamed: set[int] = field(default_factory=set)
    _index: dict[str, int] = field(default_factory=dict)
    _rows: list[tuple[int, int, int, str]] = field(default_factory=list)

    def learn(self, metadata: Any, path: str | Path) -> None:
        """Takes in the metadata's mappings. Raises FormatError for an id that is no number of 32 bits."""
        ids_are_keys = str(metadata.stype_out) != "instrument_id" and str(metadata.stype_in) == "instrument_id"
        if not ids_are_keys and str(metadata.stype_out) != "instrument_id":
            return
        # The library makes the mappings anew at each access, in an order that differs from run to run: read once,
        # sorted.
        for key, intervals in sorted(metadata.mappings.items()):
            for interval in intervals:
                text, name = (key, interval["symbol"]) if ids_are_keys else (interval["symbol"], key)
                if not text or not name:  # not resolved in that interval
                    continue
                if not (text.isascii() and text.isdecimal() and int(text) < 1 << 32):
                    raise FormatError(f"its metadata calls {name!r} by the instrument id {text!r}", path=path, offset=8)
                first, end = _midnight_ns(interval["start_date"]), _midnight_ns(interval["end_date"])
                if problem := name_problem(name):
                    raise FormatError(f"its metadata names {name[:80]!r}, which {problem}", path=path, offset=8)
                if end > first:
                    self._rows.append((int(text), first, end - 1, name))
                    self._named(name)

    def arrays(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32], npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint32]
    ]:  # fmt: skip
        """Mappings of the metadata: ids, first and last ns, keys."""
        wanted = {name: self.key(name) for name in self._index}
        rows = self._rows
        return (
            np.fromiter((row[0] for row in rows), np.uint32, len(rows)),
            np.fromiter((row[1] for row in rows), np.uint64, len(rows)),
            np.fromiter((row[2] for row in rows), np.uint64, len(rows)),
            np.fromiter((wanted[row[3]] for row in rows), np.uint32, len(rows)),
        )

    @property
    def may_roll(self) -> bool:
        """True if the metadata gives one name to several ids."""
        ids: dict[str, int] = {}
        return any(ids.setdefault(name, number) != number for number, _, _, name in self._rows)

    def spans(self) -> dict[str, list[tuple[int, int, int]]]:
        """The ids of each name, with the first and the last ns that it stands for each."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        for number, first, last, name in self._rows:
            found.setdefault(name, []).append((number, first, last))
        return found

    def unmapped(self, instrument: int, time_ns: int) -> tuple[int, int, int]:
        """Mapping of an id that has no name at a time: the first and last ns of that UTC day, and its key."""
        first = time_ns - time_ns % DAY_NS
        self.unnamed.add(instrument)
        return first, min(first + DAY_NS - 1, _LAST_NS), self.key(f"id:{instrument}")

    def key(self, name: str) -> int:
        """The index of a name, given one if it has none yet; ``unwanted`` where the selection leaves it out.

        Raises OverflowError when ``max_symbols`` is used up.
        """
        return self._named(name) if self.keeps(name) else self.unwanted

    def _named(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = len(self.names)
            if self.max_symbols and index >= self.max_symbols:
                raise OverflowError(name)
            self._index[name] = index
            self.names.append(name)
        return index


def name_in_mapping(record: memoryview, tail: int) -> tuple[int, str]:
    """The instrument id of a symbol mapping record, and the name it gives it: the outgoing symbol, else the incoming.

    Raises ValueError for a record that is none.
    """
    size = len(record) - tail
    places = {80: ((38, 22), (16, 22)), 176: ((89, 71), (17, 71))}.get(size)
    if places is None:
        raise ValueError(f"a symbol mapping of {size} bytes; it has 80 in version 1, else 176")
    names = (bytes(record[at : at + room]).split(b"\0", 1)[0] for at, room in places)
    try:
        name = next((name.decode("utf-8") for name in names if name), "")
    except UnicodeDecodeError:
        raise ValueError("a symbol mapping whose symbol is not UTF-8") from None
    if not name:
        raise ValueError("a symbol mapping without a symbol")
    if problem := name_problem(name):
        raise ValueError(f"a symbol mapping to {name!r}, which {problem}")
    return int.from_bytes(record[4:8], "little"), name


def _midnight_ns(date: dt.date) -> int:
    return min(max(0, (date.toordinal() - _EPOCH_ORDINAL) * DAY_NS), _LAST_NS)


def _date_of(ns: int) -> dt.date:
    return dt.date.fromordinal(_EPOCH_ORDINAL + ns // DAY_NS)


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
#: Names of record types, by their number as two hexadecimal digits: those of their schemas, or what they hold.
RECORD_NAMES: Final = {
    "00": "trades", "01": "mbp-1", "0a": "mbp-10", "11": "ohlcv", "12": "status", "13": "definition",
    "14": "imbalance", "15": "error", "16": "symbol mapping", "17": "system", "18": "statistics", "20": "ohlcv-1s",
    "21": "ohlcv-1m", "22": "ohlcv-1h", "23": "ohlcv-1d", "24": "ohlcv-eod", "a0": "mbo", "b1": "cmbp-1",
    "c0": "cbbo-1s", "c1": "cbbo-1m", "c2": "tcbbo", "c3": "bbo-1s", "c4": "bbo-1m",
}  # fmt: skip
#: The same by the count of a type's records in statistics. The old type does not give it.
_BAR_TYPES: Final = {"type_11": 0, **{f"type_{0x20 + at:02x}": ns for at, ns in enumerate(_BAR_NS.values())}}


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` has DBN's letters and a version."""
    return head.startswith(b"DBN") and len(head) >= 8 and 0 < head[3] < _NEWEST_CONCEIVABLE


@named_options("DbnFeed()", declares=DbnOptions)
class DbnFeed(DecodedFeed):
    """Reads a DBN file of any schema, or of several, as batches of ticks.

    The metadata maps ids to names by UTC day; a record's day is that of its receive time if it has one. A symbol has
    one ``instrument_id``, whatever ids it had in the file. Symbol mapping records of a live stream count from their
    place on. An instrument without a name is called ``id:N``.

    Records of unknown type, of a length that their type does not have, or with an impossible letter are damage. A file
    that is cut or out of step is an error either way.

    Args:
        path: The file.

    Raises:
        FormatError: If the file has no sound metadata.
        TruncatedFeedError: If the file ends within its metadata.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
        MissingExtraError: If the package ``databento-dbn`` is not installed.
    """

    batch_step: ClassVar = 1
    _decoder: DbnDecoder
    _instruments: dict[str, list[tuple[int, int, int]]] | None = None
    #: Bytes of records that the iteration which begins now passes over.
    _passed = 0

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[DbnOptions]) -> None:
        whole("batch_ticks", options["batch_ticks"], 1, 1 << 24)
        of_all: Any = {**options, "select": None}  # the table of symbols and the decoder have it
        super().__init__(path, of_all, headroom=_dbn.MAX_RECORD)
        self._skip = options["on_bad_record"] == "skip"
        self._select = options["select"] or Selection()
        self._levels = options["levels"]
        with open_stream(self._path, limits=self._limits) as stream:
            self._metadata = metadata = read_metadata(stream, self._path)
            details = details_of(self._path, stream)
        self._tail = 8 if metadata.decoded.ts_out else 0
        self._table = SymbolTable(self._select.keeps, _dbn.UNWANTED)
        self._table.learn(metadata.decoded, self._path)
        self._max_symbols = _most_symbols(options["max_symbols"], len(self._table.names))
        self._table.max_symbols = self._max_symbols
        self._decoder = self._new_decoder()
        self._info = FeedInfo(
            format="dbn",
            path=str(self._path),
            date=metadata.date,
            venue=metadata.decoded.dataset,
            price_unit=1e-9,
            ticks="dbn-orders" if metadata.details()["schema"] == "mbo" else "dbn",
            bars=_bars_of(metadata.decoded.schema, options["bars"]),
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
    def rolls(self) -> DbnFeed:
        """Itself: the instruments of its names."""
        return self

    def ends_of(self, key: int, time_ns: int) -> tuple[int, int] | None:
        """The instrument of a name at a time, twice, as the metadata says; None: it is not known, or there are two.
        ``key``: the name's index."""
        if self._instruments is None:
            self._instruments = self._table.spans()
        spans = self._instruments.get(self._table.names[key], ())
        found = {number for number, first, last in spans if first <= time_ns <= last}
        return (number := found.pop(), number) if len(found) == 1 else None

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

    def last_batches(self, ticks: int) -> Iterator[TickBatch] | None:
        """See ``BaseFeed``: where ``count`` knows the number of ticks, each record has its place."""
        count = self.count()
        if count is None:
            return None
        size, each = _RECORDS[str(self._metadata.decoded.schema)]
        return self._behind((size + self._tail) * max(count // each - -(-ticks // each), 0))

    def _behind(self, passed: int) -> Iterator[TickBatch]:
        """Yields the ticks of the records behind so many bytes of them."""
        self._passed = passed
        try:
            reading = self.reading()
        finally:
            self._passed = 0
        try:
            yield from reading
        finally:
            reading.close()

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
            base=self._metadata.size + self._passed,
        )

    def _chunks_of(self, stream: InputStream, *, in_blocks: bool) -> Chunks:
        try:
            read_metadata(stream, self._path)
        except BaseException:
            stream.close()
            raise
        if self._passed and isinstance(stream, RawStream):
            stream.stand_at(self._metadata.size + self._passed)
        return super()._chunks_of(stream, in_blocks=in_blocks)

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

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        ``records``, ``ticks``, ``type_XX`` (records of type 0xXX), ``not_selected`` (ticks and records passed over by
        the selection), ``skipped_records``, ``doubtful_books`` (records of ticks with the flag F_MAYBE_BAD_BOOK),
        ``doubtful_times`` (with F_BAD_TS_RECV outside of a snapshot), ``mixed_quotes`` (of one publisher after
        another's, under one name), ``bars_as_trades`` (bars of another length than
        ``FeedInfo.bars``, which handlers take for trades at the bars' ends), ``rolled_instruments`` (names that went
        over to another instrument: a clear record comes before its first tick), ``unnamed_instruments`` (instrument ids
        that have no name on a day of their records), ``bytes_in`` (of the file), ``bytes_out`` (uncompressed), and
        ``read_ns``, ``read_blocked_ns``, ``wait_ns`` as an ITCH feed has them.
        """
        counts = super().statistics()
        others = (name for name, ns in _BAR_TYPES.items() if ns != self._info.bars)
        as_trades = sum(counts.get(name, 0) for name in others)
        return {**counts, "bars_as_trades": as_trades, "unnamed_instruments": len(self._table.unnamed)}


def _bars_of(schema: object, given: str | None) -> int | None:
    """The length of all bars in ns. ``schema``: the metadata's; ``given``: the option."""
    if given is None:
        return _BAR_NS.get(str(schema))
    if schema is not None:
        raise ConfigurationError("bars", f"the file says that its schema is {schema}: leave bars out")
    return list(_BAR_NS.values())[one_of("bars", given, _BAR_NS)]


def _most_symbols(given: int | None, named: int) -> int:
    """The greatest number of symbols. ``given``: the option; ``named``: how many names the metadata has."""
    if given is None:
        return named + _SPARE_BESIDE_NAMES if named else _SPARE_ALONE
    return whole("max_symbols", given, max(1, named), (1 << 24) - 1)
