"""JSON messages to ticks, as a profile says: the same for a live WebSocket and for a recording of one."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import numpy as np

from strand.errors import FeedError, FormatError
from strand.feeds.base import TickBatch
from strand.feeds.formats.json.profile import BadRecord, JsonProfile, Record
from strand.feeds.mapping.options import MEND
from strand.feeds.skipped import Skipped
from strand.ticks import FIELDS, UNDEF_PRICE, zeros

__all__ = ["EVENTS", "FeedEvent", "JsonTicks", "parsed"]

#: The newest events that a feed keeps.
EVENTS: Final = 1_000
_BLANK: Final = {"price": UNDEF_PRICE, "side": b"N", "action": b"N"}
_COUNTS: Final = (
    "messages", "ticks", "other_messages", "rows_rounded", "connected", "disconnected", "gap", "gap_messages",
    "not_rising",
)  # fmt: skip


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
        self._sequences: dict[str, int] = {}
        self._records: list[tuple[Record, int, int]] = []
        #: What an error about the next messages ends with.
        self.hint = ""

    @property
    def pending(self) -> int:
        """Ticks that ``batch`` would give."""
        return len(self._records)

    def statistics(self) -> dict[str, int]:
        """The counts that feeds report; see ``WebSocketFeed.statistics``."""
        return {name: self.counts[name] for name in _COUNTS}

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
        self.take_message(message, now_ns, offset=offset, line=line)

    def take_message(
        self, message: Any, now_ns: int | None, *, offset: int | None = None, line: int | None = None
    ) -> None:
        """The same of a message that has been parsed."""
        self.counts["messages"] += 1
        found = self._profile.records(message)
        if found is None:
            self.counts["other_messages"] += 1
            return
        for record in found:
            if isinstance(record, BadRecord):
                self._profile.rounding.rounded = False
                self._refuse(str(record), offset, line)
                continue
            received = record.values.get("ts_event") if now_ns is None else now_ns
            if received is None:
                self._refuse("has no time of receipt and no ts_event: map one in the profile", offset, line)
                continue
            self._records.append((record, self._symbol(record.symbol), received))
            self.counts["rows_rounded"] += self._profile.rounding.rounded
            self._profile.rounding.rounded = False
            if record.gapless:
                self._check_sequence(record, received)

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
        event = FeedEvent(kind, time_ns, text, symbol, missing)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def batch(self) -> TickBatch:
        """The ticks of what was taken since the last one."""
        records, self._records = self._records, []
        ticks = zeros(len(records))
        for name, value in _BLANK.items():
            ticks[name] = value
        ticks["ts_recv"] = ticks["ts_event"] = [now_ns for _, _, now_ns in records]
        ticks["instrument_id"] = [symbol for _, symbol, _ in records]
        first = self.counts["ticks"] + 1
        ticks["sequence"] = np.arange(first, first + len(records))
        by_fields: dict[tuple[str, ...], list[int]] = {}
        for at, (record, _, _) in enumerate(records):
            by_fields.setdefault(tuple(record.values), []).append(at)
        for names, places in by_fields.items():
            for name in names:
                column = ticks[name].copy()
                column[places] = np.array([records[at][0].values[name] for at in places], FIELDS[name])
                ticks[name] = column
        self.counts["ticks"] += len(records)
        return ticks

    def _refuse(self, why: str, offset: int | None, line: int | None) -> None:
        number = self.counts["messages"]
        if self._on_bad_record == "raise":
            raise FormatError(f"message {number}: {why}: {MEND}{self.hint}", path=self._where, offset=offset, line=line)
        self._skipped.add("not as the profile has it", offset=offset, line=number if line is None else line, text=why)

    def _check_sequence(self, record: Record, now_ns: int) -> None:
        sequence = record.values["sequence"]
        last = self._sequences.get(record.symbol)
        if last is not None and sequence > last + 1:
            missing = sequence - last - 1
            self.counts["gap_messages"] += missing
            self.note("gap", now_ns, f"{record.symbol}: {last + 1} to {sequence - 1}", record.symbol, missing)
        if last is None or sequence > last:
            self._sequences[record.symbol] = sequence
        else:
            self.counts["not_rising"] += 1

    def _symbol(self, name: str) -> int:
        index = self._index.get(name)
        if index is None:
            if len(self.names) == self._max_symbols:
                raise FeedError(f"more than {self._max_symbols:,} symbols; max_symbols allows more", path=self._where)
            index = self._index[name] = len(self.names)
            self.names.append(name)
        return index
