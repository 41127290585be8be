"""The DBN decoder of csrc/codec/dbn/dbn.h, one call a buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.decoding import Decoder, letter_of
from strand.binding.gate import checked, fault_error, made
from strand.binding.memory import owned
from strand.errors import FeedError

__all__ = [
    "IMBALANCE",
    "LEVELS",
    "MAX_RECORD",
    "QUOTING",
    "SHORT_SELL_RESTRICTED",
    "STATISTIC",
    "TRADING",
    "UNWANTED",
    "DbnDecoder",
    "Question",
]

#: The longest record: what a caller may have to carry from one buffer to the next.
MAX_RECORD: Final[int] = lib.SD_DBN_MAX_RECORD
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


@dataclass(frozen=True, slots=True)
class Question:
    """Question that a decoder must have answered before it goes on.

    An id that is in no entry at a time, ns since the UNIX epoch; or ``mapping``: a symbol mapping that it has passed.
    """

    instrument: int = 0
    time_ns: int = 0
    mapping: memoryview | None = None


class DbnDecoder(Decoder):
    """Decoder of one stream. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_dbn_decode")
    max_per_record: ClassVar = lib.SD_DBN_MAX_TICKS
    reasons: ClassVar = {
        lib.SD_DBN_FAULT_LENGTH: "length not the type's",
        lib.SD_DBN_FAULT_UNKNOWN_TYPE: "unknown type",
        lib.SD_DBN_FAULT_ACTION: "no action",
        lib.SD_DBN_FAULT_SIDE: "no side",
        lib.SD_DBN_FAULT_TIME: "time beyond 2262",
        lib.SD_DBN_FAULT_SIZE: "volume beyond 2**63",
    }

    def __init__(
        self,
        *,
        version: int,
        skip: bool,
        tail: int,
        levels: int,
        span: tuple[int, int],
        base: int = 0,
        asks: Callable[[DbnDecoder, Question], FeedError | None] | None = None,
    ) -> None:
        """``tail``: bytes behind each record. ``span``: the first and the last receive time wanted. ``base``: where the
        first record lies. ``asks``: answers this decoder's question by ``add`` or ``replace``, or returns the error
        that the stream ends with. With nobody to ask, a question is such an error."""
        instruments = made(lib.sd_dbn_instruments_create(), _NO_TABLE)
        self._instruments: Any = owned(instruments, lib.sd_dbn_instruments_destroy)
        super().__init__(ffi.new("sd_dbn *"))
        lib.sd_dbn_init(self._state, version, self._instruments)
        self._state.skip = int(skip)
        self._state.tail = tail
        self._state.levels = levels
        self._state.start_ns, self._state.last_ns = span
        self._asks, self._base = _refuse if asks is None else asks, base
        self._refused: FeedError | None = None
        self._sampled: set[str] = set()

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
        """Gives the instrument this key from now on."""
        _checked(lib.sd_dbn_instruments_replace(self._instruments, instrument, key))

    def answer(self, passed: memoryview) -> bool:
        """Asks what an instrument is called, or tells of a symbol mapping."""
        state = self._state
        if state.fault == lib.SD_DBN_STOP_MAPPING:
            question = Question(mapping=passed[len(passed) - state.fault_length :])
        else:
            question = Question(state.fault_instrument, state.fault_time)
        self._refused = self._asks(self, question)
        return self._refused is None

    @property
    def _needs(self) -> str:
        return "a table of instruments"

    @property
    def first_roll(self) -> tuple[int, int, int, int] | None:
        """The first name that went over to another instrument: its key, both ids, and the receive time in ns.

        None if there was none.
        """
        state = self._state
        return (state.roll_key, state.roll_from, state.roll_to, state.roll_time) if state.rolls else None

    @property
    def place(self) -> int:
        """The offset of the record that comes next."""
        return self._base + int(self._state.offset)

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        if self._refused is not None:
            return self._refused
        state = self._state
        length, value = state.fault_length, state.fault_value
        skippable = "; on_bad_record='skip' skips such records"
        texts = {
            lib.SD_DBN_FAULT_TRUNCATED: (
                f"the input ends inside a record of {length} bytes; get the whole file, or keep what was read"
            ),
            lib.SD_DBN_FAULT_OUT_OF_STEP: (
                f"a record gives its length as {length} bytes, but its header alone has 16: the file is damaged or not "
                "DBN"
            ),
            lib.SD_DBN_FAULT_LENGTH: (
                f"a record of type 0x{state.fault_type:02x} is {length} bytes long, which is not a length of this type "
                f"in DBN version {state.version}{skippable}"
            ),
            lib.SD_DBN_FAULT_UNKNOWN_TYPE: f"0x{state.fault_type:02x} is not a record type of DBN{skippable}",
            lib.SD_DBN_FAULT_ACTION: f"a record's action is {letter_of(value)}, not one of ACMRTFN{skippable}",
            lib.SD_DBN_FAULT_SIDE: f"a record's side is {letter_of(value)}, not one of ABN{skippable}",
            lib.SD_DBN_FAULT_TIME: f"a record's time is after 2262-04-11, which a tick cannot hold{skippable}",
            lib.SD_DBN_FAULT_SIZE: f"a bar's volume is above 2**63 - 1, which a tick cannot hold{skippable}",
        }
        cut = lib.SD_DBN_FAULT_TRUNCATED
        return fault_error(texts, state.fault, cut=cut, path=path, offset=self._base + state.fault_offset)

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        """Samples as ``Decoder.skip_samples`` has them, the first record of each reason."""
        state = self._state
        state.sampled = 0
        new = [(fault, why) for fault, why in self.reasons.items() if state.skips[fault] and why not in self._sampled]
        self._sampled.update(why for _, why in new)
        return [(why, {"offset": self._base + state.first_skips[fault]}) for fault, why in new]

    def statistics(self) -> dict[str, int]:
        """Counts since the first record; ``type_XX`` counts those of record type 0xXX."""
        state = self._state
        counts = {
            "records": state.records,
            "ticks": state.ticks,
            "not_selected": state.not_selected,
            "skipped_records": sum(state.skips),
            "doubtful_books": state.doubtful_books,
            "doubtful_times": state.doubtful_times,
            "bytes_decoded": state.offset,
            "rolled_instruments": state.rolls,
        }
        return counts | self._types("type_{:02x}")


def _refuse(_: DbnDecoder, question: Question) -> FeedError:
    if question.mapping is not None:
        return FeedError("a symbol mapping cannot be followed")
    return FeedError(f"instrument {question.instrument} has no name")


def _checked(code: int) -> None:
    checked(code, _NO_TABLE, MemoryError)
