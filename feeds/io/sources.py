"""Byte streams: those of decoders, the bounds on a file's expanded size, and bytes as they lie in a file or come out of
a pipe.

A pipe can be read once, and yet a format has to be recognised before its reader is chosen. So a pipe's first
``KEPT_BYTES`` are kept, and until more has been read it can be opened again and starts anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol, Self

from strand.errors import CALLED, ConfigurationError, FeedError, TruncatedFeedError, called
from strand.feeds.io.stores import Ranges, StoredObject, object_at
from strand.fixed import dataclass
from strand.options import named_fields
from strand.validate import is_number, whole

#: A format is recognised by this many decompressed bytes from the start.
HEAD_BYTES: Final = 4096
_PIECE_BYTES: Final = 1 << 20


@named_fields
@dataclass(frozen=True, slots=True)
class InflateLimits:
    """Limits on a compressed file's expansion; beyond them the file is refused as a decompression bomb.

    Args:
        max_ratio: The greatest ratio of bytes out to bytes in.
        max_bytes: The greatest number of bytes out.
        ratio_after_bytes: The ratio is checked once so many bytes are out, because a short run of equal bytes proves
            nothing.
    """

    max_ratio: float = 200.0
    max_bytes: int = 1 << 40
    ratio_after_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not is_number(self.max_ratio) or self.max_ratio <= 0:
            raise ConfigurationError("max_ratio", f"{self.max_ratio!r} is not a number above 0")
        whole("max_bytes", self.max_bytes, 1)
        whole("ratio_after_bytes", self.ratio_after_bytes, 0)

    @classmethod
    def of(cls, limits: Any) -> InflateLimits:
        """The limits that an option ``limits`` gives.

        Args:
            limits: ``InflateLimits``; None: the default ones.

        Raises:
            ConfigurationError: If ``limits`` is neither ``InflateLimits`` nor None.
        """
        if limits is not None and not isinstance(limits, cls):
            raise ConfigurationError("limits", f"give strand.feeds.InflateLimits(max_ratio=...), not {limits!r}")
        return cls() if limits is None else limits

    def excess(self, made: int, read: int) -> str | None:
        """Fault of an expanded file's size, in words; None if the size is within the limits.

        Args:
            made: Bytes out.
            read: Bytes in.
        """
        if made > self.max_bytes:
            return f"the file expands to more than max_bytes = {self.max_bytes}"
        if made > self.ratio_after_bytes and made > self.max_ratio * read:
            return (
                f"the file expands more than max_ratio = {self.max_ratio:g} times ({read} bytes to {made}); "
                "raise the limit if you trust the file"
            )
        return None


class ByteStream(Protocol):
    """Bytes from the start of an input to its end. One thread at a time."""

    @property
    def bytes_in(self) -> int:
        """Read from the file so far."""
        ...

    @property
    def bytes_out(self) -> int:
        """Handed out so far."""
        ...

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` from its start, wholly unless the input ends; 0 at the end. Raises FeedError."""
        ...

    def close(self) -> None:
        """Closes the file. May be called again."""
        ...


class InputStream(ABC):
    """A ``ByteStream`` whose start can be looked at first. Data before a fault comes before the fault is raised.

    ``compression`` names what is undone on the way: ``"none"``, ``"gzip"``, ``"zstd"``, ``"bz2"``, ``"xz"``, ``"zip"``.
    ``inflater`` names what does it, None where nothing has to be done.
    """

    compression = "none"
    inflater: str | None = None

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.bytes_out = 0
        self._head = b""

    @property
    @abstractmethod
    def bytes_in(self) -> int:
        """Bytes read from the file so far."""

    @abstractmethod
    def _fill(self, view: memoryview) -> int:
        """Fills ``view``, wholly unless the input ends or a fault comes. Once no byte is left before a fault, every
        call raises it."""

    def head(self, size: int = HEAD_BYTES) -> bytes:
        """The first bytes, ``size`` of them unless there are fewer; ``readinto`` gives them again.

        Asked for before anything is read. Raises FeedError only where not one byte comes before the fault.
        """
        if self.bytes_out:
            raise RuntimeError("head() comes before readinto()")
        if len(self._head) < size:
            more = bytearray(size - len(self._head))
            try:
                got = self._fill(memoryview(more))
            except FeedError:
                if not self._head:
                    raise
                got = 0
            self._head += more[:got]
        return self._head[:size]

    def readinto(self, view: memoryview) -> int:
        """Fills ``view`` from its start, wholly unless the input ends; 0 at the end.

        Raises FeedError or one of its kinds, with the offset in the decompressed stream, once every byte before the
        fault has been handed out.
        """
        got = min(len(self._head), len(view))
        if got:
            view[:got] = self._head[:got]
            self._head = self._head[got:]
        if got < len(view):
            try:
                got += self._fill(view[got:])
            except FeedError:
                if not got:
                    raise
        self.bytes_out += got
        return got

    def read(self, size: int) -> bytes:
        """Reads ``size`` bytes; fewer before a fault, or at the end: a checksum has been verified then."""
        found = bytearray()
        while len(found) < size:  # in pieces: the size may be a bound far above what there is
            buffer = bytearray(min(size - len(found), _PIECE_BYTES))
            got = self.readinto(memoryview(buffer))
            found += memoryview(buffer)[:got]
            if got < len(buffer):
                break
        return bytes(found)

    def interrupt(self) -> None:  # noqa: B027
        """Makes a ``readinto`` that waits in another thread raise FeedError. Files never wait for long."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: The name that stands for standard input.
STANDARD_INPUT: Final = "-"
#: Bytes of a pipe that may be read before it can no longer be read from its start.
KEPT_BYTES: Final = 1 << 20
#: Time for which a named pipe may have no writer before it is given up.
WRITER_WAIT_S = 10.0


class Source(InputStream):
    """Uncompressed bytes of a file or pipe."""

    @abstractmethod
    def _read(self, view: memoryview) -> int:
        """Reads what there is, at least a byte unless the input has ended."""

    def read_some(self, view: memoryview) -> int:
        """Reads what there is, at least a byte unless the input has ended. Raises FeedError."""
        got = min(len(self._head), len(view))
        if not got:
            return self._read(view)
        view[:got] = self._head[:got]
        self._head = self._head[got:]
        return got

    def _fill(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view):
            try:
                got = self._read(view[filled:])
            except FeedError:
                if filled:
                    break
                raise
            if got == 0:
                break
            filled += got
        return filled


class RawStream(Source):
    """A file's bytes as they are, or ``length`` of them from ``start``.

    Read, not mapped: a mapped file that shrinks kills the process with SIGBUS, a read one comes up short and is
    reported as a TruncatedFeedError. Bytes read while the file shrinks may be zeros from its new end on. So every read
    is followed by a look at the size, and bytes beyond it are not handed out.
    """

    _fd = -1
    #: What closes the descriptor where an interrupt keeps ``__del__`` from that.
    _file: io.FileIO | None = None

    def __init__(self, path: str | Path, *, start: int = 0, length: int | None = None) -> None:
        super().__init__(path)
        if os.path.isdir(path):  # noqa: PTH112 - a FileIO lets go of a descriptor of one
            raise FeedError("is a directory: name the files in it", path=path)
        try:
            for self._file in map(io.FileIO, map(os.open, (path,), (os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK,))):
                break  # no interrupt comes between the call and the note of what it opened
            assert self._file is not None
            self._fd = self._file.fileno()
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                raise FeedError("is neither a regular file nor a pipe", path=path)
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        except OSError as error:
            self.close()
            raise _os_error(error, path, 0) from error
        except FeedError:
            self.close()
            raise
        self.start = self._at = start
        self._size = status.st_size
        #: What tells the file from another one under the same path, also once this one is closed.
        self.identity = status.st_dev, status.st_ino
        self._end = start + length if length is not None else None

    @property
    def bytes_in(self) -> int:
        """Bytes read."""
        return self._at - self.start

    def _read(self, view: memoryview) -> int:
        if self._end is not None:
            view = view[: self._end - self._at]
        if not view:
            return 0
        try:
            got = os.preadv(self._fd, [view], self._at)
            size = os.fstat(self._fd).st_size
        except OSError as error:
            raise _os_error(error, self.path, self._at) from error
        if size < self._size:
            got = max(0, min(got, size - self._at))
        if got == 0 and self._at < (self._size if self._end is None else self._end):
            raise TruncatedFeedError(
                f"the file had {self._size} bytes when it was opened and ends here now; read it after its writer has "
                "finished"
                if self._at < self._size
                else "the file is shorter than it announces; get the whole file",
                path=self.path,
                offset=self._at,
            )
        self._at += got
        return got

    def fileno(self) -> int:
        """The file's descriptor, to read at a place of one's own; -1 when closed."""
        return self._fd

    def stand_at(self, at: int) -> None:
        """Goes on at byte ``at`` of the file, all before it having been read otherwise."""
        self._head = b""
        self._at = at
        self.bytes_out = at - self.start

    @property
    def size(self) -> int:
        """Size of the file when it was opened, in bytes."""
        return self._size

    def close(self) -> None:
        """Closes the file."""
        self._fd = -1
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        """Closes the file of a user whom interrupts kept from that."""
        self.close()


class _Pipe:
    """An open pipe and what was read of it so far, as long as that is little."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.kept = bytearray()
        self.ended = False
        self.owner: PipeStream | None = None
        self.lock = threading.Lock()
        try:
            if str(path) == STANDARD_INPUT:
                self.fd = os.dup(0)
            else:
                self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if os.isatty(self.fd):
                os.close(self.fd)
                raise FeedError("standard input is a terminal: redirect a file or a pipe to it", path=path)
        except OSError as error:
            raise _os_error(error, path, 0) from error
        self.waited_for = False

    def read(self, size: int, stop: int) -> bytes:
        """Reads up to ``size`` bytes, none at the end; waits for them, and no longer once ``stop`` (a descriptor) is
        set."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        poll.register(stop, select.POLLIN)
        while True:
            # A named pipe that has no writer yet reports neither data nor an end.
            ready = dict(poll.poll(None if self.waited_for else WRITER_WAIT_S * 1000))
            if stop in ready:
                raise FeedError("the feed was closed while it was being read", path=self.path)
            if not ready:
                raise FeedError(
                    f"no data came from the pipe in {WRITER_WAIT_S:g} s: start the program that writes to it first",
                    path=self.path,
                )
            self.waited_for = True
            try:
                return os.read(self.fd, size)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _os_error(error, self.path, 0) from error

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


_pipes: dict[tuple[int, int] | str, _Pipe] = {}
_pipes_lock = threading.Lock()


class PipeStream(Source):
    """A pipe's bytes from its start. Raises FeedError where another stream has read more than ``KEPT_BYTES`` of it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        with _pipes_lock:
            key = _key(path)
            if key not in _pipes:
                _pipes[key] = _Pipe(path)
            self._pipe = _pipes[key]
        self._check_owner()
        self._at = 0
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def bytes_in(self) -> int:
        """Bytes read."""
        return self._at

    def _read(self, view: memoryview) -> int:
        pipe = self._pipe
        with pipe.lock:
            self._check_owner()
            data = bytes(pipe.kept[self._at : self._at + len(view)]) if pipe.owner is None else b""
            if not data and not pipe.ended:
                data = pipe.read(len(view), self._stop)
                if not data:
                    # Closed now: while this reader is open, the next writer would not wait for a new one.
                    pipe.ended = True
                    pipe.close()
                elif pipe.owner is None and len(pipe.kept) + len(data) <= KEPT_BYTES:
                    pipe.kept += data
                else:
                    pipe.owner, pipe.kept = self, bytearray()
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def interrupt(self) -> None:
        """Makes a read that waits raise FeedError."""
        if self._stop >= 0:
            os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """Closes the pipe, if this stream has read so much that no other could start anew."""
        if self._pipe.owner is self:
            self._pipe.close()
        stop, self._stop = self._stop, -1
        if stop >= 0:
            os.close(stop)

    def _check_owner(self) -> None:
        if self._pipe.owner not in (None, self):
            raise FeedError(
                "a pipe can be read once, and this one has been: store it in a file to read it again", path=self.path
            )


class ObjectStream(Source):
    """The bytes of an object of a store."""

    def __init__(self, found: StoredObject, path: str | Path) -> None:
        super().__init__(path)
        self._ranges, self._rest, self._at = Ranges(found), memoryview(b""), 0

    @property
    def bytes_in(self) -> int:
        """Bytes read."""
        return self._at

    def _read(self, view: memoryview) -> int:
        if not self._rest:
            self._rest = memoryview(self._ranges.piece())
        got = min(len(view), len(self._rest))
        view[:got] = self._rest[:got]
        self._rest = self._rest[got:]
        self._at += got
        return got

    def interrupt(self) -> None:
        """Makes the next read raise FeedError."""
        self._ranges.close()

    def close(self) -> None:
        """Lets go of what is under way."""
        self._ranges.close()


def is_pipe(path: str | Path) -> bool:
    """Tells whether ``path`` is standard input (``-``) or a named pipe."""
    try:
        return str(path) == STANDARD_INPUT or stat.S_ISFIFO(Path(path).stat().st_mode)
    except OSError:
        return False


def forget_pipe(path: str | Path) -> None:
    """Lets a named pipe that was read be opened anew, for whoever writes to it then."""
    with _pipes_lock:
        key = _key(path)
        pipe = _pipes.get(key)
        if pipe is None or key == STANDARD_INPUT or not (pipe.ended or pipe.owner is not None):
            return
        del _pipes[key]
    pipe.close()


#: The most bytes of a pipe that are kept in a temporary file.
SPOOL_BYTES = 16 << 30
_COPY: Final = "a copy, which its format needs,", "store it in a file first"


class Spool:
    """A copy of a stream in a temporary file, for readers that seek.

    The file has no name, so no data are left if the process is killed, but an empty folder. ``path`` leads to it, and
    ends as the stream's own name does, since readers look at names; errors call it by that name.
    """

    def __init__(self, source: Source, name: str | Path, known_as: str) -> None:
        import tempfile  # it loads a dozen modules, which no other way of reading needs

        with temporary(*_COPY, source.path):
            self._folder = tempfile.TemporaryDirectory(prefix="strand-", ignore_cleanup_errors=True)
        self._file: Any = None
        self.path = Path(self._folder.name, *(part for part in Path(name).parts if part not in ("/", "..")))
        try:
            with temporary(*_COPY, source.path):
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the copy is used
                self._copy(source)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.symlink_to(f"/proc/{os.getpid()}/fd/{self._file.fileno()}")
        except BaseException:
            self.close()
            raise
        CALLED[str(self.path)] = known_as

    def _copy(self, source: Source) -> None:
        buffer, made = memoryview(bytearray(_PIECE_BYTES)), 0
        while got := source.readinto(buffer):
            made += got
            if made > SPOOL_BYTES:
                raise FeedError(
                    f"its format seeks, so it is kept in a temporary file, which takes {SPOOL_BYTES:,} bytes at most: "
                    "store it in a file first",
                    path=source.path,
                )
            rest = buffer[:got]
            while rest:
                rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """Removes the file. Readers that have it open read on."""
        CALLED.pop(str(self.path), None)
        if self._file is not None:
            self._file.close()
        self._folder.cleanup()


@contextlib.contextmanager
def temporary(what: str, cure: str, path: str | Path | None = None) -> Iterator[None]:
    """Raises FeedError for an OSError within: that ``what`` cannot be kept in a temporary file, with its cure."""
    try:
        yield
    except OSError as error:
        import tempfile

        raise FeedError(
            f"{what} cannot be kept in a temporary file in {tempfile.gettempdir()} ({error.strerror or error}): "
            f"set TMPDIR to a folder with room, or {cure}",
            path=path,
        ) from error


def spooled(path: str | Path) -> Spool:
    """A copy of a pipe, or of an object of a store. Raises FeedError."""
    with open_source(path) as source:
        return Spool(source, "standard-input" if str(path) == STANDARD_INPUT else path, called(path))


def open_source(path: str | Path) -> Source:
    """The bytes of a regular file, a pipe or an object of a store. Raises FeedError for anything else."""
    if (found := object_at(path)) is not None:
        return ObjectStream(found, path)
    return PipeStream(path) if is_pipe(path) else RawStream(path)


def _key(path: str | Path) -> tuple[int, int] | str:
    if str(path) == STANDARD_INPUT:
        return STANDARD_INPUT
    status = Path(path).stat()
    return status.st_dev, status.st_ino


def _os_error(error: OSError, path: str | Path, offset: int) -> FeedError:
    return FeedError(f"cannot be read: {error.strerror}", path=path, offset=offset or None)
