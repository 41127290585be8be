"""One LEAN tick archive: what its names say, and its rows as ticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError, MissingExtraError
from strand.feeds._files import MemberReader
from strand.feeds._zip import open_archive
from strand.feeds.base import TickBatch
from strand.feeds.bytestream import InflateLimits
from strand.feeds.skipped import Skipped
from strand.symbols import name_problem
from strand.ticks import KIND_QUOTE, KIND_TRADE, UNDEF_PRICE, limits, zeros

__all__ = ["FLAG_SUSPICIOUS", "LeanFile", "lean_member", "named_as_lean", "read_lean_file"]

#: Set in ``flags`` where the row is marked suspicious.
FLAG_SUSPICIOUS: Final = 1

_MEMBER = re.compile(r"(?P<date>\d{8})_(?P<symbol>.+)_(?P<kind>trade|quote)_tick\.csv", re.IGNORECASE)
_ARCHIVE = re.compile(r"(?:(?P<symbol>.+)_)?(?P<date>\d{8})_(?P<kind>trade|quote)\.zip", re.IGNORECASE)
#: Of Forex and CFD, which have no sizes, and of futures and options, whose names end with the expiry and whose prices
#: are decimals: CSV profiles read them, or nothing does.
_NOT_EQUITY = re.compile(r"\d{8}_.+_tick_(?:quote|(?:trade|quote|openinterest)_.+)\.csv", re.IGNORECASE)
_COLUMNS: Final = {
    "trade": ["time", "price", "size", "exchange", "condition", "suspicious"],
    "quote": ["time", "bid", "bid_size", "ask", "ask_size", "exchange", "condition", "suspicious"],
}
_NUMBERS: Final = {"time", "price", "size", "bid", "bid_size", "ask", "ask_size", "suspicious"}
_PRICE_UNITS: Final = 100_000  # of 1e-9 in one of the file's 1e-4
_MAX_PRICE: Final = (UNDEF_PRICE - 1) // _PRICE_UNITS
_MS_OF_DAY: Final = 86_400_000
_MS_OF_HOUR: Final = 3_600_000
_LONGEST_LINE: Final = 1 << 16
_BOM: Final = b"\xef\xbb\xbf"

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class LeanFile:
    """A tick archive of one symbol and day, as its names tell: ``kind`` is ``"trade"`` or ``"quote"``."""

    path: Path
    member: str
    symbol: str
    date: date
    kind: str


def named_as_lean(path: Path, tables: Sequence[str]) -> bool:
    """Whether an archive of these CSV files is called as LEAN calls its equities', in its name or in a member's."""
    if any(_NOT_EQUITY.fullmatch(name) for name in tables):
        return False
    return any(_MEMBER.fullmatch(name) for name in tables) or (
        bool(tables) and _ARCHIVE.fullmatch(path.name) is not None
    )


def lean_member(path: Path) -> LeanFile:
    """What an archive holds, from the name of its member and its own; the two must not disagree."""
    with open_archive(path) as archive:
        tables = [name for name in archive.namelist() if name.lower().endswith(".csv")]
    if len(tables) != 1:
        raise FormatError(f"holds {len(tables)} CSV files where a LEAN equity tick archive holds one", path=path)
    said = []
    if found := _MEMBER.fullmatch(tables[0]):
        said.append((found["symbol"].upper(), found["date"], found["kind"].lower()))
    if found := _ARCHIVE.fullmatch(path.name):
        symbol = found["symbol"] or (path.parent.name if path.parent.parent.name == "tick" else None)
        if symbol is not None:
            said.append((symbol.upper(), found["date"], found["kind"].lower()))
    if not said:
        raise FormatError(
            f"neither its name nor its member's ({tables[0]!r}) tells symbol, date and kind: expected "
            "tick/<symbol>/<yyyymmdd>_<trade|quote>.zip, <symbol>_<yyyymmdd>_<trade|quote>.zip or a member "
            "<yyyymmdd>_<symbol>_<Trade|Quote>_Tick.csv",
            path=path,
        )
    if len(set(said)) > 1:
        raise FormatError(f"its member's name says {said[0]}, its own says {said[1]}", path=path)
    symbol, digits, kind = said[0]
    if problem := name_problem(symbol):
        raise FormatError(f"its name says the symbol {symbol[:80]!r}, which {problem}: rename it", path=path)
    try:
        day = datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        raise FormatError(f"its date {digits} is none", path=path) from None
    return LeanFile(path, tables[0], symbol, day, kind)


def read_lean_file(
    file: LeanFile,
    key: int,
    *,
    chunk_bytes: int,
    limits: InflateLimits,
    counts: dict[str, int],
    skipped: Skipped | None = None,
) -> Iterator[TickBatch]:
    """Ticks of one archive, by the chunk, with ``instrument_id`` = ``key``; ``counts`` is added to.

    A row that is none raises FormatError once those before it have been given, or is added to ``skipped``.

    ``ts_recv`` is the latest ``ts_event`` so far: the file's order is the order in which the rows were recorded.
    """
    parse = _parser(file)
    offsets = _utc_offsets(file.date)
    to_ticks = _trades if file.kind == "trade" else _quotes
    rows, latest, read = 0, 0, 0

    def made(lines: bytes, first: int) -> TickBatch:
        if first and lines.startswith(_BOM):  # which Arrow would pass over
            raise FormatError("a byte order mark in mid-file", path=file.path, line=first + 1)
        columns = parse(lines, first)
        ticks = to_ticks(_Checked(file.path, first, columns))
        ms = columns["time"]
        ticks["ts_event"] = (ms * 1_000_000 + offsets[ms // _MS_OF_HOUR]).astype(np.int64)
        return ticks

    with open_archive(file.path) as archive:
        member = archive.getinfo(file.member)
        reader = MemberReader(member, file.path, limits)
        try:
            for chunk in _whole_lines(reader, chunk_bytes, file.path):
                for first, ticks in _sound(chunk, rows, made, skipped):
                    np.maximum.accumulate(ticks["ts_event"], out=ticks["ts_recv"])
                    np.maximum(ticks["ts_recv"], np.int64(latest), out=ticks["ts_recv"])
                    counts["times_raised"] += int((ticks["ts_recv"] != ticks["ts_event"]).sum())
                    ticks["sequence"] = np.arange(first + 1, first + 1 + len(ticks), dtype=np.uint64)
                    ticks["instrument_id"] = key
                    latest = int(ticks["ts_recv"][-1])
                    counts["records"] += len(ticks)
                    counts["ticks"] += len(ticks)
                    counts["suspicious"] += int((ticks["flags"] & FLAG_SUSPICIOUS != 0).sum())
                    yield ticks
                rows += _line_count(chunk)
                counts["bytes_out"] += len(chunk)
                counts["bytes_in"] += reader.bytes_in - read
                read = reader.bytes_in
        finally:
            reader.close()


def _line_count(lines: bytes) -> int:
    return lines.count(b"\n") + (not lines.endswith(b"\n"))


def _sound(
    lines: bytes, rows: int, made: Callable[[bytes, int], TickBatch], skipped: Skipped | None
) -> Iterator[tuple[int, TickBatch]]:
    """What is made of lines, with the number of rows before it. Bad ones among them are closed in on by halves."""
    try:
        ticks = made(lines, rows)
    except FormatError:
        end = lines.find(b"\n", len(lines) // 2) + 1
        if not 0 < end < len(lines):
            end = lines.rfind(b"\n", 0, len(lines) - 1) + 1
        if end:
            yield from _sound(lines[:end], rows, made, skipped)
            yield from _sound(lines[end:], rows + _line_count(lines[:end]), made, skipped)
        elif skipped is None:
            raise
        else:
            skipped.add("bad row", line=rows + 1, text=lines.decode("utf-8", "replace").strip())
        return
    yield rows, ticks


def _whole_lines(reader: MemberReader, chunk_bytes: int, path: Path) -> Iterator[bytes]:
    """The member in pieces that end where a line does; what lies between the ends is the CSV reader's business."""
    rest = b""
    while data := reader.read(chunk_bytes):
        end = data.rfind(b"\n") + 1
        if end == 0 and len(rest) + len(data) > max(chunk_bytes, _LONGEST_LINE):
            raise FormatError(
                f"no line ends within {len(rest) + len(data)} bytes", path=path, offset=reader.bytes_out - len(data)
            )
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
    if rest:
        yield rest


def _parser(file: LeanFile) -> Callable[[bytes, int], dict[str, Any]]:
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError as error:
        raise MissingExtraError("reading LEAN archives", "pyarrow", "csv") from error
    names = _COLUMNS[file.kind]
    letters = pa.dictionary(pa.int32(), pa.string())
    parse_options = csv.ParseOptions(quote_char=False, ignore_empty_lines=False)
    # An empty field is no number: nothing stands for null.
    convert_options = csv.ConvertOptions(
        column_types={name: pa.int64() if name in _NUMBERS else letters for name in names},
        null_values=[],
        strings_can_be_null=False,
    )

    def parse(chunk: bytes, rows: int) -> dict[str, Any]:
        # One block, one thread: only so does Arrow number the rows in its errors.
        read_options = csv.ReadOptions(use_threads=False, column_names=names, block_size=len(chunk) + 1)
        try:
            table = csv.read_csv(pa.py_buffer(chunk), read_options, parse_options, convert_options)
        except pa.ArrowInvalid as error:
            raise _explained(str(error), file, rows) from error
        columns: dict[str, Any] = {}
        for name in names:
            column = table.column(name).combine_chunks()
            if name in _NUMBERS:
                columns[name] = column.to_numpy()
            else:
                columns[name] = (column.indices.to_numpy(), column.dictionary.to_pylist())
        return columns

    return parse


def _explained(message: str, file: LeanFile, rows: int) -> FormatError:
    """An error of ours for one of Arrow's, with the line of the file and the column's name."""
    numbered = re.search(r"Row #(\d+): ", message)
    line = rows + int(numbered[1]) if numbered else None
    problem = message[numbered.end() :] if numbered else message
    if column := re.match(r"In CSV column #(\d+): ", message):
        problem = f"column {_COLUMNS[file.kind][int(column[1])]}: {problem}"
    return FormatError(f"not a row of LEAN {file.kind}s: {problem}", path=file.path, line=line)


class _Checked:
    """Columns of a chunk, looked at before they become fields."""

    def __init__(self, path: Path, rows: int, columns: dict[str, Any]) -> None:
        self._path, self._rows, self._columns = path, rows, columns
        self.count = len(self.number("time", _MS_OF_DAY - 1))

    def number(self, name: str, highest: int) -> Numbers:
        values: Numbers = self._columns[name]
        bad = (values < 0) | (values > highest)
        if bad.any():
            index = int(np.argmax(bad))
            raise self._bad(index, name, f"{values[index]} is outside 0 to {highest}")
        return values

    def mapped(self, name: str, convert: Callable[[str], int], dtype: npt.DTypeLike) -> Numbers:
        """A column of text through a function that is only called for texts that differ."""
        indices, texts = self._columns[name]
        numbers = np.zeros(len(texts), dtype)
        for place, text in enumerate(texts):
            try:
                numbers[place] = convert(text)
            except (ValueError, OverflowError) as error:
                raise self._bad(int(np.argmax(indices == place)), name, f"{text!r} is {error}") from None
        picked: Numbers = numbers[indices]
        return picked

    def _bad(self, index: int, name: str, problem: str) -> FormatError:
        return FormatError(f"column {name}: {problem}", path=self._path, line=self._rows + index + 1)


def _exchange(text: str) -> int:
    if len(text) > 1 or not text.isascii():
        raise ValueError("no exchange letter")
    return ord(text) if text else 0


def _condition(text: str) -> int:
    if len(text) > 16 or re.fullmatch("[0-9A-Fa-f]*", text) is None:
        raise ValueError("no set of condition bits in hexadecimal")
    return int(text, 16) if text else 0


def _common(rows: _Checked, kind: int, action: bytes) -> TickBatch:
    ticks = zeros(rows.count)
    ticks["kind"] = kind
    ticks["action"] = action
    ticks["side"] = b"N"
    ticks["publisher_id"] = rows.mapped("exchange", _exchange, np.uint16)
    ticks["flags"] = np.where(rows.number("suspicious", 1) != 0, FLAG_SUSPICIOUS, 0)
    return ticks


def _trades(rows: _Checked) -> TickBatch:
    ticks = _common(rows, KIND_TRADE, b"T")
    ticks["price"] = rows.number("price", _MAX_PRICE) * _PRICE_UNITS
    ticks["size"] = rows.number("size", limits("size")[1])
    ticks["order_id"] = rows.mapped("condition", _condition, np.uint64)
    return ticks


def _quotes(rows: _Checked) -> TickBatch:
    ticks = _common(rows, KIND_QUOTE, b"N")
    rows.mapped("condition", _condition, np.uint64)
    bid, bid_size = rows.number("bid", _MAX_PRICE), rows.number("bid_size", limits("size")[1])
    ask, ask_size = rows.number("ask", _MAX_PRICE), rows.number("ask_size", limits("size")[1])
    has_bid, has_ask = (bid != 0) | (bid_size != 0), (ask != 0) | (ask_size != 0)
    only_ask, both_or_none = has_ask & ~has_bid, has_ask == has_bid
    ticks["side"] = np.where(both_or_none, b"N", np.where(has_bid, b"B", b"A"))
    ticks["price"] = np.where(only_ask, ask, bid) * _PRICE_UNITS
    ticks["size"] = np.where(only_ask, ask_size, bid_size)
    ticks["order_id"] = np.where(both_or_none, ask * _PRICE_UNITS, 0)
    ticks["ref_id"] = np.where(both_or_none, ask_size, 0)
    if (none := ~(has_bid | has_ask)).any():
        ticks["price"][none] = UNDEF_PRICE
        ticks["order_id"][none] = UNDEF_PRICE
    return ticks


def _utc_offsets(day: date) -> Numbers:
    """By the hour of the New York wall clock: what to add to ns since midnight for ns since the UNIX epoch."""
    try:
        zone = ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError as error:
        raise MissingExtraError("LEAN times in New York", "tzdata", "csv") from error
    midnight = datetime(day.year, day.month, day.day)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    offsets = []
    for hour in range(24):
        wall = timedelta(hours=hour)
        since = (midnight + wall).replace(tzinfo=zone) - epoch - wall
        offsets.append((since.days * 86_400 + since.seconds) * 1_000_000_000)
    if min(offsets) < 0:
        raise FormatError(f"the date {day} is before 1970, where tick times start")
    return np.array(offsets, np.int64)
