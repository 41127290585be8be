"""numpy arrays of ticks: .npy and .npz, never pickled, and hftbacktest's event arrays (version 2).

Layout of the events: hftbacktest's documentation, "Data".
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, ClassVar, Final, Unpack

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError, called
from strand.feeds.base import BaseFeed, FeedInfo, Flags, TickBatch, TicksAre, usual_flags
from strand.feeds.formats.options import NpyOptions
from strand.feeds.formats.own_metadata import OWN_MEMBER, Own, own_from
from strand.feeds.io.files import Frame, frame_at, read_head, regular_file
from strand.feeds.io.sources import STANDARD_INPUT, InflateLimits, InputStream, RawStream
from strand.feeds.io.streams import data_start, open_archive, open_member, open_stream
from strand.feeds.mapping.columns import Conversion, Reading, columns_of
from strand.feeds.mapping.events import with_ends
from strand.feeds.mapping.options import MEND, options_among
from strand.feeds.mapping.records import RecordColumns, numpy_column
from strand.fixed import dataclass
from strand.options import named_options
from strand.symbols import check_name, name_problem
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE, TICK, named, picked
from strand.validate import unit_power

# Far above what numpy writes for a record of a hundred fields, and little enough to hold.
_HEADER_BYTES: Final = 1 << 16
# Names of ten million symbols, and still little enough to hold.
_NAMES_BYTES: Final = 1 << 30
# Of one record: far above any table's, and little enough to hold.
_RECORD_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """A one-dimensional array in a file.

    ``offset`` is where its first record lies: in the file, if the array is ``stored`` uncompressed; else in the
    decompressed bytes of the member, or of the file. ``compression`` names the method.
    """

    dtype: np.dtype[Any]
    length: int
    offset: int
    member: str | None = None
    compression: str = "none"

    @property
    def stored(self) -> bool:
        """True if the records lie uncompressed in the file."""
        return self.compression == "none"

    def at(self, index: int) -> int:
        """Offset of a record."""
        return self.offset + index * self.dtype.itemsize

    def records(
        self, path: Path, limits: InflateLimits, batch: int, begin: int = 0
    ) -> Iterator[tuple[npt.NDArray[Any], int]]:
        """Records by the batch, each with the position of its first. ``begin``: the first, of a stored array.

        Raises TruncatedFeedError where the file ends early, behind the records before.
        """
        size = self.dtype.itemsize
        step = max(1, min(batch, _BATCH_BYTES // size))
        with self._opened(path, limits, begin) as stream:
            stream.read(0 if self.stored else self.offset)
            for first in range(begin, self.length, step):
                records = np.empty(min(step, self.length - first), self.dtype)
                got = stream.readinto(records.view(np.uint8).data)
                records.setflags(write=False)
                if got >= size:
                    yield records[: got // size], first
                if got < records.nbytes:
                    end = self.at(first) + got + stream.readinto(memoryview(bytearray(1)))  # or the stream's own fault
                    text = f"ends inside record {first + got // size + 1}; get the whole file"
                    raise TruncatedFeedError(text, path=path, offset=end)
            # The checksum is looked at behind the last byte.
            while not self.stored and stream.read(_INPUT_PIECE):
                pass

    def _opened(self, path: Path, limits: InflateLimits, begin: int) -> InputStream:
        """The bytes from a stored record on, or those of the member or file."""
        if self.stored:  # read, not mapped: a mapped file that shrinks ends the process
            return RawStream(path, start=self.at(begin), length=self.at(self.length) - self.at(begin))
        if self.member is None:
            return open_stream(path, limits=limits)
        with open_archive(path) as archive:
            return open_member(path, archive.getinfo(self.member), limits)


@dataclass(frozen=True, slots=True)
class HeldArray(ArrayPlace):
    """An array in memory, whose records are not copied. ``frame``: what it came as."""

    frame: Any = None

    @classmethod
    def of(cls, frame: Frame, path: Path) -> HeldArray:
        """The place of a structured array. Raises FormatError for any other one."""
        array = frame.table
        if array.ndim != 1 or array.dtype.hasobject:
            what = "Python objects" if array.dtype.hasobject else f"an array of shape {array.shape}"
            raise FormatError(f"holds {what}; ticks are a structured array of one dimension", path=path)
        return cls(array.dtype, len(array), 0, frame=frame)

    def records(
        self, path: Path, limits: InflateLimits, batch: int, begin: int = 0
    ) -> Iterator[tuple[npt.NDArray[Any], int]]:
        """See ``ArrayPlace``."""
        del path, limits
        for first in range(begin, self.length, batch):
            records = np.ascontiguousarray(self.frame.table[first : first + batch])[:]
            records.setflags(write=False)
            yield records, first


def locate(path: Path, head: bytes, array: str | None) -> tuple[ArrayPlace, bool]:
    """The array to read and whether the file also holds names: an array ``symbols``."""
    if head.startswith(npy_format.MAGIC_PREFIX):
        with path.open("rb") as file:
            return _place(file, path, path.stat().st_size), False
    if not head.startswith(b"PK"):
        with open_stream(path) as stream:
            if (place := _packed_place(stream, path)) is not None:
                return place, False
        raise FormatError("is neither a .npy nor a .npz file: it starts with neither magic", path=path, offset=0)
    with open_archive(path) as archive:
        members = {
            member.filename.removesuffix(".npy"): member
            for member in archive.infolist()
            if member.filename.endswith(".npy")
        }
        name = _choose(path, list(members), array)
        return _member_place(members[name], path), "symbols" in members and name != "symbols"


def _packed_place(stream: InputStream, path: Path) -> ArrayPlace | None:
    """None: nothing is packed there, or no array."""
    if stream.compression == "none":
        return None
    head = stream.head(_HEADER_BYTES)
    if not npy_format.MAGIC_PREFIX.startswith(head[: len(npy_format.MAGIC_PREFIX)]):
        return None
    try:
        place = _place(io.BytesIO(head), path, None)
    except TruncatedFeedError:
        if len(head) == _HEADER_BYTES:
            raise FormatError("the array's header takes more than 64 KiB", path=path, offset=0) from None
        # The stream raises its fault after its last good byte.
        for _ in range(2):
            stream.readinto(memoryview(bytearray(_HEADER_BYTES)))
        raise
    return replace(place, compression=stream.compression)


def _choose(path: Path, names: list[str], array: str | None) -> str:
    if array is not None:
        if array not in names:
            raise ConfigurationError("array", f"{path} holds no array {array!r}: it holds {', '.join(names) or 'none'}")
        return array
    candidates = [name for name in names if name != "symbols"]
    if "ticks" in candidates:
        return "ticks"
    if len(candidates) != 1:
        raise FormatError(
            f"holds {len(candidates)} arrays ({', '.join(candidates) or 'none'}) and none named 'ticks': "
            "name the one to read by array=",
            path=path,
        )
    return candidates[0]


def _member_place(member: zipfile.ZipInfo, path: Path) -> ArrayPlace:
    with open_member(path, member, InflateLimits(max_bytes=_HEADER_BYTES)) as stream:
        place = _place(io.BytesIO(stream.read(_HEADER_BYTES)), path, member.file_size)
    name = member.filename
    if member.compress_type != zipfile.ZIP_STORED:
        return replace(place, member=name, compression="zip")
    start = data_start(path, member)
    if start + member.file_size > path.stat().st_size:
        raise TruncatedFeedError(f"the archive ends inside {name!r}", path=path, offset=path.stat().st_size)
    return replace(place, offset=start + place.offset, member=name)


def _place(file: BinaryIO | io.BytesIO, path: Path, size: int | None) -> ArrayPlace:
    try:
        version = npy_format.read_magic(file)
        if version not in {(1, 0), (2, 0)}:
            raise FormatError(
                f"is written in .npy version {version[0]}.{version[1]}; 1.0 and 2.0 can be read "
                "(field names in Latin-1 keep numpy to these)",
                path=path,
                offset=6,
            )
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        with warnings.catch_warnings():
            # Old spellings of types, and of Python 2's numbers, are read as what they mean.
            warnings.simplefilter("ignore")
            shape, _, dtype = read(file)
    # numpy parses the header as a Python literal: what a damaged one raises depends on the damage.
    except (ValueError, TypeError, SyntaxError, TokenError, MemoryError, RecursionError) as error:
        kind = TruncatedFeedError if "EOF: reading" in str(error) else FormatError
        raise kind(f"the array's header cannot be read: {error}", path=path, offset=file.tell()) from error
    offset = file.tell()
    if dtype.hasobject:
        raise FormatError("holds Python objects, which only pickle can read: refused", path=path, offset=offset)
    if len(shape) != 1:
        raise FormatError(f"holds an array of shape {shape}; ticks have one dimension", path=path, offset=offset)
    if not 0 < dtype.itemsize <= _RECORD_BYTES or shape[0] < 0:
        raise FormatError(f"holds {shape[0]} records of {dtype.itemsize} bytes each", path=path, offset=offset)
    if size is not None and (whole := offset + shape[0] * dtype.itemsize) > size:
        raise TruncatedFeedError(
            f"ends inside record {(size - offset) // dtype.itemsize + 1} of {shape[0]}: {size} bytes where the header "
            f"promises {whole}",
            path=path,
            offset=size,
        )
    return ArrayPlace(dtype, shape[0], offset)


def read_own(path: Path) -> Own | None:
    """Description of its source in an archive that strand wrote. Raises FormatError."""
    with open_archive(path) as archive:
        if OWN_MEMBER not in archive.namelist():
            return None
        member = archive.getinfo(OWN_MEMBER)
    with open_member(path, member, InflateLimits(max_ratio=1000, max_bytes=_NAMES_BYTES)) as stream:
        return own_from(stream.read(_NAMES_BYTES), path)


def read_names(path: Path) -> tuple[str, ...]:
    """The names an archive keeps beside its ticks: the array ``symbols``, of text or bytes."""
    with open_archive(path) as archive:
        member = archive.getinfo("symbols.npy")
    with open_member(path, member, InflateLimits(max_ratio=1000, max_bytes=_NAMES_BYTES)) as stream:
        data = stream.read(_HEADER_BYTES)
        place = _place(io.BytesIO(data), path, member.file_size)
        whole = place.offset + place.length * place.dtype.itemsize
        data += stream.read(max(0, whole - len(data)))
        # The checksum is looked at behind the last byte.
        if len(data) < whole or stream.read(1):
            raise FormatError(f"the array 'symbols' holds {len(data)} bytes and promises {whole}", path=path)
    if place.dtype.kind not in "US":
        raise FormatError(f"the array 'symbols' is {place.dtype}, not one of text", path=path)
    names = np.frombuffer(data, place.dtype, place.length, place.offset)
    try:
        told = tuple(str(name, "utf-8") if isinstance(name, bytes) else str(name) for name in names)
    except ValueError as error:
        raise FormatError(f"the array 'symbols' holds a name that is not text: {error}", path=path) from error
    for at, name in enumerate(told):
        if problem := name_problem(name):
            raise FormatError(f"the array 'symbols' holds {name[:80]!r} at {at}, which {problem}", path=path)
    return told


#: Keys from here up are taken for damage unless ``max_symbols`` is given: a table that size would be made for them.
_MAX_GUESSED_CAPACITY: Final = 1 << 22
_INPUT_PIECE: Final = 1 << 16
#: Bytes of records read at once. A bound is needed: the header's size and number of records may be false.
_BATCH_BYTES: Final = 1 << 26


@named_options("NpyFeed()", declares=NpyOptions)
class NpyFeed(BaseFeed):
    """Reads ticks from a structured array in a .npy or .npz file, in the order of the file. An .npy may be packed.

    A file of dtype ``TICK`` is read as it is. Any other structured dtype needs ``columns``, and values are converted as
    in a Parquet file (docs/feeds/parquet.md). hftbacktest's events (an array of its event dtype, whatever it is called)
    need nothing: ``HftEvents`` has the rules. Their symbol is the file's name up to the first dot, unless ``symbol``
    says it.

    Nothing is ever unpickled. The checksum of an .npz is verified if the array is compressed; a stored array is read as
    it lies.

    Args:
        path: The file.

    Raises:
        FormatError: If the dtype, a key or a value cannot be a tick's.
        TruncatedFeedError: If the file ends too early.
        ConfigurationError: If an option cannot work.
    """

    def __init__(self, path: str | Path, **options: Unpack[NpyOptions]) -> None:
        super().__init__()
        frame = frame_at(path)
        self._path = Path(path) if frame is not None else regular_file(path)
        self._batch_ticks = options["batch_ticks"]
        said, array, columns = options_among(options), options["array"], options["columns"]
        price_unit, size_unit = options["price_unit"], options["size_unit"]
        self._said = said
        self._skip = said.skips
        self._size_power = 0 if size_unit is None else unit_power("size_unit", size_unit)
        self._limits = InflateLimits.of(options["limits"])
        if array is not None and not isinstance(array, str):
            raise ConfigurationError("array", f"give the name of one in the file, not {array!r}")
        self._place, has_names = (
            locate(self._path, read_head(self._path, 8), array)
            if frame is None
            else (HeldArray.of(frame, self._path), False)
        )
        self._map: RecordColumns | HftEvents | None
        given = {"constants": options["constants"], "price_unit": price_unit, "size_unit": size_unit}
        if columns is not None:
            if self._place.dtype.names is None:
                raise FormatError(f"holds plain {self._place.dtype}, not records with fields", path=self._path)
            reading = said.reading(price_unit, size_unit)
            self._map = RecordColumns(self._place.dtype, said.columns, said.constants, reading)
        elif is_hft_events(self._place.dtype):
            _refuse(given, "constants", "price_unit")
            self._map = HftEvents(self._size_power, rounds=said.rounds)
        else:
            _refuse(given, *given)
            if self._place.dtype != TICK:
                raise FormatError(
                    f"{_difference(self._place.dtype)}: say by columns={{tick field: source field}} where a tick's "
                    "fields come from",
                    path=self._path,
                    offset=self._place.offset,
                )
            self._map = None
        own = read_own(self._path) if self._place.member is not None and self._map is None else None
        self._source = None if own is None else own.info
        #: Attributes of each stock from the source, by name, if strand wrote the file and the source had them.
        self.directory = {} if own is None else own.directory
        self._event, self._masks = said.ends_of(
            Flags() if own is not None else self._flags(), own is not None or isinstance(self._map, HftEvents)
        )
        self._meaning = said.ticks
        if self._meaning is None and isinstance(self._map, HftEvents):
            with suppress(FeedError):  # raised when the feed is read, after the ticks before it
                self._meaning = HftEvents.meaning(records for records, _ in self._records())
        self._counts = dict.fromkeys(
            ("records", "ticks", "rows_rounded", "sequences_left_out", "bytes_in", "bytes_out"), 0
        )

        names = _given_names(options["symbol"], options["symbols"])
        if names is None and has_names:
            names = read_names(self._path)
        elif names is None and isinstance(self._map, HftEvents) and frame is None:
            if called(self._path) == STANDARD_INPUT:
                raise ConfigurationError("symbol", "name the symbol of -, which has no name: symbol= (--feed symbol=)")
            names = (symbol_of(self._path),)
        keyed = self._map.has_keys if isinstance(self._map, RecordColumns) else self._map is None
        if not keyed and len(names or ()) != 1:
            raise ConfigurationError("symbol", "name the one symbol of the file, or map instrument_id by columns")
        most, known = options["max_symbols"], len(names or ())
        if most is not None and most < known:
            raise ConfigurationError("max_symbols", f"it is {most}, and there are {known} symbols")
        # The scan for it needs a bound: that of the field.
        self._max_symbols = 1 << 32 if most is None else most
        if most is None:
            self._max_symbols = self._scan() if names is None else max(1, known)
        names = names or ()
        self._symbols = names + ("",) * (self._max_symbols - len(names))

    @property
    def info(self) -> FeedInfo:
        details: dict[str, Any] = {"ticks": self._place.length, "dtype": str(self._place.dtype)}
        if self._place.member is not None:
            details["member"] = self._place.member
        if not self._place.stored:
            details["packed"] = self._place.compression  # the reading thread inflates it, so there is no "inflater"
        name = "npy" if self._place.member is None else "npz"
        if self._source is None:
            return FeedInfo(
                name, str(self._path), details=details, size_unit=float(f"1e{self._size_power}"),
                ticks=self._meaning or "plain", ticks_assumed=self._meaning is None, flags=self._masks,
                has_sizes=not isinstance(self._map, RecordColumns) or self._map.has_sizes,
                prices_assumed=isinstance(self._map, RecordColumns) and self._map.assumes_prices,
                zone=self._said.zone if isinstance(self._map, RecordColumns) else None,
            )  # fmt: skip
        return self._source.info(name, str(self._path), details, self._source.size_unit, self._said)

    def _flags(self) -> Flags:
        if self._said.masks is not None:
            return self._said.masks
        if isinstance(self._map, HftEvents):
            return HftEvents.flags
        if isinstance(self._map, RecordColumns):
            return self._map.flags_of(self._said.ticks)
        return usual_flags(self._said.ticks)

    @property
    def symbols(self) -> Sequence[str]:
        return self._symbols

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def count(self) -> int | None:
        """The number of records, if each is a tick and none may be left out; else None."""
        return None if self._skip or isinstance(self._map, HftEvents) else self._place.length

    def batches(self) -> Iterator[TickBatch]:
        batches = self._batches(0)
        if isinstance(self._map, HftEvents):
            return with_ends(batches, ("ts_recv",), HftEvents.flags.last)
        return with_ends(batches, self._event, self._masks.last) if self._event else batches

    def batches_from(self, position: int) -> Iterator[TickBatch]:
        """See ``BaseFeed``. Where each record of an array is a tick that lies as it is, those before are not read."""
        if self.count() is None or not self._place.stored or self._event:
            return super().batches_from(position)
        return self._batches(min(position, self._place.length))

    def last_batches(self, ticks: int) -> Iterator[TickBatch] | None:
        """See ``BaseFeed``: of an array that lies as it is."""
        if self.count() is None or not self._place.stored or self._event:
            return None
        return self._batches(max(self._place.length - ticks, 0))

    def _batches(self, begin: int) -> Iterator[TickBatch]:
        counts = self._counts
        counts.update(dict.fromkeys(counts, 0))
        self.skipped.clear()
        for records, position in self._records(begin):
            self._check_open()
            found = self._converted(records, position)
            kept = found.kept(self._skip)
            ticks = found.ticks if kept is None else picked(found.ticks, kept)
            counts.update({name: counts[name] + n for name, n in found.counts(kept).items()})
            counts["ticks"] += len(ticks)
            counts["bytes_out"] += ticks.nbytes
            if len(ticks):
                yield ticks
            if found.bad is not None and found.first is not None:
                places = np.arange(len(records)) if found.rows is None else found.rows
                if not self._skip:
                    raise self._bad_record(position + int(places[found.first.index]), f"{found.first}: {MEND}")
                for index in places[found.bad].tolist():
                    self.skipped.add("bad record", offset=self._place.at(position + index), text=str(records[index]))
            counts["records"] += len(records)
            counts["bytes_in"] += records.nbytes

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    def _records(self, begin: int = 0) -> Iterator[tuple[npt.NDArray[Any], int]]:
        self._check_open()
        return self._place.records(self._path, self._limits, self._batch_ticks, begin)

    def _converted(self, records: npt.NDArray[Any], position: int) -> Conversion:
        """Ticks of records, and which are none: those whose values no tick has, or whose symbol has no name."""
        found = Conversion(named(records)) if self._map is None else self._map.converted(records, position)
        keys = found.ticks["instrument_id"]
        if len(keys) and int(keys.max()) >= self._max_symbols:
            ends = f"and the symbol table ends at {self._max_symbols - 1}"
            found.note(keys >= self._max_symbols, "", lambda index: f"instrument_id is {int(keys[index])}, {ends}")
        return found

    def _bad_record(self, index: int, problem: str) -> FormatError:
        """The error of the record at an index. Its text counts records from 1, as ``sequence`` does."""
        return FormatError(f"record {index + 1}: {problem}", path=self._path, offset=self._place.at(index))

    def _scan(self) -> int:
        highest, at = -1, 0
        try:
            for records, position in self._records():
                found = self._converted(records, position)
                kept = found.kept(self._skip)
                keys = found.ticks["instrument_id"] if kept is None else found.ticks["instrument_id"][kept]
                if self._skip:
                    keys = keys[keys < _MAX_GUESSED_CAPACITY]
                if len(keys) and int(keys.max()) > highest:
                    highest, at = int(keys.max()), position + int(np.argmax(keys))
                if found.first is not None and not self._skip:
                    break  # raised when the feed is read, after the ticks before it
        except FeedError:
            pass  # likewise
        if highest >= _MAX_GUESSED_CAPACITY:
            raise self._bad_record(
                at, f"instrument_id is {highest}: give max_symbols= if the file really has so many instruments"
            )
        return max(1, highest + 1)


def _given_names(symbol: str | None, symbols: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names that the options say, if they say any."""
    if symbol is not None and symbols is not None:
        raise ConfigurationError("symbol", "give it, or symbols: the one name, or all of them")
    if symbol is not None:
        return (check_name("symbol", symbol),)
    if symbols is None:
        return None
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise ConfigurationError("symbols", f"give a sequence of names, not {symbols!r}")
    return tuple(check_name("symbols", name) for name in symbols)


def _refuse(given: Mapping[str, object], *names: str) -> None:
    if unused := [name for name in names if given[name] is not None]:
        raise ConfigurationError(unused[0], "it works only with columns=: give columns= too, or leave it out")


def _difference(dtype: np.dtype[Any]) -> str:
    """First difference between a dtype and a tick's, in words."""
    if dtype.names is None:
        return f"holds plain {dtype}, not records with fields"
    for name in TICK.names or ():
        if name not in dtype.names:
            return f"its records have no field {name!r} (they have {', '.join(dtype.names)})"
        if dtype.fields is not None and TICK.fields is not None and dtype.fields[name][:2] != TICK.fields[name][:2]:
            found, wanted = dtype.fields[name], TICK.fields[name]
            return f"field {name!r} is {found[0]} at byte {found[1]}, a tick's is {wanted[0]} at byte {wanted[1]}"
    fields = len(TICK.names or ())
    return (
        f"its records are {dtype.itemsize} bytes with {len(dtype.names)} fields, a tick {TICK.itemsize} with {fields}"
    )


#: In ``flags``, beside the event's number: what the event is valid for.
EXCHANGE: Final = 0x40
LOCAL: Final = 0x80
#: The last event of a ``local_ts``.
LAST: Final = 0x20

_EXCHANGE_EVENT: Final = 1 << 31
_LOCAL_EVENT: Final = 1 << 30
_BUY_EVENT: Final = 1 << 29
_SELL_EVENT: Final = 1 << 28
_NUMBER: Final = 0xFF
_DEPTH: Final = 1
_TRADE: Final = 2
_FIRST_ORDER: Final = 10
# By the event's number: action and kind.
_EVENTS: Final = {
    1: (b"M", KIND_QUOTE),  # depth: the quantity at a price; 0 takes the price away, action C
    2: (b"T", KIND_TRADE),
    3: (b"R", KIND_QUOTE),  # depth cleared up to the price
    4: (b"A", KIND_QUOTE),  # depth of a snapshot
    5: (b"M", KIND_QUOTE),  # best bid or offer; in `flags`, the 4 of its number says so
    10: (b"A", KIND_ORDER),
    11: (b"C", KIND_ORDER),
    12: (b"M", KIND_ORDER),
    13: (b"F", KIND_ORDER),
}
_KINDS: Final = {"ev": "u8", "exch_ts": "i8", "local_ts": "i8", "px": "f8", "qty": "f8", "order_id": "u8",
                 "ival": "i8", "fval": "f8"}  # fmt: skip
#: The columns that ticks are made of, by field; the first ones as they lie in the events.
_AS_THEY_ARE: Final = ("exch_ts", "local_ts", "px", "qty")
_COLUMNS: Final = dict(
    zip(("ts_event", "ts_recv", "price", "size"), _AS_THEY_ARE, strict=True), order_id="order_id", ref_id="ival",
    action="action", side="side", kind="kind", flags="flags",
)  # fmt: skip

Array = npt.NDArray[Any]


def is_hft_events(dtype: np.dtype[Any]) -> bool:
    """True if records have the fields of hftbacktest's events."""
    return dtype.names == tuple(_KINDS) and all(dtype[name].str[1:] == kind for name, kind in _KINDS.items())


def symbol_of(path: Path) -> str:
    """Symbol of a file that names none: the file's name up to the first dot."""
    return path.name.split(".", 1)[0]


class HftEvents:
    """Conversion of hftbacktest's events to ticks of key 0, by the rules of columns.

    ``ts_event`` is exch_ts, ``ts_recv`` local_ts, ``ref_id`` ival in two's complement, ``sequence`` the record's
    position in the file from 1; ``flags`` is the event's number plus ``EXCHANGE`` and ``LOCAL``, and the reader adds 32
    at the last event of a local_ts; fval is left out, and order_id of quotes. A price stands for its shortest decimal,
    none is ``UNDEF_PRICE``; a price has to be a whole number of 1e-9, and a qty of ten to the ``size_power``. Others
    are refused, or with ``rounds`` rounded to the nearest. Events that are valid at the exchange only make no tick: the
    same event comes again in the order it was received.
    """

    #: The number of a best bid or offer has 4, which no other event of action M and kind quote has. Events of one
    #: local_ts are what a strategy sees at once: the last one has 32.
    flags: ClassVar = Flags(best=4, last=LAST, other=0xDB)

    def __init__(self, size_power: int, *, rounds: bool) -> None:
        reading = Reading(size_power=size_power, rounds=rounds, undefined_nulls=True, time_unit="ns", own=True)
        self._columns = columns_of(list(_COLUMNS.values()), _COLUMNS, {}, reading)
        self._actions = np.zeros(256, np.uint8)
        self._kinds = np.zeros(256, np.uint16)
        for number, (action, kind) in _EVENTS.items():
            self._actions[number], self._kinds[number] = ord(action), kind

    @staticmethod
    def meaning(pieces: Iterable[Array]) -> TicksAre:
        """Meaning of a file's ticks, from as few of its records as show it.

        Fills of single orders count where no trade reports them: in files with both, as those made of Databento's
        orders, a fill repeats what a trade said, and a cancel or a modify follows it.
        """
        orders = False
        for records in pieces:
            numbers = records["ev"] & _NUMBER
            orders = orders or bool((numbers >= _FIRST_ORDER).any())
            if not orders:
                return "plain"
            if (numbers == _TRADE).any():
                return "dbn-orders"
        return "plain"

    def converted(self, records: Array, position: int) -> Conversion:
        """Ticks of ``records``, whose first one is number ``position`` of the file, from 0, and what is wrong."""
        events = records["ev"].astype(np.uint64)
        rows = np.flatnonzero((events & _LOCAL_EVENT != 0) | (events & _EXCHANGE_EVENT == 0))
        records, events = records[rows], events[rows]
        numbers = (events & _NUMBER).astype(np.uint8)
        of = {name: records[name] for name in _AS_THEY_ARE}
        of["order_id"] = np.where(self._kinds[numbers] == KIND_QUOTE, 0, records["order_id"])
        of["ival"] = records["ival"].astype(np.int64).view(np.uint64)
        of["action"] = self._actions[numbers]
        ask = np.where(events & _SELL_EVENT != 0, ord("A"), ord("N"))
        of["side"] = np.where(events & _BUY_EVENT != 0, ord("B"), ask)
        of["kind"] = self._kinds[numbers]
        of["flags"] = (
            numbers
            | np.where(events & _EXCHANGE_EVENT != 0, EXCHANGE, 0).astype(np.uint8)
            | np.where(events & _LOCAL_EVENT != 0, LOCAL, 0).astype(np.uint8)
        )
        places = (rows + (position + 1)).astype(np.uint64)
        keys = np.zeros(len(records), np.uint32)
        made = self._columns.convert(lambda name: numpy_column(of[name]), places, keys)
        made.rows = rows
        for wrong, column, why in (
            (self._kinds[numbers] == 0, "ev", "is not an event of hftbacktest"),
            (np.isnan(records["qty"]), "qty", "is not a number"),
        ):
            if wrong.any():
                made.note(wrong, column, f"{records[column][int(np.argmax(wrong))]} {why}")
        made.ticks["action"][(numbers == _DEPTH) & (made.ticks["size"] == 0)] = b"C"
        return made
