"""Arrow IPC files and streams as record batches of the columns asked for."""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.parquet.limits import Expansion
from strand.feeds.formats.parquet.messages import CONTINUATION, FramedReader, blocks_of, check_blocks
from strand.feeds.formats.parquet.source import ArrowSource, KeepsGroup, first_line, names_of, needs_its_end
from strand.feeds.io.bytestream import InflateLimits, InputStream
from strand.feeds.io.streams import RawStream, open_stream

__all__ = ["ARROW_MAGIC", "IpcSource", "is_arrow_stream"]

ARROW_MAGIC: Final = b"ARROW1\0\0"
_ARROW_TAIL: Final = b"ARROW1"
_END_OF_STREAM: Final = CONTINUATION + bytes(4)
_PADDING: Final = 64
_MAX_SCHEMA: Final = 1 << 24
_BUFFER: Final = 1 << 18
_PIECE: Final = 1 << 20


def is_arrow_stream(head: bytes) -> bool:
    """Tells whether bytes begin as an Arrow IPC stream does: a mark, then the length of the schema's message."""
    if len(head) < 16 or not head.startswith(CONTINUATION):
        return False
    length = int.from_bytes(head[4:8], "little")
    return 0 < length <= _MAX_SCHEMA and length % 8 == 0


class _Reader(io.RawIOBase):
    """An ``InputStream`` as a file object for pyarrow. Keeps the last bytes, and the stream's own fault."""

    def __init__(self, stream: InputStream) -> None:
        self._stream = stream
        self.fault: FeedError | None = None  # the stream's, or what was found in it
        self.tail = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes, or fewer at the end. A length that a damaged file claims takes no memory by itself."""
        pieces = bytearray()
        while size < 0 or len(pieces) < size:
            piece = bytearray(_PIECE if size < 0 else min(_PIECE, size - len(pieces)))
            got = self.readinto(piece)
            if got == 0:
                break
            pieces += piece[:got]
        return bytes(pieces)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            got = self._stream.readinto(view)
        except FeedError as error:
            self.fault = error
            raise OSError(str(error)) from error
        if got:
            self.tail = (self.tail + bytes(view[max(0, got - 16) : got]))[-16:]
        return got


class IpcSource(ArrowSource):
    """An Arrow IPC file (Feather 2) or stream, read from its start to its end: compressed ones and pipes too.

    A file begins with a stream, as the format has it; polars' begin with the schema alone (2.1 does), and what is in
    them has to be looked up in the index at their end.
    """

    def __init__(self, path: Path | str, limits: InflateLimits | None) -> None:
        self._path = path
        self._limits = limits
        with open_stream(path, limits=limits) as stream:
            head = stream.head(16)
            odd = len(head) == 16 and head.startswith(ARROW_MAGIC) and head[8:12] != CONTINUATION
            self._by_index = odd and isinstance(stream, RawStream)
            if not self._by_index:
                try:
                    self.schema = self._begin(stream, Expansion(limits, path))[0].schema
                except FormatError as error:
                    if not odd:
                        raise
                    raise needs_its_end("an Arrow file whose schema stands alone", stream, path) from error
        if self._by_index:
            with self._indexed() as reader:
                self.schema = reader.schema
        self.names = names_of(self.schema, path)
        self.metadata = self.schema.metadata or {}

    def batches(
        self, columns: Sequence[str], batch_rows: int, keeps: KeepsGroup, texts: Sequence[str] = ()
    ) -> Generator[tuple[int, Any], None, None]:
        del keeps, texts  # there are no statistics to ask about
        row = 0
        for whole in self._by_their_index() if self._by_index else self._in_turn():
            chosen = whole.select(list(columns))
            self._check(chosen, row)
            for first in range(0, chosen.num_rows, batch_rows):
                part = chosen.slice(first, batch_rows)
                yield row, part
                row += part.num_rows

    def _in_turn(self) -> Generator[Any, None, None]:
        with open_stream(self._path, limits=self._limits) as stream:
            reader, file, is_file = self._begin(stream, Expansion(self._limits, self._path))
            while (whole := self._next(reader, file)) is not None:
                yield whole
            self._check_end(file, stream, is_file)

    def _by_their_index(self) -> Generator[Any, None, None]:
        import pyarrow as pa

        with self._indexed() as reader:
            for i in range(reader.num_record_batches):
                try:
                    whole = reader.get_batch(i)
                except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
                    raise self._fault(error, None) from None
                yield whole

    @contextlib.contextmanager
    def _indexed(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.ipc

        # Not mapped: a mapped file that shrinks kills the process.
        with contextlib.ExitStack() as opened:
            try:
                file = opened.enter_context(pa.OSFile(os.fspath(self._path)))
                file.seek(max(0, file.size() - len(_ARROW_TAIL)))
                if file.read() != _ARROW_TAIL:
                    raise TruncatedFeedError(
                        "ends before the mark that ends an Arrow file, and can only be read by the index there; get "
                        "the whole file",
                        path=self._path,
                        offset=file.size(),
                    )
                self._check_index(file)
                file.seek(0)
                reader = opened.enter_context(pyarrow.ipc.open_file(file))
            except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
                raise self._fault(error, None) from None
            yield reader

    def _check_index(self, file: Any) -> None:
        """The messages that the index names lie one behind the other, the last one before the index: a damaged one may
        name fewer than there are, and pyarrow would not miss them."""
        end = file.size() - len(_ARROW_TAIL) - 4
        file.seek(end)
        length = int.from_bytes(file.read(4), "little", signed=True)
        start = end - length
        if not len(ARROW_MAGIC) <= start < end:
            raise FormatError(f"its index cannot be {length} bytes long", path=self._path, offset=end)
        file.seek(start)
        try:
            blocks = blocks_of(file.read(length))
        except (struct.error, ValueError):
            raise FormatError("its index cannot be read", path=self._path, offset=start) from None
        # The schema precedes the first one; the index has it too.
        begins = [offset for offset, _, _ in blocks] + [start]
        gaps = [begins[i + 1] - sum(blocks[i]) for i in range(len(blocks))]
        if begins[0] > len(ARROW_MAGIC) + length + _PADDING or not all(0 <= gap < _PADDING for gap in gaps):
            raise FormatError("its index does not name all that is in it", path=self._path, offset=start)
        check_blocks(file, blocks, Expansion(self._limits, self._path, file.size()))

    def _begin(self, stream: InputStream, expansion: Expansion) -> tuple[Any, _Reader, bool]:
        import pyarrow as pa
        import pyarrow.ipc

        is_file = stream.head(8).startswith(ARROW_MAGIC)
        if is_file:  # what follows the magic is a stream, and then an index of it
            stream.readinto(memoryview(bytearray(8)))
        file = _Reader(stream)
        try:
            framed = FramedReader(file, expansion)
            return pyarrow.ipc.open_stream(pa.PythonFile(framed, mode="r")), file, is_file
        except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
            raise self._fault(error, file) from None

    def _next(self, reader: Any, file: _Reader) -> Any:
        import pyarrow as pa

        try:
            return reader.read_next_batch()
        except StopIteration:
            return None
        except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
            raise self._fault(error, file) from None

    def _check(self, batch: Any, row: int) -> None:
        """Checks offsets and indices: pyarrow trusts those of the file, and would read outside its buffers."""
        import pyarrow as pa

        try:
            batch.validate(full=True)
        except (ValueError, pa.ArrowException) as error:
            raise FormatError(
                f"the rows from {row + 1} on cannot be read as Arrow: {first_line(error)}", path=self._path
            ) from None

    def _fault(self, error: Exception, file: _Reader | None) -> FeedError:
        if file is not None and file.fault is not None:
            return file.fault
        text = first_line(error)
        # pyarrow raises the same error for every fault: only its text tells a short read.
        kind = TruncatedFeedError if "xpected" in text and "read" in text else FormatError
        return kind(f"cannot be read as Arrow: {text}", path=self._path)

    def _check_end(self, file: _Reader, stream: InputStream, is_file: bool) -> None:
        """Checks the end: pyarrow does not notice a file that is cut between two messages, nor a second file appended
        to it."""
        ended = stream.bytes_out
        try:
            while file.readinto(bytearray(_BUFFER)):
                pass
        except OSError as error:
            raise self._fault(error, file) from None
        rest = stream.bytes_out - ended
        ends = file.tail.endswith(_ARROW_TAIL) if is_file else file.tail.endswith(_END_OF_STREAM)
        if not ends:
            raise TruncatedFeedError(
                "ends before the mark that ends an Arrow file; get the whole file, or keep what was read",
                path=self._path,
                offset=stream.bytes_out,
            )
        # Behind a file's last message lie an index, its length, and the mark.
        index = int.from_bytes(file.tail[-10:-6], "little") + 10 if is_file else 0
        if not index <= rest < index + _PADDING:
            raise FormatError(
                f"{rest} bytes follow the last message, and are not part of an Arrow file",
                path=self._path,
                offset=ended,
            )
