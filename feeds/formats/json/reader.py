"""JSON messages as ticks, as a profile says: the same for files of lines, a live WebSocket, and a recording of one.

A line is a JSON value, or a whole number of ns since the UNIX epoch, a space and a JSON value. Messages are parsed one
by one in Python: ten to forty thousand a second.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from strand.binding.columns import DECIMAL
from strand.binding.columns import Numbers as TextNumbers
from strand.binding.columns import whole as as_they_are
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, Skipped, TickBatch
from strand.feeds.formats.json.profile import (
    BadRecord,
    Chain,
    JsonProfile,
    Numbers,
    Record,
    Step,
    at_path,
    read_profile,
)
from strand.feeds.io.prefetch import Chunks, read_chunks
from strand.feeds.io.streams import STANDARD_INPUT, InflateLimits, InputStream, open_stream
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.columns import Assembly
from strand.feeds.mapping.options import MEND, check_options
from strand.feeds.mapping.rules import UNDEFINED
from strand.feeds.mapping.values import ONLY_NS, TIME_POWERS, said_unit
from strand.ticks import FIELDS, KIND_ORDER, KIND_QUOTE, KIND_STATUS, MAX_SEQUENCE, UNDEF_PRICE, limits
from strand.validate import whole

__all__ = ["EVENTS", "FeedEvent", "JsonLinesFeed", "JsonTicks", "Line", "Lines", "MessageFeed", "MessageFile", "parsed"]

_CHUNK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Line:
    """A line: where it begins, where the next one does, its number from 1, and its text without the line end. The text
    is None for a line that is too long."""

    offset: int
    after: int
    number: int
    text: bytes | None


def whole_lines(
    chunks: Chunks, first: int, longest: int, path: str | Path, *, open_end: bool = False
) -> Iterator[Line]:
    """The lines behind the first one, which has so many bytes (0: all of them).

    Raises TruncatedFeedError for a last line without an end, unless it may have none (``open_end``), and what reading
    raises, after every whole line.
    """
    at, begin, number, endless = 0, first, 2 if first else 1, False
    rest = memoryview(b"")
    while (data := chunks.next(rest)) is not None:
        text, start = bytes(data), max(begin - at, 0)
        while (end := text.find(b"\n", start)) >= 0:
            line = None if endless or end - start > longest else text[start:end]
            after = at + end + 1
            yield Line(begin, after, number, line)
            begin, start, number, endless = after, end + 1, number + 1, False
        # The start of the last line is carried over, unless it is too long.
        endless = endless or len(text) - start > longest
        kept = 0 if endless else max(len(text) - start, 0)
        rest = data[len(text) - kept :]
        at += len(text) - kept
    if at + len(rest) > begin and open_end:
        yield Line(begin, at + len(rest), number, None if endless else bytes(rest))
    elif at + len(rest) > begin:
        raise TruncatedFeedError("ends inside a line", path=path, offset=at + len(rest), line=number)


class Lines:
    """A file of lines, read from its start as often as asked for.

    Args:
        path: The file.
        limits: How far a compressed file may expand.
        first: The bytes of a first line that is passed over; 0: there is none.
        longest: The bytes of a line, at most.
        open_end: Whether the last line may lack its end.
    """

    def __init__(
        self, path: str | Path, limits: InflateLimits | None, *, first: int, longest: int, open_end: bool
    ) -> None:
        self.path, self._limits = path, limits
        self.first, self._longest, self._open_end = first, longest, open_end
        self._chunks: Chunks | None = None

    def read(self) -> Generator[Line, None, None]:
        """The lines."""
        stream = open_stream(self.path, limits=self._limits)
        # A line that is longer than a chunk is copied with each: so no chunk is a small part of one.
        chunk_bytes = max(_CHUNK_BYTES, self._longest // 4)
        chunks = self._chunks = read_chunks(stream, chunk_bytes=chunk_bytes, headroom=self._longest)
        try:
            yield from whole_lines(chunks, self.first, self._longest, self.path, open_end=self._open_end)
        finally:
            chunks.close()

    def close(self) -> None:
        """Ends the reading under way."""
        if self._chunks is not None:
            self._chunks.close()


_LONGEST_LINE: Final = 1 << 20
#: Bytes of a file that is one JSON value: as Python's objects it takes ten times that.
_LONGEST_DOCUMENT: Final = 1 << 28
_LIST: Final = re.compile(rb"\[\s*\{")
_DOCUMENT: Final = (
    "a file that is one JSON value, as a list of messages, is read by document = true in its profile, or has to have "
    "one message on each line"
)
_BEGIN: Final = re.compile(rb"[{\[]")


class MessageFeed(BaseFeed):
    """Messages as ticks. Names, counts and events are of the ticks made so far."""

    _ticks: JsonTicks
    _max_symbols: int

    @property
    def symbols(self) -> Sequence[str]:
        """Names by index, in the order in which they came."""
        return self._ticks.names

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    @property
    def events(self) -> Sequence[FeedEvent]:
        """The newest events, at most ``EVENTS``, the latest last."""
        return self._ticks.events

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``other_messages``; ``connected``, ``disconnected`` and ``gap`` count events,
        ``gap_messages`` what is missing in them, ``not_rising`` sequences that did not rise."""
        return self._ticks.statistics()


class MessageFile(MessageFeed):
    """A file of lines with messages. A reader calls ``_opened`` and ``_begin`` once, and says what a line is."""

    def _opened(
        self, path: str | os.PathLike[str], limits: InflateLimits | None, on_bad_record: object, batch_ticks: int
    ) -> InputStream:
        """The file's bytes, once the options are checked."""
        self._skips = check_options(on_bad_record=on_bad_record).skips
        self._batch_ticks = whole("batch_ticks", batch_ticks, 1)
        self._path: str | Path = STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path)
        stream = open_stream(self._path, limits=limits)
        self._compression = stream.compression
        return stream

    def _begin(
        self,
        profile: JsonProfile,
        lines: Lines,
        symbols: Sequence[str],
        max_symbols: int,
        on_bad_message: Literal["raise", "skip"],
    ) -> None:
        self._profile, self._lines, self._max_symbols = profile, lines, max_symbols
        self._none_yet = functools.partial(
            JsonTicks, profile, str(self._path), on_bad_record=on_bad_message, symbols=symbols, max_symbols=max_symbols
        )
        self._ticks = self._none_yet(skipped=self.skipped)

    def close(self) -> None:
        super().close()
        self._lines.close()

    def batches(self) -> Iterator[TickBatch]:
        """The file from its start. An error comes behind the ticks before it."""
        self._check_open()
        self.skipped.clear()
        ticks = self._ticks = self._none_yet(skipped=self.skipped)
        fault: FeedError | None = None
        more, ended = True, object()
        with contextlib.closing(self._steps()) as steps:
            while more and fault is None:
                try:
                    while more and ticks.pending < self._batch_ticks:
                        more = next(steps, ended) is not ended
                except FeedError as error:
                    fault = error
                if ticks.pending:
                    yield ticks.batch()
        if fault is not None:
            raise fault

    def _steps(self) -> Generator[None, None, None]:
        """Takes the messages, one or a line of them per step."""
        raise NotImplementedError

    def _taken(self) -> Generator[None, None, None]:
        """Takes the lines, one per step."""
        with contextlib.closing(self._lines.read()) as lines:
            for line in lines:
                self._take(line)
                yield

    def _take(self, line: Line) -> None:
        """Takes a line's message, or refuses the line. Raises FormatError and FeedError."""
        raise NotImplementedError

    def _refuse(self, line: Line, why: str) -> None:
        if not self._skips:
            raise FormatError(f"the line {why}: {MEND}", path=self._path, offset=line.offset, line=line.number)
        self.skipped.add("damaged line", offset=line.offset, line=line.number, text=why)


class JsonLinesFeed(MessageFile):
    """Reads a file of JSON lines as batches of ticks, in the order of its lines.

    With the key ``document`` in its profile, the file is one JSON value, read into memory: a list of messages, or one.

    ``ts_recv`` is the time that stands before the message in its line, or the time of its event if there is none.
    ``sequence`` is the record's place if the profile has no field for it.

    Args:
        path: The file.
        profile: A ``JsonProfile``, a dict, or the path of a TOML file; it has to be given.
        size_unit: What 1 in a tick's ``size`` is worth, in place of the profile's ``size_unit``; None: the profile's.
        inexact: ``"raise"`` or ``"round"``, in place of the profile's ``inexact``; None: the profile's.
        zone: The time zone of texts that do not say theirs, in place of the profile's; None: the profile's.
        max_symbols: The greatest number of symbols.
        on_bad_record: What to do with a line that is no JSON, or a message that the profile cannot read: ``"raise"``
            FormatError, or ``"skip"`` it. Messages that no rule of the profile is for are skipped and counted either
            way.
        batch_ticks: A batch ends with the message that makes it so many ticks or more.
        limits: How far a compressed file may expand; None: ``InflateLimits()``.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        FormatError: If a line cannot be read, after every tick before it; it names byte and line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        profile: JsonProfile | Mapping[str, Any] | str | Path | None = None,
        size_unit: str | Decimal | None = None,
        inexact: Literal["raise", "round"] | None = None,
        zone: str | None = None,
        max_symbols: int = 65_536,
        on_bad_record: Literal["raise", "skip"] = "raise",
        batch_ticks: int = 4_096,
        limits: InflateLimits | None = None,
    ) -> None:
        super().__init__()
        check_options(inexact=inexact)
        if profile is None:
            raise ConfigurationError("profile", "give a profile that says which messages to read (docs/feeds/json.md)")
        source = profile.source if isinstance(profile, JsonProfile) else profile
        read = read_profile(source, size_unit=size_unit, inexact=inexact, time_zone=zone)
        self._stamps = TextTimes("stamp", None, read.zone)
        self._limits = limits
        self._opened(path, limits, on_bad_record, batch_ticks).close()
        lines = Lines(self._path, limits, first=0, longest=_LONGEST_LINE, open_end=True)
        self._begin(read, lines, (), whole("max_symbols", max_symbols, 1), on_bad_record)

    def _steps(self) -> Generator[None, None, None]:
        document = self._profile.document
        return self._of_lines() if document is None else self._of_document(document)

    def _of_lines(self) -> Generator[None, None, None]:
        yield from self._taken()
        if self._ticks.waits:
            raise FormatError(
                "no message has a time of receipt or a ts_event, which a snapshot without a time needs: map one in the "
                "profile",
                path=self._path,
            )

    def _of_document(self, path: tuple[str, ...]) -> Generator[None, None, None]:
        """The messages of a file that is one JSON value: of the list at a path, or the value itself."""
        value = self._whole()
        found = at_path(value, path)
        if path and not isinstance(found, list):
            raise FormatError(f"there is no list at {'.'.join(path)}, which document names", path=self._path)
        for message in found if isinstance(found, list) else [found]:
            self._check_open()
            self._ticks.take_message(message, None)
            yield

    def _whole(self) -> Any:
        with open_stream(self._path, limits=self._limits) as stream:
            data = stream.read(_LONGEST_DOCUMENT + 1)
            if len(data) > _LONGEST_DOCUMENT:
                raise FormatError(
                    f"is more than {_LONGEST_DOCUMENT:,} bytes in one JSON value: make a line of each message, as "
                    "jq -c '.[]' does, and leave document out",
                    path=self._path,
                )
            stream.read(1)  # the fault that ended it
        try:
            return parsed(data.removeprefix(b"\xef\xbb\xbf"))
        except (InvalidOperation, ValueError, RecursionError) as error:
            raise FormatError(f"is not one JSON value, as document says: {error}", path=self._path) from None

    def _received(self, text: bytes) -> tuple[int | None, str | None]:
        """The time before a message, and what is wrong with it."""
        unit = self._profile.received
        if unit == "stamp":
            try:
                return self._stamps.ns(text.decode("ascii", "replace")), None
            except ValueError as error:
                return None, f"begins with {text.decode('utf-8', 'replace')[:80]!r}, which {error}"
        try:
            time = TextNumbers(DECIMAL, TIME_POWERS[unit or "ns"], *limits("ts_recv")).one(text)
        except ValueError:
            cure = 'say another form by received = "us" or "stamp" in the profile'
            return None, f"does not begin with a time in {unit or 'ns'}; {cure}"
        if unit is None and time < ONLY_NS:
            cure = said_unit(time, 'received = "UNIT" in the profile')
            return None, f"does not begin with a time in ns: {cure}"
        return time, None

    @property
    def info(self) -> FeedInfo:
        return self._profile.info("jsonl", str(self._path), {"compression": self._compression, **self._ticks.examples})

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``other_messages``, ``rows_rounded``; of symbols whose profile says that they have
        no gaps ``gap``, ``gap_messages`` and ``not_rising``."""
        return {name: n for name, n in super().statistics().items() if name not in ("connected", "disconnected")}

    def _take(self, line: Line) -> None:
        text = None if line.text is None else line.text.strip().removeprefix(b"\xef\xbb\xbf")
        if text == b"":
            return
        found = None if text is None else _BEGIN.search(text)
        message = b"" if text is None or found is None else text[found.start() :]
        received, why = None, None
        if text is None:
            why = f"is longer than {_LONGEST_LINE:,} bytes; {_DOCUMENT}"
        elif found is None:
            why = f"does not hold a JSON object or list; it may be cut off; {_DOCUMENT}"
        elif found.start():
            received, why = self._received(text[: found.start()].strip())
        elif line.number == 1 and text in (b"[", b"{"):
            why = f"is the start of a JSON value of several lines: {_DOCUMENT}"
        elif line.number == 1 and _LIST.match(text):
            # A list of objects may be a message too; a profile that reads it says so by ``each``.
            self._ticks.hint = f"; {_DOCUMENT}"
        if why is None:
            self._ticks.take(message, received, offset=line.offset, line=line.number)
        else:
            self._refuse(line, why)


#: The newest events that a feed keeps.
EVENTS: Final = 1_000
_COUNTS: Final = (
    "messages", "ticks", "other_messages", "rows_rounded", "connected", "disconnected", "gap", "gap_messages",
    "not_rising", "older_messages", "repeated_after_snapshot", "sequences_left_out",
)  # fmt: skip
#: Kinds of ticks that change books.
_BOOKS: Final = (KIND_ORDER, KIND_QUOTE)
#: The sign of a step in price to a worse level.
_WORSE: Final = {b"B": -1, b"A": 1}
#: Fields that the reader's own ticks take from a record of their message.
_OF_MESSAGE: Final = ("ts_event",)
#: Actions that change one price of a side.
_UPDATES: Final = (b"M", b"A", b"C")
#: The most symbols that a warning names.
_NAMED: Final = 5


def parsed(data: str | bytes) -> Any:
    """JSON, its decimals exact. Raises ValueError, RecursionError and InvalidOperation."""
    try:
        return json.loads(data, parse_float=Decimal)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python makes no integer of more than 4,300 digits of text
        return json.loads(data, parse_float=Decimal, parse_int=Decimal)


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """Something that happened to a feed. ``time_ns``: since the UNIX epoch; of a gap, when what is behind it came.

    ``kind``: ``"connected"``; ``"disconnected"``, after which messages are missing until the next ``"connected"``; or
    ``"gap"``: sequence numbers of a symbol that never came, ``missing`` of them.
    """

    kind: Literal["connected", "disconnected", "gap"]
    time_ns: int
    text: str
    symbol: str | None = None
    missing: int = 0


class _Pending:
    """The fields of a tick to be."""

    __slots__ = ("received", "symbol", "values")

    def __init__(self, symbol: int, values: dict[str, Any], received: int | None) -> None:
        self.symbol, self.values, self.received = symbol, values, received


class JsonTicks:
    """Makes ticks of messages. Keeps the symbols, counts and events so far, and the ticks that nobody has taken yet.

    ``where``: the path that errors name. ``on_bad_record``: whether a message that the profile cannot read is
    FormatError or one of ``skipped``. ``symbols``: names that have their index from the start,
    ``max_symbols`` with those to come.
    """

    def __init__(
        self,
        profile: JsonProfile,
        where: str,
        *,
        on_bad_record: Literal["raise", "skip"],
        skipped: Skipped,
        symbols: Sequence[str],
        max_symbols: int,
        on_event: Callable[[FeedEvent], None] | None = None,
    ) -> None:
        self.names: list[str] = list(symbols)
        self.counts: collections.Counter[str] = collections.Counter()
        self.events: collections.deque[FeedEvent] = collections.deque(maxlen=EVENTS)
        self._profile, self._where = profile, where
        self._on_bad_record, self._skipped, self._on_event = on_bad_record, skipped, on_event
        self._max_symbols = max_symbols
        self._index = {name: at for at, name in enumerate(self.names)}
        #: By the name of a sequence and the symbol.
        self._chains: dict[tuple[str, str], Chain] = {}
        self._connection: Chain | None = None
        self._records: list[_Pending] = []
        #: The latest time of receipt; None: there was none.
        self._latest_ns: int | None = None
        #: Symbols with books; those whose book may lack changes; and those whose book has changed, or ended, so.
        self._with_books: dict[str, None] = {}
        self._doubtful: dict[str, str] = {}
        self._stale: dict[str, str] = {}
        #: By symbol, where the venue bounds its books: the prices of bids and asks.
        self._levels: dict[str, dict[bytes, set[int]]] = {}
        #: End of an error about the next messages.
        self.hint = ""

    @property
    def pending(self) -> int:
        """Ticks that ``batch`` would give: none as long as the first ones wait for a time."""
        return len(self._records) if self._latest_ns is not None else 0

    @property
    def waits(self) -> bool:
        """True if ticks wait for the first message that has a time."""
        return bool(self._records) and self._latest_ns is None

    @property
    def examples(self) -> dict[str, dict[str, str]]:
        """Details of a feed: what its warnings name."""
        stale = self._stale | self._doubtful
        if not stale:
            return {}
        more = f" and {len(stale) - _NAMED:,} more" if len(stale) > _NAMED else ""
        text = f"{', '.join(list(stale)[:_NAMED])}{more}, {next(iter(stale.values()))}"
        return {"examples": {"stale_books": text}}

    def statistics(self) -> dict[str, int]:
        """The counts that feeds report; see ``WebSocketFeed.statistics``."""
        return {name: self.counts[name] for name in _COUNTS} | {"stale_books": len(self._stale | self._doubtful)}

    def take(
        self, data: str | bytes, now_ns: int | None, *, offset: int | None = None, line: int | None = None
    ) -> None:
        """A message's records. ``now_ns``: when it was received, None: at its event's time. ``offset`` and ``line``:
        where it lies in a file.

        Raises FormatError for what the profile cannot read, and FeedError for a symbol too many; the records before
        are kept.
        """
        try:
            message = parsed(data)
        except InvalidOperation:
            self.counts["messages"] += 1
            self._refuse("holds a number with an exponent of 10^18 or more", offset, line)
            return
        except (ValueError, RecursionError) as error:
            self.counts["messages"] += 1
            self._refuse(f"is not JSON: {error}", offset, line)
            return
        self.take_message(message, now_ns, offset=offset, line=line, size=len(data))

    def take_message(
        self,
        message: Any,
        now_ns: int | None,
        *,
        offset: int | None = None,
        line: int | None = None,
        size: int = 1_024,
    ) -> None:
        """Takes a message that has been parsed, or a list of messages. ``size``: bytes of its text, as far as they are
        known."""
        if isinstance(message, list) and message and all(isinstance(item, Mapping) for item in message):
            for item in message:
                self.take_message(item, now_ns, offset=offset, line=line, size=size // len(message))
            return
        self.counts["messages"] += 1
        try:
            self._follow_connection(message, now_ns)
        except BadRecord as error:
            self._refuse(f"gapless.last: {error}", offset, line)
        found = self._profile.records(message)
        if found is None:
            self.counts["other_messages"] += 1
            return
        _Message(self, self._profile, (message, size), now_ns, (offset, line)).take(found)

    def _follow_connection(self, message: Any, now_ns: int | None) -> None:
        number = self._profile.connection_number(message)
        if number is None:
            return
        if self._connection is None:
            self._connection = Chain(drops=False)
        step = self._connection.change(Numbers(number), None, 0)
        self.counts["not_rising"] += step.back
        if step.missing:
            self._missing(None, step, now_ns or self._latest_ns or 0)

    def _missing(self, symbol: str | None, step: Step, now_ns: int) -> None:
        """Notes messages that never came. ``symbol``: None for those of a connection, which may be of any symbol."""
        after, before = step.between
        text = f"{after + 1} to {before - 1}" if step.missing == before - after - 1 else f"between {after} and {before}"
        self.counts["gap_messages"] += step.missing
        self.note("gap", now_ns, text if symbol is None else f"{symbol}: {text}", symbol, step.missing)
        for name in self._with_books if symbol is None else (symbol,):
            if name in self._with_books:
                self._doubtful[name] = "after missing messages"

    def note(
        self,
        kind: Literal["connected", "disconnected", "gap"],
        time_ns: int,
        text: str,
        symbol: str | None = None,
        missing: int = 0,
    ) -> None:
        """Keeps an event, and tells of it."""
        self.counts[kind] += 1
        if kind == "disconnected":
            self._doubtful |= dict.fromkeys(self._with_books, "after the connection broke")
            self._connection = None
        event = FeedEvent(kind, time_ns, text, symbol, missing)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def batch(self) -> TickBatch:
        """The ticks of what was taken since the last one."""
        records, self._records = self._records, []
        assert self._latest_ns is not None or not records
        first = self.counts["ticks"] + 1
        self.counts["ticks"] += len(records)
        of: dict[str, list[Any]] = {
            "ts_recv": [one.received for one in records],
            "ts_event": [one.values.get("ts_event", one.received) for one in records],
            "sequence": [one.values.get("sequence", at) for at, one in enumerate(records, first)],
        }
        for name in {name for one in records for name in one.values} - of.keys():
            none = UNDEFINED.get(name, 0)
            of[name] = [one.values.get(name, none) for one in records]
        if "order_id" in of:
            of["order_id"] = [each % (1 << 64) for each in of["order_id"]]  # an ask's price may be below 0
        fields = {name: as_they_are(np.array(values, FIELDS[name])) for name, values in of.items()}
        keys = np.array([one.symbol for one in records], np.uint32)
        return Assembly({}, of).ticks(range(first, first + len(records)), keys, fields)[0]

    def _refuse(self, why: str, offset: int | None, line: int | None) -> None:
        number = self.counts["messages"]
        if self._on_bad_record == "raise":
            raise FormatError(f"message {number}: {why}: {MEND}{self.hint}", path=self._where, offset=offset, line=line)
        self._skipped.add("not as the profile has it", offset=offset, line=number if line is None else line, text=why)

    def _symbol(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            if len(self.names) == self._max_symbols:
                raise FeedError(f"more than {self._max_symbols:,} symbols; max_symbols allows more", path=self._where)
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index


class _Message:
    """Takes the records of one message. They are one event of each symbol in it."""

    def __init__(
        self,
        ticks: JsonTicks,
        profile: JsonProfile,
        message: tuple[Any, int],
        now_ns: int | None,
        place: tuple[int | None, int | None],
    ) -> None:
        self._ticks, self._profile, self._message = ticks, profile, message
        self._now_ns, self._place = now_ns, place
        #: By sequence and symbol: the numbers that were followed, and whether their records count.
        self._followed: dict[tuple[str, str], tuple[Numbers, bool]] = {}
        #: Symbols of snapshots, and the kind of their ticks; and those of them that have a tick.
        self._snapshots: dict[str, Record] = {}
        self._begun: set[str] = set()
        #: Symbols with levels, and their last record.
        self._with_levels: dict[str, Record] = {}
        #: Earlier messages that a snapshot lacks, with their sequence and symbol.
        self._again: list[tuple[tuple[str, str], Any]] = []

    def take(self, found: Iterable[Record | BadRecord]) -> None:
        """Raises FormatError and FeedError; the records before are kept."""
        first = len(self._ticks._records)
        try:
            for record in found:
                self._take(record)
            for symbol, record in self._snapshots.items():
                if symbol not in self._begun:  # an empty book
                    self._add(record, _clear(record))
            for key, message in self._again:
                for record in self._profile.records(message) or ():
                    if isinstance(record, Record) and record.values and _key(record) == key:
                        self._ticks.counts["repeated_after_snapshot"] += 1
                        # It comes when the snapshot does.
                        self._add(record, record.values, self._now_ns or self._ticks._latest_ns)
            for symbol, record in list(self._with_levels.items()):
                self._remove_pushed_out(symbol, record)
        finally:
            self._end(first)

    def _take(self, record: Record | BadRecord) -> None:
        ticks, rounding = self._ticks, self._profile.rounding
        if isinstance(record, BadRecord):
            rounding.rounded = False
            ticks._refuse(str(record), *self._place)
            return
        ticks.counts["rows_rounded"] += rounding.rounded
        rounding.rounded = False
        if record.numbers is not None and not self._follow(record, record.numbers):
            return
        if record.rule.snapshot is not None and record.symbol not in self._snapshots:
            self._snapshots[record.symbol] = record
        if record.values:
            self._add(record, record.values)

    def _follow(self, record: Record, numbers: Numbers) -> bool:
        """Tells whether a record counts, by its message's numbers."""
        ticks, key = self._ticks, _key(record)
        by_message = record.rule.numbering is not None and record.rule.numbering.last is not None
        known = self._followed.get(key)
        if by_message and known is not None and known[0] == numbers:
            return known[1]
        chain = ticks._chains.get(key)
        if chain is None:
            chain = ticks._chains[key] = Chain(drops=by_message, keeps=self._profile.asks_for(key[0]))
        source = record.rule.snapshot
        step = chain.change(numbers, *self._message) if source is None else chain.snapshot(numbers.last, source)
        ticks.counts["not_rising"] += step.back
        ticks.counts["older_messages"] += step.older
        if step.missing:
            ticks._missing(record.symbol, step, self._received(record.values) or ticks._latest_ns or 0)
        self._again += [(key, message) for message in step.again]
        self._followed[key] = (numbers, step.taken)
        return step.taken

    def _received(self, values: dict[str, Any]) -> int | None:
        found: int | None = values.get("ts_event") if self._now_ns is None else self._now_ns
        return found

    def _add(self, record: Record, values: dict[str, Any], received: int | None = None) -> None:
        ticks, flags = self._ticks, self._profile.flags
        values = dict(values)
        kind = values["kind"]
        if record.rule.snapshot is not None:
            if kind == KIND_ORDER and record.symbol not in self._begun and values["action"] != b"R":
                self._begun.add(record.symbol)
                self._add(record, _clear(record))
            values["flags"] = values.get("flags", 0) | flags.snapshot
        if self._profile.book_levels is not None and kind == KIND_QUOTE:
            self._keep_level(record, values)
        self._begun.add(record.symbol)
        begins, requested = _begins_book(values, flags.snapshot)
        received = self._received(values) if received is None else received
        if received is None and not requested:
            ticks._refuse("has no time of receipt and no ts_event: map one in the profile", *self._place)
            return
        if values.get("sequence", 0) > MAX_SEQUENCE:
            ticks.counts["sequences_left_out"] += 1
            del values["sequence"]
        if received is None:
            received = ticks._latest_ns  # a snapshot was requested: it is as late as what came before it
        elif ticks._latest_ns is None:
            for earlier in ticks._records:
                earlier.received = received
        ticks._latest_ns = received if received is not None else ticks._latest_ns
        ticks._records.append(_Pending(ticks._symbol(record.symbol), values, received))
        if kind in _BOOKS:
            ticks._with_books[record.symbol] = None
            if begins:
                ticks._doubtful.pop(record.symbol, None)
            elif record.symbol in ticks._doubtful:
                ticks._stale[record.symbol] = ticks._doubtful[record.symbol]

    def _keep_level(self, record: Record, values: dict[str, Any]) -> None:
        """Follows the prices of a book that the venue bounds, as the handler ``depth`` does."""
        sides = self._ticks._levels.setdefault(record.symbol, {b"B": set(), b"A": set()})
        side, action, price = values.get("side", b"N"), values["action"], values.get("price", UNDEF_PRICE)
        flags, given = self._profile.flags, values.get("flags", 0)
        if given & flags.snapshot and record.symbol not in self._with_levels:
            sides[b"B"], sides[b"A"] = set(), set()
        self._with_levels[record.symbol] = record
        if side == b"N":
            for each, one in ((b"B", price), (b"A", values.get("order_id", UNDEF_PRICE))):
                kept = sides[each] if values.get("depth", 0) else set()
                sides[each] = kept | ({one} if action != b"R" and one != UNDEF_PRICE else set())
        elif action == b"R":
            sides[side] = set() if price == UNDEF_PRICE else {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
        elif price == UNDEF_PRICE:
            return
        elif action == b"C" or not values.get("size", 0):
            sides[side].discard(price)
        elif action not in _UPDATES:
            sides[side] = {price}  # a view of its side
        else:
            if action == b"M" and given & flags.best:
                sides[side] = {p for p in sides[side] if (p - price) * _WORSE[side] > 0}
            sides[side].add(price)

    def _remove_pushed_out(self, symbol: str, record: Record) -> None:
        """Removes the levels that the message has pushed beyond the venue's bound: the venue does not say so."""
        for side, prices in self._ticks._levels[symbol].items():
            if len(prices) <= (self._profile.book_levels or 0):
                continue
            for price in sorted(prices, key=lambda each: each * _WORSE[side])[self._profile.book_levels :]:
                gone = {"kind": KIND_QUOTE, "side": side, "action": b"C", "price": price, "size": 0}
                self._add(record, gone | {name: record.values[name] for name in _OF_MESSAGE if name in record.values})

    def _end(self, first: int) -> None:
        """Marks the last tick of each symbol, which ends the event."""
        last = self._profile.sets_last
        seen: set[int] = set()
        for one in reversed(self._ticks._records[first:] if last else []):
            if one.symbol not in seen and one.values["kind"] != KIND_STATUS:
                seen.add(one.symbol)
                one.values["flags"] = one.values.get("flags", 0) | last


def _key(record: Record) -> tuple[str, str]:
    numbering = record.rule.numbering
    return ("" if numbering is None else numbering.name, record.symbol)


def _begins_book(values: dict[str, Any], snapshot: int) -> tuple[bool, bool]:
    """Tells whether a tick empties the book of all earlier levels, and whether it is part of a snapshot."""
    if values["kind"] not in _BOOKS:
        return False, False
    clears = values["action"] == b"R" and values.get("price", UNDEF_PRICE) == UNDEF_PRICE
    both = values["kind"] == KIND_QUOTE and values.get("side", b"N") == b"N" and not values.get("depth", 0)
    marked = bool(values.get("flags", 0) & snapshot) or clears
    return marked or both, marked


def _clear(record: Record) -> dict[str, Any]:
    """The fields of a tick that empties a book."""
    times = {name: record.values[name] for name in _OF_MESSAGE if name in record.values}
    return {"kind": record.rule.kind, "action": b"R", "side": b"N"} | times
