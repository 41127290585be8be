"""Sierra Chart's intraday data (.scid): trades of one symbol, each with the quote at its time.

Layout: Sierra Chart's documentation, "Intraday Data File Format". A header of 56 bytes, then records of 40 bytes,
little-endian: us since 1899-12-30 UTC, open, high, low, close (floats), trades, volume, volumes at the bid and the ask.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FormatError, TruncatedFeedError, called
from strand.feeds.base import BaseFeed, FeedInfo, Flags, Selection, TickBatch
from strand.feeds.formats.fixed import Records, judged, records_of
from strand.feeds.formats.options import ScidOptions
from strand.feeds.io.files import regular_file
from strand.feeds.io.sources import InflateLimits, InputStream, RawStream
from strand.feeds.io.streams import names_of, open_stream
from strand.feeds.mapping.columns import Columns, Conversion, columns_of
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.records import numpy_column
from strand.options import named_options
from strand.symbols import check_name
from strand.ticks import UNDEF_PRICE, empty, picked

#: Set in ``flags`` of a trade: the first and the last part of a trade that CME reports in parts.
FIRST_PART: Final = 1
LAST_PART: Final = 2

_MAGIC: Final = b"SCID"
_HEADER: Final = struct.Struct("<4sII")
_LEAST_HEADER: Final = 56
_MOST_HEADER: Final = 1 << 16
_RECORD: Final = np.dtype(
    [
        ("time", "<i8"), ("open", "<f4"), ("high", "<f4"), ("low", "<f4"), ("close", "<f4"), ("trades", "<u4"),
        ("volume", "<u4"), ("bid_volume", "<u4"), ("ask_volume", "<u4"),
    ]
)  # fmt: skip
#: us from 1899-12-30 to 1970-01-01: 25,569 days.
_EPOCH_US: Final = 25_569 * 86_400 * 10**6
#: Up to so many us a record's time may lie before that of an earlier one, where reading begins within a file.
_BACK_US: Final = 60 * 10**6
#: The last us that a tick can have as ns.
_LAST_US: Final = ((1 << 63) - 1) // 1000
#: Values of open that are no price: a single trade, and the parts of one. High is the ask then, and low the bid.
_SINGLE: Final = np.float32(0.0)
_FIRST: Final = np.float32(-1.99900095e37)
_LAST: Final = np.float32(-1.99900197e37)
#: Doubles of days from 1954 on are so large, read as whole numbers.
_OF_DOUBLES: Final = 0x40D3 << 48

_TIMES: Final = {"ts_event": "time", "ts_recv": "latest"}
_QUOTE: Final = _TIMES | {"bid_price": "low", "ask_price": "high"}
_TRADE: Final = _TIMES | {"price": "close", "size": "volume", "side": "side"}
_ENDING: Final = re.compile(r"(?i)\.scid(?:\.(?:gz|zst|bz2|xz|lzma|zip))?$")


def recognise(head: bytes) -> bool:
    """Tells whether a file that starts with ``head`` is Sierra Chart's, of any version."""
    return head.startswith(_MAGIC)


@named_options("ScidFeed()", declares=ScidOptions)
class ScidFeed(BaseFeed):
    """Reads the trades of a .scid file, each after the quote at its time.

    A record of a single trade makes two ticks: a quote of both sides without sizes, and the trade. ``sequence`` is the
    record's position from 1. The trade's side is the aggressor's: ``B`` if its volume was at the ask, ``A`` if at the
    bid. Records of bars are bad records.

    Args:
        path: The file.

    Raises:
        FormatError: If it is no such file, its times are those of an older version, or a record is no trade.
        TruncatedFeedError: If the file ends inside its header or a record.
        ConfigurationError: If an option cannot work.
    """

    def __init__(self, path: str | Path, **options: Unpack[ScidOptions]) -> None:
        super().__init__()
        self._path = regular_file(path)
        said = check_options(**{name: options[name] for name in ("inexact", "on_bad_record")})
        self._skip = said.skips
        self._batch_records = max(options["batch_ticks"] // 2, 1)
        self._limits = InflateLimits.of(options["limits"])
        self._select = options["select"] or Selection()
        self._reading = said.reading(options["price_unit"], options["size_unit"], time_unit="us")
        constants = {"action": "T", "kind": "trade"}
        self._quotes = columns_of(list(_QUOTE.values()), _QUOTE, {}, self._reading)
        self._trades = columns_of(list(_TRADE.values()), _TRADE, constants, self._reading)
        with open_stream(self._path, limits=self._limits) as stream:
            head, names = stream.head(_LEAST_HEADER + _RECORD.itemsize), names_of(self._path, stream)
            self._is_packed = stream.compression != "none"
        self._header_bytes = self._checked(head)
        symbol = options["symbol"]
        if symbol is None:
            symbol = next((_ENDING.sub("", Path(name).name) for name in names if _ENDING.search(name)), None)
        if symbol is None:
            raise ConfigurationError(
                "symbol", f"name the symbol of {called(self._path)}, which is not called SYMBOL.scid"
            )
        self._symbols = (check_name("symbol", symbol),)
        self._counts = self._no_counts()

    def _checked(self, head: bytes) -> int:
        """The length of the header. Raises FormatError, TruncatedFeedError."""
        if not head.startswith(_MAGIC):
            raise FormatError("does not start with SCID, as files of Sierra Chart do", path=self._path, offset=0)
        if len(head) < _LEAST_HEADER:
            raise TruncatedFeedError("ends inside its header: get the whole file", path=self._path, offset=len(head))
        _, header, record = _HEADER.unpack_from(head)
        if not _LEAST_HEADER <= header <= _MOST_HEADER or record != _RECORD.itemsize:
            raise FormatError(
                f"its header says that it has {header} bytes and a record {record}: {_LEAST_HEADER} and "
                f"{_RECORD.itemsize} can be read",
                path=self._path,
                offset=4,
            )
        first = int.from_bytes(head[header : header + 8], "little", signed=True)
        if first >= _OF_DOUBLES:
            raise FormatError(
                "its times are doubles of days, as older versions of Sierra Chart wrote them: open the file in a "
                "current one, which writes it anew with times in us",
                path=self._path,
                offset=header,
            )
        return int(header)

    @property
    def info(self) -> FeedInfo:
        price, size = self._reading.price_power or 0, self._reading.size_power
        return FeedInfo(
            "scid", str(self._path), price_unit=float(f"1e{price}"), size_unit=float(f"1e{size}"),
            flags=Flags(other=FIRST_PART | LAST_PART),
        )  # fmt: skip

    @property
    def symbols(self) -> Sequence[str]:
        return self._symbols

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    def batches(self) -> Iterator[TickBatch]:
        self._check_open()
        counts = self._counts = self._no_counts()
        self.skipped.clear()
        if not self._select.keeps(self._symbols[0]):
            return
        first, latest = self._first()
        with self._opened(first) as stream:
            for records in records_of(stream, _RECORD, self._batch_records, self._header_bytes, first):
                self._check_open()
                made, given = self._converted(records, latest)
                kept, fault = judged(records, made, self.skipped if self._skip else None)
                counts.update(made.counts(kept))
                if kept is not None:
                    given &= np.repeat(kept, 2)
                ticks = made.ticks if given.all() else picked(made.ticks, given)
                counts["records"] += len(records.array)
                counts["bytes_in"] += records.bytes_in
                trades = ticks[ticks["action"] == b"T"]
                counts["times_raised"] += int(np.count_nonzero(trades["ts_recv"] != trades["ts_event"]))
                latest = int(ticks["ts_recv"][-1]) // 1000 if len(ticks) else latest
                if len(ticks) and (within := self._select.within(ticks["ts_recv"])) is not None:
                    ticks = picked(ticks, within)
                counts["ticks"] += len(ticks)
                counts["bytes_out"] += ticks.nbytes
                if len(ticks):
                    yield ticks
                if fault is not None:
                    raise fault

    def _first(self) -> tuple[int, int]:
        """The number of the first record that is read, from 0, and the time before it in us since 1970."""
        start = self._select.start_ns
        if start is None or self._is_packed:
            return 0, 0
        with open(self._path, "rb") as file:  # noqa: PTH123 - a path may be a text
            count = (file.seek(0, 2) - self._header_bytes) // _RECORD.itemsize

            def time_of(number: int) -> int:
                file.seek(self._header_bytes + number * _RECORD.itemsize)
                return int.from_bytes(file.read(8), "little", signed=True) - _EPOCH_US

            first = bisect.bisect_left(range(count), start // 1000 - _BACK_US, key=time_of)
            return first, max(time_of(first - 1), 0) if first else 0

    def _opened(self, first: int) -> InputStream:
        """The file from a record on."""
        if first:
            return RawStream(self._path, start=self._header_bytes + first * _RECORD.itemsize)
        stream = open_stream(self._path, limits=self._limits)
        stream.read(self._header_bytes)
        return stream

    def _converted(self, records: Records, latest: int) -> tuple[Conversion, npt.NDArray[np.bool_]]:
        """Two ticks of each record, the quote and the trade, what is wrong in records, and which of the ticks count."""
        array = records.array
        times = array["time"] - _EPOCH_US
        usable = np.where((times > 0) & (times <= _LAST_US), times, latest)
        is_first, is_last = array["open"] == _FIRST, array["open"] == _LAST
        single = (array["open"] == _SINGLE) | is_first | is_last
        alone = (array["trades"] == 1) & (array["open"] == array["close"]) & (array["high"] == array["low"])
        at_ask, at_bid = array["ask_volume"] > 0, array["bid_volume"] > 0
        of = {name: array[name] for name in array.dtype.names or ()}
        of |= {
            "time": times,
            "latest": np.maximum(np.maximum.accumulate(usable), latest) if len(usable) else usable,
            "side": np.where(at_ask & ~at_bid, ord("B"), np.where(at_bid & ~at_ask, ord("A"), ord("N"))).astype(
                np.uint8
            ),
            **{side: np.where(single, array[side], array["close"]) for side in ("high", "low")},
        }
        made, quotes = self._made(self._trades, of, records), self._made(self._quotes, of, records)
        if quotes.bad is not None and quotes.first is not None:
            made.note(quotes.bad, quotes.first.column, quotes.first.problem)
        bars = ~single & ~(alone & (array["high"] == array["close"]))
        if bars.any():
            trades = int(array["trades"][int(np.argmax(bars))])
            made.note(
                bars,
                "open",
                f"it is a bar of {trades} trades, and only single trades can be read: set Sierra Chart's Intraday Data "
                "Storage Time Unit to 1 Tick, and download the data again",
                over=True,
            )
        quotes.ticks["price"][array["low"] == 0] = UNDEF_PRICE
        quotes.ticks["order_id"][array["high"] == 0] = UNDEF_PRICE
        made.ticks["flags"] = is_first * FIRST_PART + is_last * LAST_PART
        ticks = empty(2 * len(array))
        given = np.ones(len(ticks), np.bool_)
        for at, each in enumerate((quotes.ticks, made.ticks)):
            if len(array):
                ticks.view("V64")[at::2] = each.view("V64")
        given[::2] = single & ((array["low"] != 0) | (array["high"] != 0))
        made.ticks = ticks
        return made, given

    def _made(self, columns: Columns, of: dict[str, npt.NDArray[np.void]], records: Records) -> Conversion:
        count = len(records.array)
        rows = range(records.position + 1, records.position + 1 + count)
        return columns.convert(lambda name: numpy_column(of[name]), rows, np.zeros(count, np.uint32))

    @staticmethod
    def _no_counts() -> Counter[str]:
        return Counter(dict.fromkeys(("records", "ticks", "rows_rounded", "times_raised", "bytes_in", "bytes_out"), 0))
