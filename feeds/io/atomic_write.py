"""Files that appear under their name only when they are whole, and files that grow for hours until then."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from strand.background import Rounds
from strand.errors import ConfigurationError, FeedError, MissingExtraError, url_of
from strand.feeds.io.stores import check_target, is_url, put

#: Seconds after which ``flushed`` has what was written in the file: what a kill may cost, with as much for the write.
FLUSH_S: Final = 0.4

_being_written: weakref.WeakSet[BinaryIO] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """Points the files of a forked child at nothing: the content of its buffers would be written a second time."""
    for file in list(_being_written):
        if not file.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, file.fileno(), inheritable=False)
            os.close(nowhere)


os.register_at_fork(after_in_child=_leave_to_the_parent)


def _gzip_writer(raw: BinaryIO) -> Any:
    """No name and no time in the header: the same bytes in give the same file."""
    try:
        from isal import igzip
    except ImportError:
        import gzip

        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
    writer: Any = igzip.IGzipFile
    return writer(filename="", mode="wb", compresslevel=2, fileobj=raw, mtime=0)


@contextlib.contextmanager
def _zstd_writer(raw: BinaryIO) -> Iterator[Any]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("writing zstd files", "zstandard", "zstd") from None
    packer: Any = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with packer.stream_writer(raw, closefd=False) as packed:
        yield packed


_WRITERS: Final[dict[str, Callable[[BinaryIO], Any]]] = {".gz": _gzip_writer, ".zst": _zstd_writer}
_UNWRITTEN: Final = (".bz2", ".xz", ".zip")


def partial_path(path: str | os.PathLike[str]) -> Path:
    """Return a new name for a file that is not whole yet: hidden, in the folder of ``path``."""
    final = Path(path)
    return final.with_name(f".{final.name}.{os.urandom(8).hex()}.partial")


@contextlib.contextmanager
def flushed(flush: Callable[[], None]) -> Iterator[threading.Lock]:
    """Call ``flush`` from another thread every ``FLUSH_S`` seconds, as long as the block runs.

    The lock that the block gets is held meanwhile, so the block holds it to write. An error of ``flush`` ends the
    thread: the next write to the same file, or its end, meets the error again.
    """
    lock, is_over = threading.Lock(), False

    def look(_: bool) -> float | None:
        with contextlib.suppress(OSError, FeedError, ValueError), lock:
            if not is_over:
                flush()
                return FLUSH_S
        return None

    rounds = Rounds(look, FLUSH_S, "strand-flush")
    try:
        rounds.start()
        yield lock
    finally:
        is_over = True
        rounds.end()


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], partial: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, compressed when the name ends in ``.gz`` (isal with the extra ``gzip``, else zlib) or in
    ``.zst`` (extra ``zstd``).

    It is written under a temporary name in the same folder. When the block ends it is flushed to the disk and renamed,
    replacing what had the name; when the block raises, it is removed and what had the name stays. A process that is
    forked meanwhile has no part in it. ``partial``: the temporary name, of ``partial_path``; None: a new one.

    Raises FeedError when it cannot be created or written, ConfigurationError for a name that promises another packing.
    """
    final = Path(path)
    if is_url(final):
        with _uploaded(url_of(final), final.suffix.lower()) as file:
            yield file
        return
    if final.suffix.lower() in _UNWRITTEN:
        raise ConfigurationError(
            f"{final}: {final.suffix} files cannot be written: end the name in .gz or .zst, or do not compress"
        )
    if not final.name:
        raise FeedError("cannot be written: it is a folder", path=final)
    temporary = partial_path(final) if partial is None else partial
    ours = os.getpid()
    try:
        try:
            # A signal that ends the program may come as soon as the file is there.
            with cast(BinaryIO, temporary.open("xb")) as raw:
                _being_written.add(raw)
                if final.is_dir():
                    raise IsADirectoryError(None, "it is a folder")
                # Renaming would put a file in the place of /dev/null.
                if final.exists() and not final.is_file():
                    raise OSError(None, "it is a device, a pipe or a socket, and stays one")
                packing = _WRITERS.get(final.suffix.lower())
                if packing is not None:
                    with packing(raw) as compressed:
                        yield compressed
                else:
                    yield raw
                raw.flush()
                if os.getpid() == ours:
                    os.fsync(raw.fileno())
            if os.getpid() == ours:
                temporary.replace(final)
        finally:
            if os.getpid() == ours:
                temporary.unlink(missing_ok=True)
        _sync_folder(final.parent)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError) and not final.parent.is_dir()
        why = f"there is no folder {final.parent}" if is_missing else error.strerror or error
        raise FeedError(f"cannot be written: {why}", path=final) from error


@contextlib.contextmanager
def _uploaded(url: str, suffix: str) -> Iterator[BinaryIO]:
    """A temporary file that becomes an object of a store when the block ends, and nothing when it raises."""
    import tempfile  # it loads a dozen modules, which no file on disk needs

    check_target(url)
    if suffix in _UNWRITTEN:
        raise ConfigurationError(f"{url}: {suffix} files cannot be written: end the name in .gz or .zst")
    with tempfile.TemporaryFile() as raw:
        packing = _WRITERS.get(suffix)
        if packing is not None:
            with packing(cast(BinaryIO, raw)) as compressed:
                yield compressed
        else:
            yield cast(BinaryIO, raw)
        raw.flush()
        put(url, cast(BinaryIO, raw), raw.seek(0, os.SEEK_END))


def _sync_folder(folder: Path) -> None:
    """Syncs a folder. Without it the new name could be lost in a crash, though the bytes are there."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
