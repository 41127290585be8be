"""A CSV file in columns of text: its lines in blocks, which are split in place, or parsed by Arrow a few ahead where
they have quotes, and the times, numbers and symbols in them.
"""

from __future__ import annotations

import csv
import datetime as dt
import importlib.util
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import (
    CLOCK,
    DATE,
    DECIMAL,
    EPOCH,
    FAULT_PRECISION,
    FAULT_RANGE,
    FAULT_SKIPPED,
    FAULT_TEXT,
    FAULT_TWICE,
    LETTER_BYTES,
    PATTERN,
    STAMP,
    ZONE_ALWAYS,
    ZONE_NEVER,
    Faults,
    Letters,
    Lines,
    Numbers,
    TextColumn,
    count_byte,
    holds,
    line_ends,
)
from strand.errors import FeedError, FormatError, MissingExtraError
from strand.feeds.formats.csv.profile import BOM, Match
from strand.feeds.io.prefetch import Chunks
from strand.feeds.mapping.clocks import CLOCKS, STAMPS, LocalTimes
from strand.feeds.mapping.rules import FieldRule, Plus
from strand.feeds.mapping.symbols import joined_texts
from strand.feeds.mapping.values import NO_TIME, TIME_POWERS, nearest_units
from strand.fixed import dataclass
from strand.ticks import limits
from strand.zones import zone_named

#: Place of the texts that several columns make together, among those of a block's columns.
JOINED: Final = -1
#: Bytes of a line, at most.
LONGEST_LINE: Final = 1 << 16
_QUOTE: Final = b'"'
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no row: which of the block's lines, from 0, why, and how it starts."""

    at: int
    why: str
    problem: str
    text: str


@dataclass(slots=True)
class Block:
    """Rows of a run of whole lines. ``lines``: how many lines, empty ones and bad ones included.

    ``columns``: by position in the file. ``at``: of each row, its line in the block from 0; None where each line is a
    row. ``empty``: the lines, from 0, with nothing in them. ``keep``: what the columns point into. ``is_cut``: the last
    line has no end, which a file's last one may lack. ``ends_value``: a quote or a space
    ends that line, and so its last value.
    """

    rows: int
    lines: int
    bytes: int
    columns: dict[int, TextColumn]
    bad: list[BadLine] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    at: npt.NDArray[np.int64] | None = None
    keep: Any = None
    is_cut: bool = False
    ends_value: bool = False

    def places(self) -> npt.NDArray[np.int64]:
        """Position of each row among the block's lines that are not empty."""
        if self.at is None:
            return np.arange(self.rows, dtype=np.int64)
        return self.at - np.searchsorted(np.array(self.empty, np.int64), self.at)


def blocks(
    chunks: Chunks, found: Match, wanted: Sequence[int], threads: int, joined: Sequence[int] = ()
) -> Iterator[Block]:
    """The rest of a file whose first ``found.skip`` bytes are the header, in order. Each is valid until the next one is
    asked for.

    ``joined``: columns whose texts make those of one more, ``JOINED``. ``threads``: so many parse a file whose first
    lines cannot be split in place, which takes less than a thread does. Without threads each is parsed when it is asked
    for: on one core a thread would only take turns with the caller, and each would find its data gone from the cache.

    Raises what reading it raises, once every whole line before that has been given.
    """
    parser = _Parser(found, wanted, joined)
    lines = _whole_lines(chunks, found.skip)
    for text in lines:
        block = parser.split(text)
        yield parser.parse(text) if block is None else block
        if threads and block is None:
            break
    else:
        return
    coming: deque[Future[Block]] = deque()
    # A piece is overwritten before its turn comes, so it is copied. A parsed block has its text in Arrow's memory, so
    # the next piece goes into the same buffer, whose pages are there already.
    free: list[bytearray] = []

    def parse(buffer: bytearray, size: int) -> Block:
        try:
            return parser.parse(memoryview(buffer)[:size])
        finally:
            free.append(buffer)

    fault: FeedError | None = None
    ended = False
    with ThreadPoolExecutor(threads, thread_name_prefix="strand csv") as ahead:
        while True:
            while not ended and len(coming) <= threads:
                try:
                    text = next(lines)
                    if text is None:
                        coming.append(ahead.submit(parser.parse, None))
                        continue
                    size = len(text)
                    buffer = free.pop() if free else bytearray()
                    if len(buffer) < size:
                        buffer = bytearray(size + LONGEST_LINE)
                    memoryview(buffer)[:size] = text
                    coming.append(ahead.submit(parse, buffer, size))
                except StopIteration:
                    ended = True
                except FeedError as error:
                    ended, fault = True, error
            if not coming:
                break
            yield coming.popleft().result()
    if fault is not None:
        raise fault


def _whole_lines(chunks: Chunks, skip: int) -> Iterator[memoryview | None]:
    """Pieces that end where a line does, without the header; None for a line that is longer than lines may be.

    Each is valid until the next is asked for.
    Where reading fails, the start of the last line is not given, because its rest is unknown.
    """
    rest = memoryview(b"")
    endless = False
    while (data := chunks.next(rest)) is not None:
        if skip:
            cut = min(skip, len(data))
            data, skip = data[cut:], skip - cut
        if endless:
            begin = _first_end(data)
            if begin == 0:
                rest = data[:0]
                continue
            data, endless = data[begin:], False
        end = _last_end(data)
        if end:
            yield data[:end]
        # A copy: if the next call finds the end of the file, this rest is the last line, and its buffer may be
        # overwritten by then.
        rest = memoryview(bytes(data[end:]))
        if len(rest) > LONGEST_LINE:
            endless = True
            rest = rest[:0]
            yield None
    if len(rest):
        yield rest


def _first_end(data: memoryview) -> int:
    """Offset after the end of the first line; 0 where no line ends."""
    return bytes(data).find(b"\n") + 1


def _last_end(data: memoryview) -> int:
    """Offset after the last whole line; 0 where no line ends."""
    # Looked for in the tail first: copying a megabyte to find the last line's end would cost as much as inflating it.
    for size in (4096, LONGEST_LINE, len(data)):
        tail = bytes(data[max(len(data) - size, 0) :])
        if (at := tail.rfind(b"\n")) >= 0:
            return len(data) - len(tail) + at + 1
    # A file of an old Macintosh. One at the very end may be half of a \r\n.
    return bytes(data[:-1]).rfind(b"\r") + 1


class _Parser:
    def __init__(self, found: Match, wanted: Sequence[int], joined: Sequence[int]) -> None:
        if importlib.util.find_spec("pyarrow") is None:
            raise MissingExtraError("reading CSV files", "pyarrow", "csv")
        self._found = found
        self._lines = Lines(found.delimiter, len(found.columns))
        self._wanted, self._joined = sorted(set(wanted)), joined
        # By position: names in a header may be empty, or there twice.
        self._names = [str(at) for at in range(len(found.columns))]

    def split(self, text: memoryview | None) -> Block | None:
        """A block of whole lines, until the next one is split; None where only Arrow can read them."""
        if text is None or self._joined or self._found.widths or bytes(text[: len(BOM)]) == BOM:
            return None
        found = self._lines.split(text, self._wanted)
        if found is None:
            return None
        rows, columns = found
        return self._ended(Block(rows, rows, len(text), columns, keep=text), text)

    def parse(self, text: bytes | memoryview | None) -> Block:
        """A block of whole lines. It lists the lines that are no rows."""
        if text is None or not self._found.widths:
            block = self._parsed(text)
            return block if text is None else self._ended(block, text)
        block = self._parsed(self._delimited(text))
        block.bytes = len(text)
        return self._ended(block, text)

    def _delimited(self, text: bytes | memoryview) -> bytes:
        """Lines of fixed width with the delimiter between their columns, lines of another width as they are."""
        ends, mark = np.cumsum(self._found.widths), self._found.delimiter.encode()
        raw, size = np.frombuffer(text, np.uint8), int(ends[-1])
        for end in (b"\n", b"\r\n"):
            if len(raw) % (size + len(end)) == 0:
                lines = raw.reshape(-1, size + len(end))
                if (lines[:, size:] == np.frombuffer(end, np.uint8)).all() and (lines[:, :size] >= ord(" ")).all():
                    return np.insert(lines, ends[:-1], ord(mark), axis=1).tobytes()
        lengths = [*zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
        return b"\n".join(
            mark.join(line[begin:end] for begin, end in lengths) if len(line) == size else line
            for line in _LINE_END.split(bytes(text))
        )

    @staticmethod
    def _ended(block: Block, text: bytes | memoryview) -> Block:
        block.is_cut = text[-1:] not in (b"\n", b"\r")
        block.ends_value = text[-1:] in (b'"', b" ")
        return block

    def _parsed(self, text: bytes | memoryview | None) -> Block:
        if text is None:
            problem = f"no end within {LONGEST_LINE} bytes"
            return Block(0, 1, 0, {}, [BadLine(0, "line too long", problem, "")], at=np.zeros(0, np.int64))
        if bytes(text[: len(BOM)]) == BOM:  # which Arrow would pass over; the file's own was passed over before
            return self._sifted(bytes(text))
        ends, odd = line_ends(text)
        quoted = odd and count_byte(text, ord(_QUOTE)) > 0
        from pyarrow import ArrowInvalid

        try:
            block = self._table(text, quoted)
        except ArrowInvalid:
            return self._sifted(bytes(text))
        # Arrow passes over empty lines, and reads a quoted text that spans lines as one row. In both cases the counts
        # differ.
        if block.rows != _line_count(text, ends, odd):
            return self._sifted(bytes(text))
        return block

    def _table(self, text: bytes | memoryview, quoted: bool) -> Block:
        if not text:
            return Block(0, 0, 0, {})
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        chosen = [str(at) for at in self._wanted]
        read = arrow_csv.ReadOptions(use_threads=False, column_names=self._names, block_size=len(text) + 1)
        parse = arrow_csv.ParseOptions(delimiter=self._found.delimiter, quote_char='"' if quoted else False)
        convert = arrow_csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(chosen, pa.binary()),
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        )
        table = arrow_csv.read_csv(pa.py_buffer(text), read, parse, convert)
        rows = table.num_rows
        columns, keep = {}, []
        arrays = {
            at: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            for at, column in zip(self._wanted, table.columns, strict=True)
        }
        if self._joined:
            arrays[JOINED] = joined_texts([arrays[at] for at in self._joined])
        for at, array in arrays.items():
            _, offsets, values = array.buffers()
            keep.append((offsets, values))
            columns[at] = TextColumn(offsets, values, rows=rows, first=array.offset)
        return Block(rows, rows, len(text), columns, keep=keep)

    def _sifted(self, text: bytes) -> Block:
        """Block without the lines that are no rows, which are looked at one by one."""
        lines = _LINE_END.split(text)
        if not lines[-1]:
            lines.pop()
        good, places, bad, empty = [], [], [], []
        for at, line in enumerate(lines):
            count = self._fields_of(line)
            if not line:
                empty.append(at)
            elif line.startswith(BOM):
                bad.append(BadLine(at, "byte order mark", "a byte order mark in mid-file", _shown(line)))
            elif count == len(self._names):
                good.append(line)
                places.append(at)
            elif count < 0:
                bad.append(BadLine(at, "open quote", "a quoted field does not end in its line", _shown(line)))
            else:
                problem = f"{count} fields where there are {len(self._names)} columns"
                bad.append(BadLine(at, "number of fields", problem, _shown(line)))
        block = self._table(b"".join(line + b"\n" for line in good), _QUOTE in text)
        if block.rows != len(good):
            raise FormatError("its quotes cannot be told apart from its fields: check its quoting")
        block.lines, block.bytes, block.bad, block.empty = len(lines), len(text), bad, empty
        block.at = np.array(places, np.int64)
        return block

    def _fields_of(self, line: bytes) -> int:
        """Number of fields of a line; -1 where a quote in it does not end."""
        if _QUOTE not in line:
            return line.count(self._found.delimiter.encode()) + 1
        text, delimiter = line.decode("latin-1"), self._found.delimiter
        try:
            return len(next(csv.reader([text], delimiter=delimiter, strict=True)))
        except csv.Error as error:
            if "end of data" in str(error):
                return -1
            return len(next(csv.reader([text], delimiter=delimiter)))


def _shown(line: bytes) -> str:
    return line[:80].decode("utf-8", "replace")


def _line_count(text: bytes | memoryview, ends: int, odd: bool) -> int:
    """Number of lines of a text with ``ends`` line feeds. ``odd``: it may also have line ends of other kinds."""
    if odd and count_byte(text, 13):
        whole = bytes(text)
        ends += whole.count(b"\r") - whole.count(b"\r\n")
    return ends + (text[-1] not in (10, 13))


_DIGIT: Final = re.compile(rb"\d")
#: The rows of a block that are read.
Chosen = npt.NDArray[np.uint32]


class Scratch:
    """Memory for the values of one block, and then of the next one: the system clears each page that it gives."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[np.uint8]] = []
        self._used = 0

    def begin(self) -> None:
        """Makes all memory free again."""
        self._used = 0

    def take(self, count: int, dtype: Any) -> npt.NDArray[Any]:
        """An array of undefined values, shape (count,)."""
        size = count * np.dtype(dtype).itemsize
        if self._used == len(self._arrays):
            self._arrays.append(np.empty(size, np.uint8))
        elif len(self._arrays[self._used]) < size:
            self._arrays[self._used] = np.empty(size, np.uint8)
        self._used += 1
        return self._arrays[self._used - 1][:size].view(dtype)


class Cells:
    """Rows of a block that are read, and what reading them has found.

    Attributes:
        block: The block.
        rows: The rows; None: all of them.
        faults: A word for each row: see ``FAULT_WORDS``.
        rounded: Mask of the rows in which a number was rounded; None: none was.
    """

    def __init__(
        self, block: Block, faults: Faults, rows: Chosen | None = None, *, scratch: Scratch, rounds: bool = False
    ) -> None:
        self.block, self.faults, self.rows = block, faults, rows
        self.rounded: npt.NDArray[np.bool_] | None = None
        self._scratch, self._rounds = scratch, rounds

    def __len__(self) -> int:
        return len(self.faults)

    @property
    def places(self) -> Chosen:
        """The place of each row in the block."""
        return np.arange(len(self), dtype=np.uint32) if self.rows is None else self.rows

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Leaves the other rows out."""
        self.rows, self.faults = self.places[kept], self.faults[kept]
        self.rounded = None if self.rounded is None else self.rounded[kept]

    def anew(self) -> Cells:
        """The same rows, in which nothing has been found."""
        faults = np.zeros(len(self), np.uint16)
        return Cells(self.block, faults, self.rows, scratch=self._scratch, rounds=self._rounds)

    def numbers(
        self, numbers: Numbers, at: int, *, undefined: frozenset[bytes] = frozenset(), none: int = 0, dtype: Any = "i8"
    ) -> npt.NDArray[Any]:
        """The numbers of a column; 0 where a row has a fault. ``undefined``: texts that stand for ``none``."""
        out = self._scratch.take(len(self), dtype)
        bad = numbers.read(self.block.columns[at], at, out, self.faults, self.rows)
        if bad:
            out[self.faults != 0] = 0
        if bad and self._rounds and numbers.form == DECIMAL:
            self._round(numbers, at, out)
        if undefined:
            out[self._undefined(undefined, at)] = none
        return out

    def holds(self, at: int, text: bytes) -> npt.NDArray[np.bool_]:
        """Mask of the rows whose column holds a text."""
        return holds(self.block.columns[at], text, self.places)

    def letters(self, tables: Letters, at: int, dtypes: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """The numbers that a column's texts stand for, by each of the tables; 0 where a row has a fault."""
        outs = [self._scratch.take(len(self), dtype) for dtype in dtypes]
        if tables.read(self.block.columns[at], at, outs, self.faults, self.rows):
            for out in outs:
                out[self.faults != 0] = 0
        return outs

    def _undefined(self, texts: frozenset[bytes], at: int) -> list[int]:
        """The places of texts that stand for no value; their faults are taken back."""
        column, faults, rows = self.block.columns[at], self.faults, self.places
        # A text that is a number, such as -1 or -999.99, was read as that number: no fault shows it.
        numbers = [text for text in texts if _DIGIT.search(text) and len(text) <= LETTER_BYTES]
        same = np.logical_or.reduce([self.holds(at, text) for text in numbers]) if numbers else ()
        found = np.flatnonzero(same).tolist()
        faults[found] = np.where(faults[found] >> 8 == at, 0, faults[found])
        for place in np.flatnonzero((faults == (at << 8 | FAULT_RANGE)) | (faults == (at << 8 | FAULT_TEXT))).tolist():
            if column.text(int(rows[place])).strip() in texts:
                faults[place] = 0
                found.append(place)
        return found

    def _round(self, numbers: Numbers, at: int, out: npt.NDArray[Any]) -> None:
        column, rows = self.block.columns[at], self.places
        self.rounded = np.zeros(len(self), np.bool_) if self.rounded is None else self.rounded
        for place in np.flatnonzero(self.faults == (at << 8 | FAULT_PRECISION)).tolist():
            self.rounded[place] = True
            text = column.text(int(rows[place])).strip()
            if numbers.point:
                text = text.replace(numbers.group or b" ", b"").replace(numbers.point, b".")
            units = nearest_units(text, numbers.scale)
            if units is None or not numbers.lowest <= units <= numbers.highest:
                self.faults[place] = at << 8 | FAULT_RANGE
            elif units:  # a size or price may not become 0, which means something else: the fault stays
                out[place], self.faults[place] = units, 0


_DAY_NS: Final = 86_400_000_000_000
_QUARTER_NS: Final = 900 * 10**9


@dataclass(frozen=True, slots=True)
class _TimeColumn:
    field: str
    column: int
    numbers: Numbers
    local: bool
    of_day: bool
    undefined: frozenset[bytes]
    plus: Plus | None
    clocks: LocalTimes
    nights: _Nights


class _Nights:
    """The latest row of each symbol whose dates at night are their own. It tells which row of a night comes again.

    CTP sends the night's last snapshot once more when the day opens, with the new day's date. So an evening that
    follows an evening of an earlier date is of that night.
    """

    def __init__(self) -> None:
        self._days = np.zeros(0, np.int64)
        #: 0: by day, 1: in the evening, 2: an evening that came again.
        self._states = np.zeros(0, np.int8)

    def again(
        self, keys: npt.NDArray[np.uint32], days: npt.NDArray[np.int64], evening: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Mask of the rows that come again."""
        if (more := int(keys.max()) + 1 - len(self._days)) > 0:
            self._days = np.concatenate([self._days, np.zeros(more, np.int64)])
            self._states = np.concatenate([self._states, np.zeros(more, np.int8)])
        order = np.argsort(keys, kind="stable")
        key, day, late = keys[order], days[order], evening[order]
        first = np.append(True, key[1:] != key[:-1])
        day_before = np.where(first, self._days[key], np.roll(day, 1))
        late_before = np.where(first, self._states[key] > 0, np.roll(late, 1))
        begins = first | (day != day_before) | (late != late_before)
        known = late & late_before & ((day > day_before) | (first & (day == day_before) & (self._states[key] == 2)))
        found = known[np.maximum.accumulate(np.where(begins, np.arange(len(key)), 0))] & late
        last = np.append(first[1:], True)
        self._days[key[last]], self._states[key[last]] = day[last], late[last].astype(np.int8) + found[last]
        again = np.zeros(len(key), np.bool_)
        again[order] = found
        return again


class TimeReader:
    """Reads the columns of times of one file. ``sample``: the first text of each column, which tells how it is written.
    ``place``: where a column is that is read, by its names. ``date``: of times of day, where no column has it."""

    def __init__(
        self,
        found: Match,
        rules: Sequence[FieldRule],
        sample: Mapping[int, str],
        *,
        date: dt.date | None,
        place: Callable[[tuple[str, ...]], int],
    ) -> None:
        self._found = found
        self._date = date
        self._place = place
        ends = [rule.plus.ns[0][1] for rule in rules if rule.plus and not rule.plus.columns and not rule.plus.months]
        #: The length of all rows, where they are bars of one symbol.
        self._lasts = 0 if found.profile.symbol.columns else next(iter(ends), 0)
        self._columns = [self._column(rule, sample) for rule in rules]
        days = found.profile.date_columns
        self._day_column = place(days) if days else None
        #: True if times are of a day that only ``date`` could give.
        self.needs_date = self._day_column is None and any(time.of_day for time in self._columns)
        #: True if clocks share one day of a market that is open at midnight.
        self._all_day = found.profile.zone == "UTC" and date is not None and all(time.of_day for time in self._columns)

    def read(
        self, cells: Cells, own: tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]] | None = None
    ) -> dict[str, npt.NDArray[np.int64]]:
        """The times of rows, by field. ``own``: a mask of the rows with calendar dates at night, and the keys of all
        rows."""
        found = {time.field: self._read(time, cells, own) for time in self._columns}
        if len(found) > 1 and self._all_day:
            # An event just before midnight that was received behind it, on the day that both share.
            event = found["ts_event"]
            event[event - found["ts_recv"] > _DAY_NS // 2] -= _DAY_NS
        return found

    def is_decimal(self, column: int) -> bool:
        """True if a column holds times that are decimals."""
        return any(time.column == column and time.numbers.form == DECIMAL for time in self._columns)

    def _column(self, rule: FieldRule, sample: Mapping[int, str]) -> _TimeColumn:
        """Form of a time: the first of the profile's forms that the column's first time agrees with."""
        at = self._place(rule.columns)
        empty = 0 if rule.empty else None
        for unit in rule.unit:
            of_day = unit == "clock" or (rule.since == "midnight" and unit in TIME_POWERS)
            highest = _DAY_NS - 1 if of_day else limits("ts_recv")[1]
            pattern = b""
            if rule.format is not None:
                form, scale, pattern = PATTERN, 0, rule.format.text
            elif unit == "auto":
                form, scale = EPOCH, 0
            elif unit in TIME_POWERS:
                form, scale = DECIMAL, TIME_POWERS[unit]
            else:
                form, scale = (CLOCK if unit == "clock" else STAMP), rule.digits
            # An empty time becomes -1, which no time of day is.
            point, group = self._found.profile.marks if form == DECIMAL else (b"", b"")
            numbers = Numbers(
                form, scale, 0, highest, empty=None if empty is None else -1, pattern=pattern, point=point, group=group
            )
            if rule.format is not None:
                numbers = replace(numbers, zone=ZONE_ALWAYS if rule.format.has_zone else ZONE_NEVER)
            elif unit == "stamp" and self._found.profile.zone != "UTC":
                zoned = replace(numbers, zone=ZONE_ALWAYS)
                says_zone = at in sample and _reads(zoned, sample[at])
                numbers = zoned if says_zone else replace(numbers, zone=ZONE_NEVER)
            local = of_day or numbers.zone == ZONE_NEVER
            undefined = frozenset(text.encode() for text in rule.undefined)
            clocks = LocalTimes(self._found.profile.zone, self._found.profile.ambiguous, lasts=self._lasts)
            plus = rule.plus
            if plus is not None and plus.columns:
                if self._found.column(plus.columns) is None:
                    plus = None
                else:
                    self._place(plus.columns)
            found = _TimeColumn(rule.field, at, numbers, local, of_day, undefined, plus, clocks, _Nights())
            if unit == rule.unit[-1] or _reads(numbers, sample.get(at, "")):
                return found
        raise AssertionError(rule)

    def _read(
        self, time: _TimeColumn, cells: Cells, own: tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]] | None
    ) -> npt.NDArray[np.int64]:
        values = cells.numbers(time.numbers, time.column, undefined=time.undefined, none=-1)
        missing = None if time.numbers.empty is None and not time.undefined else values < 0
        if time.of_day:
            days = self._days(cells)
            if self._found.profile.night is not None:
                days = days - self._before_trading_day(time, values, days, own)
            values += days
        rest = None
        if time.plus is not None:
            # Days and months end by the local clock, whatever their length; all other spans are of one length.
            values, rest = _plus_days(values, self._added(time.plus, cells), time.plus.months)
        if time.local:
            values = self._to_utc(time, values, cells.faults, missing)
        if rest is not None:
            values += rest
        if missing is not None:
            values[missing] = 0
        if len(values) and values.min() < 0:  # in the first hours of 1970 somewhere east of Greenwich
            early = values < 0
            values[early] = 0
            cells.faults[early & (cells.faults == 0)] = time.column << 8 | FAULT_RANGE
        return values

    def _before_trading_day(
        self,
        time: _TimeColumn,
        clocks: npt.NDArray[np.int64],
        days: npt.NDArray[np.int64],
        own: tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint32]] | None,
    ) -> npt.NDArray[np.int64]:
        """The ns between a clock's own day and its trading day. In the evening the own day is the weekday before; past
        midnight it is the day after that weekday."""
        night = self._found.profile.night
        assert night is not None
        is_monday, evening = (days // _DAY_NS + 3) % 7 == 0, clocks >= night.begins
        back = np.where(is_monday, 3 * _DAY_NS, _DAY_NS), np.where(is_monday, 2 * _DAY_NS, 0)
        found = np.where(evening, back[0], np.where(clocks < night.ends, back[1], 0))
        if own is not None and own[0].any():
            rows = np.flatnonzero(own[0])
            found[rows[~time.nights.again(own[1][rows], days[rows], evening[rows])]] = 0
        return found

    def _added(self, plus: Plus, cells: Cells) -> npt.NDArray[np.int64]:
        if not plus.columns:
            return np.full(len(cells), 0 if plus.months else plus.ns[0][1], np.int64)
        at = self._place(plus.columns)
        if not plus.ns:
            return cells.numbers(Numbers(DECIMAL, plus.power, 0, 999_999_999, empty=0), at)
        encoding = self._found.encoding
        tables = Letters(({text.encode(encoding): code for code, (text, _) in enumerate(plus.ns)}, None))
        (codes,) = cells.letters(tables, at, [np.uint8])
        spans = np.array([ns for _, ns in plus.ns], np.int64)
        found: npt.NDArray[np.int64] = spans[np.minimum(codes, len(spans) - 1)]
        return found

    def _days(self, cells: Cells) -> Any:
        if self._day_column is not None:
            form = self._found.profile.date_format
            numbers = Numbers(DATE) if form is None else Numbers(PATTERN, pattern=form.text)
            return cells.numbers(numbers, self._day_column)
        return 0 if self._date is None else (self._date - dt.date(1970, 1, 1)).days * _DAY_NS

    def _to_utc(
        self, time: _TimeColumn, wall: npt.NDArray[np.int64], faults: Faults, missing: npt.NDArray[np.bool_] | None
    ) -> npt.NDArray[np.int64]:
        """Clock times of the profile's zone, as ns since 1970 as if they were UTC, to UTC."""
        if self._date is None and self.needs_date:
            return wall
        found, bad = time.clocks.to_utc(wall, faults if missing is None else np.where(missing, 1, faults))
        if bad is not None:
            wrong = (bad != 0) & (faults == 0)
            faults[wrong] = (time.column << 8) | bad[wrong].astype(np.uint16)
        return found

    def local_days(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The days of times in UTC by the profile's zone, as numbers that rise with them. Trading days begin at night
        where the profile says so."""
        zone, night = zone_named(self._found.profile.zone), self._found.profile.night
        before = dt.timedelta(0) if night is None else dt.timedelta(microseconds=(_DAY_NS - night.begins) // 1000)
        quarters, places = np.unique(times // _QUARTER_NS, return_inverse=True)
        days = [
            (dt.datetime.fromtimestamp(quarter * 900, zone) + before).date().toordinal()
            for quarter in quarters.tolist()
        ]
        return np.array(days, np.int64)[places]

    def cure(self, column: int, fault: int) -> str:
        """Advice for a fault in a column of times, to follow the fault's text; empty where there is none."""
        time = next((time for time in self._columns if time.column == column), None)
        if fault == FAULT_TEXT:
            return self._forms(column, time)
        zone = self._found.profile.zone
        if time is not None and fault == FAULT_RANGE and time.numbers.form in (CLOCK, STAMP, PATTERN):
            return (
                "; dates are from 1970 to 2261, clocks from 00:00:00 to 23:59:59: 24:00 and leap seconds are not read"
            )
        if time is not None and fault == FAULT_RANGE and not time.of_day:
            return f": it is {NO_TIME}"
        if fault == FAULT_TWICE:
            return (
                f": the clocks of {zone} go back then, and the order of the lines does not show which one it is; give "
                'ambiguous = "earliest" or "latest" under [time]'
            )
        if fault == FAULT_SKIPPED:
            return f": the clocks of {zone} go forward over it; give the zone that the file has by zone= (--zone)"
        return ""

    def _forms(self, column: int, time: _TimeColumn | None) -> str:
        """The forms that a column of times or dates could have."""
        if time is None:
            example = (
                'a date is 20260928 or 2026-09-28; give date_format under [time] for other forms, as in "%d.%m.%Y"'
            )
            return f"; {example}" if column == self._day_column else ""
        if time.numbers.form == PATTERN:
            return f"; format is {time.numbers.pattern.decode()!r}"
        if time.numbers.form in (CLOCK, STAMP):
            return f"; {CLOCKS if time.numbers.form == CLOCK else STAMPS}"
        return f'; for stamps and clocks give unit = "stamp" or "clock": {STAMPS}'

    def unresolved(self) -> int | None:
        """Column whose last rows, at the file's end, lie in an hour that comes twice, with no second pass."""
        return next((time.column for time in self._columns if time.local and time.clocks.is_open), None)


def _plus_days(
    local: npt.NDArray[np.int64], added: npt.NDArray[np.int64], months: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Local times plus the whole days, or the rest of so many months, and what is left to add."""
    rest = added % _DAY_NS
    if not months:
        return local + (added - rest), rest
    begun = local.view("M8[ns]").astype("M8[M]")
    return (begun + months).astype("M8[ns]").view(np.int64), rest


def _reads(numbers: Numbers, text: str) -> bool:
    try:
        numbers.one(text.strip().encode())
    except ValueError:
        return False
    return True
