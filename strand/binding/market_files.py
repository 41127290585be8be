"""Writers of a generated market in formats other than ITCH: one call a batch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import checked
from strand.binding.market import ORDER_BEFORE
from strand.binding.memory import owned

__all__ = ["MAX_LEVELS", "MBO", "MBO_EVENT_RECORDS", "Events", "LobsterWriter", "MboWriter", "PitchWriter"]

#: The records of DBN's MBO schema, the names and the layout of its ``MboMsg``: 56 bytes.
MBO: Final = np.dtype(
    [
        ("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8"),
        ("order_id", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel_id", "u1"),
        ("action", "S1"), ("side", "S1"), ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4"),
    ]
)  # fmt: skip
#: The most records that one event takes.
MBO_EVENT_RECORDS: Final[int] = lib.SD_MBO_EVENT_RECORDS
#: Levels that a LOBSTER book may have.
MAX_LEVELS: Final[int] = lib.SD_LOBSTER_MAX_LEVELS


def _checked(code: int) -> int:
    return checked(
        code,
        "the generated events do not fit each other",
        AssertionError,
        no_memory="the writer could not get the memory it needs",
    )


class Events:
    """Room for a batch of a market's events: ``ticks``, ``types`` and ``orders`` as ``Market.next_batch`` fills them,
    of which the first ``count`` are there."""

    def __init__(self, capacity: int, ticks: npt.NDArray[Any]) -> None:
        self.ticks = ticks
        self.types = np.empty(capacity, np.uint8)
        self.orders = np.empty(capacity, ORDER_BEFORE)
        self.count = 0

    def pointers(self, start: int = 0) -> tuple[Any, Any, Any, int]:
        """Pointers to the messages from ``start`` on as the writers in C take them."""
        return (
            ffi.from_buffer("sd_tick[]", self.ticks[start : self.count]),
            ffi.from_buffer("char[]", self.types[start : self.count]),
            ffi.from_buffer("sd_market_order[]", self.orders[start : self.count]),
            self.count - start,
        )


class PitchWriter:
    """PITCH lines of batches of at most ``capacity`` events or states."""

    def __init__(self, capacity: int, midnight_ns: int) -> None:
        self._midnight_ns = midnight_ns
        self._out = np.empty(capacity * lib.SD_PITCH_EVENT_BYTES, np.uint8)
        self._into: Any = ffi.from_buffer("uint8_t[]", self._out, require_writable=True)
        self._lines: Any = ffi.new("uint64_t *")

    @property
    def lines(self) -> int:
        """Written so far."""
        return int(self._lines[0])

    def states(self, ticks: npt.NDArray[Any]) -> memoryview:
        """The lines of the trading states at the day's start; valid until the next call, like those of events."""
        given = ffi.from_buffer("sd_tick[]", ticks)
        used = lib.sd_pitch_write_states(given, len(ticks), self._midnight_ns, self._into)
        self._lines[0] += len(ticks)
        return self._out.data[:used]

    def events(self, events: Events) -> memoryview:
        """The lines of a batch."""
        used = lib.sd_pitch_write_events(*events.pointers(), self._midnight_ns, self._into, self._lines)
        return self._out.data[: _checked(used)]


class MboWriter:
    """MBO records of batches of at most ``capacity`` events or states."""

    def __init__(self, capacity: int) -> None:
        self._out = np.empty(capacity * MBO_EVENT_RECORDS, MBO)
        self._into: Any = ffi.from_buffer("sd_mbo[]", self._out, require_writable=True)

    @staticmethod
    def count(types: npt.NDArray[np.uint8]) -> int:
        """Number of records that events of these types become."""
        return int(lib.sd_mbo_count(ffi.from_buffer("char[]", types), len(types)))

    def clears(self, ticks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A clear of each book, out of the trading states at the day's start; valid until the next call."""
        lib.sd_mbo_write_clears(ffi.from_buffer("sd_tick[]", ticks), len(ticks), self._into)
        return self._out[: len(ticks)]

    def events(self, events: Events) -> npt.NDArray[Any]:
        """The records of a batch."""
        return self._out[: lib.sd_mbo_write_events(*events.pointers(), self._into)]


class LobsterWriter:
    """The rows of one symbol: of its messages, and of the ``levels`` best of its book after each."""

    #: Events of the symbol that one call takes at most: bounds the memory for their rows.
    _EVENTS: Final = 1024

    def __init__(self, instrument_id: int, levels: int, midnight_ns: int) -> None:
        made: Any = ffi.new("sd_lobster **")
        _checked(lib.sd_lobster_create(instrument_id, levels, midnight_ns, made))
        self._writer: Any = owned(made[0], lib.sd_lobster_destroy)
        self._messages = np.empty(self._EVENTS * lib.SD_LOBSTER_MESSAGE_BYTES, np.uint8)
        self._book = np.empty(self._EVENTS * levels * lib.SD_LOBSTER_LEVEL_BYTES, np.uint8)
        self._text: Any = ffi.new("sd_lobster_text *")
        self.rows = 0

    def events(self, events: Events, start: int) -> tuple[int, memoryview, memoryview]:
        """Writes the rows of events from ``start`` on, as many as there is room for.

        Returns how many events it passed, and the rows of messages and of the book; valid until the next call.
        """
        passed = _checked(
            lib.sd_lobster_write(
                self._writer,
                *events.pointers(start),
                self._EVENTS,
                ffi.from_buffer("uint8_t[]", self._messages, require_writable=True),
                ffi.from_buffer("uint8_t[]", self._book, require_writable=True),
                self._text,
            )
        )
        text = self._text
        self.rows += int(text.rows)
        return passed, self._messages.data[: text.message_bytes], self._book.data[: text.book_bytes]
