"""Databento DBN files of version 1 to 3, as they are or compressed. Extra ``[dbn]``.

The package ``databento-dbn`` reads a file's metadata; csrc/codec/dbn/dbn.c decodes the records. Its header says what
each becomes as a tick, and docs/feeds/dbn.md has the same in a table. Prices are in units of 1e-9 already, ``flags``
are DBN's; those of status, imbalance and statistics ticks, and of bars, are the constants of this module.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from strand.binding import dbn as _dbn
from strand.binding.dbn import (
    IMBALANCE,
    QUOTING,
    SHORT_SELL_RESTRICTED,
    STATISTIC,
    TRADING,
    DbnDecoder,
    Stop,
)
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.dbn.metadata import SymbolTable, name_in_mapping, read_metadata
from strand.feeds.io.prefetch import Chunks, read_chunks
from strand.feeds.io.streams import InflateLimits, InputStream, RawStream, open_stream
from strand.feeds.selection import Selection
from strand.ticks import aligned_ticks
from strand.validate import whole

__all__ = [
    "IMBALANCE",
    "QUOTING",
    "SHORT_SELL_RESTRICTED",
    "STATISTIC",
    "TRADING",
    "DbnFeed",
    "recognise",
]

_RAW_CHUNK: Final = 1 << 18
_INFLATED_CHUNK: Final = 1 << 20
_LAST_NS: Final = (1 << 64) - 1
_NEWEST_CONCEIVABLE: Final = 32
# Room for instruments that the metadata does not name: few where it names any.
_SPARE_BESIDE_NAMES: Final = 4096
_SPARE_ALONE: Final = 65536
# Bytes of a record, and its ticks, of schemas whose files hold nothing else and always make as many.
_RECORDS: Final = {"mbo": (56, 1), "trades": (48, 1), "bbo-1s": (80, 1), "bbo-1m": (80, 1), "cbbo-1s": (80, 1),
                   "cbbo-1m": (80, 1), "ohlcv-1s": (56, 4), "ohlcv-1m": (56, 4), "ohlcv-1h": (56, 4),
                   "ohlcv-1d": (56, 4)}  # fmt: skip


def recognise(head: bytes) -> bool:
    """Whether an uncompressed file that starts with ``head`` has DBN's letters and a version."""
    return head.startswith(b"DBN") and len(head) >= 8 and 0 < head[3] < _NEWEST_CONCEIVABLE


class DbnFeed(BaseFeed):
    """A DBN file of any schema, or of several, as batches of ticks.

    Symbols are called what the metadata's mappings call them on the UTC day of each record (its receive time where it
    has one); a symbol has one ``instrument_id``, whatever ids it has had in the file. Symbol mapping records of a live
    stream count from where they stand. An instrument without a name is called ``id:N``.

    ``levels``: of MBP-10, how many levels become quotes, 1 to 10. ``max_symbols``: by default those that the metadata
    names and 4,096 more, or 65,536 where it names none. ``on_error``: ``"raise"``, or ``"skip"`` to pass over
    records of unknown type, of a length their type does not have or with an impossible letter, and count them; a file
    that is cut or out of step is an error either way. ``batch_ticks``: ticks in a full batch. ``limits``: what a
    compressed file may expand to. ``select``: what is not in it is passed over before ticks are made.

    Raises FormatError for a file without sound metadata, TruncatedFeedError for one that ends in it, FeedError for one
    that cannot be read, ConfigurationError for an option that cannot work, MissingExtraError without the package
    ``databento-dbn``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        on_error: Literal["raise", "skip"] = "raise",
        select: Selection | None = None,
        levels: int = 1,
        max_symbols: int | None = None,
        batch_ticks: int = 16384,
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__()
        if on_error not in ("raise", "skip"):
            raise ConfigurationError(f"on_error: {on_error!r} is neither 'raise' nor 'skip'")
        self._path: str | Path = str(path) if str(path) == "-" else Path(path)
        self._skip = on_error == "skip"
        self._select = select if select is not None else Selection()
        self._levels = whole("levels", levels, 1, _dbn.LEVELS)
        self._batch_ticks = whole("batch_ticks", batch_ticks, 1, 1 << 24)
        self._limits = limits
        self._closed = False
        self._chunks: list[Chunks] = []
        self._last: Chunks | None = None
        self._stream: InputStream | None = None
        self._decoder: DbnDecoder | None = None

        with self._open_stream() as stream:
            self._metadata = metadata = read_metadata(stream, self._path)
            compression, inflater = stream.compression, stream.inflater
        self._tail = 8 if metadata.decoded.ts_out else 0
        self._table = SymbolTable(self._select.keeps, _dbn.UNWANTED)
        self._table.learn(metadata.decoded, self._path)
        self._max_symbols = self._checked_max_symbols(max_symbols)
        self._table.max_symbols = self._max_symbols
        self._info = FeedInfo(
            format="dbn",
            path=str(self._path),
            date=metadata.date,
            venue=metadata.decoded.dataset,
            price_unit=1e-9,
            ticks="dbn-orders" if metadata.details()["schema"] == "mbo" else "dbn",
            details=metadata.details()
            | {"file_bytes": _file_bytes(self._path), "compression": compression, "inflater": inflater},
        )

    @property
    def info(self) -> FeedInfo:
        """What the metadata says: ``venue`` is the data set, ``date`` the UTC date that the data starts on."""
        return self._info

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``: the metadata's first, then others in the order they come."""
        return self._table.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def count(self) -> int | None:
        """Ticks in all, where every record makes as many, the file is not compressed and nothing is left out."""
        record = _RECORDS.get(str(self._metadata.decoded.schema))
        size = _file_bytes(self._path)
        if record is None or size is None or self._select or self._info.details["compression"] != "none":
            return None
        records, rest = divmod(size - self._metadata.size, record[0] + self._tail)
        return None if rest else records * record[1]

    def batches(self) -> Iterator[TickBatch]:
        """The file from its start, in batches of ``batch_ticks`` or up to ten more, the last one shorter; each valid
        until the next.

        Raises TruncatedFeedError or FormatError with the byte offset in the uncompressed stream, after every tick
        before that byte has been handed out.
        """
        self._check_open()
        select = self._select
        first, end = select.start_ns or 0, _LAST_NS + 1 if select.end_ns is None else select.end_ns
        if end == 0:
            return
        self._decoder = decoder = DbnDecoder(
            version=self._metadata.version, skip=self._skip, tail=self._tail, levels=self._levels, span=(first, end - 1)
        )
        decoder.fill(*self._table.arrays())
        self.skipped.counts.clear()
        self.skipped.samples.clear()
        self._stream = stream = self._open_stream()
        try:
            read_metadata(stream, self._path)
            chunks = self._read(stream)
        except BaseException:
            stream.close()
            raise
        self._chunks.append(chunks)
        self._last = chunks
        try:
            yield from self._decode(chunks, decoder)
        finally:
            self._note_skipped(decoder)
            chunks.close()
            self._chunks.remove(chunks)

    def _decode(self, chunks: Chunks, decoder: DbnDecoder) -> Iterator[TickBatch]:
        out = aligned_ticks(self._batch_ticks + _dbn.MAX_TICKS - 1)
        filled = 0
        data = memoryview(b"")
        last = False
        fault: FeedError | None = None
        while fault is None:
            made, used, stop = decoder.decode(data, last=last, out=out[filled:])
            passed, data = data[:used], data[used:]
            filled += made
            if stop is not None and stop.why != "full":
                fault = self._see_to(stop, decoder, passed)
            elif stop is None and last:
                break
            elif stop is None:
                try:
                    more = chunks.next(data)
                except FeedError as error:
                    fault = error
                else:
                    last = more is None
                    data = data if more is None else more
            if fault is None and filled >= self._batch_ticks:
                yield out[:filled]
                self._check_open()
                filled = 0
        if filled:
            yield out[:filled]
            self._check_open()
        if fault is not None:
            raise fault

    def _see_to(self, stop: Stop, decoder: DbnDecoder, passed: memoryview) -> FeedError | None:
        """Answers what the decoder stopped for. Returns the error, where it is one."""
        try:
            if stop.why == "instrument":
                decoder.add(stop.instrument, *self._table.unmapped(stop.instrument, stop.time_ns))
                return None
            if stop.why == "mapping":
                instrument, name = name_in_mapping(passed[len(passed) - stop.length :], self._tail)
                decoder.replace(instrument, self._table.key(name))
                return None
        except OverflowError as error:
            return FormatError(
                f"{error} is one symbol more than the {self._max_symbols} there is room for: give max_symbols= if the "
                "file really has so many",
                path=self._path,
                offset=self._place(decoder),
            )
        except ValueError as error:
            if not self._skip:
                return FormatError(f"holds {error}", path=self._path, offset=self._place(decoder) - stop.length)
            self.skipped.add("symbol mapping", offset=self._place(decoder) - stop.length, text=str(error))
            return None
        return decoder.fault(self._path, self._metadata.size)

    def _place(self, decoder: DbnDecoder) -> int:
        return self._metadata.size + decoder.statistics()["bytes_decoded"]

    def _note_skipped(self, decoder: DbnDecoder) -> None:
        if decoder is self._decoder:
            for reason, (count, offset) in decoder.skipped().items():
                self.skipped.add(reason, count, offset=self._metadata.size + offset)

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        ``records``, ``ticks``, ``type_XX`` (records of type 0xXX), ``not_selected`` (ticks and records passed over by
        the selection), ``skipped_records``, ``doubtful_books`` (records of ticks with the flag F_MAYBE_BAD_BOOK),
        ``doubtful_times`` (with F_BAD_TS_RECV outside of a snapshot), ``bytes_in`` (of the file), ``bytes_out``
        (uncompressed), and ``read_ns``, ``read_blocked_ns``, ``wait_ns`` as an ITCH feed has them.
        """
        names = (
            "records", "ticks", "not_selected", "skipped_records", "doubtful_books", "doubtful_times", "bytes_decoded",
        )  # fmt: skip
        counts = dict.fromkeys(names, 0) if self._decoder is None else self._decoder.statistics()
        chunks, stream = self._last, self._stream
        counts["bytes_in"] = stream.bytes_in if stream is not None else 0
        counts["bytes_out"] = stream.bytes_out if stream is not None else 0
        counts["read_ns"] = chunks.reading_ns if chunks is not None else 0
        counts["read_blocked_ns"] = chunks.full_ns if chunks is not None else 0
        counts["wait_ns"] = chunks.waiting_ns if chunks is not None else 0
        return counts

    def close(self) -> None:
        """Ends every iteration under way (asking one for more raises FeedError) and its thread. May be repeated."""
        self._closed = True
        for chunks in list(self._chunks):
            chunks.close()

    def _checked_max_symbols(self, max_symbols: int | None) -> int:
        named = len(self._table.names)
        if max_symbols is None:
            return named + _SPARE_BESIDE_NAMES if named else _SPARE_ALONE
        return whole("max_symbols", max_symbols, max(1, named), (1 << 24) - 1)

    def _check_open(self) -> None:
        if self._closed:
            raise FeedError("the feed is closed", path=self._path)

    def _open_stream(self) -> InputStream:
        return open_stream(self._path, limits=self._limits)

    def _read(self, stream: InputStream) -> Chunks:
        chunk_bytes = _RAW_CHUNK if isinstance(stream, RawStream) else _INFLATED_CHUNK
        return read_chunks(stream, chunk_bytes=chunk_bytes, headroom=_dbn.MAX_RECORD)


def _file_bytes(path: str | Path) -> int | None:
    """The size of a file; None for a pipe."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
