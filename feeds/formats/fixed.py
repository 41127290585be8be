"""Records of one size, of a stream or of several, as arrays, and the errors of those that make no tick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.base import Skipped
from strand.feeds.io.sources import InputStream
from strand.feeds.mapping.columns import Conversion
from strand.feeds.mapping.options import MEND


class Records(NamedTuple):
    """Records of a file in a row.

    ``position``: the number of the first one, from 0. ``start``: where the file's first record lies. ``bytes_in``: read
    from the file for them. ``fault``: what is wrong behind them.
    """

    path: str | Path
    array: npt.NDArray[Any]
    position: int
    start: int = 0
    bytes_in: int = 0
    fault: FeedError | None = None

    def offset(self, index: int) -> int:
        """Byte at which a record of these begins, in the decompressed file."""
        return self.start + (self.position + index) * self.array.itemsize


def records_of(
    stream: InputStream, dtype: np.dtype[Any], count: int, start: int = 0, position: int = 0
) -> Iterator[Records]:
    """The records of a stream, ``count`` at a time. A fault comes with the records before it: one of the stream, or a
    record that is cut.

    ``start``: bytes before the file's first record. ``position``: records before the stream's first one, from 0.
    """
    told, fault = 0, None
    while fault is None:
        data = stream.read(count * dtype.itemsize)
        whole, rest = divmod(len(data), dtype.itemsize)
        ends = whole < count
        if ends:
            try:
                stream.read(1)  # raises what stopped the stream, if anything did
            except FeedError as error:
                fault = error
        if rest and fault is None:
            at = start + (position + whole) * dtype.itemsize
            fault = TruncatedFeedError(
                f"ends inside record {position + whole + 1}, which has {rest} of {dtype.itemsize} bytes: get the whole "
                "file",
                path=stream.path,
                offset=at,
            )
        array = np.frombuffer(data, dtype, whole)
        yield Records(stream.path, array, position, start, stream.bytes_in - told, fault)
        position, told = position + whole, stream.bytes_in
        if ends:
            break


def judged(
    records: Records, made: Conversion, skipped: Skipped | None
) -> tuple[npt.NDArray[np.bool_] | None, FeedError | None]:
    """The mask of records whose ticks count (None: all), and the first fault.

    Args:
        records: The records.
        made: A conversion of them.
        skipped: Counts and samples of bad records, and of files that end too early or are damaged; None: the first of
            these is a fault.
    """
    kept, fault = made.kept(skipped is not None), records.fault
    if made.bad is not None and made.first is not None:
        if skipped is None:
            number = records.position + made.first.index + 1
            why = f"record {number}: {made.first}: {MEND}"
            return kept, FormatError(why, path=records.path, offset=records.offset(made.first.index))
        for index in np.flatnonzero(made.bad).tolist():
            skipped.add("bad record", offset=records.offset(index), text=str(records.array[index]))
    if skipped is not None and isinstance(fault, TruncatedFeedError | FormatError):
        reason = "cut file" if isinstance(fault, TruncatedFeedError) else "damaged file"
        skipped.add(reason, offset=fault.offset, text=Path(records.path).name)
        fault = None
    return kept, fault
