"""Recording of a WebSocket, written so that a replay gives the same ticks, and its reader.

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
``end``           how many lines are before it; the last one

``zgrep``, ``cut`` and the like read it, and compression by whatever tool leaves it what it is.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Self

from strand.errors import FormatError, TruncatedFeedError
from strand.feeds.base import FeedInfo
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.reader import JsonFileFeed
from strand.feeds.formats.json.ticks import FeedEvent, JsonTicks
from strand.feeds.formats.websocket.lines import (
    LONGEST_MESSAGE,
    MAGIC,
    MAX_SYMBOLS,
    Entry,
    Header,
    Line,
    entry_line,
    longest_line,
    message_line,
    read_entry,
    read_header,
)
from strand.feeds.io.atomic_write import atomic_write, flushed
from strand.feeds.io.streams import STANDARD_INPUT, InflateLimits, open_stream
from strand.feeds.mapping.options import check_options
from strand.validate import whole

__all__ = ["LONGEST_MESSAGE", "MAX_SYMBOLS", "MessageRecorder", "RecordedMessages", "recognise"]

_MAX_EVENT_TEXT: Final = 256


def recognise(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is a recording of a WebSocket feed."""
    return head.startswith(MAGIC)


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


class RecordedMessages(JsonFileFeed):
    """A recording as the ticks that were live: the same receive times, sequences and symbols in the same order.

    ``profile``: read the messages by this one instead of the recording's: a ``JsonProfile``, a dict, or the path of a
    TOML file. ``on_bad_record``: at a damaged line, or a message that the profile cannot read, ``"raise"`` FormatError
    or ``"skip"``; messages that the live feed passed over are passed over again either way. ``batch_ticks``: a batch
    ends with the message that makes it so many or more. ``limits``: what a compressed file may expand to.

    ``events`` has the newest of the live feed's. A file without its last line raises TruncatedFeedError behind all that
    it has. Raises FeedError, FormatError and TruncatedFeedError with byte and line, ConfigurationError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        profile: JsonProfile | Mapping[str, Any] | str | Path | None = None,
        on_bad_record: Literal["raise", "skip"] = "raise",
        batch_ticks: int = 4_096,
        limits: InflateLimits | None = None,
    ) -> None:
        check_options(on_bad_record=on_bad_record)
        self._on_bad_record = on_bad_record
        named: str | Path = STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path)
        with open_stream(named, limits=limits) as stream:
            self._header, first = read_header(stream, named)
            self._compression = stream.compression
        self._profile = self._header.profile
        if profile is not None:
            self._profile = profile if isinstance(profile, JsonProfile) else read_profile(profile)
        super().__init__(
            named,
            first=first,
            longest=longest_line(self._header.max_message_bytes),
            open_end=False,
            max_symbols=self._header.max_symbols,
            batch_ticks=whole("batch_ticks", batch_ticks, 1),
            limits=limits,
        )

    def _none_yet(self) -> JsonTicks:
        self._ended = False
        self._last: Line | None = None
        return JsonTicks(
            self._profile,
            str(self._path),
            on_bad_record="skip" if self._header.on_bad_record == "skip" else self._on_bad_record,
            skipped=self.skipped,
            symbols=self._header.symbols,
            max_symbols=self._header.max_symbols,
        )

    @property
    def info(self) -> FeedInfo:
        details = {"url": self._header.url, "compression": self._compression, **self._ticks.examples}
        return self._profile.info("websocket", str(self._path), details)

    @property
    def events(self) -> Sequence[FeedEvent]:
        """The newest 1,000, the latest last: connections made and lost, and gaps, at their times."""
        return self._ticks.events

    def statistics(self) -> dict[str, int]:
        """Counts as ``WebSocketFeed.statistics`` has them."""
        return self._ticks.statistics()

    def _take(self, line: Line | None) -> bool:
        if line is None:
            if not self._ended:
                offset, number = (self._first, 2) if self._last is None else (self._last.after, self._last.number + 1)
                raise TruncatedFeedError(
                    "ends without the line that a recording ends with", path=self._path, offset=offset, line=number
                )
            return False
        self._last = line
        try:
            if self._ended:
                raise ValueError("comes after the recording's end")
            if line.text is None:
                raise ValueError(f"is longer than lines of messages of {self._header.max_message_bytes:,} bytes are")
            entry = read_entry(line.text)
            if entry.word == "end":
                self._ended = True
                if entry.value != line.number - 1:
                    raise ValueError(
                        f"says that {entry.value:,} lines are before it, but there are {line.number - 1:,}"
                    )
        except (ValueError, RecursionError) as error:
            self._refuse(line, str(error))
        else:
            self._handle(entry, line)
        return True

    def _handle(self, entry: Entry, line: Line) -> None:
        match entry.word:
            case "connected" | "disconnected":
                self._ticks.note(entry.word, entry.time_ns, entry.value)
            case "text" | "binary":
                self._ticks.take(entry.value, entry.time_ns, offset=line.offset, line=line.number)

    def _refuse(self, line: Line, why: str) -> None:
        if self._on_bad_record == "raise":
            raise FormatError(f"the line {why}", path=self._path, offset=line.offset, line=line.number)
        self.skipped.add("damaged line", offset=line.offset, line=line.number, text=why)
