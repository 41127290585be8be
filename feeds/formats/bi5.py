"""Dukascopy's files of ticks (.bi5): quotes of one instrument in one hour, packed by LZMA alone.

The layout is that of three public decoders: dukascopy-node (TypeScript), duka (Python) and lib-dukascopy (C++).
A record has 20 bytes, big-endian: ms in the hour, ask, bid (whole numbers), the ask's volume, the bid's volume (floats,
in millions). Nothing in a file names its instrument, its hour, or the worth of its prices: the folders do, or options.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack

import numpy as np

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError, called
from strand.feeds.base import BaseFeed, FeedInfo, Flags, Selection, TickBatch
from strand.feeds.formats.fixed import Records, judged, records_of
from strand.feeds.formats.options import Bi5Options
from strand.feeds.io.files import Paths, regular_file
from strand.feeds.io.prefetch import PrefetchedBatches, may_prefetch
from strand.feeds.io.sources import InflateLimits
from strand.feeds.io.streams import open_stream
from strand.feeds.mapping.columns import Columns, Conversion, columns_of
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.records import numpy_column
from strand.feeds.merge.streams import merge_streams
from strand.feeds.times import as_date
from strand.options import named_options
from strand.symbols import check_name, name_problem
from strand.ticks import picked

_RECORD: Final = np.dtype([("ms", ">u4"), ("ask", ">u4"), ("bid", ">u4"), ("ask_volume", ">f4"), ("bid_volume", ">f4")])
_FIELDS: Final = {
    "ts_event": "time", "ts_recv": "latest", "bid_price": "bid", "ask_price": "ask", "bid_size": "bid_volume",
    "ask_size": "ask_volume",
}  # fmt: skip
_HOUR_MS: Final = 3_600_000
_HOUR_NS: Final = _HOUR_MS * 10**6
#: Volumes count millions.
_VOLUME_POWER: Final = 6
#: Volumes of records that are none: of bars, whose prices stand in the place of a volume, and of damage.
_VOLUMES: Final = (1e-9, 1e9)

_PLACE: Final = re.compile(
    r".*/(?P<symbol>[^/]+)/(?P<year>\d{4})/(?P<month>\d\d)/(?P<day>\d\d)/(?P<hour>\d\d)h_ticks\.[^/]+", re.DOTALL
)
_HOUR: Final = re.compile(r".*(?<!\d)(?P<hour>\d\d)h_ticks\.[^/]+", re.DOTALL)

_CURRENCIES: Final = (
    "AED", "AUD", "CAD", "CHF", "CNH", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "JPY", "MXN", "NOK", "NZD",
    "PLN", "RON", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "USD", "ZAR",
)  # fmt: skip
#: Digits behind the point, by the second currency of a pair, where they are not five.
_DIGITS: Final = {"JPY": 3, "HUF": 3, "THB": 3, "CZK": 4}
#: Of single instruments; None: public lists contradict each other, or themselves.
_ALONE: Final[dict[str, int | None]] = {
    **dict.fromkeys(("NOKJPY", "THBJPY", "SEKJPY", "HKDJPY", "DKKJPY", "MXNJPY", "THBHUF", "JPYHUF", "TRYTHB"), 5),
    **dict.fromkeys(("PLNTHB", "XAUXAG", "EUCEUR", "TRXUSD", "BATUSD"), 5),
    **dict.fromkeys(("CZKJPY", "MXNHUF", "CZKHUF", "USDTHB", "GASCMDUSD", "COPPERCMDUSD", "EOSUSD"), 4),
    **dict.fromkeys(("NZDHKD", "BUNDTREUR", "USTBONDTRUSD", "UKGILTTRGBP", "ADAUSD", "DSHUSD", "ENJUSD"), 3),
    **dict.fromkeys(("LNKUSD", "UNIUSD", "MATUSD"), 3),
    **dict.fromkeys(("CZKTHB", "MXNCZK", "MXNTHB", "CZKTRY"), 6),
    **dict.fromkeys(("VOLIDXUSD", "SOAIDXZAR", "CMPUSD", "MKRUSD"), 2),
    **dict.fromkeys(("XAUCZK", "XAUTRY", "XAUHUF", "XAUZAR", "XAUJPY", "XAUMXN", "XAUTHB", "YFIUSD", "CSH2GBGBX"), 1),
    **dict.fromkeys(("AEDHUF", "AUDCNH", "USDAED", "USDSAR")),
}
#: Of kinds of instruments: coins, shares of Japan, metals, and indices, commodities and other shares.
_ALIKE: Final = (
    (re.compile(r"(?:BTC|ETH|LTC|BCH)(?:USD|EUR|GBP|CHF)"), 1),
    (re.compile(r"[A-Z0-9]+JPJPY"), 1),
    (re.compile(r"XA[UG](?:" + "|".join(_CURRENCIES) + ")"), 3),
    (re.compile(r"[A-Z0-9]+(?:IDX[A-Z]{3}|CMDUSD)"), 3),
    (
        re.compile(
            r"[A-Z0-9]+(?:(?:AT|BE|DE|ES|FI|FR|IE|IT|NL|PT)EUR|GB(?:GBP|GBX|USD)|CHCHF|DKDKK|HKHKD|MXMXN|NONOK|SESEK"
            r"|USUSD)"
        ),
        3,
    ),
)


def price_power(symbol: str) -> int | None:
    """The power of ten that 1 in an instrument's prices is worth; None: it is not known.

    The powers are the factors of dukascopy-node's lists (version 1.46.4, and 1.49.0 where that agrees).
    """
    name = symbol.upper()
    if name in _ALONE:
        digits = _ALONE[name]
    elif len(name) == 6 and name[:3] in _CURRENCIES and name[3:] in _CURRENCIES:
        digits = _DIGITS.get(name[3:], 5)
    else:
        digits = next((digits for form, digits in _ALIKE if form.fullmatch(name)), None)
    return None if digits is None else -digits


def recognise(head: bytes) -> bool:
    """Tells whether an unpacked file that starts with ``head`` holds ticks: times that rise within an hour, prices
    above 0, and volumes as they occur. Bars have other values in these places."""
    records = np.frombuffer(head, _RECORD, min(len(head) // _RECORD.itemsize, 16))
    if not len(records):
        return False
    times, volumes = records["ms"].astype(np.int64), np.concatenate([records["ask_volume"], records["bid_volume"]])
    low, high = _VOLUMES
    with np.errstate(invalid="ignore"):
        are_volumes = ((volumes >= low) & (volumes <= high)) | (volumes == 0)
    return bool(
        (times < _HOUR_MS).all()
        and (np.diff(times) >= 0).all()
        and (records["ask"] > 0).all()
        and (records["bid"] > 0).all()
        and are_volumes.all()
    )


class _Hour(NamedTuple):
    """A file: its instrument, the ns since the epoch at which its hour begins, and whether it holds nothing."""

    path: Path
    symbol: str
    begin: int
    is_empty: bool


@named_options("DukascopyFeed()", declares=Bi5Options)
class DukascopyFeed(BaseFeed):
    """Reads one or several of Dukascopy's files of ticks, those of several instruments merged by time.

    A tick is a quote of both sides. ``ts_event`` is the record's time, ``ts_recv`` the latest so far,
    and ``sequence`` the record's position in its file from 1. A file of no bytes is an hour without ticks.
    ``statistics()`` counts such hours, and those between an instrument's first and last file for which there is none:
    ``hours_missing``, and apart from them ``weekend_hours_missing`` (from Friday 21:00 to Sunday 22:00 UTC).

    Args:
        paths: One or several files. ``strand.feeds.open`` takes their folders, too.

    Raises:
        FormatError: If a record is no quote, a file is damaged, or its folders tell no date.
        TruncatedFeedError: If a file ends too early.
        ConfigurationError: If an option cannot work, the worth of prices is not known, or an hour is there twice.
    """

    def __init__(self, paths: Paths, **options: Unpack[Bi5Options]) -> None:
        super().__init__()
        named = [paths] if isinstance(paths, str | Path) or not isinstance(paths, Sequence) else list(paths)
        if not named:
            raise ConfigurationError("paths", "name a file")
        said = check_options(**{name: options[name] for name in ("inexact", "on_bad_record")})
        self._skip = said.skips
        self._batch_ticks = options["batch_ticks"]
        self._limits = InflateLimits.of(options["limits"])
        self._select = options["select"] or Selection()
        symbol = options["symbol"]
        date = None if options["date"] is None else as_date(options["date"])
        symbol = symbol if symbol is None else check_name("symbol", symbol)
        found = [_hour(Path(path), symbol, date, options["hour"]) for path in named]
        self._hours = sorted(found, key=lambda hour: hour.begin)
        # In the order of the paths: dict keeps it.
        self._symbols = tuple(dict.fromkeys(hour.symbol for hour in found))
        self._columns: dict[str, Columns] = {}
        self._powers: dict[str, int] = {}
        size_unit = "1" if options["size_unit"] is None else options["size_unit"]
        reading = said.reading(options["price_unit"], size_unit, own_size_power=_VOLUME_POWER, time_unit="ns")
        self._size_power = reading.size_power
        for name in filter(self._select.keeps, self._symbols):
            power = price_power(name) if reading.price_power is None else reading.price_power
            if power is None:
                raise ConfigurationError(
                    "price_unit",
                    f"say what 1 in the prices of {name} is worth, as price_unit='0.001' (--feed price_unit=0.001): "
                    "its files do not, and it is not among the instruments that Strand knows",
                )
            self._powers[name] = power
            self._columns[name] = columns_of(list(_FIELDS.values()), _FIELDS, {}, replace(reading, price_power=power))
        self._missing, self._examples = self._gaps()
        self._counts = self._no_counts()

    @property
    def info(self) -> FeedInfo:
        first = self._hours[0]
        dates = sorted({_date(hour.begin) for hour in self._hours})
        powers = set(self._powers.values())
        details = {"files": len(self._hours), "first": _text(first.begin), "last": _text(self._hours[-1].begin),
                   "examples": self._examples}  # fmt: skip
        return FeedInfo(
            "bi5", str(first.path) + (f" and {len(self._hours) - 1} more" if len(self._hours) > 1 else ""),
            dates[0] if len(dates) == 1 else None, "Dukascopy",
            price_unit=float(f"1e{powers.pop()}") if len(powers) == 1 else None, details=details,
            size_unit=float(f"1e{self._size_power}"), zone="UTC", flags=Flags(),
        )  # fmt: skip

    @property
    def reads(self) -> Sequence[str]:
        return [str(hour.path) for hour in self._hours]

    @property
    def symbols(self) -> Sequence[str]:
        return self._symbols

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    def batches(self) -> Iterator[TickBatch]:
        self._check_open()
        self._counts = self._no_counts()
        self.skipped.clear()
        streams = [self._ticks_of(name) for name in self._symbols if self._select.keeps(name)]
        merged = streams[0] if len(streams) == 1 else merge_streams(streams, batch_ticks=self._batch_ticks)
        try:
            for batch in merged:
                self._check_open()
                yield batch
        finally:
            for stream in streams:
                stream.close()

    def _ticks_of(self, symbol: str) -> Generator[TickBatch, None, None]:
        key, latest = self._symbols.index(symbol), 0
        hours = [hour for hour in self._hours if hour.symbol == symbol and self._is_wanted(hour.begin)]
        # A thread unpacks the next records meanwhile, which takes longer than making ticks of them.
        made = self._records(hours)
        ahead = PrefetchedBatches(made, f"strand read {symbol}") if may_prefetch() else made
        try:
            for hour, records in ahead:
                found = self._converted(symbol, hour.begin, records, key, latest)
                kept, fault = judged(records, found, self.skipped if self._skip else None)
                ticks = found.ticks if kept is None else picked(found.ticks, kept)
                self._counts.update(found.counts(kept))
                self._counts["records"] += len(records.array)
                self._counts["bytes_in"] += records.bytes_in
                self._counts["times_raised"] += int(np.count_nonzero(ticks["ts_recv"] != ticks["ts_event"]))
                latest = int(ticks["ts_recv"][-1]) if len(ticks) else latest
                if len(ticks) and (within := self._select.within(ticks["ts_recv"])) is not None:
                    ticks = picked(ticks, within)
                self._counts["ticks"] += len(ticks)
                self._counts["bytes_out"] += ticks.nbytes
                if len(ticks):
                    yield ticks
                if fault is not None:
                    raise fault
        finally:
            ahead.close()

    def _records(self, hours: Sequence[_Hour]) -> Generator[tuple[_Hour, Records], None, None]:
        """The records of hours one after the other. Another thread may run it."""
        for hour in hours:
            if hour.is_empty:
                continue
            try:
                with open_stream(hour.path, limits=self._limits) as stream:
                    for records in records_of(stream, _RECORD, self._batch_ticks):
                        yield hour, records
            except FeedError as error:  # of one that has no first byte
                yield hour, Records(hour.path, np.empty(0, _RECORD), 0, fault=error)

    def _converted(self, symbol: str, begin: int, records: Records, key: int, latest: int) -> Conversion:
        array = records.array
        times = begin + array["ms"].astype(np.int64) * 10**6
        beyond = array["ms"] >= _HOUR_MS
        good = np.where(beyond, latest, times)
        of = {name: array[name] for name in array.dtype.names or ()}
        of |= {"time": times, "latest": np.maximum(np.maximum.accumulate(good), latest) if len(good) else good}
        rows = range(records.position + 1, records.position + 1 + len(array))
        keys = np.full(len(array), key, np.uint32)
        made = self._columns[symbol].convert(lambda name: numpy_column(of[name]), rows, keys)
        for wrong, column, why in (
            (beyond, "ms", "is not within the hour"),
            ((array["ask_volume"] < 0) | (array["bid_volume"] < 0), "volume", "is below 0"),
        ):
            if wrong.any():
                made.note(wrong, column, f"{array[int(np.argmax(wrong))]} {why}")
        return made

    def _is_wanted(self, begin: int) -> bool:
        start, end = self._select.start_ns, self._select.end_ns
        return (start is None or begin + _HOUR_NS > start) and (end is None or begin < end)

    def _gaps(self) -> tuple[Counter[str], dict[str, str]]:
        """Counts of the selected hours without a file, and the first one. Raises ConfigurationError where one has two
        files."""
        counts, examples = Counter[str](), dict[str, str]()
        for name in self._symbols:
            before: _Hour | None = None
            for hour in (one for one in self._hours if one.symbol == name):
                if before is not None and hour.begin == before.begin:
                    raise ConfigurationError(
                        "paths",
                        f"name one of {before.path} and {hour.path}: both are {name} of {_text(hour.begin)}",
                    )
                gap = range(hour.begin if before is None else before.begin + _HOUR_NS, hour.begin, _HOUR_NS)
                for begin in filter(self._is_wanted, gap if self._select.keeps(name) else ()):
                    kind = "weekend_hours_missing" if _is_weekend(begin) else "hours_missing"
                    counts[kind] += 1
                    examples.setdefault(kind, f"{name} {_text(begin)}")
                before = hour
        return counts, examples

    def _no_counts(self) -> Counter[str]:
        names = ("records", "ticks", "rows_rounded", "times_raised", "bytes_in", "bytes_out")
        empty = sum(hour.is_empty for hour in self._hours)
        hours = {"hours": len(self._hours), "hours_empty": empty, "hours_missing": 0, "weekend_hours_missing": 0}
        return Counter(dict.fromkeys(names, 0) | hours | self._missing)


def _hour(path: Path, symbol: str | None, date: dt.date | None, hour: int | None) -> _Hour:
    """A file with what its folders and its name say of it, or the options. Raises FeedError, ConfigurationError."""
    is_empty = False
    try:
        regular_file(path)
    except TruncatedFeedError:
        is_empty = True
    given: dict[str, Any] = {"symbol": symbol, "date": date, "hour": hour}
    own: dict[str, Any] = {}
    found = _PLACE.fullmatch(path.absolute().as_posix())
    if (named := found or _HOUR.fullmatch(path.as_posix())) is not None:
        own["hour"] = int(named["hour"])
    if found is not None:
        if problem := name_problem(there := found["symbol"]):
            raise FormatError(f"its folder says the symbol {there[:80]!r}, which {problem}: rename it", path=path)
        try:
            day = dt.date(int(found["year"]), int(found["month"]) + 1, int(found["day"]))
        except ValueError:
            raise FormatError(
                "its folders say no date: they are YYYY/MM/DD, and months count from 00 (January) to 11", path=path
            ) from None
        own |= {"symbol": there, "date": as_date(day)}
    for option, value in own.items():
        if given[option] not in (None, value):
            raise ConfigurationError(option, f"leave it out: the path {path} says {value}")
    said = given | own
    for option, value in said.items():
        if value is None:
            raise ConfigurationError(
                option,
                f"{called(path)} is not in folders that tell its instrument and hour (SYMBOL/YYYY/MM/DD/HHh_ticks.bi5, "
                "months from 00): put it there, or give symbol= and date=, and hour= if it is not called HHh_ticks.bi5",
            )
    if said["hour"] > 23:
        raise FormatError(f"its name says the hour {said['hour']}: they are 00 to 23", path=path)
    begin = dt.datetime.combine(said["date"], dt.time(said["hour"]), dt.UTC)
    return _Hour(path, said["symbol"], int(begin.timestamp()) * 10**9, is_empty)


def _text(begin: int) -> str:
    return str(np.datetime64(begin, "ns").astype("datetime64[h]")).replace("T", " ") + "h UTC"


def _date(begin: int) -> str:
    return str(np.datetime64(begin, "ns").astype("datetime64[D]"))


def _is_weekend(begin: int) -> bool:
    """Tells whether an hour lies between Friday 21:00 and Sunday 22:00 UTC, when currencies do not trade."""
    hours = begin // _HOUR_NS + 3 * 24  # the epoch was a Thursday: since a Monday
    return 4 * 24 + 21 <= hours % (7 * 24) < 6 * 24 + 22
