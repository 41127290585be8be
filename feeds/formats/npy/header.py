"""Positions of the arrays in .npy and .npz files: headers only, no data and no pickle."""

from __future__ import annotations

import io
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.lib import format as npy_format

from strand.errors import ConfigurationError, FormatError, TruncatedFeedError
from strand.feeds.formats.own_metadata import OWN_MEMBER, Own, own_from
from strand.feeds.io.bytestream import InflateLimits, InputStream
from strand.feeds.io.files import MemberReader
from strand.feeds.io.streams import open_stream
from strand.feeds.io.zip import open_archive
from strand.symbols import name_problem

__all__ = ["ArrayPlace", "locate", "read_names", "read_own"]

# Far above what numpy writes for a record of a hundred fields, and little enough to hold.
_HEADER_BYTES: Final = 1 << 16
_LOCAL_HEADER_BYTES: Final = 30
# Names of ten million symbols, and still little enough to hold.
_NAMES_BYTES: Final = 1 << 30
_PIECE_BYTES: Final = 1 << 20
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
            raise ConfigurationError(f"{path} holds no array {array!r}: it holds {', '.join(names) or 'none'}")
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
    reader = MemberReader(member, path, InflateLimits(max_bytes=_HEADER_BYTES))
    try:
        head = io.BytesIO(reader.read(_HEADER_BYTES))
    finally:
        reader.close()
    place = _place(head, path, member.file_size)
    name = member.filename
    if member.compress_type != zipfile.ZIP_STORED:
        return ArrayPlace(place.dtype, place.length, place.offset, name, "zip")
    # A stored member lies in the file as it is, after a local header whose length only that header tells.
    with path.open("rb") as file:
        file.seek(member.header_offset)
        local = file.read(_LOCAL_HEADER_BYTES)
    start = member.header_offset + _LOCAL_HEADER_BYTES + int.from_bytes(local[26:28], "little")
    start += int.from_bytes(local[28:30], "little")
    if start + member.file_size > path.stat().st_size:
        raise TruncatedFeedError(f"the archive ends inside {name!r}", path=path, offset=path.stat().st_size)
    return ArrayPlace(place.dtype, place.length, start + place.offset, name)


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
    reader = MemberReader(member, path, InflateLimits(max_ratio=1000, max_bytes=_NAMES_BYTES))
    try:
        return own_from(reader.read(_NAMES_BYTES), path)
    finally:
        reader.close()


def read_names(path: Path) -> tuple[str, ...]:
    """The names an archive keeps beside its ticks: the array ``symbols``, of text or bytes."""
    with open_archive(path) as archive:
        member = archive.getinfo("symbols.npy")
    reader = MemberReader(member, path, InflateLimits(max_ratio=1000, max_bytes=_NAMES_BYTES))
    try:
        head = reader.read(_HEADER_BYTES)
        place = _place(io.BytesIO(head), path, member.file_size)
        whole = place.offset + place.length * place.dtype.itemsize
        data = bytearray(head)
        while len(data) < whole and (piece := reader.read(min(whole - len(data), _PIECE_BYTES))):
            data += piece
        # The checksum is looked at behind the last byte.
        if len(data) < whole or reader.read(1):
            raise FormatError(f"the array 'symbols' holds {len(data)} bytes and promises {whole}", path=path)
    finally:
        reader.close()
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
