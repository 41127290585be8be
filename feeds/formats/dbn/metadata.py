"""Metadata before a DBN file's records, and the names of instruments over time that it gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import FormatError, MissingExtraError, TruncatedFeedError
from strand.feeds.io.bytestream import InputStream
from strand.symbols import name_problem

__all__ = ["DAY_NS", "DbnMetadata", "SymbolTable", "name_in_mapping", "read_metadata"]

DAY_NS: Final = 86_400_000_000_000
_MAGIC: Final = b"DBN"
_PREFIX_BYTES: Final = 8
_VERSIONS: Final = range(1, 4)
# Two million symbols' worth; read in pieces, so that a false length costs no more memory than the file has bytes.
_MAX_BYTES: Final = 256 << 20
_PIECE: Final = 1 << 20
#: By a data set's venue. Consolidated feeds of shares and options (DBEQ, EQUS, OPRA) have New York's hours.
#: CFE (XCBF) and Blue Ocean ATS (OCEA): the hours on Databento's pages of XCBF.PITCH ("CT") and OCEA.MEMOIR ("ET"). ICE
#: Europe Financials (IFLL) is of ICE Futures Europe, as IFEU is, whose circulars have hours in "local London time".
_ZONES: Final = {
    "GLBX": "America/Chicago", "XCBF": "America/Chicago", "IFEU": "Europe/London", "IFLL": "Europe/London",
    "NDEX": "Europe/Amsterdam", "XEUR": "Europe/Berlin", "XEEE": "Europe/Berlin",
} | dict.fromkeys(
    ("ARCX", "BATS", "BATY", "DBEQ", "EDGA", "EDGX", "EPRL", "EQUS", "IEXG", "IFUS", "MEMX", "OCEA", "OPRA", "XASE",
     "XBOS", "XCHI", "XCIS", "XNAS", "XNYS", "XPSX"), "America/New_York",
)  # fmt: skip
_LAST_NS: Final = (1 << 64) - 1
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class DbnMetadata:
    """``decoded``: a ``databento_dbn.Metadata``. ``version`` is the file's own; ``size`` counts the bytes up to the
    first record."""

    decoded: Any
    version: int
    size: int

    @property
    def date(self) -> str | None:
        """The UTC date that the data starts on."""
        start = self.decoded.start
        return _date_of(start).isoformat() if 0 < start < _LAST_NS else None

    @property
    def zone(self) -> str | None:
        """The time zone of the venue's sessions, where the data set is of one."""
        return _ZONES.get(str(self.decoded.dataset).partition(".")[0])

    def details(self) -> dict[str, Any]:
        """Details of the request that the file answers, as plain values."""
        decoded = self.decoded
        end = decoded.end if decoded.end is not None and 0 < decoded.end < _LAST_NS else None
        return {
            "version": self.version,
            "schema": None if decoded.schema is None else str(decoded.schema),
            "stype_in": None if decoded.stype_in is None else str(decoded.stype_in),
            "stype_out": str(decoded.stype_out),
            "start_ns": decoded.start,
            "end_ns": end,
            "limit": decoded.limit,
            "ts_out": bool(decoded.ts_out),
            "mapped_symbols": len(decoded.mappings),
            "partial": len(decoded.partial),
            "not_found": len(decoded.not_found),
        }


def read_metadata(stream: InputStream, path: str | Path) -> DbnMetadata:
    """Reads a stream up to its first record.

    Raises FormatError where there is no metadata of version 1 to 3, TruncatedFeedError where the file ends in it,
    MissingExtraError without the package ``databento-dbn``.
    """
    prefix = _read(stream, _PREFIX_BYTES, path, 0)
    if not prefix.startswith(_MAGIC):
        raise FormatError(f"starts with {prefix[:4].hex(' ')}, not with the letters DBN", path=path, offset=0)
    version, length = prefix[3], int.from_bytes(prefix[4:], "little")
    if version not in _VERSIONS:
        raise FormatError(f"is of DBN version {version}; versions 1 to 3 can be read", path=path, offset=3)
    if length > _MAX_BYTES:
        raise FormatError(f"its metadata claims to be {length} bytes long: the file is damaged", path=path, offset=4)
    body = _read(stream, length, path, _PREFIX_BYTES)
    return DbnMetadata(_decode(prefix + body, path), version, _PREFIX_BYTES + length)


def _read(stream: InputStream, size: int, path: str | Path, at: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = bytearray(min(_PIECE, size - len(data)))
        got = stream.readinto(memoryview(piece))
        data += piece[:got]
        if got < len(piece):
            raise TruncatedFeedError("the input ends inside its metadata", path=path, offset=at + len(data))
    return bytes(data)


def _decode(data: bytes, path: str | Path) -> Any:
    try:
        import databento_dbn
    except ImportError:
        raise MissingExtraError("reading DBN files", "databento-dbn", "dbn") from None
    try:
        return databento_dbn.Metadata.decode(data)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise FormatError(f"its metadata cannot be read: {error}", path=path, offset=_PREFIX_BYTES) from None


@dataclass(slots=True)
class SymbolTable:
    """Names by index, and the instrument ids that they stand for on each day.

    The metadata maps names to ids (or ids to names) by intervals of UTC days, the first included and the last not. A
    name has one index, whatever ids it has had. An id of no interval on a day is called ``id:N``.

    Attributes:
        unnamed: Ids that records had on a day for which the metadata has no name, the unwanted ones too.
    """

    keeps: Callable[[str], bool]
    unwanted: int
    names: list[str] = field(default_factory=list)
    max_symbols: int = 0
    unnamed: set[int] = field(default_factory=set)
    _index: dict[str, int] = field(default_factory=dict)
    _rows: list[tuple[int, int, int, str]] = field(default_factory=list)

    def learn(self, metadata: Any, path: str | Path) -> None:
        """Takes in the metadata's mappings. Raises FormatError for an id that is no number of 32 bits."""
        ids_are_keys = str(metadata.stype_out) != "instrument_id" and str(metadata.stype_in) == "instrument_id"
        if not ids_are_keys and str(metadata.stype_out) != "instrument_id":
            return
        # The library makes the mappings anew at each access, in an order that differs from run to run: read once,
        # sorted.
        for key, intervals in sorted(metadata.mappings.items()):
            for interval in intervals:
                text, name = (key, interval["symbol"]) if ids_are_keys else (interval["symbol"], key)
                if not text or not name:  # not resolved in that interval
                    continue
                if not (text.isascii() and text.isdecimal() and int(text) < 1 << 32):
                    raise FormatError(f"its metadata calls {name!r} by the instrument id {text!r}", path=path, offset=8)
                first, end = _midnight_ns(interval["start_date"]), _midnight_ns(interval["end_date"])
                if problem := name_problem(name):
                    raise FormatError(f"its metadata names {name[:80]!r}, which {problem}", path=path, offset=8)
                if end > first:
                    self._rows.append((int(text), first, end - 1, name))
                    self._named(name)

    def arrays(
        self,
    ) -> tuple[
        npt.NDArray[np.uint32], npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint32]
    ]:  # fmt: skip
        """Mappings of the metadata: ids, first and last ns, keys."""
        wanted = {name: self.key(name) for name in self._index}
        rows = self._rows
        return (
            np.fromiter((row[0] for row in rows), np.uint32, len(rows)),
            np.fromiter((row[1] for row in rows), np.uint64, len(rows)),
            np.fromiter((row[2] for row in rows), np.uint64, len(rows)),
            np.fromiter((wanted[row[3]] for row in rows), np.uint32, len(rows)),
        )

    @property
    def may_roll(self) -> bool:
        """True if the metadata gives one name to several ids."""
        ids: dict[str, int] = {}
        return any(ids.setdefault(name, number) != number for number, _, _, name in self._rows)

    def unmapped(self, instrument: int, time_ns: int) -> tuple[int, int, int]:
        """Mapping of an id that has no name at a time: the first and last ns of that UTC day, and its key."""
        first = time_ns - time_ns % DAY_NS
        self.unnamed.add(instrument)
        return first, min(first + DAY_NS - 1, _LAST_NS), self.key(f"id:{instrument}")

    def key(self, name: str) -> int:
        """The index of a name, given one if it has none yet; ``unwanted`` where the selection leaves it out.

        Raises OverflowError when ``max_symbols`` is used up.
        """
        return self._named(name) if self.keeps(name) else self.unwanted

    def _named(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            index = len(self.names)
            if self.max_symbols and index >= self.max_symbols:
                raise OverflowError(name)
            self._index[name] = index
            self.names.append(name)
        return index


def name_in_mapping(record: memoryview, tail: int) -> tuple[int, str]:
    """The instrument id of a symbol mapping record, and the name it gives it: the outgoing symbol, else the incoming.

    Raises ValueError for a record that is none.
    """
    size = len(record) - tail
    places = {80: ((38, 22), (16, 22)), 176: ((89, 71), (17, 71))}.get(size)
    if places is None:
        raise ValueError(f"a symbol mapping of {size} bytes; it has 80 in version 1, else 176")
    names = (bytes(record[at : at + room]).split(b"\0", 1)[0] for at, room in places)
    try:
        name = next((name.decode("utf-8") for name in names if name), "")
    except UnicodeDecodeError:
        raise ValueError("a symbol mapping whose symbol is not UTF-8") from None
    if not name:
        raise ValueError("a symbol mapping without a symbol")
    if problem := name_problem(name):
        raise ValueError(f"a symbol mapping to {name!r}, which {problem}")
    return int.from_bytes(record[4:8], "little"), name


def _midnight_ns(date: dt.date) -> int:
    return min(max(0, (date.toordinal() - _EPOCH_ORDINAL) * DAY_NS), _LAST_NS)


def _date_of(ns: int) -> dt.date:
    return dt.date.fromordinal(_EPOCH_ORDINAL + ns // DAY_NS)
