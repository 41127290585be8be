"""Conversion of any feed to a file: Parquet, Arrow, numpy, ITCH 5.0 or DBN, whole or not at all."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from strand.binding.decoders import DbnDecoder
from strand.errors import ConfigurationError, FeedError, MissingExtraError
from strand.feeds.base import Feed, FeedInfo, Skipped, TickBatch
from strand.feeds.formats.own_metadata import OWN_KEY, OWN_MEMBER, own_text
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.merge.selected import empty_feed, skipped_of, unknown_symbol
from strand.feeds.opening import FeedOptions, options_with_date, read_symbols
from strand.feeds.opening import open as open_feed
from strand.feeds.times import as_date, date_in_name, midnight_ns
from strand.feeds.write.check import Found, Misfits, Target, misfits
from strand.feeds.write.destinations import check_outputs
from strand.feeds.write.itch import ItchTicks
from strand.feeds.write.npy import npy_header
from strand.options import named_options
from strand.tables.columns import Prices
from strand.tables.tabular import Tabular
from strand.ticks import FIELDS, TICK, joined, named, zeros
from strand.validate import whole

__all__ = ["TARGETS", "Converted", "ParquetTicks", "convert", "target_of"]

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
_NAMES: Final = {"parquet": "Parquet", "arrow": "Arrow", "itch": "ITCH 5.0", "dbn": "DBN's MBO schema"}
#: Formats that can be written, by name.
TARGETS: Final = tuple(dict.fromkeys(_ENDINGS.values()))
_PACKED: Final = (".gz", ".zst")
_COPY_BYTES: Final = 1 << 20
#: Ticks of a record batch.
_ARROW_TICKS: Final = 1 << 17
_GROUP_ROWS: Final = 1 << 20


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
        fields.insert(list(FIELDS).index("instrument_id") + 1, pa.field("symbol", pa.string(), nullable=False))
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
        """The names of keys up to ``max_key``, as Arrow has them: what ``batch`` takes."""
        return self._pa.array([*symbols, *[""] * (max_key + 1 - len(symbols))], self._pa.string())

    def batch(self, ticks: TickBatch, names: Any, schema: Any = None) -> Any:
        """A record batch. ``schema``: with metadata; None: without."""
        pa = self._pa
        columns: list[Any] = []
        for column in self.schema:
            if column.name == "symbol":
                keys = np.ascontiguousarray(ticks["instrument_id"]).astype(np.int32)
                columns.append(pa.DictionaryArray.from_arrays(pa.array(keys), names).cast(pa.string()))
                continue
            values = np.ascontiguousarray(named(ticks)[column.name]).astype(FIELDS[column.name], copy=False)
            if column.name in ("action", "side"):
                columns.append(pa.DictionaryArray.from_arrays(pa.array(values.view(np.int8)), self._letters))
            elif column.name in ("ts_event", "ts_recv"):
                columns.append(pa.array(values.view(np.int64)).cast(column.type))
            else:
                columns.append(pa.array(values, column.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema or self.schema)


class ParquetTicks(Target):
    """A Parquet file. Names and what is known of the source are kept in the file's metadata. Rows are gathered into
    groups of 1,048,576.

    Raises MissingExtraError without pyarrow.
    """

    def __init__(self, file: BinaryIO, misfits: Misfits) -> None:
        super().__init__(file, misfits)
        self._columns = TickColumns("Parquet")
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(
            file,
            self._columns.schema,
            compression="zstd",
            use_dictionary=["symbol", "action", "side"],
            store_schema=True,
        )
        self._waiting: list[TickBatch] = []
        self._rows = 0
        self._names: Sequence[str] = ()

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        ticks = self._fitting(ticks, self._columns.misfits(ticks), symbols)
        self._names = symbols
        self._waiting.append(ticks.copy())
        self._rows += len(ticks)
        if self._rows >= _GROUP_ROWS:
            self._flush()
        return ticks

    def finish(self, feed: Feed) -> None:
        self._names = feed.symbols
        self._flush()
        self._writer.add_key_value_metadata({OWN_KEY: own_text(feed)})
        self._writer.close()

    def close(self) -> None:
        if self._writer.is_open:  # without its end it is no Parquet file
            self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            ticks = joined(self._waiting)
            self._waiting, self._rows = [], 0
            names = self._columns.names(self._names, int(ticks["instrument_id"].max(initial=0)))
            self._writer.write_batch(self._columns.batch(ticks, names), row_group_size=_GROUP_ROWS)


class _Spooled(Target):
    """Ticks that wait in a file without a name beside the target until what comes before them is known."""

    def __init__(self, file: BinaryIO, misfits: Misfits, folder: Path) -> None:
        super().__init__(file, misfits)
        self._spool: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in close

    def close(self) -> None:
        self._spool.close()

    def _keep(self, records: npt.NDArray[Any]) -> None:
        self._spool.write(np.ascontiguousarray(records).view(np.uint8).data)

    def _copy(self, out: Any) -> None:
        self._spool.seek(0)
        shutil.copyfileobj(self._spool, out, _COPY_BYTES)


class _Arrow(_Spooled):
    """An Arrow IPC file. The schema comes first, and each column has one dictionary, which holds all names: so the feed
    has been read to its end."""

    def __init__(self, file: BinaryIO, misfits: Misfits, folder: Path) -> None:
        self._columns = TickColumns("Arrow")
        super().__init__(file, misfits, folder)
        self._max_key = 0

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        ticks = self._fitting(ticks, self._columns.misfits(ticks), symbols)
        self._keep(ticks)
        self._max_key = max(self._max_key, int(ticks["instrument_id"].max(initial=0)))
        return ticks

    def finish(self, feed: Feed) -> None:
        import pyarrow.ipc

        self._spool.seek(0)
        schema = self._columns.schema.with_metadata({OWN_KEY: own_text(feed)})
        names = self._columns.names(feed.symbols, self._max_key)
        with pyarrow.ipc.new_file(self._file, schema) as writer:
            for piece in iter(lambda: self._spool.read(_ARROW_TICKS * TICK.itemsize), b""):
                writer.write_batch(self._columns.batch(np.frombuffer(piece, TICK), names, schema))


class _Numpy(_Spooled):
    """The header tells how many ticks follow, so they wait; an .npz takes the names along."""

    def __init__(self, file: BinaryIO, misfits: Misfits, folder: Path, *, archive: bool) -> None:
        super().__init__(file, misfits, folder)
        self._archive = archive

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        if not self._archive and any(symbols):
            raise ConfigurationError("symbols", "an .npy file holds no names; write an .npz file")
        self._keep(ticks)
        self._ticks += len(ticks)
        return ticks

    def finish(self, feed: Feed) -> None:
        if not self._archive:
            self._array(self._file)
            return
        with zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            with archive.open(_member("ticks.npy"), "w", force_zip64=True) as member:
                self._array(member)
            archive.writestr(_member(OWN_MEMBER), own_text(feed))
            if any(feed.symbols):
                with archive.open(_member("symbols.npy"), "w", force_zip64=True) as member:
                    npy_format.write_array(member, np.array(list(feed.symbols), np.str_), allow_pickle=False)

    def _array(self, out: Any) -> None:
        out.write(npy_header(TICK, self._ticks))
        self._copy(out)


def _member(name: str) -> zipfile.ZipInfo:
    """No time of its own: the same ticks give the same file."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


_VERSION: Final = 3
#: Bytes of a symbol's name, which a zero ends.
_NAME_BYTES: Final = 70
_DATASET_BYTES: Final = 16
_RTYPE: Final = 0xA0
_LAST_NS: Final = (1 << 64) - 1
_DAY_NS: Final = 86_400_000_000_000
#: As csrc/codec/dbn/dbn.c reads it.
_MBO: Final = np.dtype(
    [("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8"),
     ("order_id", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel", "u1"), ("action", "S1"),
     ("side", "S1"), ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4")]
)  # fmt: skip
_SAME: Final = ("publisher_id", "instrument_id", "ts_event", "order_id", "price", "size", "flags", "action", "side",
                "ts_recv", "sequence")  # fmt: skip


class _Dbn(_Spooled):
    """A DBN file of MBO records. The metadata before them has all symbols.

    An instrument id is the tick's key. Values that an MBO record cannot hold (a ``ref_id``, a ``depth``, a quote, a
    ``sequence`` beyond 32 bits) do not fit: each batch is read back, and ``misfits`` takes a tick that comes out
    different, or refuses it.
    """

    def __init__(self, file: BinaryIO, misfits: Misfits, folder: Path) -> None:
        try:
            import databento_dbn
        except ImportError:
            raise MissingExtraError("writing DBN files", "databento-dbn", "dbn") from None
        super().__init__(file, misfits, folder)
        self._library: Any = databento_dbn
        self._used: set[int] = set()
        self._names: Sequence[str] = ()
        self._first, self._last = _LAST_NS, 0

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        self._names = symbols
        found = misfits(ticks, _read_back).astype("U16")
        keys = np.unique(ticks["instrument_id"]).tolist()
        for key in keys:
            name = symbols[key] if key < len(symbols) else ""
            if key not in self._used and (why := _fault_of(name)):
                if not self._misfits.skips:
                    raise ConfigurationError("symbols", why)
                found[ticks["instrument_id"] == key] = "symbols"
        ticks = self._fitting(ticks, found, symbols)
        if not len(ticks):
            return ticks
        keys = np.unique(ticks["instrument_id"]).tolist()
        self._used.update(keys)
        self._first = min(self._first, int(ticks["ts_recv"].min()))
        self._last = max(self._last, int(ticks["ts_recv"].max()))
        self._keep(_records_of(ticks))
        return ticks

    def finish(self, feed: Feed) -> None:
        self._file.write(self._metadata(feed.info))
        self._copy(self._file)

    def _metadata(self, info: FeedInfo) -> bytes:
        """The metadata of a file of everything written, in DBN version 3."""
        library = self._library
        start, end = _utc_date(self._first if self._used else 0), _utc_date(self._last) + dt.timedelta(1)
        mappings = {}
        for key in sorted(self._used):
            name = self._names[key] if key < len(self._names) else ""
            if not name:
                continue  # it is called by its number when it is read
            if why := _fault_of(name):  # once more: it may have come after its key's first ticks
                raise ConfigurationError("symbols", why)
            if name in mappings:
                raise ConfigurationError(
                    "symbols",
                    f"{name!r} is the name of two keys, but DBN allows only one per day: convert to Parquet or npz",
                )
            mappings[name] = SimpleNamespace(
                raw_symbol=name, intervals=[SimpleNamespace(start_date=start, end_date=end, symbol=str(key))]
            )
        dataset = info.venue or ""
        if not (dataset.isascii() and dataset.isprintable() and len(dataset) <= _DATASET_BYTES):
            raise ConfigurationError(
                "venue",
                f"{dataset!r} is not of at most {_DATASET_BYTES} printable ASCII characters, which DBN has for "
                "the name of a data set: convert to Parquet or npz",
            )
        made = library.Metadata(
            dataset=dataset,
            start=self._first if self._used else 0,
            end=self._last + 1 if self._used else None,
            stype_in=library.SType.RAW_SYMBOL,
            stype_out=library.SType.INSTRUMENT_ID,
            schema=library.Schema.MBO,
            symbols=list(mappings),
            partial=[],
            not_found=[],
            mappings=list(mappings.values()),
            version=_VERSION,
        )
        return bytes(made.encode())


def _records_of(ticks: TickBatch) -> np.ndarray[Any, Any]:
    records = np.zeros(len(ticks), _MBO)
    records["length"] = _MBO.itemsize // 4
    records["rtype"] = _RTYPE
    for name in _SAME:
        records[name] = ticks[name]
    return records


def _read_back(ticks: TickBatch) -> tuple[TickBatch, bool]:
    data = memoryview(_records_of(ticks).tobytes())
    decoder = DbnDecoder(version=_VERSION, skip=False, tail=0, levels=1, span=(0, _LAST_NS))
    for key in np.unique(ticks["instrument_id"]).tolist():
        decoder.add(key, 0, _LAST_NS, key)
    again = zeros(len(ticks) + decoder.max_per_record)
    made, used, _ = decoder.decode(data, last=True, out=again)
    return again[:made], used == len(data)


def _fault_of(name: str) -> str | None:
    """Reason for which no DBN file can hold a name; None: it can."""
    if not (name.isascii() and name.isprintable()):
        return (
            f"DBN holds names of printable ASCII characters, and {name!r} is not one: convert to Parquet or "
            "npz, or leave the symbol out by symbols= (--symbols) or on_unwritable='skip' (--on-unwritable skip)"
        )
    if len(name) > _NAME_BYTES:
        return (
            f"{name!r} is longer than the {_NAME_BYTES} bytes that DBN has for a symbol: convert to Parquet "
            "or npz, or leave it out by symbols= (--symbols) or on_unwritable='skip' (--on-unwritable skip)"
        )
    return None


def _utc_date(ns: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(ns // _DAY_NS)


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


def _target(kind: str, file: BinaryIO, path: Path, info: FeedInfo, misfits: Misfits) -> Target:
    if kind == "parquet":
        return ParquetTicks(file, misfits)
    if kind == "itch":
        return ItchTicks(file, misfits, _midnight(info, path))
    if kind in ("npy", "npz"):
        return _Numpy(file, misfits, path.parent, archive=kind == "npz")
    return (_Arrow if kind == "arrow" else _Dbn)(file, misfits, path.parent)


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
