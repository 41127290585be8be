"""Parquet files as record batches of the columns asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.parquet.limits import Expansion
from strand.feeds.formats.parquet.pages import check_row_group, chunks_of
from strand.feeds.formats.parquet.source import ArrowSource, KeepsGroup, first_line, names_of
from strand.feeds.io.bytestream import InflateLimits

__all__ = ["PARQUET_MAGIC", "ParquetSource"]

PARQUET_MAGIC: Final = b"PAR1"
_BUFFER: Final = 1 << 18


class ParquetSource(ArrowSource):
    """A Parquet file: a part of a row group at a time, and only the columns asked for. The pages of each group are held
    against the limits first."""

    def __init__(self, path: Path, limits: InflateLimits | None) -> None:
        self._path = path
        self._limits = limits
        self._places: dict[str, int] = {}
        with self._opened() as file:
            self.schema = file.schema_arrow
            self.names = names_of(self.schema, path)
            self.metadata = {**(self.schema.metadata or {}), **(file.metadata.metadata or {})}
            self.rows = file.metadata.num_rows
            self.row_groups = file.metadata.num_row_groups
            self._places = {file.schema.column(i).path: i for i in range(len(file.schema.names))}
        with path.open("rb") as footer:
            try:
                self._chunks = chunks_of(footer)
            except ValueError as error:
                raise FormatError(f"cannot be read as Parquet: {error}", path=path) from None
        if len(self._chunks) != self.row_groups or any(len(of) != len(self._places) for of in self._chunks):
            raise FormatError("cannot be read as Parquet: its row groups lack columns", path=path)

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        row = 0
        places = [at for path, at in self._places.items() if path.split(".", 1)[0] in columns or path in columns]
        with self._opened(texts) as file, self._path.open("rb") as pages:
            expansion = Expansion(self._limits, self._path, self._path.stat().st_size)
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                first, row = row, row + group.num_rows
                if not keeps(group, self._places):
                    yield first, group.num_rows
                    continue
                chunks = [self._chunks[number][at] for at in places]
                check_row_group(pages.fileno(), chunks, group.num_rows, expansion, number)
                batches = file.iter_batches(batch_rows, row_groups=[number], columns=list(columns), use_threads=False)
                while (batch := self._next(batches, number)) is not None:
                    yield first, batch
                    first += batch.num_rows
                if first != row:
                    raise FormatError(
                        f"row group {number} holds {group.num_rows - (row - first)} rows and announces "
                        f"{group.num_rows}",
                        path=self._path,
                    )

    def _next(self, batches: Iterator[Any], group: int) -> Any:
        try:
            batch = next(batches, None)
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            raise FormatError(f"row group {group} cannot be read: {first_line(error)}", path=self._path) from None
        for column in () if batch is None else batch.columns:
            if not _stays_within(column):
                raise FormatError(f"row group {group} cannot be read: index not in dictionary", path=self._path)
        return batch

    def _opened(self, texts: Sequence[str] = ()) -> Any:
        import pyarrow.parquet as pq

        encoded = [self._places[text] for text in texts if text in self._places] or None
        try:
            return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=_BUFFER, read_dictionary=encoded)
        except FileNotFoundError:
            raise FeedError("there is no such file", path=self._path) from None
        except (OSError, ValueError, OverflowError, MemoryError, NotImplementedError) as error:
            size = self._path.stat().st_size
            with self._path.open("rb") as file:
                file.seek(max(0, size - 4))
                whole = file.read(4) in (PARQUET_MAGIC, b"PARE")
            if not whole:
                raise TruncatedFeedError(
                    "the file does not end as Parquet does, and what it holds is described at its end; get the whole "
                    "file",
                    path=self._path,
                    offset=size,
                ) from None
            raise FormatError(f"cannot be read as Parquet: {first_line(error)}", path=self._path) from None


def _stays_within(column: Any) -> bool:
    """Tells whether a dictionary column's indices lie within its dictionary; pyarrow does not check it."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not kinds.is_dictionary(column.type):
        return True
    minimum, maximum = (bound.as_py() for bound in pc.min_max(column.indices).values())
    return minimum is None or (minimum >= 0 and maximum < len(column.dictionary))
