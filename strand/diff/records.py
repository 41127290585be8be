"""Two files of an output side by side: the first record that differs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.diff.tables import Columns, Table, open_table
from strand.diff.to_json import to_json
from strand.errors import ConfigurationError
from strand.output.records import NO_FEED, NO_SEQUENCE

__all__ = ["RecordDifference", "diff_records", "diff_tables"]


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first record in which two files differ.

    ``symbol``, ``number``, ``sequence`` and ``feed`` are that record's, of A or else of B, or None where it has none.

    Attributes:
        record: Its number from 0; None if the columns differ.
        symbol: Its symbol's name, or ``instrument_id`` where there are no names.
        number: Its field ``number``.
        sequence: The feed's sequence number.
        feed: The place of its feed among those that were merged.
        fields: By name, the values in A and B.
        only_in: ``"a"`` or ``"b"`` if just that file has the record: the other one ends, or goes on with the next
            record.
        columns: How the columns differ, in words.
    """

    record: int | None
    symbol: str | None = None
    number: int | str | None = None
    sequence: int | str | None = None
    feed: int | str | None = None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    only_in: str | None = None
    columns: tuple[str, ...] = ()

    def moved(self, before: int) -> RecordDifference:
        """Same difference for files that begin so many records later."""
        return self if self.record is None else replace(self, record=self.record + before)


def diff_records(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> tuple[RecordDifference | None, int]:
    """Compares two files of records: npy, Parquet, Arrow IPC or CSV.

    Numbers are compared by their bits, and text as it stands: -0.0 is not 0.0. All NaN are the same.

    Args:
        a: The first file.
        b: The second file.

    Returns:
        The first difference, or None if there is none; and how many records were compared.

    Raises:
        FeedError: If a file cannot be read.
        ConfigurationError: If only one of both is CSV, whose text has no types.
    """
    tables = open_table(a), open_table(b)
    if tables[0].text != tables[1].text:
        raise ConfigurationError(f"{a} and {b}: CSV can be compared with CSV only, as its numbers are text")
    return diff_tables(*tables)


def diff_tables(a: Table, b: Table) -> tuple[RecordDifference | None, int]:
    """Compares two tables as ``diff_records`` compares files."""
    columns = tuple(_columns(a.types, b.types))
    if columns:
        return RecordDifference(None, columns=columns), 0
    one, two = _Reader(a), _Reader(b)
    done = 0
    while True:
        n = min(one.ready(), two.ready())
        if n == 0:
            break
        mine, other = one.take(n), two.take(n)
        differs = np.zeros(n, np.bool_)
        for name in mine:
            differs |= _differ(mine[name], other[name])
        if differs.any():
            i = int(np.flatnonzero(differs)[0])
            one.give_back({k: v[i:] for k, v in mine.items()})
            two.give_back({k: v[i:] for k, v in other.items()})
            return _difference(done + i, one, two), done + i
        done += n
    if one.ready() or two.ready():
        return _difference(done, one, two), done
    return None, done


def _columns(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for name in a:
        if name not in b:
            yield f"only A has {name!r}"
        elif a[name] != b[name]:
            yield f"{name!r} is {a[name]} in A, {b[name]} in B"
    for name in b:
        if name not in a:
            yield f"only B has {name!r}"
    if list(a) != list(b) and a == b:
        yield "the columns are in another order"


class _Reader:
    """A table's records, taken in any number."""

    def __init__(self, table: Table) -> None:
        self._pieces = table.pieces()
        self._have: Columns = {}

    def ready(self) -> int:
        """Records that can be taken; 0 at the end."""
        while not self._length():
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._have = piece
        return self._length()

    def _length(self) -> int:
        return len(next(iter(self._have.values()))) if self._have else 0

    def take(self, n: int) -> Columns:
        """The next n records, at most as many as are ready."""
        taken = {name: column[:n] for name, column in self._have.items()}
        self._have = {name: column[n:] for name, column in self._have.items()}
        return taken

    def give_back(self, columns: Columns) -> None:
        """Puts records back in front of those that are ready."""
        have = self._have
        self._have = {n: np.concatenate([c, have[n]]) if n in have else c for n, c in columns.items()}

    def record(self) -> dict[str, Any] | None:
        """Takes one record, plain; None at the end."""
        if not self.ready():
            return None
        return {name: column[0] for name, column in self.take(1).items()}


def _differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Mask of the values that differ, shape (n,)."""
    if a.dtype.kind == "f" and a.dtype == b.dtype:
        bits = f"u{a.dtype.itemsize}"
        found = (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))
    elif a.dtype.kind == "V":
        found = a.view(f"V{a.dtype.itemsize}") != b.view(f"V{b.dtype.itemsize}")
    elif a.dtype.kind == "O" or b.dtype.kind == "O":
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        found = np.fromiter((x != y and not (x != x and y != y) for x, y in pairs), np.bool_, len(a))  # noqa: PLR0124
    else:
        found = a != b
    whole: npt.NDArray[np.bool_] = found.reshape(len(a), -1).any(axis=1)
    return whole


def _difference(at: int, one: _Reader, two: _Reader) -> RecordDifference:
    a, b = one.record(), two.record()
    only: str | None = None
    if a is None or b is None:
        only = "b" if a is None else "a"
    else:
        next_a, next_b = one.record(), two.record()
        # If one file goes on with the other's present record, it left out the record between.
        if next_a is not None and _same(next_a, b) and not (next_b is not None and _same(a, next_b)):
            only = "a"
        elif next_b is not None and _same(a, next_b) and not (next_a is not None and _same(next_a, b)):
            only = "b"
    shown = b if only == "b" or a is None else a
    assert shown is not None
    if only is not None:
        fields = {
            n: (to_json(v) if only == "a" else None, to_json(v) if only == "b" else None) for n, v in shown.items()
        }
    else:
        assert a is not None
        assert b is not None
        fields = {n: (to_json(a[n]), to_json(b[n])) for n in a if not _same({n: a[n]}, {n: b[n]})}
    symbol = shown.get("symbol", shown.get("instrument_id"))
    number, sequence, feed = (shown.get(name) for name in ("number", "sequence", "feed"))
    return RecordDifference(
        at,
        None if symbol is None else str(to_json(symbol)),
        None if number in (None, "") else to_json(number),
        None if sequence in (None, NO_SEQUENCE, "") else to_json(sequence),
        None if feed in (None, NO_FEED, "") else to_json(feed),
        fields,
        only,
    )


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return not any(_differ(_one(a[name]), _one(b[name]))[0] for name in a)


def _one(value: Any) -> npt.NDArray[Any]:
    """A value as a column of one."""
    array = np.asarray(value)[None] if isinstance(value, np.generic | np.ndarray) else np.empty(1, object)
    if array.dtype.kind == "O":
        array[0] = value
    return array
