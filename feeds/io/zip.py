"""Members of zip archives as streams: stored, deflated or bz2-compressed, their checksum verified at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.compression import RAW_WBITS, MemberStream, inflater_name, new_inflater, zlib_like
from strand.feeds.io.sources import RawStream

if TYPE_CHECKING:
    import zipfile

__all__ = ["ZIP_MAGICS", "ZipMemberStream", "data_members", "find_member", "open_archive", "split_member"]

ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_LOCAL_HEADER_BYTES: Final = 30
_ENCRYPTED: Final = 1


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive. zipfile's errors about a bad one become feed errors."""
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        with RawStream(path) as stream:
            head = stream.head(4)
        if head == ZIP_MAGICS[0]:
            end = path.stat().st_size
            raise TruncatedFeedError("the zip archive ends before its directory", path=path, offset=end) from error
        raise FormatError(f"is not a zip archive: {error}", path=path, offset=0) from error
    # The exception of zipfile for a damaged directory depends on the damage.
    except (OSError, NotImplementedError, ValueError, OverflowError) as error:
        raise FeedError(f"cannot be read: {error}", path=path) from error
    with archive:
        yield archive


def data_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files in an archive, without folders and what some systems add to them."""
    return [
        info
        for info in archive.infolist()
        # A damaged directory may hold a name of no letters, which is_dir() cannot take.
        if info.filename
        and not info.is_dir()
        and not info.filename.startswith("__MACOSX/")
        and not info.filename.endswith(".DS_Store")
    ]


def find_member(path: Path, name: str | None = None) -> zipfile.ZipInfo:
    """The member of that name, or the only one. Raises FeedError where it is not there or there are several."""
    with open_archive(path) as archive:
        members = data_members(archive)
    if name is not None:
        members = [info for info in members if info.filename == name]
        if not members:
            raise FeedError(f"the zip archive has no member {name!r}", path=path)
    if len(members) != 1:
        held = ", ".join(info.filename for info in members[:5]) or "nothing"
        raise FeedError(
            f"the zip archive holds {len(members)} files ({held}): name one of them, as in {path}/NAME", path=path
        )
    return members[0]


def split_member(path: Path) -> tuple[Path, str | None]:
    """``day.zip/trades.csv`` as the archive and the name in it; any other path as it is."""
    for parent in path.parents:
        if parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


class _Stored:
    """A member as it lies, with the interface of an inflater."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.unconsumed_tail: bytes | memoryview = b""
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return self._left == 0

    def decompress(self, data: bytes | memoryview, room: int) -> bytes | memoryview:
        given = data[: min(room, self._left)]
        self.unconsumed_tail = data[len(given) :]
        self._left -= len(given)
        return given


class ZipMemberStream(MemberStream):
    """The contents of one member. The decompressed bytes are counted; the archive's own figures are never trusted.

    Raises FormatError where the member is encrypted, compressed in another way, or damaged, TruncatedFeedError where
    the file ends inside it.
    """

    compression = "zip"
    magic = b""

    def __init__(self, path: Path, member: zipfile.ZipInfo, limits: InflateLimits) -> None:
        import zipfile

        self._info = member
        self.member = member.filename
        self._crc = 0
        self._zlib: Any = zlib_like()
        self.inflater = {zipfile.ZIP_STORED: None, zipfile.ZIP_BZIP2: "bz2"}.get(member.compress_type, inflater_name())
        self.errors = (self._zlib.error, OSError, ValueError)
        if member.flag_bits & _ENCRYPTED:
            raise FormatError(f"member {member.filename!r} is encrypted: decrypt it first", path=path)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
            raise FormatError(
                f"member {member.filename!r} is compressed by method {member.compress_type}; stored, deflated and bz2 "
                "members can be read",
                path=path,
            )
        start = _data_start(path, member)
        super().__init__(RawStream(path, start=start, length=member.compress_size), limits)

    def _new_member(self) -> Any:
        import bz2
        import zipfile

        if self._info.compress_type == zipfile.ZIP_STORED:
            return _Stored(self._info.file_size)
        if self._info.compress_type == zipfile.ZIP_BZIP2:
            return bz2.BZ2Decompressor()
        return new_inflater(RAW_WBITS)

    def _inflate(self) -> bytes | memoryview:
        data = super()._inflate()
        self._crc = self._zlib.crc32(data, self._crc)
        return data

    def _next_member(self) -> bool:
        self._finished = True
        if self._crc != self._info.CRC:
            raise self._error(FormatError, f"the checksum of member {self._info.filename!r} is wrong: it is damaged")
        return False


def _data_start(path: Path, member: zipfile.ZipInfo) -> int:
    """Offset of a member's data: the local header before the data has lengths of its own."""
    with RawStream(path, start=member.header_offset) as stream:
        header = stream.head(_LOCAL_HEADER_BYTES)
    if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(ZIP_MAGICS[0]):
        raise FormatError(f"member {member.filename!r} is not where the archive's directory says", path=path)
    name, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER_BYTES + name + extra
