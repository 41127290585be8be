"""Conversion of any feed to a file: Parquet, Arrow, numpy, ITCH 5.0 or DBN, whole or not at all."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from strand.errors import ConfigurationError, FeedError
from strand.feeds.base import Feed, FeedInfo, TickBatch
from strand.feeds.formats.own_metadata import OWN_MEMBER, own_text
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.merge.selected import empty_feed, skipped_of, unknown_symbol
from strand.feeds.opening import open as open_feed
from strand.feeds.opening import options_with_date, read_symbols
from strand.feeds.reader_options import FeedOptions
from strand.feeds.skipped import Skipped
from strand.feeds.trading_day import as_date, date_in_name, midnight_ns
from strand.feeds.write.check import Misfits
from strand.feeds.write.dbn import DbnTicks
from strand.feeds.write.destinations import check_outputs
from strand.feeds.write.itch import ItchTicks
from strand.feeds.write.npy import npy_header
from strand.feeds.write.parquet import ParquetTicks, TickColumns, write_arrow
from strand.options import named_options
from strand.tables.columns import Prices
from strand.tables.tabular import Tabular
from strand.ticks import TICK
from strand.validate import whole

__all__ = ["TARGETS", "Converted", "convert", "target_of"]

_ENDINGS: Final = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".npy": "npy",
    ".npz": "npz",
    ".itch": "itch",
    ".itch50": "itch",
    ".dbn": "dbn",
}
#: The formats that cannot hold every tick, in the words of errors.
_NAMES: Final = {"parquet": "Parquet", "arrow": "Arrow", "itch": ItchTicks.TARGET, "dbn": DbnTicks.TARGET}
#: Formats that can be written, by name.
TARGETS: Final = tuple(dict.fromkeys(_ENDINGS.values()))
_PACKED: Final = (".gz", ".zst")
_COPY_BYTES: Final = 1 << 20
#: Ticks of a record batch.
_ARROW_TICKS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Converted(Tabular):
    """Result of ``convert``: the file that it wrote.

    ``to_arrow`` and the like read the file as a feed, and give the tables of one: see ``strand.feeds.BaseFeed``.

    Attributes:
        path: The file.
        format: The format of the file.
        ticks: The number of ticks.
        symbols: The number of symbols that have ticks.
        bytes: The size of the file on disk, bytes.
        skipped: What of the source was skipped.
        undated: Whether its times count from 1970-01-01 because nothing told their day.
        left_out: Number of ticks that ``on_unwritable="skip"`` left out, by the field that the format cannot hold.
    """

    path: str
    format: str
    ticks: int
    symbols: int
    bytes: int
    skipped: Skipped
    undated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """All ticks of the file: see ``Tabular``. Raises FeedError where it cannot be read, or is empty."""
        with open_feed(self.path) as feed:
            return feed.to_arrow(prices=prices)

    def to_numpy(self) -> npt.NDArray[np.void]:
        """All ticks of the file: a ``strand.Ticks`` array of shape (n,), exact integers. Raises FeedError."""
        with open_feed(self.path) as feed:
            return feed.to_numpy()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream of Arrow's C interface, with one batch of 65,536 ticks at a time in memory."""
        return open_feed(self.path).__arrow_c_stream__(requested_schema)


class _Target(ABC):
    """A file being made: batches, then ``finish``."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    @abstractmethod
    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        """Takes a batch, and returns the ticks of it that the target can hold."""

    @abstractmethod
    def finish(self, feed: Feed) -> None: ...

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Called at the end, whole or not, while the file is still open."""


class _Parquet(_Target):
    def __init__(self, file: BinaryIO, misfits: Misfits) -> None:
        super().__init__(file)
        self._ticks = ParquetTicks(file, misfits)

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        return self._ticks.write(ticks, symbols)

    def finish(self, feed: Feed) -> None:
        self._ticks.close(feed)

    def close(self) -> None:
        self._ticks.abandon()


class _Itch(_Target):
    def __init__(self, file: BinaryIO, midnight: int, misfits: Misfits) -> None:
        super().__init__(file)
        self._ticks = ItchTicks(file.write, midnight, misfits)

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        return self._ticks.write(ticks, symbols)

    def finish(self, feed: Feed) -> None:
        """Nothing follows the last message."""


class _Spooled(_Target):
    """Ticks that wait in a file without a name beside the target until what comes before them is known."""

    def __init__(self, file: BinaryIO, folder: Path) -> None:
        super().__init__(file)
        self._spool: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in close

    def close(self) -> None:
        self._spool.close()

    def _copy(self, out: Any) -> None:
        self._spool.seek(0)
        shutil.copyfileobj(self._spool, out, _COPY_BYTES)


class _Dbn(_Spooled):
    def __init__(self, file: BinaryIO, folder: Path, misfits: Misfits) -> None:
        super().__init__(file, folder)
        self._ticks = DbnTicks(self._spool.write, misfits)

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        return self._ticks.write(ticks, symbols)

    def finish(self, feed: Feed) -> None:
        self.file.write(self._ticks.metadata(feed.info))
        self._copy(self.file)


class _Arrow(_Spooled):
    def __init__(self, file: BinaryIO, folder: Path, misfits: Misfits) -> None:
        self._columns = TickColumns("Arrow")
        super().__init__(file, folder)
        self._misfits = misfits
        self._max_key = self._count = 0

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        before, self._count = self._count, self._count + len(ticks)
        ticks = self._misfits.take_out(ticks, self._columns.misfits(ticks), before, symbols)
        self._spool.write(np.ascontiguousarray(ticks).view(np.uint8).data)
        self._max_key = max(self._max_key, int(ticks["instrument_id"].max(initial=0)))
        return ticks

    def finish(self, feed: Feed) -> None:
        self._spool.seek(0)
        pieces = iter(lambda: self._spool.read(_ARROW_TICKS * TICK.itemsize), b"")
        write_arrow(self.file, self._columns, (np.frombuffer(piece, TICK) for piece in pieces), feed, self._max_key)


class _Numpy(_Spooled):
    """The header tells how many ticks follow, so they wait; an .npz takes the names along."""

    def __init__(self, file: BinaryIO, folder: Path, archive: bool) -> None:
        super().__init__(file, folder)
        self._archive = archive
        self._count = 0

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        if not self._archive and any(symbols):
            raise ConfigurationError("symbols", "an .npy file holds no names; write an .npz file")
        self._spool.write(np.ascontiguousarray(ticks).view(np.uint8).data)
        self._count += len(ticks)
        return ticks

    def finish(self, feed: Feed) -> None:
        if not self._archive:
            self._array(self.file)
            return
        with zipfile.ZipFile(self.file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            with archive.open(_member("ticks.npy"), "w", force_zip64=True) as member:
                self._array(member)
            archive.writestr(_member(OWN_MEMBER), own_text(feed))
            if any(feed.symbols):
                with archive.open(_member("symbols.npy"), "w", force_zip64=True) as member:
                    npy_format.write_array(member, np.array(list(feed.symbols), np.str_), allow_pickle=False)

    def _array(self, out: Any) -> None:
        out.write(npy_header(TICK, self._count))
        self._copy(out)


def _member(name: str) -> zipfile.ZipInfo:
    """No time of its own: the same ticks give the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def target_of(path: str | os.PathLike[str], to: str | None = None) -> str:
    """Format to write a file in: ``to``, else the one of the file's name. Raises ConfigurationError."""
    named = Path(path)
    if named.suffix.lower() in _PACKED:
        packing, named = named.suffix.lower(), named.with_suffix("")
    else:
        packing = ""
    known = to if to is not None else _ENDINGS.get(named.suffix.lower())
    if known not in TARGETS:
        what = f"{to!r}" if to is not None else f"the ending of {path}"
        raise ConfigurationError("to", f"{what} is not one of {', '.join(TARGETS)}: say which one by to= (--to)")
    if packing and known in ("parquet", "arrow", "npy", "npz"):
        raise ConfigurationError(
            "path",
            f"{known} cannot be compressed as {packing}, because its readers seek in the file: leave {packing} out",
        )
    return known


@named_options("convert()")
def convert(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    path: str | os.PathLike[str],
    *,
    to: str | None = None,
    symbols: Sequence[str] = (),
    start: str | int | None = None,
    end: str | int | None = None,
    limit: int | None = None,
    allow_empty: bool = False,
    date: dt.date | str | None = None,
    feed_options: FeedOptions | None = None,
    on_unwritable: Literal["raise", "skip"] = "raise",
    progress: Callable[[int], None] | None = None,
) -> Converted:
    """Writes the ticks of a file, of several merged in time, or of a feed, as another format.

    The file gets its name once it is whole. A file that had the name stays until then, and if anything fails.

    Args:
        source: A path or several, as ``strand.feeds.open`` takes them, or a feed.
        path: The file to write. Its name ends in .parquet, .arrow, .feather, .npy, .npz, .itch, .itch50 or .dbn, the
            last three also with .gz or .zst behind it.
        to: The format, if the name does not say it.
        symbols: Names or globs of the symbols wanted, as ``strand.feeds.open`` takes them.
        start: The first receive time wanted, as ``strand.feeds.open`` takes it.
        end: The first receive time no longer wanted, as ``strand.feeds.open`` takes it.
        limit: The greatest number of ticks to write; None: all.
        allow_empty: Whether a source without one tick makes a file without one.
        date: The trading day of files that do not say it, as ``strand.feeds.open`` takes it.
        feed_options: Other options of ``strand.feeds.open``, by name.
        on_unwritable: What happens to a tick that the format cannot hold: ``"raise"``, or ``"skip"`` to leave it out
            and count it in ``left_out``. State that such ticks would have changed, as a book, differs in the new file.
        progress: Called with the ticks read so far; its method ``opened``, if it has one, is called with the feed
            before.

    Returns:
        What was written, with the numbers of ticks and symbols, and the file's size in bytes.

    Raises:
        ConfigurationError: If ``path`` is a file of the source (before anything is read), or if the format cannot hold
            a tick, or any tick. It names field and tick (docs/feeds/convert.md says what each format can hold).
        UnknownSymbolError: If no symbol of the whole source has a name or fits a glob.
        EmptyFeedError: If the source has no tick, unless ``allow_empty`` is true.
        FeedError: If the source cannot be read on, or the file cannot be written.
    """
    kind = target_of(path, to)
    if limit is not None:
        whole("limit", limit, 1)
    misfits = Misfits(_NAMES.get(kind, kind), on_unwritable)
    options = options_with_date(feed_options, date)
    check_outputs([("out", path)], source, symbols=symbols, options=options)
    if isinstance(source, str | os.PathLike | Sequence):
        feed: Feed = open_feed(source, symbols=symbols, start=start, end=end, **options)
    elif symbols or start is not None or end is not None or options:
        raise ConfigurationError(
            "symbols, start, end, date, feed_options: a feed is converted as it is; open it with them"
        )
    else:
        feed = source
    try:
        if (opened := getattr(progress, "opened", None)) is not None:
            opened(feed)
        chosen = bool(symbols) or start is not None or end is not None
        return _write(
            feed,
            Path(path),
            kind,
            limit=limit,
            symbols=symbols,
            progress=progress,
            allow_empty=allow_empty,
            chosen=chosen,
            misfits=misfits,
        )
    finally:
        feed.close()


def _write(
    feed: Feed,
    path: Path,
    kind: str,
    *,
    limit: int | None,
    symbols: Sequence[str],
    progress: Callable[[int], None] | None,
    allow_empty: bool,
    chosen: bool,
    misfits: Misfits,
) -> Converted:
    read = written = 0
    used = np.zeros(feed.max_symbols, np.bool_)
    with atomic_write(path) as file:
        try:
            with contextlib.closing(_target(kind, file, path, feed.info, misfits)) as target:
                for batch in feed.batches():
                    part = batch if limit is None else batch[: limit - read]
                    kept = target.write(part, feed.symbols)
                    used[kept["instrument_id"]] = True
                    read += len(part)
                    written += len(kept)
                    if progress is not None:
                        progress(read)
                    if read == limit:
                        break
                else:
                    if (unknown := unknown_symbol(feed, read_symbols(symbols))) is not None:
                        raise unknown
                    if read == 0 and not allow_empty:
                        raise empty_feed(feed, selected=chosen)
                if read and not written:
                    reasons = ", ".join(misfits.left_out)
                    raise ConfigurationError(
                        "on_unwritable", f"{kind} can hold none of {read:,} ticks, by their {reasons}"
                    )
                target.finish(feed)
        except OSError as error:
            raise FeedError(f"cannot be written: {error.strerror or error}", path=path) from error
    size = path.stat().st_size
    return Converted(
        str(path),
        kind,
        written,
        int(np.count_nonzero(used)),
        size,
        skipped_of(feed),
        undated=feed.info.undated,
        left_out=dict(misfits.left_out),
    )


def _target(kind: str, file: BinaryIO, path: Path, info: FeedInfo, misfits: Misfits) -> _Target:
    if kind == "parquet":
        return _Parquet(file, misfits)
    if kind == "itch":
        return _Itch(file, _midnight(info, path), misfits)
    folder = path.parent
    if kind == "arrow":
        return _Arrow(file, folder, misfits)
    return _Dbn(file, folder, misfits) if kind == "dbn" else _Numpy(file, folder, kind == "npz")


def _midnight(info: FeedInfo, path: Path) -> int:
    """The midnight that an ITCH file's times count from. A reader takes the day from the file's name, so the name must
    have the source's day, if the source has one."""
    named = date_in_name(path)
    told = as_date(info.date) if info.date is not None else None
    if named is not None and told is not None and named != told:
        raise ConfigurationError("path", f"{path.name} says {named}, and the ticks are of {told}: give it that date")
    if named is None and told is not None:
        raise ConfigurationError(
            "date",
            f"an ITCH file does not hold it and {path.name} does not say it: put it in the name, as in "
            f"{told:%m%d%Y}.{path.name}",
        )
    return midnight_ns(named) if named is not None else 0
