"""A CSV file's lines in blocks, parsed by Arrow into columns of text: a few blocks ahead, in threads."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import TextColumn, count_byte, line_ends
from strand.errors import FeedError, FormatError, MissingExtraError
from strand.feeds.formats.csv.profile import BOM, Match
from strand.feeds.io.prefetch import Chunks

__all__ = ["LONGEST_LINE", "BadLine", "Block", "blocks"]

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


def blocks(chunks: Chunks, found: Match, wanted: Sequence[int], threads: int) -> Iterator[Block]:
    """The rest of a file whose first ``found.skip`` bytes are the header, in order, parsed by so many threads.

    Without threads each is parsed when it is asked for: on one core a thread would only take turns with the caller,
    and each would find its data gone from the cache.

    Raises what reading it raises, once every whole line before that has been given.
    """
    parser = _Parser(found, wanted)
    lines = _whole_lines(chunks, found.skip)
    if not threads:
        yield from map(parser.parse, lines)
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
    def __init__(self, found: Match, wanted: Sequence[int]) -> None:
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ImportError as error:
            raise MissingExtraError("reading CSV files", "pyarrow", "csv") from error
        self._pa, self._csv = pa, arrow_csv
        self._found = found
        self._wanted = sorted(set(wanted))
        # By position: names in a header may be empty, or there twice.
        self._names = [str(at) for at in range(len(found.columns))]
        chosen = [str(at) for at in self._wanted]
        self._convert = arrow_csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(chosen, pa.binary()),
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        )

    def parse(self, text: bytes | memoryview | None) -> Block:
        """A block of whole lines. It lists the lines that are no rows."""
        block = self._parsed(text)
        block.is_cut = text is not None and text[-1:] not in (b"\n", b"\r")
        block.ends_value = text is not None and text[-1:] in (b'"', b" ")
        return block

    def _parsed(self, text: bytes | memoryview | None) -> Block:
        if text is None:
            problem = f"no end within {LONGEST_LINE} bytes"
            return Block(0, 1, 0, {}, [BadLine(0, "line too long", problem, "")], at=np.zeros(0, np.int64))
        if bytes(text[: len(BOM)]) == BOM:  # which Arrow would pass over; the file's own was passed over before
            return self._sifted(bytes(text))
        ends, odd = line_ends(text)
        quoted = odd and count_byte(text, ord(_QUOTE)) > 0
        try:
            block = self._table(text, quoted)
        except self._pa.ArrowInvalid:
            return self._sifted(bytes(text))
        # Arrow passes over empty lines, and reads a quoted text that spans lines as one row. In both cases the counts
        # differ.
        if block.rows != _line_count(text, ends, odd):
            return self._sifted(bytes(text))
        return block

    def _table(self, text: bytes | memoryview, quoted: bool) -> Block:
        if not text:
            return Block(0, 0, 0, {})
        read = self._csv.ReadOptions(use_threads=False, column_names=self._names, block_size=len(text) + 1)
        parse = self._csv.ParseOptions(delimiter=self._found.delimiter, quote_char='"' if quoted else False)
        table = self._csv.read_csv(self._pa.py_buffer(text), read, parse, self._convert)
        rows = table.num_rows
        columns, keep = {}, []
        for at, column in zip(self._wanted, table.columns, strict=True):
            array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
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
