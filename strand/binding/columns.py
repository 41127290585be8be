"""Columns of text and numbers into fields of ticks, and counts of ticks, one column a call."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.memory import owned
from strand.fixed import dataclass
from strand.ticks import TICK, empty

DECIMAL: Final[int] = lib.SD_FORM_DECIMAL
ID: Final[int] = lib.SD_FORM_ID
EPOCH: Final[int] = lib.SD_FORM_EPOCH
CLOCK: Final[int] = lib.SD_FORM_CLOCK
STAMP: Final[int] = lib.SD_FORM_STAMP
DATE: Final[int] = lib.SD_FORM_DATE
HEX: Final[int] = lib.SD_FORM_HEX
PATTERN: Final[int] = lib.SD_FORM_PATTERN
ZONE_MAY: Final[int] = lib.SD_ZONE_MAY
ZONE_NEVER: Final[int] = lib.SD_ZONE_NEVER
ZONE_ALWAYS: Final[int] = lib.SD_ZONE_ALWAYS

#: The longest text a table of letters may hold.
LETTER_BYTES: Final[int] = lib.SD_LETTER_BYTES
#: The most texts in the tables of one column, and the most tables.
MAX_LETTERS: Final[int] = lib.SD_LETTERS
LETTER_TARGETS: Final[int] = lib.SD_LETTER_TARGETS

FAULT_EMPTY: Final[int] = lib.SD_FAULT_EMPTY
FAULT_PRECISION: Final[int] = lib.SD_FAULT_PRECISION
FAULT_RANGE: Final[int] = lib.SD_FAULT_RANGE
FAULT_NAME: Final[int] = lib.SD_FAULT_NAME
FAULT_NAMES: Final[int] = lib.SD_FAULT_NAMES
FAULT_TEXT: Final[int] = lib.SD_FAULT_TEXT
FAULT_TWICE: Final[int] = lib.SD_FAULT_TWICE
FAULT_SKIPPED: Final[int] = lib.SD_FAULT_SKIPPED
FAULT_FALLS: Final[int] = lib.SD_FAULT_FALLS
FAULT_LACKS: Final[int] = lib.SD_FAULT_LACKS

FAULT_WORDS: Final[Mapping[int, str]] = {
    FAULT_EMPTY: "empty",
    lib.SD_FAULT_TEXT: "not of its form",
    lib.SD_FAULT_PRECISION: "too precise",
    lib.SD_FAULT_RANGE: "out of range",
    lib.SD_FAULT_UNKNOWN: "unknown value",
    lib.SD_FAULT_NAMES: "one name too many",
    lib.SD_FAULT_NAME: "no symbol's name",
    lib.SD_FAULT_TWICE: "a local time that comes twice",
    lib.SD_FAULT_SKIPPED: "a local time that does not exist",
    lib.SD_FAULT_FALLS: "below the running total before it",
    lib.SD_FAULT_LACKS: "more than is left at its price",
}

#: A word a row: the column's number in the high byte, a key of FAULT_WORDS in the low one; 0: all is well.
Faults = npt.NDArray[np.uint16]
Whole = npt.NDArray[np.int64]

_I64: Final = (1 << 63) - 1


class TextColumn:
    """A column in Arrow's layout: ``offsets`` (int32, one more than rows) into ``data``; it must outlive this.

    ``stride``: the column lies in lines that were split, whose fields end at so many offsets each. ``unspaced``: it is
    known that no field has spaces around it.
    """

    def __init__(
        self, offsets: Any, data: Any, *, rows: int, first: int = 0, stride: int | None = None, unspaced: bool = False
    ) -> None:
        self.rows = rows
        self._held = ffi.from_buffer("int32_t[]", offsets)
        self._offsets = self._held + first
        self._data = ffi.from_buffer("uint8_t[]", data if data is not None else b"\0")
        self._stride, self._skip, self._unspaced = stride or 1, stride is not None, unspaced

    def cells(self, chosen: npt.NDArray[np.uint32] | None) -> Any:
        """The struct of all its rows, or of the chosen ones."""
        cells = ffi.new("sd_cells *")
        cells.begins, cells.ends, cells.bytes = self._offsets, self._offsets + 1, self._data
        cells.stride, cells.skip, cells.unspaced = self._stride, self._skip, self._unspaced
        if chosen is None:
            cells.count = self.rows
        else:
            cells.rows = ffi.from_buffer("uint32_t[]", chosen)
            cells.count = len(chosen)
        return cells

    def text(self, row: int) -> bytes:
        """Text of one field, as it lies in the file."""
        at, end = self._offsets[row * self._stride] + self._skip, self._offsets[row * self._stride + 1]
        return bytes(ffi.buffer(self._data + at, end - at))


def _aim(target: Any, out: npt.NDArray[Any]) -> None:
    """Points a target at a one-dimensional array, contiguous or a field of records."""
    target.out = ffi.cast("uint8_t *", out.ctypes.data)
    target.stride = out.strides[0]
    target.width = out.dtype.itemsize


def _target(out: npt.NDArray[Any]) -> Any:
    target = ffi.new("sd_target *")
    _aim(target, out)
    return target


def _check(out: npt.NDArray[Any], cells: Any, faults: Faults) -> None:
    if len(out) != cells.count or len(faults) != cells.count or not faults.flags.c_contiguous:
        raise ValueError(f"{cells.count} rows, {len(out)} places and {len(faults)} faults")


@dataclass(frozen=True)
class Numbers:
    """Rule for reading a column's text as a number. ``form``, ``scale``, ``pattern``, ``point`` and ``group`` are as in
    csrc/codec/text/decimal.h."""

    form: int
    scale: int = 0
    lowest: int = -_I64
    highest: int = _I64
    empty: int | None = None
    zero: int = 0
    hash: bool = False
    zone: int = ZONE_MAY
    pattern: bytes = b""
    point: bytes = b""
    group: bytes = b""

    @cached_property
    def _rule(self) -> Any:
        rule = ffi.new("sd_number_rule *")
        rule.form, rule.scale, rule.lowest, rule.highest = self.form, self.scale, self.lowest, self.highest
        rule.empty, rule.allow_empty = self.empty or 0, self.empty is not None
        rule.zero, rule.hash, rule.zone = self.zero, self.hash, self.zone
        rule.pattern, rule.pattern_bytes = ffi.from_buffer("uint8_t[]", self.pattern), len(self.pattern)
        if self.point or self.group:
            rule.point, rule.group = ord(self.point or b"."), ord(self.group or b"\0")
        return rule

    def read(
        self,
        column: TextColumn,
        number: int,
        out: npt.NDArray[Any],
        faults: Faults,
        chosen: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """Fills ``out``; column ``number`` is noted in ``faults``. Returns how many rows have one."""
        cells = column.cells(chosen)
        _check(out, cells, faults)
        target = _target(out)
        return int(lib.sd_numbers(cells, self._rule, number, target, ffi.from_buffer("uint16_t[]", faults)))

    def one(self, text: bytes) -> int:
        """The number a single field stands for. Raises ValueError with one of FAULT_WORDS."""
        value = ffi.new("int64_t *")
        fault = lib.sd_number(text, len(text), self._rule, value)
        if fault:
            raise ValueError(FAULT_WORDS[fault])
        return int(value[0])


class Letters:
    """Tables of texts (at most ``LETTER_BYTES`` each) that stand for small numbers, one table a field that is filled.

    Each comes with the number for all other texts, None: they are a fault.
    """

    def __init__(self, *tables: tuple[Mapping[bytes, int], int | None]) -> None:
        texts = dict.fromkeys(text for table, _ in tables for text in table)
        if not 1 <= len(tables) <= LETTER_TARGETS or len(texts) > MAX_LETTERS:
            raise ValueError(f"at most {MAX_LETTERS} texts and {LETTER_TARGETS} tables")
        if any(len(text) > LETTER_BYTES for text in texts):
            raise ValueError(f"a text is longer than {LETTER_BYTES} bytes")
        self._otherwise = ffi.new("int32_t[]", [-1 if otherwise is None else otherwise for _, otherwise in tables])
        self._entries = ffi.new("sd_letter[]", max(len(texts), 1))
        for entry, text in zip(self._entries, texts, strict=False):
            ffi.memmove(entry.text, text, len(text))
            entry.length = len(text)
            for at, (table, _) in enumerate(tables):
                entry.values[at] = table.get(text, self._otherwise[at])
        self._texts = len(texts)
        self._tables = len(tables)

    def read(
        self,
        column: TextColumn,
        number: int,
        outs: Sequence[npt.NDArray[Any]],
        faults: Faults,
        chosen: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """Reads as ``Numbers.read``, for each table into the array at its place."""
        cells = column.cells(chosen)
        targets = ffi.new("sd_target[]", self._tables)
        for target, out in zip(targets, outs, strict=True):
            _check(out, cells, faults)
            if out.dtype.itemsize > 4:
                raise ValueError("a text can stand for at most four bytes")
            _aim(target, out)
        words = ffi.from_buffer("uint16_t[]", faults)
        return int(
            lib.sd_letters(cells, self._entries, self._texts, self._otherwise, number, targets, self._tables, words)
        )


class Names:
    """Names by the order in which they first appear, at most ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        names = made(lib.sd_names_new(capacity), "no memory for a table of names")
        self._names = owned(names, lib.sd_names_free)
        self._known: list[bytes] = []

    def read(
        self,
        column: TextColumn,
        number: int,
        out: npt.NDArray[Any],
        faults: Faults,
        chosen: npt.NDArray[np.uint32] | None = None,
        *,
        adds: bool = True,
    ) -> int:
        """Fills ``out`` (u4) with indices of all rows, or of the chosen ones. Returns how many rows have a fault, as
        new names have unless it ``adds`` them."""
        cells = column.cells(chosen)
        _check(out, cells, faults)
        if out.dtype.itemsize != 4:
            raise ValueError("indices have four bytes")
        target = _target(out)
        return int(lib.sd_names_find(self._names, cells, adds, number, target, ffi.from_buffer("uint16_t[]", faults)))

    def all(self) -> list[bytes]:
        """Every name so far."""
        length = ffi.new("uint32_t *")
        for index in range(len(self._known), lib.sd_names_count(self._names)):
            text = lib.sd_names_get(self._names, index, length)
            self._known.append(bytes(ffi.buffer(text, length[0])))
        return self._known


def holds(column: TextColumn, text: bytes, rows: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Mask of the rows that have this text (at most ``LETTER_BYTES``) in the column."""
    found = np.zeros(len(rows), np.uint8)
    Letters(({text: 1}, 0)).read(column, 0, [found], np.zeros(len(rows), np.uint16), rows)
    return found.view(np.bool_)


class Lines:
    """Lines of text that are split into fields, one run of whole lines after the other."""

    def __init__(self, delimiter: str, columns: int) -> None:
        self._delimiter, self._columns = ord(delimiter), columns
        self._ends = np.zeros(0, np.int32)

    def split(self, text: bytes | memoryview, wanted: Sequence[int]) -> tuple[int, dict[int, TextColumn]] | None:
        """The number of lines, and the wanted columns by their place, which hold until the next call; None for a text
        that only a parser of CSV can read: with quotes, carriage returns, or lines of other numbers of fields."""
        if len(self._ends) < len(text) + 128:
            self._ends = np.empty(len(text) + (len(text) >> 3) + 128, np.int32)
        ends, spaced = ffi.from_buffer("int32_t[]", self._ends), ffi.new("int *")
        # By way of numpy: the collector crashes over a memoryview in a circle whose buffer cffi holds.
        data = np.frombuffer(text, np.uint8)
        rows = self._columns > 1 and lib.sd_split(
            ffi.from_buffer("uint8_t[]", data), len(data), self._delimiter, self._columns, ends, len(ends), spaced
        )
        if not rows:
            return None
        more: dict[str, Any] = {"rows": int(rows), "stride": self._columns, "unspaced": not spaced[0]}
        return int(rows), {at: TextColumn(self._ends, data, first=at, **more) for at in wanted}


def count_byte(data: bytes | memoryview, byte: int) -> int:
    """Counts a byte; several times as fast as ``bytes.count`` where the byte is frequent."""
    return int(lib.sd_count_byte(ffi.from_buffer("uint8_t[]", data), len(data), byte))


def line_ends(data: bytes | memoryview) -> tuple[int, bool]:
    r"""Counts the bytes ``\n``, and tells whether any is ``\r`` or a double quote."""
    odd = ffi.new("int *")
    return int(lib.sd_line_ends(ffi.from_buffer("uint8_t[]", data), len(data), odd)), bool(odd[0])


_KINDS: Final[Mapping[str, int]] = {
    "i1": lib.SD_VALUES_I8,
    "i2": lib.SD_VALUES_I16,
    "i4": lib.SD_VALUES_I32,
    "i8": lib.SD_VALUES_I64,
    "u1": lib.SD_VALUES_U8,
    "u2": lib.SD_VALUES_U16,
    "u4": lib.SD_VALUES_U32,
    "u8": lib.SD_VALUES_U64,
    "f8": lib.SD_VALUES_F64,
}
_WORD: Final = (1 << 64) - 1
#: Entry of a table that stands for nothing.
NO_ENTRY: Final[int] = lib.SD_VALUES_NONE


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ticks from numbers: integers, or float64 that are whole units of 1/``scale``.

    ``values``, of native byte order and shape (rows,), may be from ``lowest`` to ``highest`` (a float's units) and are
    multiplied by ``factor``; the products fit the field. ``table``: integers are places in it, from 0, and what lies
    there fits the field, but for ``NO_ENTRY``.
    """

    values: npt.NDArray[Any]
    lowest: int
    highest: int
    factor: int = 1
    scale: float = 1.0
    table: npt.NDArray[np.uint32] | None = None

    def through(self, table: npt.NDArray[np.uint32]) -> Field:
        """The field of what stands in a table at the places that this one has."""
        if self.table is None:
            return entries_of(self.values, table)
        return entries_of(
            self.values, np.where(self.table == NO_ENTRY, NO_ENTRY, table[np.minimum(self.table, len(table) - 1)])
        )


def whole(values: npt.NDArray[Any]) -> Field:
    """Numbers that fit their field as they are: integers or letters (S1)."""
    values = values.view(np.uint8) if values.dtype.kind == "S" else values
    bounds = np.iinfo(values.dtype)
    return Field(values, bounds.min, bounds.max)


def entries_of(places: npt.NDArray[Any], table: npt.NDArray[np.uint32]) -> Field:
    """The field of what stands at places in a table, which has one entry or more."""
    return Field(places, 0, len(table) - 1, table=table.astype(np.uint32, copy=False))


def value_ticks(
    blank: npt.NDArray[Any], first: int, rows: int, fields: Mapping[str, Field]
) -> tuple[npt.NDArray[Any], int]:
    """Ticks (TICK), shape (rows,), like ``blank``, an array of one, numbered from ``first``, with those fields; and how
    many are good: up to the first row with a value out of its bounds. The others are undefined."""
    ticks = empty(rows)
    columns = ffi.new("sd_values[]", len(fields))
    kept = []
    for column, (name, field) in zip(columns, fields.items(), strict=True):
        if len(field.values) != rows:
            raise ValueError(f"{len(field.values)} values of {name} for {rows} rows")
        kind, values = _numbers(field.values)
        kept.append(values)
        at = "sequence_low" if name == "sequence" else name
        dtype, column.at = TICK.fields[at][:2]  # type: ignore[index]
        column.width = lib.SD_VALUES_SEQUENCE if name == "sequence" else dtype.itemsize
        column.kind = kind
        column.values = ffi.cast("void *", values.ctypes.data)
        column.lowest = field.lowest & _WORD
        column.more = field.highest - field.lowest
        column.factor = field.factor & _WORD
        column.scale = field.scale
        column.table = ffi.NULL if field.table is None else ffi.from_buffer("uint32_t[]", field.table)
    out, like = (ffi.cast("sd_tick *", array.ctypes.data) for array in (ticks, blank))
    return ticks, int(lib.sd_value_ticks(out, rows, like, first, columns, len(columns)))


def look_up(
    values: npt.NDArray[Any], table: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Looks integers up in a table by value. Returns the entries found, ``NO_ENTRY`` for values without one, and the
    rows of these values, in order."""
    kind, numbers = _numbers(values)
    found, rows = np.empty(len(values), np.uint32), np.empty(len(values), np.uint32)
    n = lib.sd_look_up(
        ffi.cast("void *", numbers.ctypes.data), kind, len(values), ffi.from_buffer("uint32_t[]", table), len(table),
        ffi.from_buffer("uint32_t[]", found), ffi.from_buffer("uint32_t[]", rows),
    )  # fmt: skip
    return found, rows[:n]


def _numbers(values: npt.NDArray[Any]) -> tuple[int, npt.NDArray[Any]]:
    """The kind of numbers, and those at addresses that C may read them at."""
    kind = _KINDS.get(values.dtype.str[1:])
    if kind is None or not values.dtype.isnative or values.ndim != 1:
        raise ValueError(f"an array of {values.dtype} of shape {values.shape} does not hold numbers of a known type")
    return kind, np.require(values, requirements=["A", "C"])


#: Bytes that C may read behind names, and write behind symbols.
_SPARE: Final = 16


class ShownNames:
    """Names of symbols by key, from 0, as columns show them."""

    def __init__(self) -> None:
        self._bytes, self._ends, self._views = bytearray(_SPARE), array("i", [0]), bytearray()
        self.longest = 0
        """Bytes of the longest name."""
        self.texts = b""
        """The names one behind the other, into which views point."""

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, names: Sequence[str]) -> None:
        """Adds the names of the next keys."""
        texts = [name.encode() for name in names]
        for text, begin in zip(texts, accumulate(map(len, texts), initial=self._ends[-1]), strict=False):
            place = text[4:12].ljust(8, b"\0") if len(text) <= 12 else struct.pack("<ii", 0, begin)
            self._views += struct.pack("<i4s8s", len(text), text[:4], place)
        self._bytes[-_SPARE:-_SPARE] = b"".join(texts)
        self._ends.extend(accumulate(map(len, texts), initial=self._ends.pop()))
        self.longest, self.texts = max(self.longest, *map(len, texts), 0), bytes(self._bytes)

    def known(self) -> Any:
        """The struct of the names so far. There must be none left when names are added."""
        found = ffi.new("sd_shown_names *")
        found.ends, found.count = ffi.from_buffer("int32_t[]", self._ends), len(self)
        found.bytes, found.views = (ffi.from_buffer("uint8_t[]", held) for held in (self._bytes, self._views))
        return found


class ShownColumn(NamedTuple):
    """A column that shows one fact of each tick.

    Attributes:
        name: Its name, one of those in csrc/codec/values/shown.h.
        width: Bytes of an integer, 16 of a decimal and of a text's view; 0: a float, the number times ``scale``, or a
            text.
        scale: A power of ten.
    """

    name: str
    width: int
    scale: Decimal


class Showing(NamedTuple):
    """A column of ticks, in Arrow's layout: its buffers, and how many ticks have no value. ``ends``: of texts that are
    no views, else empty."""

    values: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int32]
    undefined: int


def show_ticks(
    ticks: npt.NDArray[Any], first: int, columns: Sequence[ShownColumn], names: ShownNames
) -> list[Showing] | int:
    """Columns of ticks (TICK, contiguous), of which the first is number ``first``; or where a symbol has no name: how
    many keys need one."""
    rows, wanted = len(ticks), ffi.new("sd_shown[]", len(columns))
    made = []
    for to, column in zip(wanted, columns, strict=True):
        to.what, to.width = getattr(lib, f"SD_SHOWN_{column.name.upper()}"), column.width
        is_text = to.what >= lib.SD_SHOWN_ACTION
        each = column.width or (8 if not is_text else names.longest if to.what == lib.SD_SHOWN_SYMBOL else 4)
        to.factor, to.divisor = float(max(column.scale, Decimal(1))), float(1 / min(column.scale, Decimal(1)))
        buffers = (
            np.empty(rows * each + _SPARE, np.uint8),
            np.empty(0 if is_text else -(-rows // 8), np.uint8),
            np.empty(rows + 1 if is_text and not column.width else 0, np.int32),
        )
        to.out, to.valid = (ffi.from_buffer("uint8_t[]", buffer) for buffer in buffers[:2])
        to.ends = ffi.from_buffer("int32_t[]", buffers[2])
        made.append(buffers)
    known = names.known()
    held = ffi.from_buffer("sd_tick[]", np.ascontiguousarray(ticks))
    if needed := lib.sd_show(held, rows, first, wanted, len(wanted), known):
        return int(needed)
    return [Showing(*buffers, to.undefined) for buffers, to in zip(made, wanted, strict=True)]


class TickCounts(NamedTuple):
    """The ticks that a run has published: of kind order, trade and quote, and trades of size 0.

    ``behind``: those whose receive time is before that of an earlier tick (one below 0 is none). One of them was
    ``furthest_ns`` behind, the most of all: the tick at ``furthest_at``, counted from 0, of the symbol with the index
    ``furthest_symbol``.
    """

    orders: int
    trades: int
    quotes: int
    zero_sizes: int
    behind: int
    furthest_ns: int
    furthest_at: int
    furthest_symbol: int


class Seen:
    """Facts about a run's ticks so far."""

    def __init__(self) -> None:
        self.state = ffi.new("sd_seen *")

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return int(self.state.ticks)

    def counts(self) -> TickCounts:
        return TickCounts(**{name: int(getattr(self.state, name)) for name in TickCounts.__annotations__})


def count_by_symbol(ticks: npt.NDArray[Any], counts: npt.NDArray[np.int64], seen: Seen | None = None) -> None:
    """Adds ``ticks``, of dtype ``strand.TICK``, to ``counts``, shape (n_symbols,) and contiguous, by their
    ``instrument_id``; those of symbols beyond it are left out. Adds all of them to ``seen``."""
    held = ffi.from_buffer("sd_tick[]", np.ascontiguousarray(ticks))
    state = ffi.NULL if seen is None else seen.state
    lib.sd_count_by_symbol(held, len(held), ffi.from_buffer("int64_t[]", counts), len(counts), state)
