"""Ticks as Parquet: what other tools can use, and ``ParquetFeed`` reads back bit for bit. Extra ``[parquet]``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.base import FeedInfo, TickBatch
from strand.records import joined
from strand.ticks import FIELDS, named

__all__ = ["ParquetTicks"]

_GROUP_ROWS: Final = 1 << 20


class ParquetTicks:
    """Writes batches of ticks into a Parquet file that is being made.

    A column a field, times as timestamps in ns and UTC, prices as integers of 1e-9, letters as text, and ``symbol``
    with each tick's name, for other tools. Names and what is known of the source are kept in the file's metadata under
    ``strand``. Rows are gathered into groups of 1,048,576.

    Raises ConfigurationError for what the columns cannot hold, naming the field, MissingExtraError without pyarrow.
    """

    def __init__(self, file: BinaryIO) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError("writing Parquet files", "pyarrow", "parquet") from None
        self._pa = pa
        letter = pa.dictionary(pa.int8(), pa.string())
        special = {"ts_event": pa.timestamp("ns", "UTC"), "ts_recv": pa.timestamp("ns", "UTC"), "action": letter,
                   "side": letter}  # fmt: skip
        fields = [
            pa.field(name, special.get(name) or pa.from_numpy_dtype(FIELDS[name]), nullable=False) for name in FIELDS
        ]
        fields.insert(fields.index(pa.field("instrument_id", pa.uint32(), nullable=False)) + 1, _symbol_field(pa))
        self._schema = pa.schema(fields)
        # Every letter ASCII has, at the place of its code: the letters' bytes are the indices.
        self._letters = pa.array(["", *map(chr, range(1, 128))])
        self._writer = pq.ParquetWriter(
            file, self._schema, compression="zstd", use_dictionary=["symbol", "action", "side"], store_schema=True
        )
        self._waiting: list[TickBatch] = []
        self._rows = 0
        self._names: list[str] = []

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> None:
        """Takes a copy of a batch. ``symbols``: the names known by now."""
        for name in ("action", "side"):
            if len(ticks) and int(np.ascontiguousarray(ticks[name]).view(np.uint8).max()) > 127:
                raise ConfigurationError(f"{name}: a letter that is not ASCII does not fit Parquet text")
        self._names = list(symbols)
        self._waiting.append(ticks.copy())
        self._rows += len(ticks)
        if self._rows >= _GROUP_ROWS:
            self._flush()

    def close(self, info: FeedInfo, symbols: Sequence[str]) -> None:
        """Writes what is left, and the file's end."""
        self._names = list(symbols)
        self._flush()
        about = {
            "date": info.date,
            "venue": info.venue,
            "format": info.format,
            "size_unit": info.size_unit,
            "ticks": info.ticks,
        }
        told = {"symbols": self._names, "info": about}
        self._writer.add_key_value_metadata({"strand": json.dumps(told)})
        self._writer.close()

    def abandon(self) -> None:
        """Lets go of the file, which is then none."""
        if self._writer.is_open:
            self._writer.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        pa = self._pa
        ticks = joined(self._waiting)
        self._waiting, self._rows = [], 0
        keys = np.ascontiguousarray(ticks["instrument_id"])
        names = self._names
        if len(ticks) and int(keys.max()) >= len(names):
            names = names + [""] * (int(keys.max()) + 1 - len(names))
        columns: list[Any] = []
        for field in self._schema:
            if field.name == "symbol":
                column = pa.DictionaryArray.from_arrays(pa.array(keys.astype(np.int32)), pa.array(names, pa.string()))
            else:
                values = np.ascontiguousarray(named(ticks)[field.name]).astype(FIELDS[field.name], copy=False)
                if field.name in ("action", "side"):
                    column = pa.DictionaryArray.from_arrays(pa.array(values.view(np.int8)), self._letters)
                elif field.name in ("ts_event", "ts_recv"):
                    column = pa.array(values.view(np.int64)).cast(field.type)
                else:
                    column = pa.array(values, field.type)
            columns.append(column)
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema), row_group_size=_GROUP_ROWS)


def _symbol_field(pa: Any) -> Any:
    return pa.field("symbol", pa.dictionary(pa.int32(), pa.string()), nullable=False)
