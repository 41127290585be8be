"""Recording of a WebSocket, written so that a replay gives the same ticks: its entries, and what writes it.

A recording is lines, each ended by one ``\n`` and led by the CRC-32 of what is behind it, eight hexadecimal digits and
a space. The first line has ``strand-websocket 1 `` before that, the 1 being the format's version. Its CRC is of a JSON
object with what made the ticks: ``profile`` (strand.feeds.formats.json.profile), ``on_bad_record``, ``symbols``,
``max_symbols`` and ``max_message_bytes`` as the live feed had them, and
``url``, where it was connected to. Each other line is a time in ns since the UNIX epoch, a space, a word, a space, and
the rest:

    542fd532 1700000000123456789 text {"type": "trade", "data": []}

``text``          a message of text, as it came, UTF-8
``binary``        a message of bytes, as it came
``text64``, ``binary64``    the same in base64: a message with a line's end in it
``connected``, ``disconnected``    what was said of it, a JSON text
``clock``         nothing: no tick had come, and the feed's time went on to this one
``end``           how many lines are before it; the last one

``zgrep``, ``cut`` and the like read it, and compression by whatever tool leaves it what it is.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Self, cast

from strand.errors import ConfigurationError, FormatError, TruncatedFeedError
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.io.atomic_write import atomic_write, flushed
from strand.feeds.io.streams import InputStream
from strand.fixed import dataclass
from strand.validate import check_depth, is_whole

_MAX_EVENT_TEXT: Final = 256


class MessageRecorder:
    """Writes a recording; it appears under its name when the feed ends, however it ends.

    A feed that is interrupted leaves what had come in by then. Only what cannot be written leaves nothing: FeedError.
    A process that is killed leaves ``.FILE.*.partial``, a recording of all but about the last second without its end.
    Raises ConfigurationError for what no reader would take again.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self.path, self._head = Path(path), header.line()
        self._stack = contextlib.ExitStack()
        self._lock: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        self._file: BinaryIO | None = None
        self._lines = self._latest_ns = self._flushed = 0

    def __enter__(self) -> Self:
        self._file = self._stack.enter_context(atomic_write(self.path))
        self._write(self._head)
        self._lock = self._stack.enter_context(flushed(self._flush))
        return self

    def _flush(self) -> None:
        if self._file is not None and self._flushed < self._lines:
            self._file.flush()
            self._flushed = self._lines

    def message(self, data: str | bytes, now_ns: int) -> None:
        """A message as it came. Raises FeedError where it cannot be written."""
        self._latest_ns = now_ns
        self._write(message_line(data, now_ns))

    def event(self, kind: Literal["connected", "disconnected"], text: str, now_ns: int) -> None:
        """Records that a connection was made, or lost. Raises as ``message`` does."""
        self._latest_ns = now_ns
        self._write(entry_line(now_ns, kind.encode(), json.dumps(text[:_MAX_EVENT_TEXT]).encode()))

    def clock(self, now_ns: int) -> None:
        """Records that time has passed without a tick. Raises as ``message`` does."""
        self._latest_ns = now_ns
        self._write(entry_line(now_ns, b"clock", b""))

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        try:
            with self._lock:
                self._file.write(line)
                self._lines += 1
        except OSError as error:
            self._file = None
            self._stack.pop_all().__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._write(entry_line(self._latest_ns, b"end", b"%d" % self._lines))
        self._stack.close()


#: Bytes of a message, and symbols, of a feed that can be recorded: the most that a file can make its reader reserve.
LONGEST_MESSAGE: Final = 16 << 20
MAX_SYMBOLS: Final = 1 << 20
MAGIC: Final = b"strand-websocket "
_VERSION: Final = b"1"
_LONGEST_HEADER: Final = 16 << 20
_LATEST_NS: Final = (1 << 63) - 1

Word = Literal["text", "binary", "clock", "connected", "disconnected", "end"]


def _summed(body: bytes) -> bytes:
    return b"%08x %s" % (zlib.crc32(body), body)


def longest_line(max_message_bytes: int) -> int:
    """Bytes of a line, at most: of a message in base64, and all else that is in one."""
    return 4096 + (max_message_bytes + 2) // 3 * 4


@dataclass(frozen=True, slots=True)
class Header:
    """Content of the first line: the options by which the live feed made ticks of messages, and the URL of its
    connection."""

    profile: JsonProfile
    url: str
    on_bad_record: Literal["raise", "skip"]
    symbols: Sequence[str]
    max_symbols: int
    max_message_bytes: int

    def line(self) -> bytes:
        """Raises ConfigurationError for what no reader would take again."""
        for name, value, maximum in (
            ("max_message_bytes", self.max_message_bytes, LONGEST_MESSAGE),
            ("max_symbols", self.max_symbols, MAX_SYMBOLS),
        ):
            if value > maximum:
                raise ConfigurationError(name, f"{value:,} is above {maximum:,}, the most that can be recorded")
        told = {
            "profile": self.profile.source, "url": self.url, "on_bad_record": self.on_bad_record,
            "symbols": list(self.symbols), "max_symbols": self.max_symbols, "max_message_bytes": self.max_message_bytes,
        }  # fmt: skip
        line = MAGIC + _VERSION + b" " + _summed(json.dumps(told, allow_nan=False).encode()) + b"\n"
        if len(line) > _LONGEST_HEADER:
            raise ConfigurationError(
                "record", f"profile and symbols take {len(line):,} bytes; at most {_LONGEST_HEADER:,} are allowed"
            )
        return line


def read_header(stream: InputStream, path: str | Path) -> tuple[Header, int]:
    """The first line, and how many bytes it has. Raises FormatError, TruncatedFeedError."""
    line, buffer = bytearray(), memoryview(bytearray(1 << 16))
    while (end := line.find(b"\n", max(len(line) - len(buffer), 0))) < 0:
        if len(line) > _LONGEST_HEADER:
            raise FormatError(f"the first line is longer than {_LONGEST_HEADER:,} bytes", path=path, offset=0, line=1)
        got = stream.readinto(buffer)
        if not got:
            raise TruncatedFeedError("ends inside its first line", path=path, offset=len(line), line=1)
        line += buffer[:got]
    words = bytes(line[:end]).removeprefix(MAGIC).split(b" ", 2)
    if not line.startswith(MAGIC) or len(words) != 3:
        raise FormatError("is not a recording of a WebSocket feed", path=path, offset=0, line=1)
    version, _, body = words
    if version != _VERSION:
        shown = version[:20].decode("ascii", "replace")
        raise FormatError(
            f"is of version {shown!r} of the format, and this reader knows version {_VERSION.decode()}",
            path=path, offset=len(MAGIC), line=1,
        )  # fmt: skip
    try:
        if _summed(body) != b" ".join(words[1:]):
            raise ValueError("its checksum is wrong")
        check_depth(body)
        return _checked(json.loads(body)), end + 1
    except (ValueError, RecursionError) as error:  # ConfigurationError, of the profile, is a ValueError too
        raise FormatError(f"the first line cannot be used: {error}", path=path, offset=0, line=1) from error


def _checked(told: Any) -> Header:
    """Raises ValueError for a value that the format does not allow."""
    if not isinstance(told, Mapping):
        raise ValueError("it is not an object")
    url, on_bad_record, symbols = told.get("url"), told.get("on_bad_record"), told.get("symbols")
    if not isinstance(url, str):
        raise ValueError(f"url: {url!r} is not text")
    if on_bad_record not in ("raise", "skip"):
        raise ValueError(f"on_bad_record: {on_bad_record!r} is neither 'raise' nor 'skip'")
    if not isinstance(symbols, list) or not all(isinstance(name, str) for name in symbols):
        raise ValueError("symbols: is not a list of names")
    for key, maximum in (("max_symbols", MAX_SYMBOLS), ("max_message_bytes", LONGEST_MESSAGE)):
        value = told.get(key)
        if not is_whole(value) or not 1 <= value <= maximum:
            raise ValueError(f"{key}: {value!r} is not from 1 to {maximum:,}")
    if len(symbols) > told["max_symbols"]:
        raise ValueError(f"symbols: {len(symbols):,} of them, and max_symbols is {told['max_symbols']:,}")
    source = told.get("profile")
    if not isinstance(source, Mapping):
        raise ValueError("profile: is not an object")
    return Header(
        read_profile(source),
        url,
        on_bad_record,
        tuple(symbols),
        told["max_symbols"],
        told["max_message_bytes"],
    )


class Entry(NamedTuple):
    """A line behind the first: a time in ns since the UNIX epoch, and by word a message (str or bytes), a text, or how
    many lines there were."""

    time_ns: int
    word: Word
    value: Any


def entry_line(time_ns: int, word: bytes, rest: bytes) -> bytes:
    """A line."""
    return _summed(b"%d %s %s" % (time_ns, word, rest)) + b"\n"


def message_line(data: str | bytes, time_ns: int) -> bytes:
    """The line of a message: its text, or its bytes, unchanged."""
    word, rest = (b"text", data.encode()) if isinstance(data, str) else (b"binary", data)
    if b"\n" in rest:
        word, rest = word + b"64", base64.b64encode(rest)
    return entry_line(time_ns, word, rest)


def read_entry(line: bytes) -> Entry:
    """Reads the entry of a line without its end. Raises ValueError."""
    words = line[9:].split(b" ", 2)
    if len(words) != 3 or line[:9] != b"%08x " % zlib.crc32(memoryview(line)[9:]):
        raise ValueError("is damaged: its checksum is wrong")
    time, word, rest = words
    # Ordered before it is converted: a number of a million digits takes time.
    if not time.isdigit() or len(time) > 19 or int(time) > _LATEST_NS:
        raise ValueError("does not begin with a time")
    kind = word.decode("latin-1")
    value: Any = rest
    if kind in ("text64", "binary64"):
        kind = kind.removesuffix("64")
        try:
            value = base64.b64decode(rest, validate=True)
        except binascii.Error as error:
            raise ValueError(f"is not base64: {error}") from None
    if kind == "text":
        value = value.decode()
    elif kind in ("connected", "disconnected"):
        check_depth(rest)
        value = json.loads(rest)
        if not isinstance(value, str):
            raise ValueError("says no text")
    elif kind == "clock":
        if rest:
            raise ValueError("says more than the time")
    elif kind == "end":
        if not rest.isdigit() or len(rest) > 19:
            raise ValueError("does not say a number of lines")
        value = int(rest)
    elif kind != "binary":
        raise ValueError(f"is of an unknown kind, {kind[:20]!r}")
    return Entry(int(time), cast(Word, kind), value)
