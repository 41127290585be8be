"""Symbols of a table's rows as keys: the same for columns of text, of dictionaries and of whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding.columns import FAULT_EMPTY, FAULT_NAME, NO_ENTRY, Faults, Names, TextColumn, look_up
from strand.feeds.mapping.records import nulls_of, numbers
from strand.symbols import name_problem

Mask = npt.NDArray[np.bool_]
ByRow = npt.NDArray[np.uint32]

#: Whole numbers below it are looked up in a table, of at most 4 MiB.
_SMALL: Final = 1 << 20


class SymbolIndex:
    """Keys of a file's symbols, in the order in which their names first appear, without the blanks around them.

    Args:
        max_symbols: The most symbols.
        keeps: Tells whether a symbol of a name is wanted; None: all are.
        encoding: The encoding of texts.
        names: Names that have their keys from the start. A file whose rows hold keys has no others.

    Attributes:
        names: The names by key. A text that is no name is "" here, and its rows have a fault.
        max_symbols: As given.
    """

    def __init__(
        self,
        max_symbols: int,
        keeps: Callable[[str], bool] | None = None,
        encoding: str = "utf-8",
        names: Sequence[str] = (),
    ) -> None:
        self.names: list[str] = []
        self.max_symbols = max_symbols
        self._keeps, self._encoding = keeps, encoding
        self._texts = Names(max_symbols)
        self._nameless: list[int] = []
        self._wanted: Mask = np.zeros(0, np.bool_)
        #: The latest dictionary. Keys by the place in it, and of small whole numbers by the number.
        self._dictionary: Any = None
        self._of_place: ByRow = np.zeros(0, np.uint32)
        self._of_number: ByRow = np.zeros(0, np.uint32)
        self._add(names)

    def of_texts(self, column: TextColumn, number: int = 0, rows: ByRow | None = None) -> tuple[ByRow, Faults]:
        """Keys of texts, and the rows' faults with the column's number. A row with a fault may have any key. ``rows``:
        those that are read; None: all."""
        count = column.rows if rows is None else len(rows)
        keys, faults = np.zeros(count, np.uint32), np.zeros(count, np.uint16)
        self._texts.read(column, number, keys, faults, rows)
        # A text that is not in the encoding becomes one that no name is.
        if new := self._texts.all()[len(self.names) :]:
            self._add([text.decode(self._encoding, "surrogateescape") for text in new])
        if self._nameless:
            faults[np.isin(keys, self._nameless) & (faults == 0)] = number << 8 | FAULT_NAME
        return keys, faults

    def of_arrow(self, column: Any, *, texts: bool = True) -> tuple[ByRow, Faults]:
        """Keys of a column of a record batch, of texts or of whole numbers, whose symbols are called ``id:N``.

        Raises TypeError for any other column, and without ``texts`` for one of texts.
        """
        import pyarrow.types as kinds

        if kinds.is_integer(column.type):
            return self._of_numbers(column)
        if kinds.is_dictionary(column.type):
            if self._dictionary is None or not self._dictionary.equals(column.dictionary):
                self._dictionary = column.dictionary
                self._of_place = self._known(_text_column(self._dictionary))
            return self._by_place(numbers(column.indices), nulls_of(column), self._of_place, self._dictionary.take)
        return self.of_texts(_text_column(column, texts))

    def _known(self, column: TextColumn) -> ByRow:
        """Keys of the texts of a dictionary, and one entry more; ``NO_ENTRY`` for names that no row has had."""
        keys = np.full(column.rows + 1, NO_ENTRY, np.uint32)
        self._texts.read(column, 0, keys[:-1], np.zeros(column.rows, np.uint16), adds=False)
        keys[np.isin(keys, self._nameless)] = NO_ENTRY
        return keys

    def wanted(self, keys: ByRow) -> Mask | None:
        """Mask of the rows whose symbols are wanted; None: all are."""
        if self._keeps is None or self._wanted.all():
            return None
        return self._wanted[keys]

    def _of_numbers(self, column: Any) -> tuple[ByRow, Faults]:
        values, nulls = numbers(column), nulls_of(column)
        keys, rows = _looked_up(values, self._of_number, nulls)
        if not len(rows):
            return keys, _faults(len(keys), nulls)
        least, most = int(values[rows].min()), int(values[rows].max())
        if least < 0 or most >= _SMALL:
            return self.of_arrow(column.dictionary_encode())
        if most >= len(self._of_number):
            known, self._of_number = self._of_number, np.full(1 << most.bit_length(), NO_ENTRY, np.uint32)
            self._of_number[: len(known)] = known
        return self._by_place(values, nulls, self._of_number, lambda new: new)

    def _by_place(
        self, places: npt.NDArray[Any], nulls: Mask | None, table: ByRow, values: Callable[[Any], Any]
    ) -> tuple[ByRow, Faults]:
        """Keys by places in a table, which learns those of places that are new. ``values``: of an array of places."""
        keys, rows = _looked_up(places, table, nulls)
        faults = _faults(len(keys), nulls)
        if len(rows):
            used, first = places[rows], np.full(len(table), -1, np.int64)
            first[used[::-1]] = np.arange(len(used))[::-1]  # the last number stays: that of the first row
            new = np.flatnonzero(first >= 0)
            new = new[np.argsort(first[new])]
            found, why = self.of_texts(_text_column(values(_arrow_of(new))))
            table[new[why == 0]] = found[why == 0]
            keys, rows = _looked_up(places, table, nulls)
            wrong = np.zeros(len(table), np.uint16)
            wrong[new] = why
            faults[rows] = wrong[places[rows]]
        return keys, faults

    def _add(self, names: Sequence[str]) -> None:
        first = len(self.names)
        for name in names:
            if name_problem(name):
                self._nameless.append(len(self.names))
                name = ""
            self.names.append(name)
        if self._keeps is not None:
            wanted = np.fromiter(map(self._keeps, self.names[first:]), np.bool_, len(names))
            self._wanted = np.append(self._wanted, wanted)


def _faults(rows: int, nulls: Mask | None) -> Faults:
    faults = np.zeros(rows, np.uint16)
    if nulls is not None:
        faults[nulls] = FAULT_EMPTY
    return faults


def _looked_up(values: npt.NDArray[Any], table: ByRow, nulls: Mask | None) -> tuple[ByRow, ByRow]:
    """The keys of whole numbers by a table, and the rows whose numbers have none, but for nulls."""
    keys, rows = look_up(values, table)
    return keys, rows if nulls is None or not len(rows) else rows[~nulls[rows]]


def is_text(kind: Any) -> bool:
    """True if a column of an Arrow type holds texts that may name symbols."""
    import pyarrow.types as kinds

    tests = (kinds.is_string, kinds.is_large_string, getattr(kinds, "is_string_view", kinds.is_string))
    return any(test(kind) for test in tests)


def _arrow_of(values: npt.NDArray[np.int64]) -> Any:
    """An array of Arrow; its own way to make one imports pandas where there is one."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _text_column(column: Any, texts: bool = True) -> TextColumn:
    """The names of a column of texts or of whole numbers for C; a null is an empty text. Raises TypeError for any other
    column, and without ``texts`` for one of texts."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_integer(column.type):
        names = ["" if value is None else f"id:{value}" for value in column.to_pylist()]
        offsets = np.cumsum([0, *map(len, names)], dtype=np.int32)
        return TextColumn(offsets, "".join(names).encode(), rows=len(names))
    if not kinds.is_null(column.type) and not (texts and is_text(column.type)):
        raise TypeError("cannot name symbols")
    if not kinds.is_string(column.type):
        column = column.cast(pa.string())
    if not len(column):
        return TextColumn(bytes(4), None, rows=0)
    _, offsets, data = column.buffers()
    return TextColumn(offsets, data, rows=len(column), first=column.offset)


def joined_texts(columns: Sequence[Any]) -> Any:
    """Texts of several Arrow columns, with a blank between them, without those that are empty; empty where the first
    one is. Numbers are as short as they can be, and dates are as 2026-11-29.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    made: Any = None
    for column in columns:
        # Texts of other encodings than UTF-8 are only looked at byte by byte.
        text = column.view(pa.string()) if pa.types.is_binary(column.type) else column.cast(pa.string())
        text = pc.ascii_trim(pc.coalesce(text, ""), " ")
        if made is None:
            made = first = text
            continue
        more = pc.binary_join_element_wise(made, text, " ")
        made = pc.if_else(pc.equal(pc.binary_length(text), 0), made, more)
    return pc.if_else(pc.equal(pc.binary_length(first), 0), "", made)
