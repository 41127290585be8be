"""The ITCH 5.0 decoder of csrc/decode/itch.h, one call a buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from strand._bindings import ffi, lib
from strand.errors import FeedError, FormatError, TruncatedFeedError

__all__ = [
    "ATTRIBUTED",
    "CROSS",
    "CROSS_CLOSING",
    "CROSS_HALT",
    "CROSS_INTRADAY",
    "CROSS_MASK",
    "CROSS_OPENING",
    "IMBALANCE",
    "LOCATES",
    "MAX_FRAME",
    "NON_PRINTABLE",
    "SIZE_CLIPPED",
    "ItchDecoder",
    "message_length",
]

LOCATES: Final[int] = lib.SD_ITCH_LOCATES
#: The longest frame the decoder waits for: what a caller may have to carry from one buffer to the next.
MAX_FRAME: Final[int] = lib.SD_ITCH_MAX_FRAME

NON_PRINTABLE: Final[int] = lib.SD_ITCH_NON_PRINTABLE
ATTRIBUTED: Final[int] = lib.SD_ITCH_ATTRIBUTED
CROSS: Final[int] = lib.SD_ITCH_CROSS
SIZE_CLIPPED: Final[int] = lib.SD_ITCH_SIZE_CLIPPED
CROSS_OPENING: Final[int] = lib.SD_ITCH_CROSS_OPENING
CROSS_CLOSING: Final[int] = lib.SD_ITCH_CROSS_CLOSING
CROSS_HALT: Final[int] = lib.SD_ITCH_CROSS_HALT
CROSS_INTRADAY: Final[int] = lib.SD_ITCH_CROSS_INTRADAY
CROSS_MASK: Final[int] = lib.SD_ITCH_CROSS_MASK
IMBALANCE: Final[int] = lib.SD_ITCH_IMBALANCE

_SYMBOL_BYTES: Final[int] = lib.SD_ITCH_SYMBOL_BYTES


def message_length(type_byte: int) -> int:
    """Bytes of a message of this type without its length field; 0 for a type ITCH 5.0 does not have."""
    return int(lib.sd_itch_length(type_byte))


class ItchDecoder:
    """One stream's decoder. Not for two threads at once."""

    def __init__(self, *, midnight_ns: int, skip: bool, directory_of: ItchDecoder | None = None) -> None:
        """``directory_of``: a decoder of the same stream whose symbol names this one starts with."""
        self._state: Any = ffi.new("sd_itch *")
        lib.sd_itch_init(self._state, midnight_ns, int(skip))
        if directory_of is not None:
            old = directory_of._state
            ffi.memmove(self._state.symbols, old.symbols, ffi.sizeof(old.symbols))
            self._state.symbol_count = old.symbol_count
            self._state.symbol_names = old.symbol_names

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, bool]:
        """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``).

        Returns the ticks made, the bytes consumed, and whether all is well; if not, ``fault`` says what is wrong.
        The bytes not consumed must lead the next call's ``data``. ``last``: nothing follows ``data``.
        """
        state = self._state
        code = lib.sd_itch_decode(
            state,
            ffi.from_buffer("uint8_t[]", data),
            len(data),
            int(last),
            ffi.from_buffer("sd_tick[]", out, require_writable=True),
            len(out),
        )
        return state.made, state.consumed, code == lib.SD_OK

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        state = self._state
        kind = state.fault
        letter = _letter(state.fault_type)
        length = state.fault_length
        text = {
            lib.SD_ITCH_FAULT_TRUNCATED: "the input ends inside a message; get the whole file, or keep what was read",
            lib.SD_ITCH_FAULT_UNKNOWN_TYPE: (
                f"message type {letter} is not one of ITCH 5.0's"
                + (
                    f" (length {length}); on_error='skip' passes over such messages"
                    if length
                    else ", and without a length field it cannot be passed over: the file is damaged or not ITCH 5.0"
                )
            ),
            lib.SD_ITCH_FAULT_LENGTH: (
                f"the length field says {length} where a message of type {letter} has "
                f"{message_length(state.fault_type) or 'no known length'}: the file is damaged or not ITCH 5.0"
            ),
            lib.SD_ITCH_FAULT_SIDE: (
                f"the side of a {letter} message is {_letter(state.fault_value)}, not 'B' or 'S'; "
                "on_error='skip' passes over such messages"
            ),
            lib.SD_ITCH_FAULT_SYMBOL: (
                f"the stock name of an {letter} message has {_letter(state.fault_value)} where a printable ASCII "
                "character must be; on_error='skip' passes over such messages"
            ),
            lib.SD_ITCH_FAULT_RENAMED: (
                "a stock locate is given a second name: the file holds more than one day or is damaged; "
                "on_error='skip' keeps the first name"
            ),
        }[kind]
        error = TruncatedFeedError if kind == lib.SD_ITCH_FAULT_TRUNCATED else FormatError
        return error(text, path=path, offset=state.fault_offset)

    @property
    def named_locates(self) -> int:
        """How many stock locates have a name so far."""
        return int(self._state.symbol_names)

    def symbols(self) -> list[str]:
        """Names by stock locate, up to the highest that has one; ``""`` where a locate has none."""
        state = self._state
        raw = bytes(ffi.buffer(state.symbols, state.symbol_count * _SYMBOL_BYTES)).decode("ascii")
        return [raw[at : at + _SYMBOL_BYTES].rstrip(" \0") for at in range(0, len(raw), _SYMBOL_BYTES)]

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; ``type_X`` counts the messages of type X."""
        state = self._state
        counts = {
            "messages": state.messages,
            "ticks": state.ticks,
            "bytes_decoded": state.offset,
            "skipped_unknown_type": state.skipped_unknown_type,
            "skipped_bad_field": state.skipped_bad_field,
            "sizes_clipped": state.clipped,
        }
        counts.update({f"type_{chr(i)}": n for i, n in enumerate(state.counts) if n})
        return counts


def _letter(byte: int) -> str:
    return repr(chr(byte)) if 0x20 <= byte <= 0x7E else f"0x{byte:02x}"
