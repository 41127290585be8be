"""Ticks as Parquet and Arrow: other tools can use them, and ``ParquetFeed`` reads them back. Extra ``[parquet]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from strand.errors import MissingExtraError
from strand.feeds.base import Feed, TickBatch
from strand.feeds.formats.own_metadata import OWN_KEY, own_text
from strand.feeds.write.check import Found, Misfits
from strand.ticks import FIELDS, joined, named

__all__ = ["ParquetTicks", "TickColumns", "write_arrow"]

_GROUP_ROWS: Final = 1 << 20


class TickColumns:
    """Ticks as columns of Arrow: one a field, times as timestamps in ns and UTC, prices as integers of 1e-9, letters as
    text, and ``symbol`` with each tick's name, for other tools.

    ``target``: what is written, for errors. Raises MissingExtraError without pyarrow.
    """

    def __init__(self, target: str) -> None:
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError(f"writing {target} files", "pyarrow", "parquet") from None
        self._pa = pa
        letter = pa.dictionary(pa.int8(), pa.string())
        special = {"ts_event": pa.timestamp("ns", "UTC"), "ts_recv": pa.timestamp("ns", "UTC"), "action": letter,
                   "side": letter}  # fmt: skip
        fields = [
            pa.field(name, special.get(name) or pa.from_numpy_dtype(FIELDS[name]), nullable=False) for name in FIELDS
        ]
        fields.insert(fields.index(pa.field("instrument_id", pa.uint32(), nullable=False)) + 1, _symbol_field(pa))
        self.schema = pa.schema(fields)
        # All ASCII letters, each at the place of its code, so that a letter's byte is its index.
        self._letters = pa.array(["", *map(chr, range(1, 128))])

    @staticmethod
    def misfits(ticks: TickBatch) -> Found:
        """The field of each tick that the columns cannot hold: a letter that is not ASCII, a time beyond 2262."""
        found = np.zeros(len(ticks), "U16")
        for name in ("ts_event", "ts_recv"):
            found[ticks[name].view(np.int64) < 0] = name
        for name in ("side", "action"):
            found[np.ascontiguousarray(ticks[name]).view(np.uint8) > 127] = name
        return found

    def names(self, symbols: Sequence[str], max_key: int) -> Any:
        """The names of keys up to ``max_key``, as Arrow has them: what ``of`` takes."""
        return self._pa.array([*symbols, *[""] * (max_key + 1 - len(symbols))], self._pa.string())

    def of(self, ticks: TickBatch, names: Any) -> list[Any]:
        """The columns, in the order of the schema."""
        pa = self._pa
        columns: list[Any] = []
        for field in self.schema:
            if field.name == "symbol":
                keys = np.ascontiguousarray(ticks["instrument_id"]).astype(np.int32)
                columns.append(pa.DictionaryArray.from_arrays(pa.array(keys), names).cast(pa.string()))
                continue
            values = np.ascontiguousarray(named(ticks)[field.name]).astype(FIELDS[field.name], copy=False)
            if field.name in ("action", "side"):
                columns.append(pa.DictionaryArray.from_arrays(pa.array(values.view(np.int8)), self._letters))
            elif field.name in ("ts_event", "ts_recv"):
                columns.append(pa.array(values.view(np.int64)).cast(field.type))
            else:
                columns.append(pa.array(values, field.type))
        return columns


class ParquetTicks:
    """Writes batches of ticks into a Parquet file that is being made. Names and what is known of the source are kept in
    the file's metadata. Rows are gathered into groups of 1,048,576.

    Raises MissingExtraError without pyarrow.
    """

    def __init__(self, file: BinaryIO, misfits: Misfits) -> None:
        self._columns = TickColumns("Parquet")
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._pa = pa
        self._writer = pq.ParquetWriter(
            file,
            self._columns.schema,
            compression="zstd",
            use_dictionary=["symbol", "action", "side"],
            store_schema=True,
        )
        self._misfits = misfits
        self._waiting: list[TickBatch] = []
        self._rows = self._ticks = 0
        self._names: list[str] = []

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        """Takes a copy of a batch, and returns the ticks of it that fit. ``symbols``: the names known by now."""
        before, self._ticks = self._ticks, self._ticks + len(ticks)
        ticks = self._misfits.take_out(ticks, self._columns.misfits(ticks), before, symbols)
        self._names = list(symbols)
        self._waiting.append(ticks.copy())
        self._rows += len(ticks)
        if self._rows >= _GROUP_ROWS:
            self._flush()
        return ticks

    def close(self, feed: Feed) -> None:
        """Writes what is left, and the file's end."""
        self._names = list(feed.symbols)
        self._flush()
        self._writer.add_key_value_metadata({OWN_KEY: own_text(feed)})
        self._writer.close()

    def abandon(self) -> None:
        """Gives the file up: without its end it is no Parquet file."""
        if self._writer.is_open:
            self._writer.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        ticks = joined(self._waiting)
        self._waiting, self._rows = [], 0
        names = self._columns.names(self._names, int(ticks["instrument_id"].max(initial=0)))
        table = self._pa.Table.from_arrays(self._columns.of(ticks, names), schema=self._columns.schema)
        self._writer.write_table(table, row_group_size=_GROUP_ROWS)


def write_arrow(file: BinaryIO, columns: TickColumns, batches: Iterable[TickBatch], feed: Feed, max_key: int) -> None:
    """Writes an Arrow IPC file of ticks, whose keys are at most ``max_key``. The schema comes first, and each column
    has one dictionary, which holds all names: so the feed has been read to its end."""
    import pyarrow as pa
    import pyarrow.ipc

    schema = columns.schema.with_metadata({OWN_KEY: own_text(feed)})
    names = columns.names(feed.symbols, max_key)
    with pyarrow.ipc.new_file(file, schema) as writer:
        for ticks in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(columns.of(ticks, names), schema=schema))


def _symbol_field(pa: Any) -> Any:
    return pa.field("symbol", pa.string(), nullable=False)
