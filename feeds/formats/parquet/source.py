"""Record batches of the columns asked for, each with the number of its first row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from strand.errors import FeedError, FormatError
from strand.feeds.base import Flags, TicksAre, usual_flags
from strand.feeds.io.bytestream import InputStream

__all__ = ["ArrowSource", "Dialect", "KeepsGroup", "first_line", "names_of", "needs_its_end"]

KeepsGroup = Callable[[Any, Any], bool]


class ArrowSource:
    """A file of record batches."""

    schema: Any
    names: list[str]
    metadata: Mapping[bytes, bytes]
    rows: int | None = None
    row_groups: int | None = None

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        """Record batches of those columns, and what number (from 0) the first row of each has in the file.

        ``keeps``: asked for every row group of a Parquet file, with its metadata and the columns' places; those it
        turns down are not read, and come as the number of their rows. ``texts``: columns of text that may be given as
        dictionaries, where that costs less.
        """
        raise NotImplementedError


class Dialect(ArrowSource):
    """A file of a program whose columns are known: it gives columns of ticks.

    Attributes:
        symbol: The one symbol of all rows; None: a column has it.
        size_power: The power of ten of the unit of sizes.
        price_power: The power of ten of prices that are whole numbers; None: no price is one.
        ticks: What the ticks mean.
        flags: Which bits of the ticks' flags mean what.
        bars: The length of a bar in ns, where rows are bars of time.
        venue: The market's name, where it is known.
        instrument: The column of the instrument's number, which may change under one symbol.
    """

    symbol: str | None
    size_power: int
    price_power: int | None = None
    ticks: TicksAre = "plain"
    venue: str | None = None
    instrument: str | None = None

    @property
    def flags(self) -> Flags:
        return usual_flags(self.ticks, "never")

    @property
    def bars(self) -> int | None:
        return None


def needs_its_end(what: str, stream: InputStream, path: Path | str, note: str = "") -> FeedError:
    """The error for a file that is packed, or comes out of a pipe, where its end is needed first."""
    where, do = "a pipe", "store it in a file first"
    if stream.compression != "none":
        where, do = f"{stream.compression} data", f"decompress it into a file first {note}".rstrip()
    return FeedError(f"{what} is read from its end, which {where} does not allow: {do}", path=path)


def names_of(schema: Any, path: Path | str) -> list[str]:
    """The names of a schema's columns. Raises FormatError where two have one name, or one is no text."""
    try:
        names = list(schema.names)
        for kind in schema.types:  # a time's zone is text too
            str(kind)
            getattr(kind, "tz", None)
    except UnicodeDecodeError as error:
        raise FormatError(f"has a column whose name or zone is not UTF-8: {error}", path=path) from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FormatError(f"has more than one column named {twice[0]!r}", path=path)
    return names


def first_line(error: Exception) -> str:
    """First line of an error of pyarrow's, without the lines about pyarrow's own code."""
    return (str(error).splitlines() or [type(error).__name__])[0]
