"""Files that are made of ticks: Parquet, Arrow, numpy, DBN and ITCH 5.0, and ticks that a format cannot hold.

A tick does not fit where it does not read back as it was. A message of ITCH has the one form that does.
"""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from strand.binding import itch
from strand.binding.decoders import DbnDecoder
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.base import Feed, FeedInfo, TickBatch
from strand.feeds.formats.own_metadata import OWN_KEY, OWN_MEMBER, own_text
from strand.feeds.times import as_date, date_in_name, midnight_ns
from strand.feeds.write.npy import npy_header
from strand.ticks import FIELDS, KIND_ORDER, KIND_STATUS, KIND_TRADE, TICK, UNDEF_PRICE, joined, named, picked, zeros
from strand.validate import one_of

_FIRST: Final = ("kind", "action", "side", "price", "size", "order_id", "ref_id", "ts_recv", "ts_event")
#: Fields in the order in which an error names them.
_FIELDS: Final = (*_FIRST, *(name for name in FIELDS if name not in _FIRST))

#: The name of the field that a format cannot hold, by tick; empty: it holds the tick.
Found = npt.NDArray[np.str_]


def fields_that_differ(written: TickBatch, read: TickBatch, ignore: Sequence[str] = ()) -> Found:
    """Compare ticks with what was read back, which are as many. Return the first field that differs, by tick."""
    found = np.zeros(len(written), f"U{max(map(len, _FIELDS))}")
    for field in _FIELDS:
        if field not in ignore:
            differs = written[field] != read[field]
            if differs.any():
                found[differs & (found == "")] = field
    return found


def misfits(
    ticks: TickBatch, read_back: Callable[[TickBatch], tuple[TickBatch, bool]], ignore: Sequence[str] = ()
) -> Found:
    """Find the ticks that do not read back as they are.

    Args:
        ticks: The ticks that are to be written.
        read_back: Writes and reads some of them. It returns what was read, and whether that came to the end.
        ignore: Names of fields that may differ.

    Returns:
        The name of the first field that differs, by tick.
    """
    if not len(ticks):
        return np.zeros(0, "U1")
    read, sound = read_back(ticks)
    if sound and len(read) == len(ticks):
        return fields_that_differ(ticks, read, ignore)
    if len(ticks) == 1:
        return np.array([_unreadable(ticks, read_back)])
    middle = len(ticks) // 2
    return np.concatenate([misfits(part, read_back, ignore) for part in (ticks[:middle], ticks[middle:])])


def _unreadable(tick: TickBatch, read_back: Callable[[TickBatch], tuple[TickBatch, bool]]) -> str:
    """The field because of which a tick does not come back as one: with another letter there it does."""
    for field, letters in (("side", b"BAN"), ("action", b"ACN")):
        for letter in letters:
            other = tick.copy()
            other[field] = bytes([letter])
            read, sound = read_back(other)
            if sound and len(read) == 1:
                return field
    return "action"


class Misfits:
    """Treatment of ticks that a format cannot hold: they raise an error, or are left out and counted.

    Attributes:
        skips: Whether they are left out.
        left_out: Number of ticks that were left out, by the field that does not fit.
    """

    def __init__(self, target: str, on_unwritable: Literal["raise", "skip"] = "raise") -> None:
        self._target = target
        self.skips = bool(one_of("on_unwritable", on_unwritable, ("raise", "skip")))
        self.left_out: Counter[str] = Counter()

    def take_out(self, ticks: TickBatch, found: Found, before: int, symbols: Sequence[str]) -> TickBatch:
        """Return the ticks that fit.

        Args:
            ticks: Some ticks in a row.
            found: The field of each that does not fit, as ``misfits`` has them.
            before: Number of ticks of the source before these.
            symbols: Names of symbols known by now.

        Raises:
            ConfigurationError: If one does not fit, unless such ticks are to be left out.
        """
        bad = np.flatnonzero(found != "")
        if not len(bad):
            return ticks
        if not self.skips:
            index = int(bad[0])
            self._refuse(str(found[index]), ticks[index], before + index, symbols)
        self.left_out.update(found[bad].tolist())
        kept: TickBatch = ticks[found == ""]
        return kept

    def _refuse(self, field: str, tick: np.void, before: int, symbols: Sequence[str]) -> None:
        value = tick[field].item() if field in FIELDS else symbols[int(tick["instrument_id"])]
        what = f"kind {int(tick['kind'])}, action {bytes(tick['action'])!r}, flags {int(tick['flags'])}"
        raise ConfigurationError(
            field,
            f"{self._target} cannot hold {value!r} in tick {before + 1} ({what}); on_unwritable='skip' "
            "(--on-unwritable skip) leaves such ticks out and counts them",
        )


class Target(ABC):
    """A file being made of ticks: batches, then ``finish``."""

    def __init__(self, file: BinaryIO, misfits: Misfits) -> None:
        self._file, self._misfits = file, misfits
        self._ticks = 0

    @abstractmethod
    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        """Takes a batch, and returns the ticks of it that fit. ``symbols``: the names known by now."""

    def finish(self, feed: Feed) -> None:  # noqa: B027 - nothing follows the last message of some
        """Writes what is left, and the file's end."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Called at the end, whole or not, while the file is still open."""

    def _fitting(self, ticks: TickBatch, found: Found, symbols: Sequence[str]) -> TickBatch:
        """The ticks that fit. ``found``: the field of each that does not, as ``misfits`` has them."""
        before, self._ticks = self._ticks, self._ticks + len(ticks)
        return self._misfits.take_out(ticks, found, before, symbols)


ENDINGS: Final = {
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
NAMES: Final = {"parquet": "Parquet", "arrow": "Arrow", "itch": "ITCH 5.0", "dbn": "DBN's MBO schema"}
#: Formats that can be written, by name.
TARGETS: Final = tuple(dict.fromkeys(ENDINGS.values()))
_COPY_BYTES: Final = 1 << 20
#: Ticks of a record batch.
_ARROW_TICKS: Final = 1 << 17
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
        fields.insert(list(FIELDS).index("instrument_id") + 1, pa.field("symbol", pa.string(), nullable=False))
        self.schema = pa.schema(fields)
        # All ASCII letters, each at the place of its code, so that a letter's byte is its index.
        self._letters = pa.array(["", *map(chr, range(1, 128))])

    @staticmethod
    def misfits(ticks: TickBatch) -> Found:
        """The field of each tick that the columns cannot hold, or their reader refuses: a letter that is not ASCII,
        a time before 1970 or beyond 2262, a size below 0, the lowest price."""
        found = np.zeros(len(ticks), "U16")
        found[ticks["size"] < 0] = "size"
        found[ticks["price"] == np.iinfo(np.int64).min] = "price"
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
        self._spool: Any = tempfile.TemporaryFile(dir=folder if folder.is_dir() else None)  # noqa: SIM115 - closed in close

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


_PRICE_UNIT: Final = 100_000  # 1e-4 in 1e-9
_PREFIX: Final = 2
#: Ticks encoded at a time: few enough that their intermediate arrays stay in the caches.
_SLICE: Final = 8192
_NAMELESS: Final = np.bytes_(b" " * 8)
_HEADER: Final = [("length", ">u2"), ("type", "S1"), ("locate", ">u2"), ("tracking", ">u2"), ("time", "V6")]
_ORDER: Final = [("order", ">u8"), ("side", "S1"), ("size", ">u4"), ("stock", "S8"), ("price", ">u4")]
#: Fields behind the header, by type. Those that no tick has are left as zeros, or as spaces where they are text.
_LAYOUTS: Final = {
    kind: np.dtype(_HEADER + fields)
    for kind, fields in {
        b"A": _ORDER,
        b"F": [*_ORDER, ("mpid", "S4")],
        b"E": [("order", ">u8"), ("size", ">u4"), ("ref", ">u8")],
        b"C": [("order", ">u8"), ("size", ">u4"), ("ref", ">u8"), ("printable", "S1"), ("price", ">u4")],
        b"X": [("order", ">u8"), ("size", ">u4")],
        b"D": [("order", ">u8")],
        b"U": [("order", ">u8"), ("ref", ">u8"), ("size", ">u4"), ("price", ">u4")],
        b"P": [*_ORDER, ("ref", ">u8")],
        b"Q": [("wide", ">u8"), ("stock", "S8"), ("price", ">u4"), ("ref", ">u8"), ("cross", "S1")],
        b"H": [("stock", "S8"), ("state", "S1"), ("reserved", "S1"), ("reason", ">u4")],
        b"I": [("wide", ">u8"), ("ref", ">u8"), ("direction", "S1"), ("stock", "S8"), ("far", ">u4"), ("near", ">u4"),
               ("price", ">u4"), ("cross", "S1"), ("variation", "S1")],
        b"B": [("ref", ">u8")],
        b"J": [("stock", "S8"), ("price", ">u4"), ("upper", ">u4"), ("lower", ">u4"), ("size", ">u4")],
        b"K": [("stock", "S8"), ("reason", ">u4"), ("qualifier", "S1"), ("price", ">u4")],
        b"Y": [("stock", "S8"), ("letter", "u1")],
        b"h": [("stock", "S8"), ("letters", ">u2")],
        b"N": [("stock", "S8"), ("letter", "u1")],
        b"O": [("stock", "S8"), ("open", "S1"), ("least", ">u4"), ("most", ">u4"), ("price", ">u4"), ("at", ">u8"),
               ("lower", ">u4"), ("upper", ">u4")],
        b"R": [("stock", "S8"), ("market", "S2"), ("lot", ">u4"), ("attributes", "S9"), ("leverage", ">u4"),
               ("inverse", "S1")],
    }.items()
}  # fmt: skip
_WIDEST: Final = max(layout.itemsize for layout in _LAYOUTS.values())
_STATUSES: Final = {
    itch.BROKEN_TRADE: b"B", itch.LULD_COLLAR: b"J", itch.IPO_QUOTING: b"K", itch.IPO_CANCELED: b"K",
    itch.REG_SHO: b"Y", itch.OPERATIONAL_HALT: b"h", itch.OPERATIONAL_RESUME: b"h", itch.RETAIL_INTEREST: b"N",
    itch.DIRECT_LISTING: b"O", itch.DIRECT_LISTING_OPEN: b"O",
}  # fmt: skip
#: The message type by the flags of a status tick: a small number has its own type, a letter is a trading state, and all
#: from 0x80 on are imbalances.
_STATUS_TYPES: Final = np.array(
    [_STATUSES.get(i, b"I" if i & itch.IMBALANCE else b"H" if chr(i).isalpha() else b"?") for i in range(256)], "S1"
)
#: In an ITCH file the sequence is the message's position.
_IGNORED: Final = ("sequence",)
_CROSSES: Final = {itch.CROSS_OPENING: b"O", itch.CROSS_CLOSING: b"C", itch.CROSS_HALT: b"H", itch.CROSS_INTRADAY: b"I"}


class ItchTicks(Target):
    """A file of ITCH 5.0 messages.

    A symbol is announced by a directory message right before its first tick. Values that a message cannot hold do not
    fit: each batch is read back, and ``misfits`` takes a tick that comes out different, or refuses it. ``sequence`` is
    not looked at: in an ITCH file it is the message's position.
    """

    def __init__(self, file: BinaryIO, misfits: Misfits, midnight_ns: int) -> None:
        super().__init__(file, misfits)
        self._midnight_ns = midnight_ns
        self._announced = np.zeros(itch.LOCATES, np.bool_)
        self._decoder = self._new_decoder()
        self._shift: int | None = None
        self._known: list[str] | None = None
        self._stocks = np.zeros(0, "S8")
        self._is_stock = np.zeros(0, np.bool_)

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        parts = [self._write_some(ticks[at : at + _SLICE], symbols) for at in range(0, len(ticks), _SLICE)]
        if sum(map(len, parts)) == len(ticks):
            return ticks
        return np.concatenate(parts)

    def _write_some(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        if self._shift is None:  # a locate of 0 is none
            self._shift = 1 if len(symbols) and symbols[0] else 0
        if list(symbols) != self._known:
            self._known, self._stocks, self._is_stock = list(symbols), *_stock_names(symbols)
        types = _types_of(ticks)
        found = self._impossible(ticks, types)
        fits = found == ""
        data, first = self._encode(ticks[fits], types[fits])
        if not self._reads_back(ticks[fits], data):
            found[fits] = misfits(ticks[fits], self._read_back, _IGNORED)
            self._decoder = self._new_decoder()
            fits = found == ""
            data, first = self._encode(ticks[fits], types[fits])
            if not self._reads_back(ticks[fits], data):
                raise RuntimeError("ticks that ITCH holds one by one do not read back together")
        ticks = self._fitting(ticks, found, symbols)
        self._announced[first] = True
        self._file.write(data)
        return ticks

    def _impossible(self, ticks: TickBatch, types: npt.NDArray[Any]) -> Found:
        """The field of each tick for which there is no message, or no stock."""
        found = np.zeros(len(ticks), "U16")
        for kind, field in ((None, "kind"), (KIND_ORDER, "action"), (KIND_STATUS, "flags")):
            found[(types == b"?") & ((ticks["kind"] == kind) if kind is not None else True)] = field
        keys = self._locates(ticks)
        found[(keys >= itch.LOCATES) | (keys == 0)] = "instrument_id"
        named = np.flatnonzero(ticks["instrument_id"] < len(self._is_stock))
        found[named[~self._is_stock[ticks["instrument_id"][named]]]] = "symbols"
        return found

    def _locates(self, ticks: TickBatch) -> npt.NDArray[np.int64]:
        locates: npt.NDArray[np.int64] = ticks["instrument_id"].astype(np.int64) + int(self._shift or 0)
        return locates

    def _new_decoder(self) -> itch.ItchDecoder:
        return itch.ItchDecoder(midnight_ns=self._midnight_ns, skip=False)

    def _reads_back(self, ticks: TickBatch, data: bytes) -> bool:
        again, sound = _decoded(self._decoder, len(ticks), data)
        return (
            sound
            and len(again) == len(ticks)
            and not (fields_that_differ(self._located(ticks), again, _IGNORED) != "").any()
        )

    def _read_back(self, ticks: TickBatch) -> tuple[TickBatch, bool]:
        """Reads ticks back as a file of its own, since a decoder goes on from message to message."""
        data, _ = self._encode(ticks, _types_of(ticks))
        again, sound = _decoded(self._new_decoder(), len(ticks), data)
        again["instrument_id"] -= np.uint32(self._shift or 0)
        return again, sound

    def _located(self, ticks: TickBatch) -> TickBatch:
        expected = ticks.copy()
        expected["instrument_id"] = self._locates(ticks)
        return expected

    def _encode(self, ticks: TickBatch, types: npt.NDArray[Any]) -> tuple[bytes, npt.NDArray[np.int64]]:
        """The messages, and the locates that they announce."""
        keys, places, names = self._locates(ticks), ticks["instrument_id"].astype(np.int64), self._stocks
        if (missing := int(places.max(initial=-1)) + 1 - len(names)) > 0:
            names = np.concatenate([names, np.full(missing, _NAMELESS)])
        first = self._announce(keys, names, places)
        # One message per row, as wide as the widest. A symbol's directory message has its own row before its first
        # tick.
        is_first = np.zeros(len(ticks), np.int64)
        is_first[first] = 1
        row_of = np.arange(len(ticks)) + np.cumsum(is_first)
        rows = np.zeros((len(ticks) + len(first), _WIDEST), np.uint8)
        lengths = np.zeros(len(rows), np.int64)
        for kind, layout in _LAYOUTS.items():
            chosen = first if kind == b"R" else np.flatnonzero(types == kind)
            if not len(chosen):
                continue
            messages = np.zeros(len(chosen), layout)
            messages["length"] = layout.itemsize - _PREFIX
            messages["type"] = kind
            messages["locate"] = keys[chosen]
            _fill(messages, kind, picked(ticks, chosen), names[places[chosen]], np.int64(self._midnight_ns))
            to = row_of[chosen] - 1 if kind == b"R" else row_of[chosen]
            opaque = np.dtype(f"V{layout.itemsize}")
            np.ndarray((len(rows),), opaque, buffer=rows, strides=(_WIDEST,))[to] = messages.view(opaque)
            lengths[to] = layout.itemsize
        return rows[np.arange(_WIDEST) < lengths[:, None]].tobytes(), keys[first]

    def _announce(
        self, keys: npt.NDArray[np.int64], names: npt.NDArray[Any], places: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The ticks that are the first of a symbol with a name."""
        fresh = np.flatnonzero(~self._announced[keys] & (names != _NAMELESS)[places])
        if not len(fresh):
            return fresh
        _, at = np.unique(keys[fresh], return_index=True)
        first: npt.NDArray[np.int64] = fresh[np.sort(at)]
        return first


def _decoded(decoder: itch.ItchDecoder, count: int, data: bytes) -> tuple[TickBatch, bool]:
    again = zeros(count + 1)
    made, used, sound = decoder.decode(memoryview(data), last=False, out=again)
    return again[:made], sound and used == len(data)


def _types_of(ticks: TickBatch) -> npt.NDArray[Any]:
    kind, action, size, flags = ticks["kind"], ticks["action"], ticks["size"], ticks["flags"]
    order, trade, status = kind == KIND_ORDER, kind == KIND_TRADE, kind == KIND_STATUS
    priced = ticks["price"] != UNDEF_PRICE
    by_flags = _STATUS_TYPES[flags]
    conditions = [
        order & (action == b"A") & (flags & itch.ATTRIBUTED == 0),
        order & (action == b"A"),
        order & (action == b"F") & ~priced,
        order & (action == b"F"),
        order & (action == b"C") & (size > 0),
        order & (action == b"C"),
        order & (action == b"N"),
        order & (action == b"M"),
        trade & (flags & itch.CROSS == 0),
        trade,
        status,
    ]
    letters: list[Any] = [np.bytes_(letter) for letter in b"A F E C X D X U P Q".split()]
    types: npt.NDArray[Any] = np.select(conditions, [*letters, by_flags], np.bytes_(b"?"))
    return types


def _fill(messages: Any, kind: bytes, ticks: TickBatch, stocks: npt.NDArray[Any], midnight_ns: np.int64) -> None:
    fields = messages.dtype.names
    since = np.zeros(len(ticks), np.int64) if kind == b"R" else ticks["ts_recv"] - midnight_ns
    messages["time"] = np.ascontiguousarray(since.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]).view("V6")[:, 0]
    flags = ticks["flags"]
    undefined = ticks["price"] == UNDEF_PRICE
    values = {
        "order": ticks["order_id"],
        "size": ticks["size"],
        "wide": ticks["size"],
        "ref": ticks["ref_id"],
        "stock": stocks,
        # A value that is cut off here is found when the batch is read back.
        "price": (np.where(undefined, 0, ticks["price"]) // _PRICE_UNIT).astype(np.uint64).astype(np.uint32),
        "side": np.where(ticks["side"] == b"A", b"S", ticks["side"]),
        "mpid": b"    ",
        "printable": np.where(flags & itch.NON_PRINTABLE != 0, b"N", b"Y"),
        "state": flags.view("S1") if kind == b"H" else b" ",
        "reserved": b" ",
        "reason": ticks["ref_id"].astype(np.uint32),
        "direction": np.where(ticks["side"] == b"A", b"S", ticks["side"]),
        "variation": b" ",
        "market": b"  ",
        "lot": 100,
        "attributes": b"NCZ P   N",
        "inverse": b"N",
        "upper": (ticks["ref_id"] // np.uint64(_PRICE_UNIT)).astype(np.uint32),
        "lower": (ticks["order_id"] // np.uint64(_PRICE_UNIT)).astype(np.uint32),
        "qualifier": np.where(flags == itch.IPO_QUOTING, b"A", b"C"),
        "letter": ticks["ref_id"].astype(np.uint8),
        "letters": ticks["ref_id"].astype(np.uint16),
        "open": np.where(flags == itch.DIRECT_LISTING_OPEN, b"Y", b"N"),
    }
    for field in fields:
        if field in values:
            messages[field] = values[field]
    if kind == b"Q":
        messages["cross"] = b" "
        for bits, letter in _CROSSES.items():
            messages["cross"][flags & itch.CROSS_MASK == bits] = letter
    elif kind == b"I":
        messages["cross"] = (flags & 0x7F).astype(np.uint8).view("S1")


def _stock_names(symbols: Sequence[str]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The names as stocks, and whether each is one: at most 8 printable ASCII characters."""
    is_stock = [len(name) <= 8 and all(" " < letter <= "~" for letter in name) for name in symbols]
    stocks = [name.encode().ljust(8) if fits else b"" for name, fits in zip(symbols, is_stock, strict=True)]
    return np.array(stocks or [_NAMELESS], "S8"), np.array(is_stock, np.bool_)


def target_for(kind: str, file: BinaryIO, path: Path, info: FeedInfo, misfits: Misfits) -> Target:
    """Begins a file of a kind. Raises ConfigurationError and MissingExtraError."""
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
