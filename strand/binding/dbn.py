"""The DBN decoder of csrc/codec/dbn/dbn.h, one call a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import checked, fault_error, made
from strand.binding.memory import owned
from strand.errors import FeedError

__all__ = [
    "IMBALANCE",
    "LEVELS",
    "MAX_RECORD",
    "MAX_TICKS",
    "QUOTING",
    "SHORT_SELL_RESTRICTED",
    "STATISTIC",
    "TRADING",
    "UNWANTED",
    "DbnDecoder",
    "Stop",
]

#: The longest record: what a caller may have to carry from one buffer to the next.
MAX_RECORD: Final[int] = lib.SD_DBN_MAX_RECORD
#: The most ticks of one record.
MAX_TICKS: Final[int] = lib.SD_DBN_MAX_TICKS
#: The levels of an MBP-10 record.
LEVELS: Final[int] = lib.SD_DBN_LEVELS
#: The key of instruments whose records are passed over.
UNWANTED: Final[int] = lib.SD_DBN_UNWANTED

TRADING: Final[int] = lib.SD_DBN_TRADING
QUOTING: Final[int] = lib.SD_DBN_QUOTING
SHORT_SELL_RESTRICTED: Final[int] = lib.SD_DBN_SHORT_SELL_RESTRICTED
STATISTIC: Final[int] = lib.SD_DBN_STATISTIC
IMBALANCE: Final[int] = lib.SD_DBN_IMBALANCE

_NO_TABLE: Final = "no memory for a table of instruments"
_SKIPPABLE: Final = {
    lib.SD_DBN_FAULT_LENGTH: "length not the type's",
    lib.SD_DBN_FAULT_UNKNOWN_TYPE: "unknown type",
    lib.SD_DBN_FAULT_ACTION: "no action",
    lib.SD_DBN_FAULT_SIDE: "no side",
    lib.SD_DBN_FAULT_TIME: "time beyond 2262",
    lib.SD_DBN_FAULT_SIZE: "volume beyond 2**63",
}


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a call ended before the buffer did.

    ``"full"``: for want of room. ``"instrument"``: an id that is in no entry at a time. ``"mapping"``: behind a symbol
    mapping of ``length`` bytes. ``"fault"``: see ``DbnDecoder.fault``.
    """

    why: str
    instrument: int = 0
    time_ns: int = 0
    length: int = 0


class DbnDecoder:
    """One stream's decoder. Not for two threads at once."""

    def __init__(self, *, version: int, skip: bool, tail: int, levels: int, span: tuple[int, int]) -> None:
        """``tail``: bytes behind each record. ``span``: the first and the last receive time wanted."""
        instruments = made(lib.sd_dbn_instruments_create(), _NO_TABLE)
        self._instruments: Any = owned(instruments, lib.sd_dbn_instruments_destroy)
        self._state: Any = ffi.new("sd_dbn *")
        lib.sd_dbn_init(self._state, version, self._instruments)
        self._state.skip = int(skip)
        self._state.tail = tail
        self._state.levels = levels
        self._state.start_ns, self._state.last_ns = span

    def fill(
        self,
        ids: npt.NDArray[np.uint32],
        first_ns: npt.NDArray[np.uint64],
        last_ns: npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
    ) -> None:
        """Adds what instruments are called from one time to another, both included; arrays of one length."""
        if not len(ids) == len(first_ns) == len(last_ns) == len(keys):
            raise ValueError("ids, first_ns, last_ns and keys differ in length")
        _checked(
            lib.sd_dbn_instruments_fill(
                self._instruments,
                ffi.from_buffer("uint32_t[]", ids),
                ffi.from_buffer("uint64_t[]", first_ns),
                ffi.from_buffer("uint64_t[]", last_ns),
                ffi.from_buffer("uint32_t[]", keys),
                len(ids),
            )
        )

    def add(self, instrument: int, first_ns: int, last_ns: int, key: int) -> None:
        """Adds one."""
        _checked(lib.sd_dbn_instruments_add(self._instruments, instrument, first_ns, last_ns, key))

    def replace(self, instrument: int, key: int) -> None:
        """From now on the instrument has this key."""
        _checked(lib.sd_dbn_instruments_replace(self._instruments, instrument, key))

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, Stop | None]:
        """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``, ``MAX_TICKS`` long or more).

        Returns the ticks made, the bytes consumed, and why it ended early, if it did. The bytes not consumed must lead
        the next call's ``data``. ``last``: nothing follows ``data``.
        """
        if len(out) < MAX_TICKS:
            raise ValueError(f"out holds {len(out)} ticks, and a record may make {MAX_TICKS}")
        state = self._state
        code = lib.sd_dbn_decode(
            state,
            ffi.from_buffer("uint8_t[]", data),
            len(data),
            int(last),
            ffi.from_buffer("sd_tick[]", out, require_writable=True),
            len(out),
        )
        stop = None
        if code == lib.SD_AGAIN and state.fault == lib.SD_DBN_STOP_INSTRUMENT:
            stop = Stop("instrument", state.fault_instrument, state.fault_time)
        elif code == lib.SD_AGAIN:
            stop = Stop("mapping", length=state.fault_length)
        elif code != lib.SD_OK:
            stop = Stop("fault")
        elif state.full:
            stop = Stop("full")
        return state.made, state.consumed, stop

    def fault(self, path: str | Path, base: int) -> FeedError:
        """The error that ended the last ``decode``, to be raised. ``base``: where the first record lies."""
        state = self._state
        length, value = state.fault_length, state.fault_value
        skippable = "; on_error='skip' passes over such records"
        texts = {
            lib.SD_DBN_FAULT_TRUNCATED: (
                f"the input ends inside a record of {length} bytes; get the whole file, or keep what was read"
            ),
            lib.SD_DBN_FAULT_OUT_OF_STEP: (
                f"a record's length is {length} bytes, less than its header's 16: the file is damaged or not DBN"
            ),
            lib.SD_DBN_FAULT_LENGTH: (
                f"a record of type 0x{state.fault_type:02x} is {length} bytes long, which it never is in DBN version "
                f"{state.version}{skippable}"
            ),
            lib.SD_DBN_FAULT_UNKNOWN_TYPE: f"record type 0x{state.fault_type:02x} is none of DBN's{skippable}",
            lib.SD_DBN_FAULT_ACTION: f"a record's action is {_letter(value)}, not one of ACMRTFN{skippable}",
            lib.SD_DBN_FAULT_SIDE: f"a record's side is {_letter(value)}, not one of ABN{skippable}",
            lib.SD_DBN_FAULT_TIME: f"a record's time lies beyond 2262-04-11, which no tick holds{skippable}",
            lib.SD_DBN_FAULT_SIZE: f"a bar's volume is beyond 2**63 - 1, which no tick holds{skippable}",
        }
        cut = lib.SD_DBN_FAULT_TRUNCATED
        return fault_error(texts, state.fault, cut=cut, path=path, offset=base + state.fault_offset)

    def skipped(self) -> dict[str, tuple[int, int]]:
        """Records passed over since the first one, by reason: how many, and how far behind the first record the first
        of them lies."""
        state = self._state
        return {
            reason: (int(state.skipped[fault]), int(state.first_skipped[fault]))
            for fault, reason in _SKIPPABLE.items()
            if state.skipped[fault]
        }

    def statistics(self) -> dict[str, int]:
        """Counts since the first record; ``type_XX`` counts those of record type 0xXX."""
        state = self._state
        counts = {
            "records": state.records,
            "ticks": state.ticks,
            "not_selected": state.not_selected,
            "skipped_records": sum(state.skipped),
            "doubtful_books": state.doubtful_books,
            "doubtful_times": state.doubtful_times,
            "bytes_decoded": state.offset,
        }
        counts.update({f"type_{i:02x}": n for i, n in enumerate(state.counts) if n})
        return counts


def _checked(code: int) -> None:
    checked(code, _NO_TABLE, MemoryError)


def _letter(byte: int) -> str:
    return repr(chr(byte)) if 0x20 <= byte <= 0x7E else f"0x{byte:02x}"
