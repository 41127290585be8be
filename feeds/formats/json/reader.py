"""Files of JSON messages: lines and documents.

A line is a JSON value, or a whole number of ns since the UNIX epoch, a space and a value. A document is one JSON value
with a list of messages; the reader takes one item of it at a time.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Generator, Iterator, Sequence
from decimal import InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.columns import DECIMAL
from strand.binding.columns import Numbers as TextNumbers
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.json.profile import JsonProfile, Place, built_in, read_profile, recognised
from strand.feeds.formats.json.rule import at_path
from strand.feeds.formats.json.ticks import JsonTicks, OfMessages, parsed
from strand.feeds.formats.options import JsonLinesOptions, RecordedMessagesOptions
from strand.feeds.formats.websocket import longest_line, read_entry, read_header
from strand.feeds.io.prefetch import Chunks, read_chunks
from strand.feeds.io.streams import STANDARD_INPUT, InflateLimits, InputStream, names_of, open_stream
from strand.feeds.mapping.clocks import TextTimes
from strand.feeds.mapping.options import MEND, check_options
from strand.feeds.mapping.rules import bar_ns, bars_of, place_of
from strand.feeds.mapping.values import ONLY_NS, TIME_POWERS, said_unit
from strand.options import named_options
from strand.ticks import empty
from strand.ticks import limits as limits_of

_CHUNK_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 15


class Block(NamedTuple):
    """Lines in a row: where the first one begins, its number from 1, their texts without the line ends, and where the
    line behind them begins. A line that is too long is a block by itself, and its text is None."""

    offset: int
    number: int
    texts: Sequence[bytes | None]
    after: int


def whole_lines(
    chunks: Chunks, first: int, longest: int, path: str | Path, *, open_end: bool = False
) -> Iterator[Block]:
    """The lines behind the first one, which has so many bytes (0: all of them).

    Raises TruncatedFeedError for a last line without an end, unless it may have none (``open_end``), and what reading
    raises, after every whole line.
    """
    at, begin, number, endless = 0, first, 2 if first else 1, False
    rest = memoryview(b"")
    while (data := chunks.next(rest)) is not None:
        text, start = bytes(data), max(begin - at, 0)
        end = text.rfind(b"\n", start)
        if end >= 0 and (endless or end - start > longest):
            for line in text[start:end].split(b"\n"):
                after = max(at + start, begin) + len(line) + 1
                yield Block(begin, number, [None if endless or len(line) > longest else line], after)
                begin, start, number, endless = after, after - at, number + 1, False
        elif end >= 0:
            lines = text[start:end].split(b"\n")
            after = at + end + 1
            yield Block(begin, number, lines, after)
            begin, start, number = after, end + 1, number + len(lines)
        # The start of the last line is carried over, unless it is too long.
        endless = endless or len(text) - start > longest
        kept = 0 if endless else max(len(text) - start, 0)
        rest = data[len(text) - kept :]
        at += len(text) - kept
    if at + len(rest) > begin and open_end:
        yield Block(begin, number, [None if endless else bytes(rest)], at + len(rest))
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

    def read(self) -> Generator[Block, None, None]:
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


_BOM: Final = b"\xef\xbb\xbf"
#: Bytes of a document in which its list of messages has to begin, to be read an item at a time.
_BEFORE_LIST: Final = 1 << 18
#: Bytes of an item of a list, of what stands around the list, and of a document without one: as Python's objects these
#: bytes take ten times that.
_LONGEST_ITEM: Final = 1 << 28
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s"\[\]{},:]+', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_BLANKS: Final = re.compile(rb"\s*")
#: By byte: 1 for a quote, 2 for a comma, and steps in and out of lists and objects.
_QUOTE, _COMMA = 1, 2
_SIGNS: Final = np.zeros(256, np.int8)
_SIGNS[ord('"')], _SIGNS[ord(",")] = _QUOTE, _COMMA
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]], _STEPS[[ord("]"), ord("}")]] = 1, -1


def list_begin(head: bytes, path: Sequence[str]) -> int | None:
    """Offset behind the bracket that opens the list at a path of a document; None where ``head`` does not show it."""
    tokens = ((found[0], found.end()) for found in _TOKEN.finditer(head))
    try:
        for name in path:
            opening, _ = next(tokens)
            if opening == b"[" and name.isdecimal():
                for _ in range(int(name)):
                    if _pass_over(tokens, next(tokens)[0]) != b",":
                        return None
                continue
            if opening != b"{":
                return None
            while json.loads(next(tokens)[0]) != name:
                next(tokens)  # the colon
                if _pass_over(tokens, next(tokens)[0]) != b",":
                    return None
            next(tokens)
        opening, end = next(tokens)
    except (StopIteration, ValueError):
        return None
    return end if opening == b"[" else None


def _pass_over(tokens: Iterator[tuple[bytes, int]], token: bytes) -> bytes:
    """Passes over a value that begins with a token. Returns the token behind it."""
    depth = 0
    while True:
        depth += (token in b"[{") - (token in b"]}")
        token, _ = next(tokens)
        if depth == 0 and token in b",]}":
            return token


def _item_ends(text: bytes) -> tuple[npt.NDArray[np.intp], int | None]:
    """Offsets of the commas between the items of a list in ``text``, which begins with an item, and of the bracket that
    closes the list; None: it is not there."""
    raw = np.frombuffer(_ESCAPED.sub(b"__", text) if b"\\" in text else text, np.uint8)
    places = np.flatnonzero(_SIGNS[raw] | _STEPS[raw])
    found = raw[places]
    signs = _SIGNS[found]
    outside = (np.cumsum(signs == _QUOTE) & 1) == 0
    depth = np.cumsum(np.where(outside, _STEPS[found], 0))
    commas = places[outside & (depth == 0) & (signs == _COMMA)]
    closing = np.flatnonzero(depth < 0)
    if not len(closing):
        return commas, None
    end = int(places[closing[0]])
    return commas[commas < end], end


def recognise(head: bytes) -> bool:
    """Tells whether a file that starts with ``head`` is a document of a built-in profile."""
    return recognised(head) is not None


_LONGEST_LINE: Final = 1 << 20
_LIST: Final = re.compile(rb"\[\s*\{")
_DOCUMENT: Final = (
    "a file that is one JSON value, as a list of messages, is read by document = true in its profile, or has to have "
    "one message on each line"
)
#: The least and the greatest time of receipt, and the digits that one in ns has at most.
_TIMES: Final = limits_of("ts_recv")
_DIGITS_OF_TIME: Final = 19
_BEGIN: Final = re.compile(rb"[{\[]")


class MessageFile(OfMessages, BaseFeed):
    """Base class of feeds that read a file with a message per line.

    A subclass opens the file by ``_opened``, hands the profile and the lines to ``_begin``, and defines ``_steps``, and
    ``_take`` for lines. Names, counts and events are those of the messages that were read so far.
    """

    #: The time up to which the clock passed behind the latest message; None: it is not known.
    _passed: int | None = None
    #: The length of a message's bar in ns and in months; None: messages are no bars.
    _bar: tuple[int, int] | None = None

    def _opened(self, path: str | os.PathLike[str], options: JsonLinesOptions | RecordedMessagesOptions) -> InputStream:
        """The file's bytes."""
        self._skips = check_options(on_bad_record=options["on_bad_record"]).skips
        self._batch_ticks = options["batch_ticks"]
        self._path: str | Path = STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path)
        stream = open_stream(self._path, limits=options["limits"])
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
        """Sets what each iteration reads, and makes the ticks of."""
        self._profile, self._lines, self._max_symbols = profile, lines, max_symbols
        self._none_yet = functools.partial(
            JsonTicks, profile, str(self._path), on_bad_record=on_bad_message, symbols=symbols, max_symbols=max_symbols,
            bar=self._bar,
        )  # fmt: skip
        self._ticks = self._none_yet(skipped=self.skipped)

    def close(self) -> None:
        super().close()
        self._lines.close()

    def batches(self) -> Iterator[TickBatch]:
        """The file from its start. An error comes behind the ticks before it."""
        self._check_open()
        self.skipped.clear()
        ticks = self._ticks = self._none_yet(skipped=self.skipped)
        self.passed_ns = self._passed = None
        fault: FeedError | None = None
        more, ended = True, object()
        with contextlib.closing(self._steps()) as steps:
            while more and fault is None:
                try:
                    more = next(steps, ended) is not ended
                except FeedError as error:
                    fault = error
                passed = self._take_passed()
                if ticks.pending:
                    self.passed_ns = None
                    yield ticks.batch()
                if passed is not None:
                    self.passed_ns = passed
                    yield empty(0)
        if fault is not None:
            raise fault

    def _take_passed(self) -> int | None:
        passed, self._passed = self._passed, None
        return passed

    def _steps(self) -> Generator[None, None, None]:
        """Takes the messages, as many per step as make a batch."""
        raise NotImplementedError

    def _taken(self) -> Generator[None, None, None]:
        """Takes the lines."""
        take, ticks, enough = self._take, self._ticks, self._batch_ticks
        self._after, self._number = self._lines.first, 2
        with contextlib.closing(self._lines.read()) as blocks:
            for offset, number, texts, after in blocks:
                for text in texts:
                    take(text, offset, number)
                    offset += 1 if text is None else len(text) + 1
                    number += 1
                    if ticks.pending >= enough or self._passed is not None:
                        yield
                self._after, self._number = after, number

    def _take(self, text: bytes | None, offset: int, number: int) -> None:
        """Takes a line's message, or refuses the line. Raises FormatError and FeedError.

        Args:
            text: The line without its end; None: it is too long.
            offset: Where it begins.
            number: Its number, from 1.
        """
        raise NotImplementedError

    def _refuse(self, why: str, offset: int, number: int) -> None:
        if not self._skips:
            raise FormatError(f"the line {why}: {MEND}", path=self._path, offset=offset, line=number)
        self.skipped.add("damaged line", offset=offset, line=number, text=why)


@named_options("JsonLinesFeed()", declares=JsonLinesOptions)
class JsonLinesFeed(MessageFile):
    """Reads a file of JSON lines as batches of ticks, in the order of its lines.

    With the key ``document`` in its profile, the file is one JSON value: a list of messages, which is read an item at a
    time, or one message.

    ``ts_recv`` is the time that stands before the message in its line, or the time of its event if there is none.
    ``sequence`` is the record's place if the profile has no field for it.

    Args:
        path: The file.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        FormatError: If a line cannot be read, after every tick before it; it names byte and line.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[JsonLinesOptions]) -> None:
        super().__init__()
        check_options(inexact=options["inexact"])
        with self._opened(path, options) as stream:
            place = Place(self._path, names_of(self._path, stream), options["symbol"])
            profile = recognised(stream.head(_HEAD_BYTES)) if options["profile"] is None else options["profile"]
        if profile is None:
            names = ", ".join(built_in())
            raise ConfigurationError(
                "profile", f"give a profile that says which messages to read (docs/feeds/json.md), or one of {names}"
            )
        source = profile.source if isinstance(profile, JsonProfile) else profile
        read = read_profile(
            source,
            size_unit=options["size_unit"],
            price_unit=options["price_unit"],
            inexact=options["inexact"],
            time_zone=options["zone"],
            place=place,
        )
        self._stamps = TextTimes("stamp", None, read.zone)
        unit = read.received
        power = TIME_POWERS["ns" if unit is None or unit == "stamp" else unit]
        self._times = TextNumbers(DECIMAL, power, *_TIMES)
        self._ns_in = 0 if unit == "stamp" else 10**power
        self._earliest = ONLY_NS if unit is None else 0
        self._limits = options["limits"]
        lines = Lines(self._path, self._limits, first=0, longest=_LONGEST_LINE, open_end=True)
        if read.bars is not None:
            self._bar = read.bars.span(options["bars"], place_of(place.names))
        elif options["bars"] is not None:
            raise ConfigurationError("bars", f"leave it out: {read.name} says that its messages are no bars")
        self._begin(read, lines, (), options["max_symbols"], options["on_bad_record"])

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
        with open_stream(self._path, limits=self._limits) as stream:
            head = stream.head(_BEFORE_LIST)
            mark = len(_BOM) if head.startswith(_BOM) else 0
            begin = list_begin(head[mark:], path)
            if begin is not None:
                stream.read(mark + begin)
                yield from self._of_list(stream, head[mark : mark + begin], mark + begin)
                return
            found = at_path(self._whole(stream), path)
        if path and not isinstance(found, list):
            raise FormatError(f"there is no list at {'.'.join(path)}, which document names", path=self._path)
        for message in found if isinstance(found, list) else [found]:
            self._take_message(message, None, None)
            if self._ticks.pending >= self._batch_ticks:
                yield

    def _take_message(self, message: Any, offset: int | None, line: int | None) -> None:
        self._check_open()
        self._ticks.take_message(message, None, offset, line)

    def _of_list(self, stream: InputStream, before: bytes, at: int) -> Generator[None, None, None]:
        """The items of a list, from an offset on. ``before``: the bytes of the document before the list.

        Memory holds one piece of the file and one item. The end of the document is checked behind the last item."""
        line = 1 + before.count(b"\n")
        rest, count, fault = b"", 0, None
        while True:
            # Twice the last item, if it is a long one: its bytes are looked at twice at most.
            try:
                more = stream.read(max(_CHUNK_BYTES, len(rest)))
            except FeedError as error:
                more, fault = b"", error
            text = rest + more
            commas, end = _item_ends(text)
            last = int(commas[-1]) if len(commas) else -1
            if end is None and (not more or len(text) - last > _LONGEST_ITEM):
                raise fault or self._unended(text[last + 1 :], at + len(text), line + text.count(b"\n"), bool(more))
            items = text[: last + 1 if end is None else end]
            begins = [0, *(commas + 1).tolist()]
            if end is None:
                begins.pop()
            elif count == 0 and not commas.size and not items.strip():
                begins = []  # an empty list
            for begin, message, number in self._messages(items, begins, at, line):
                self._take_message(message, begin, number)
                if self._ticks.pending >= self._batch_ticks:
                    yield
            count += len(begins)
            if end is not None:
                self._check_behind(stream, before, text[end:], at + end + 1)
                return
            at, line, rest = at + len(items), line + items.count(b"\n"), text[len(items) :]

    def _messages(self, items: bytes, begins: Sequence[int], at: int, line: int) -> Iterator[tuple[int, Any, int]]:
        """The messages of items with commas between them, each with its offset and line. ``at``, ``line``: those of the
        first byte."""
        if not begins:
            return
        try:
            found = parsed(b"[" + items.removesuffix(b",") + b"]")
        except (InvalidOperation, ValueError, RecursionError):
            found = []
        begins = [_BLANKS.match(items, begin).end() for begin in begins]  # type: ignore[union-attr]
        ends = np.flatnonzero(np.frombuffer(items, np.uint8) == ord("\n"))
        numbers = (line + np.searchsorted(ends, begins)).tolist()
        if len(found) == len(begins):
            for begin, message, number in zip(begins, found, numbers, strict=True):
                yield at + begin, message, number
            return
        for begin, after, number in zip(begins, [*begins[1:], len(items)], numbers, strict=True):
            self._ticks.take(items[begin:after].rstrip(b", \t\r\n"), None, at + begin, number)

    def _unended(self, item: bytes, end: int, line: int, more: bool) -> FeedError:
        if more:
            return FormatError(
                f"an item of its list has more than {_LONGEST_ITEM:,} bytes: make a line of each message, as "
                "jq -c '.[]' does, and leave document out",
                path=self._path,
                offset=end - len(item),
                line=line,
            )
        return TruncatedFeedError(
            "ends inside its list of messages: get the whole file", path=self._path, offset=end, line=line
        )

    def _check_behind(self, stream: InputStream, before: bytes, behind: bytes, offset: int) -> None:
        """Refuses a document that is no JSON around its list."""
        behind += stream.read(_LONGEST_ITEM)
        stream.read(1)  # the fault that ended it
        try:
            parsed(before + behind)
        except (InvalidOperation, ValueError, RecursionError) as error:
            raise FormatError(
                f"is not one JSON value behind its list, as document says: {error}", path=self._path, offset=offset
            ) from None

    def _whole(self, stream: InputStream) -> Any:
        data = stream.read(_LONGEST_ITEM + 1)
        if len(data) > _LONGEST_ITEM:
            raise FormatError(
                f"is more than {_LONGEST_ITEM:,} bytes in one JSON value without a list of messages near its start: "
                "make a line of each message, as jq -c '.[]' does, and leave document out",
                path=self._path,
            )
        stream.read(1)  # the fault that ended it
        try:
            return parsed(data.removeprefix(_BOM))
        except (InvalidOperation, ValueError, RecursionError) as error:
            raise FormatError(f"is not one JSON value, as document says: {error}", path=self._path) from None

    def _plain_time(self, text: bytes) -> int | None:
        """The time of receipt that digits alone say; None: they say none."""
        if text.isdigit() and len(text) <= _DIGITS_OF_TIME and self._ns_in:
            time = int(text) * self._ns_in
            if self._earliest <= time <= self._times.highest:
                return time
        return None

    def _received(self, text: bytes) -> tuple[int | None, str | None]:
        """The time before a message, and what is wrong with it."""
        unit = self._profile.received
        if (plain := self._plain_time(text)) is not None:
            return plain, None
        if unit == "stamp":
            try:
                return self._stamps.ns(text.decode("ascii", "replace")), None
            except ValueError as error:
                return None, f"begins with {text.decode('utf-8', 'replace')[:80]!r}, which {error}"
        try:
            time = self._times.one(text)
        except ValueError:
            cure = 'say another form by received = "us" or "stamp" in the profile'
            return None, f"does not begin with a time in {unit or 'ns'}; {cure}"
        if time < self._earliest:
            cure = said_unit(time, 'received = "UNIT" in the profile')
            return None, f"does not begin with a time in ns: {cure}"
        return time, None

    @property
    def info(self) -> FeedInfo:
        details: dict[str, Any] = {"compression": self._compression, **self._ticks.examples}
        if self._bar is None:
            return self._profile.info("jsonl", str(self._path), details)
        return self._profile.info("jsonl", str(self._path), details | bars_of(*self._bar, "UTC"), bar_ns(*self._bar))

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``other_messages``, ``rows_rounded``; of symbols whose profile says that they have
        no gaps ``gap``, ``gap_messages`` and ``not_rising``."""
        return {name: n for name, n in super().statistics().items() if name not in ("connected", "disconnected")}

    def _take(self, text: bytes | None, offset: int, number: int) -> None:
        time, _, message = (text or b"").partition(b" ")
        if message[:1] == b"{" and (received := self._plain_time(time)) is not None:
            self._ticks.take(message, received, offset, number)
            return
        text = None if text is None else text.strip().removeprefix(b"\xef\xbb\xbf")
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
        elif number == 1 and text in (b"[", b"{"):
            why = f"is the start of a JSON value of several lines: {_DOCUMENT}"
        elif number == 1 and _LIST.match(text):
            # A list of objects may be a message too; a profile that reads it says so by ``each``.
            self._ticks.hint = f"; {_DOCUMENT}"
        if why is None:
            self._ticks.take(message, received, offset, number)
        else:
            self._refuse(why, offset, number)


@named_options("RecordedMessages()", declares=RecordedMessagesOptions)
class RecordedMessages(MessageFile):
    """A recording as the ticks that were live: the same receive times, sequences and symbols in the same order.

    ``events`` has the newest of the live feed's. A file without its last line raises TruncatedFeedError behind all that
    it has. Raises FeedError, FormatError and TruncatedFeedError with byte and line, ConfigurationError.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[RecordedMessagesOptions]) -> None:
        super().__init__()
        with self._opened(path, options) as stream:
            header, first = read_header(stream, self._path)
        profile = options["profile"]
        if profile is None or isinstance(profile, JsonProfile):
            read = profile or header.profile
        else:
            read = read_profile(profile)
        self._header = header
        lines = Lines(
            self._path, options["limits"], first=first, longest=longest_line(header.max_message_bytes), open_end=False
        )
        on_bad_message: Literal["raise", "skip"] = (
            "skip" if header.on_bad_record == "skip" else options["on_bad_record"]
        )
        self._begin(read, lines, header.symbols, header.max_symbols, on_bad_message)

    def _steps(self) -> Generator[None, None, None]:
        self._ended = False
        yield from self._taken()
        if not self._ended:
            raise TruncatedFeedError(
                "ends without the line that a recording ends with",
                path=self._path,
                offset=self._after,
                line=self._number,
            )

    @property
    def info(self) -> FeedInfo:
        details = {"url": self._header.url, "compression": self._compression, **self._ticks.examples}
        return self._profile.info("websocket", str(self._path), details)

    def _take(self, text: bytes | None, offset: int, number: int) -> None:
        try:
            if self._ended:
                raise ValueError("comes after the recording's end")
            if text is None:
                raise ValueError(f"is longer than lines of messages of {self._header.max_message_bytes:,} bytes are")
            time_ns, word, value = read_entry(text)
            if word == "end":
                self._ended = True
                if value != number - 1:
                    raise ValueError(f"says that {value:,} lines are before it, but there are {number - 1:,}")
        except (ValueError, RecursionError) as error:
            self._refuse(str(error), offset, number)
            return
        if word in ("text", "binary"):
            self._ticks.take(value, time_ns, offset, number)
        elif word == "clock":
            self._passed = time_ns
        elif word in ("connected", "disconnected"):
            self._ticks.note(word, time_ns, value)
