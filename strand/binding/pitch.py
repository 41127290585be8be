"""The PITCH decoder of csrc/codec/pitch/pitch.h, one call a buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.decoding import decode
from strand.binding.gate import Code, fault_error, made, refusal
from strand.binding.itch import NAME_BYTES, NO_NAME, Keeps, letter_of
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

_SYMBOL_BYTES: Final[int] = lib.SD_PITCH_SYMBOL_BYTES
_FOREVER: Final = (1 << 64) - 1
_REASONS: Final = {
    lib.SD_PITCH_FAULT_TRUNCATED: "cut line",
    lib.SD_PITCH_FAULT_UNKNOWN_TYPE: "unknown type",
    lib.SD_PITCH_FAULT_LENGTH: "bad length",
    lib.SD_PITCH_FAULT_FIELD: "bad field",
    lib.SD_PITCH_FAULT_SYMBOLS: "too many symbols",
}


def message_length(type_byte: int) -> int:
    """Bytes of a message of this type without ``S`` and the line's end; 0 for a type PITCH does not have."""
    return int(lib.sd_pitch_length(type_byte))


class PitchDecoder:
    """One stream's decoder. Not for two threads at once."""

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
        self._state: Any = owned(state, lib.sd_pitch_free)
        self._keeps = keeps
        if keeps is not None:
            state.selective = 1
            state.wanted[0] = int(keeps(NO_NAME)[0])
            state.start_ns = start_ns or 0
            state.span_ns = min((_FOREVER + 1 if end_ns is None else end_ns) - state.start_ns, _FOREVER)

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, bool]:
        """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``).

        Returns the ticks made, the bytes consumed, and whether all is well; if not, ``fault`` says what is wrong.
        The bytes not consumed must lead the next call's ``data``. ``last``: nothing follows ``data``.
        """
        made, used, code = decode(lib.sd_pitch_decode, self._state, data, last=last, out=out, decide=self._decide)
        if code == Code.NO_MEMORY:
            orders = self._state.live_orders
            raise refusal(code, f"there is no memory for more than {orders} live orders", MemoryError)
        return made, used, code == Code.OK

    def _decide(self) -> None:
        """Judges the symbol that the decoder has just met."""
        assert self._keeps is not None
        state = self._state
        state.wanted[state.asked] = int(self._keeps(self._name(state.asked))[0])

    def _name(self, index: int) -> npt.NDArray[np.bytes_]:
        return np.array([bytes(ffi.buffer(self._state.symbols[index]))], f"S{NAME_BYTES}")

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
            advice=": the file is damaged or not PITCH; on_error='skip' goes on",
        )

    def skips(self) -> dict[str, int]:
        """Lines passed over since the first byte, by reason."""
        counts = self._state.skips
        return {reason: counts[fault] for fault, reason in _REASONS.items() if counts[fault]}

    @property
    def has_samples(self) -> bool:
        """Whether ``skip_samples`` has something to give."""
        return bool(self._state.sampled)

    def skip_samples(self) -> list[tuple[str, int, int, str]]:
        """Reason, offset, line and text of what was passed over since the last call; not all of it where that was
        much."""
        state = self._state
        found = [state.samples[i] for i in range(state.sampled)]
        state.sampled = 0
        return [(_REASONS[at.fault], at.offset, at.line, f"type {letter_of(at.type)}") for at in found]

    @property
    def symbol_count(self) -> int:
        """How many symbols are known, the one without a name included."""
        return int(self._state.symbol_count)

    def symbols(self) -> list[str]:
        """Names by index; the first is ``""``."""
        count = self.symbol_count
        names = np.frombuffer(ffi.buffer(self._state.symbols, count * _SYMBOL_BYTES), f"S{_SYMBOL_BYTES}")
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
        counts.update({f"type_{chr(i)}": n for i, n in enumerate(state.counts) if n})
        return counts
