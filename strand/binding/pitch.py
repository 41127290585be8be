"""The PITCH decoder of csrc/codec/pitch/pitch.h, one call a buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from strand.binding import ffi, lib
from strand.binding.decoding import NAME_BYTES, NO_NAME, Decoder, Keeps, letter_of
from strand.binding.gate import fault_error, made
from strand.binding.memory import owned
from strand.errors import FeedError

__all__ = [
    "ATTRIBUTED",
    "AUCTION",
    "AUCTION_SUMMARY",
    "BROKEN_TRADE",
    "MAX_LINE",
    "NON_DISPLAYED",
    "RETAIL_INTEREST",
    "SYMBOLS",
    "PitchDecoder",
    "message_length",
]

#: Every ``instrument_id`` is below this.
SYMBOLS: Final[int] = lib.SD_PITCH_SYMBOLS
#: The longest line the decoder waits for: what a caller may have to carry from one buffer to the next.
MAX_LINE: Final[int] = lib.SD_PITCH_MAX_LINE

NON_DISPLAYED: Final[int] = lib.SD_PITCH_NON_DISPLAYED
ATTRIBUTED: Final[int] = lib.SD_PITCH_ATTRIBUTED
RETAIL_INTEREST: Final[int] = lib.SD_PITCH_RETAIL_INTEREST
BROKEN_TRADE: Final[int] = lib.SD_PITCH_BROKEN_TRADE
AUCTION_SUMMARY: Final[int] = lib.SD_PITCH_AUCTION_SUMMARY
AUCTION: Final[int] = lib.SD_PITCH_AUCTION

assert NAME_BYTES == lib.SD_PITCH_SYMBOL_BYTES


def message_length(type_byte: int) -> int:
    """Bytes of a message of this type without ``S`` and the line's end; 0 for a type PITCH does not have."""
    return int(lib.sd_pitch_length(type_byte))


class PitchDecoder(Decoder):
    """Decoder of one stream. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_pitch_decode")
    reasons: ClassVar = {
        lib.SD_PITCH_FAULT_TRUNCATED: "cut line",
        lib.SD_PITCH_FAULT_UNKNOWN_TYPE: "unknown type",
        lib.SD_PITCH_FAULT_LENGTH: "bad length",
        lib.SD_PITCH_FAULT_FIELD: "bad field",
        lib.SD_PITCH_FAULT_SYMBOLS: "too many symbols",
    }

    def __init__(
        self,
        *,
        midnight_ns: int,
        skip: bool,
        keeps: Keeps | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> None:
        """``keeps``: makes ticks only of the symbols it says, from ``start_ns`` to before ``end_ns``."""
        state = made(lib.sd_pitch_new(midnight_ns, int(skip)), "there is no memory for a PITCH decoder")
        super().__init__(owned(state, lib.sd_pitch_free))
        self._keeps = keeps
        if keeps is not None:
            self._select(start_ns, end_ns)
            state.wanted[0] = int(keeps(NO_NAME)[0])

    @property
    def _needs(self) -> str:
        return f"more than {self._state.live_orders} live orders"

    def answer(self, passed: memoryview) -> bool:  # noqa: ARG002 - the name is known
        """Judges the symbol that the decoder has just met."""
        assert self._keeps is not None
        state = self._state
        name = np.array([bytes(ffi.buffer(state.symbols[state.asked]))], f"S{NAME_BYTES}")
        state.wanted[state.asked] = int(self._keeps(name)[0])
        return True

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        found = self._state.fault
        letter = letter_of(found.type)
        texts = {
            lib.SD_PITCH_FAULT_TRUNCATED: "the input ends inside a line; get the whole file, or keep what was read",
            lib.SD_PITCH_FAULT_UNKNOWN_TYPE: (
                f"message type {letter} is not one of PITCH's" if found.type else "the line is too short for a message"
            ),
            lib.SD_PITCH_FAULT_LENGTH: (
                f"the line has {found.length if found.length < 255 else '255 or more'} characters where a message of "
                f"type {letter} has {message_length(found.type)}"
            ),
            lib.SD_PITCH_FAULT_FIELD: (
                f"a message of type {letter} has a character at column {found.column + 1} that its field cannot have"
            ),
            lib.SD_PITCH_FAULT_SYMBOLS: f"the file names more than {SYMBOLS - 1} symbols",
        }
        return fault_error(
            texts,
            found.fault,
            cut=lib.SD_PITCH_FAULT_TRUNCATED,
            path=path,
            offset=found.offset,
            line=found.line,
            advice=": the file is damaged or not PITCH; on_bad_record='skip' skips the line",
        )

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (self.reasons[at.fault], {"offset": at.offset, "line": at.line, "text": f"type {letter_of(at.type)}"})
            for at in self._take_samples()
        ]

    @property
    def symbol_count(self) -> int:
        """Number of known symbols, the one without a name included."""
        return int(self._state.symbol_count)

    def symbols(self) -> list[str]:
        """Names by index; the first is ``""``."""
        count = self.symbol_count
        names = np.frombuffer(ffi.buffer(self._state.symbols, count * NAME_BYTES), f"S{NAME_BYTES}")
        return [name.decode("ascii").rstrip(" ") for name in names.tolist()]

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; ``type_X`` counts the messages of type X."""
        state = self._state
        counts = {
            "lines": state.lines,
            "messages": state.messages,
            "ticks": state.ticks,
            "bytes_decoded": state.offset,
            "not_selected": state.unselected,
            "skipped_lines": sum(self.skips().values()),
            "session_packets": state.session_packets,
            "unknown_orders": state.unknown_orders,
            "live_orders": state.live_orders,
        }
        return counts | self._types("type_{:c}")
