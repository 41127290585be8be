"""numpy arrays of ticks: .npy and .npz, never pickled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, Flags, TickBatch, TicksAre, usual_flags
from strand.feeds.formats.hftbacktest import HftEvents, is_hft_events, symbol_of
from strand.feeds.formats.npy.header import locate, read_names, read_own
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.files import (
    MemberReader,
    PieceReader,
    read_head,
    regular_file,
)
from strand.feeds.io.sources import RawStream
from strand.feeds.io.streams import open_stream
from strand.feeds.io.zip import open_archive
from strand.feeds.mapping.chosen import Reading
from strand.feeds.mapping.events import with_ends
from strand.feeds.mapping.options import MEND, check_options
from strand.feeds.mapping.records import BadRecordError, RecordColumns
from strand.feeds.mapping.units import unit_power
from strand.symbols import check_name
from strand.ticks import TICK, named
from strand.validate import whole

__all__ = ["NpyFeed"]

#: Keys from here up are taken for damage unless ``max_symbols`` is given: a table that size would be made for them.
MAX_GUESSED_CAPACITY: Final = 1 << 22
_INPUT_PIECE: Final = 1 << 16
#: Bytes of records read at once. A bound is needed: the header's size and number of records may be false.
_BATCH_BYTES: Final = 1 << 26


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
        columns: A map from tick field to source field, a table of a profile's keys, or None for no field. A tick field
            that is missing from the map is recognised by common names.
        constants: Tick fields that have one value for all ticks, by name.
        price_unit: What 1 in the source's price is worth, a power of ten (``"0.01"``). None: currency.
        size_unit: What 1 in a tick's ``size`` is worth, for quantities that are fractions.
        inexact: What to do with a value that is no whole number of 1e-9 or of ``size_unit``: ``"raise"``, or
            ``"round"`` to the nearest, ties to even. ``statistics()["rows_rounded"]`` counts those rounded.
        time_unit: The unit of times that are plain numbers. None: what the field's name says; integers that only ns can
            be need no word. Others are refused.
        ticks: What the ticks mean, a ``TicksAre``; ``"plain"``, unless the file says it.
        flags: Masks of the ticks' flags by meaning, the names of ``strand.feeds.Flags``: ``{"unprinted": 1}``. None: as
            the file says; else an array of dtype ``TICK`` has Strand's own, and bits of a column have no meaning.
        event: What rows of one message of the venue have in common: ``"ts_recv"``, or several fields. Books change at
            the last of these rows. None: each row is an event, or the flags say where one ends.
        nulls: ``"raise"``: NaN is an error; ``"undefined"``: NaN is no value.
        symbol: The one name. An array of one symbol without a key field needs it.
        symbols: The names by index. None: those of the array ``symbols`` of an .npz; without that every name is empty.
        max_symbols: The greatest number of symbols. None: as many as there are names; without names, one scan of the
            keys finds it.
        array: The array of an .npz to read. None: ``ticks``, or the only one beside ``symbols``.
        batch_ticks: Ticks in a full batch.
        on_bad_record: ``"raise"``, or ``"skip"`` to skip records whose key or value cannot be a tick's.
        limits: How far a packed file may expand; None: ``InflateLimits()``.

    Raises:
        FormatError: If the dtype, a key or a value cannot be a tick's.
        TruncatedFeedError: If the file ends too early.
        ConfigurationError: If an option cannot work.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        columns: Mapping[str, str | Mapping[str, Any] | None] | None = None,
        constants: Mapping[str, int | str | bytes] | None = None,
        price_unit: str | Decimal | None = None,
        size_unit: str | Decimal | None = None,
        inexact: Literal["raise", "round"] = "raise",
        time_unit: Literal["s", "ms", "us", "ns"] | None = None,
        ticks: TicksAre | None = None,
        flags: Mapping[str, int] | None = None,
        event: str | Sequence[str] | None = None,
        nulls: Literal["raise", "undefined"] = "raise",
        symbol: str | None = None,
        symbols: Sequence[str] | None = None,
        max_symbols: int | None = None,
        array: str | None = None,
        batch_ticks: int = 65536,
        on_bad_record: Literal["raise", "skip"] = "raise",
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__()
        self._path = regular_file(path)
        self._batch_ticks = whole("batch_ticks", batch_ticks, 1)
        said = check_options(
            columns=columns,
            constants=constants,
            inexact=inexact,
            time_unit=time_unit,
            ticks=ticks,
            flags=flags,
            event=event,
            nulls=nulls,
            on_bad_record=on_bad_record,
        )
        self._said = said
        self._skip = said.skips
        self._size_power = 0 if size_unit is None else unit_power("size_unit", size_unit)
        self._limits = InflateLimits.of(limits)
        if array is not None and not isinstance(array, str):
            raise ConfigurationError(f"array: give the name of one in the file, not {array!r}")
        self._place, has_names = locate(self._path, read_head(self._path, 8), array)
        self._map: RecordColumns | HftEvents | None
        given = {"constants": constants, "price_unit": price_unit, "size_unit": size_unit}
        if columns is not None:
            if self._place.dtype.names is None:
                raise FormatError(f"holds plain {self._place.dtype}, not records with fields", path=self._path)
            power = None if price_unit is None else unit_power("price_unit", price_unit)
            undefined = said.nulls == "undefined"
            reading = Reading(power, self._size_power, said.time_unit, rounds=said.rounds, undefined_nulls=undefined)
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
        self._counts = dict.fromkeys(("records", "ticks", "rows_rounded", "bytes_in", "bytes_out"), 0)

        names = _given_names(symbol, symbols)
        if names is None and has_names:
            names = read_names(self._path)
        elif names is None and isinstance(self._map, HftEvents):
            names = (symbol_of(self._path),)
        keyed = self._map.has_keys if isinstance(self._map, RecordColumns) else self._map is None
        if not keyed and len(names or ()) != 1:
            raise ConfigurationError("symbol: name the one symbol of the file, or map instrument_id by columns")
        # The scan for it needs a bound: that of the field.
        self._max_symbols = 1 << 32
        self._max_symbols = self._max_symbols_for(max_symbols, names)
        names = names or ()
        self._symbols = names + ("",) * (self._max_symbols - len(names))

    def _max_symbols_for(self, given: int | None, names: tuple[str, ...] | None) -> int:
        """Returns the number that was given; else the number of names, or of the keys that the file needs."""
        if given is None:
            return self._scan() if names is None else max(1, len(names))
        if whole("max_symbols", given, 1) < len(names or ()):
            raise ConfigurationError(f"max_symbols is {given}, and there are {len(names or ())} symbols")
        return given

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

    def _batches(self, begin: int) -> Iterator[TickBatch]:
        counts = self._counts
        counts.update(dict.fromkeys(counts, 0))
        self.skipped.clear()
        for records, position in self._records(begin):
            self._check_open()
            for ticks in self._sound(records, position):
                counts["ticks"] += len(ticks)
                counts["bytes_out"] += ticks.nbytes
                if len(ticks):
                    yield ticks
            counts["records"] += len(records)
            counts["bytes_in"] += records.nbytes

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    def _records(self, begin: int = 0) -> Iterator[tuple[npt.NDArray[Any], int]]:
        """Source records by the batch, each with the position of its first. ``begin``: the first, of a stored array."""
        self._check_open()
        place = self._place
        if not place.stored:
            yield from self._inflated()
            return
        if place.length == 0:
            return
        # Read, not mapped: a mapped file that shrinks ends the process.
        size = place.dtype.itemsize
        start, length = place.offset + begin * size, (place.length - begin) * size
        with RawStream(self._path, start=start, length=length) as stream:
            step = self._at_one_go()
            for first in range(begin, place.length, step):
                records = np.empty(min(step, place.length - first), place.dtype)
                got = stream.readinto(records.view(np.uint8).data)
                records.setflags(write=False)
                if got >= size:
                    yield records[: got // size], first
                if got < records.nbytes:
                    self._require_more(stream.readinto(memoryview(bytearray(1))), first, got)

    def _inflated(self) -> Iterator[tuple[npt.NDArray[Any], int]]:
        place, reader, step = self._place, self._packed(), self._at_one_go()
        try:
            reader.read(place.offset)
            for first in range(0, place.length, step):
                size = min(step, place.length - first) * place.dtype.itemsize
                data = reader.read(size)
                records = np.frombuffer(data, place.dtype, len(data) // place.dtype.itemsize)
                if len(records):
                    yield records, first
                if len(data) < size:
                    self._require_more(len(reader.read(1)), first, len(data))
            # The checksum is looked at behind the last byte.
            while reader.read(_INPUT_PIECE):
                pass
        finally:
            reader.close()

    def _at_one_go(self) -> int:
        return max(1, min(self._batch_ticks, _BATCH_BYTES // self._place.dtype.itemsize))

    def _packed(self) -> PieceReader:
        if self._place.member is None:
            return PieceReader(open_stream(self._path, limits=self._limits))
        with open_archive(self._path) as archive:
            return MemberReader(archive.getinfo(self._place.member), self._path, self._limits)

    def _require_more(self, got: int, first: int, size: int) -> None:
        """Raises the error of a stream that ended early. It has no fault of its own: the caller has asked for one."""
        record = first + size // self._place.dtype.itemsize
        offset = self._place.offset + first * self._place.dtype.itemsize + size + got
        raise TruncatedFeedError(f"ends inside record {record + 1}; get the whole file", path=self._path, offset=offset)

    def _sound(self, records: npt.NDArray[Any], position: int) -> Iterator[TickBatch]:
        """Ticks of records. Halving finds the bad ones, which are then skipped, or raised after the ticks before
        them."""
        try:
            ticks = named(records) if self._map is None else self._convert(self._map, records, position)
            self._check_keys(ticks["instrument_id"], position)
        except FormatError as error:
            half = len(records) // 2
            if half:
                yield from self._sound(records[:half], position)
                yield from self._sound(records[half:], position + half)
            elif self._skip:
                self.skipped.add("bad record", offset=error.offset, text=str(records[0]))
            else:
                raise
            return
        yield ticks

    def _convert(self, fields: RecordColumns | HftEvents, records: npt.NDArray[Any], position: int) -> npt.NDArray[Any]:
        try:
            ticks = fields.ticks(records, position)
            self._counts["rows_rounded"] += fields.rounded
            return ticks
        except BadRecordError as bad:
            raise self._bad_record(position + bad.index, f"{bad}: {MEND}") from None

    def _check_keys(self, keys: npt.NDArray[Any], position: int) -> None:
        if len(keys) and int(keys.max()) >= self._max_symbols:
            index = int(np.argmax(keys >= self._max_symbols))
            raise self._bad_record(
                position + index,
                f"instrument_id is {int(keys[index])}, and the symbol table ends at {self._max_symbols - 1}: {MEND}",
            )

    def _bad_record(self, index: int, problem: str) -> FormatError:
        """The error of the record at an index. Its text counts records from 1, as ``sequence`` does."""
        offset = self._place.offset + index * self._place.dtype.itemsize
        return FormatError(f"record {index + 1}: {problem}", path=self._path, offset=offset)

    def _scan(self) -> int:
        highest, at = -1, 0
        try:
            for records, position in self._records():
                for ticks in self._sound(records, position):
                    keys = ticks["instrument_id"]
                    if self._skip:
                        keys = keys[keys < MAX_GUESSED_CAPACITY]
                    if len(keys) and int(keys.max()) > highest:
                        highest, at = int(keys.max()), position + int(np.argmax(keys))
        except FeedError:
            pass  # raised when the feed is read, after the ticks before it
        if highest >= MAX_GUESSED_CAPACITY:
            raise self._bad_record(
                at, f"instrument_id is {highest}: give max_symbols= if the file really has so many instruments"
            )
        return max(1, highest + 1)


def _given_names(symbol: str | None, symbols: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names that the options say, if they say any."""
    if symbol is not None and symbols is not None:
        raise ConfigurationError("symbol, symbols: give the one name, or all of them")
    if symbol is not None:
        return (check_name("symbol", symbol),)
    if symbols is None:
        return None
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise ConfigurationError(f"symbols: give a sequence of names, not {symbols!r}")
    return tuple(check_name("symbols", name) for name in symbols)


def _refuse(given: Mapping[str, object], *names: str) -> None:
    if unused := [name for name in names if given[name] is not None]:
        raise ConfigurationError(f"{unused[0]}: it works only with columns=: give columns= too, or leave it out")


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
