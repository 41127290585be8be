"""The decoders of csrc/codec: a structure and one function, one call a buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import Code, checked, fault_error, made, refusal
from strand.binding.memory import held, owned
from strand.errors import FeedError
from strand.fixed import dataclass

#: Of a symbol's name, as ITCH and PITCH have it.
NAME_BYTES: Final = 8

#: Says of names which of them are wanted, in their order. Names have ``NAME_BYTES`` bytes of ASCII, padded with blanks
#: on the right; one of blanks alone stands for what has none.
Keeps = Callable[[npt.NDArray[np.bytes_]], npt.NDArray[np.bool_]]
NO_NAME: Final = np.array([b" " * NAME_BYTES])

_FOREVER: Final = (1 << 64) - 1


class Decoder(ABC):
    """Decoder of one stream. Not for two threads at once."""

    #: The ``sd_decode`` of the format, a pointer to C's function.
    function: ClassVar[Any]
    #: The ``sd_open_blocks`` of the format, likewise; NULL where it has none.
    open_blocks: ClassVar[Any] = ffi.NULL
    #: The most ticks that one record makes.
    max_per_record: ClassVar[int] = 1
    #: Short reasons by fault, for what is skipped.
    reasons: ClassVar[Mapping[int, str]]

    #: Byte of the input at which its records begin.
    base: int = 0

    def __init__(self, state: Any) -> None:
        #: C's structure, for a feeder, and for decoders of what the stream travels in.
        self.state = state

    @property
    def offset(self) -> int:
        """Bytes of the stream decoded so far."""
        return int(self.state.offset)

    @property
    def place(self) -> int:
        """The byte of the input that comes next."""
        return self.base + int(self.state.offset)

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, bool]:
        """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``, ``max_per_record`` long or more).

        Returns the ticks made, the bytes consumed, and whether all is well; if not, ``fault`` says what is wrong.
        The bytes not consumed must lead the next call's ``data``. ``last``: nothing follows ``data``. Raises
        MemoryError where the decoder needs memory of its own and there is none.
        """
        ticks, size, capacity = ffi.from_buffer("sd_tick[]", out, require_writable=True), len(data), len(out)
        made = used = 0
        with held(data) as source:
            while True:
                did = self.function(self.state, source + used, size - used, int(last), ticks + made, capacity - made)
                made += did.made
                used += did.consumed
                if did.code != Code.AGAIN or not self.answer(data[:used]):
                    return made, used, self.is_sound(did.code)

    def answer(self, passed: memoryview) -> bool:
        """Answers what the decoder stopped for. ``passed``: the bytes before that. Returns whether it may go on."""
        raise NotImplementedError

    def is_sound(self, code: int) -> bool:
        """Tells whether a call succeeded, by its code. Raises MemoryError."""
        if code == Code.NO_MEMORY:
            raise refusal(code, f"there is no memory for {self._needs}", MemoryError)
        return code == Code.OK

    @property
    def _needs(self) -> str:
        """Name of the memory that the decoder needs beside its structure, for error texts."""
        raise NotImplementedError

    @abstractmethod
    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""

    def skips(self) -> dict[str, int]:
        """Records that were skipped since the first byte, by reason."""
        counts = self.state.skips
        return {reason: counts[fault] for fault, reason in self.reasons.items() if counts[fault]}

    @property
    def has_samples(self) -> bool:
        """True if ``skip_samples`` has something to give."""
        return bool(self.state.sampled)

    @abstractmethod
    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        """Samples of what was passed over since the last call: a reason each, with the arguments ``offset``, ``line``
        and ``text`` of ``Skipped.add``."""

    @abstractmethod
    def statistics(self) -> dict[str, int]:
        """Counts since the first byte."""

    def _take_samples(self) -> list[Any]:
        """C's own samples since the last call."""
        state = self.state
        found = [state.samples[i] for i in range(state.sampled)]
        state.sampled = 0
        return found

    def _select(self, start_ns: int | None, end_ns: int | None) -> None:
        """Makes ticks only from ``start_ns`` to before ``end_ns``."""
        state = self.state
        state.selective = 1
        state.start_ns = start_ns or 0
        state.span_ns = min((_FOREVER + 1 if end_ns is None else end_ns) - state.start_ns, _FOREVER)

    def _types(self, form: str) -> dict[str, int]:
        """Messages by type, each named by its number in this form."""
        return {form.format(i): n for i, n in enumerate(self.state.counts) if n}


def letter_of(byte: int) -> str:
    """A byte as messages show it."""
    return repr(chr(byte)) if 0x20 <= byte <= 0x7E else f"0x{byte:02x}"


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
    open_blocks: ClassVar = ffi.addressof(lib, "sd_dbn_open_blocks")
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
        lib.sd_dbn_init(self.state, version, self._instruments)
        self.state.skip = int(skip)
        self.state.tail = tail
        self.state.levels = levels
        self.state.start_ns, self.state.last_ns = span
        self._asks, self.base = _refuse if asks is None else asks, base
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
        state = self.state
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
        state = self.state
        return (state.roll_key, state.roll_from, state.roll_to, state.roll_time) if state.rolls else None

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        if self._refused is not None:
            return self._refused
        state = self.state
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
        return fault_error(texts, state.fault, cut=cut, path=path, offset=self.base + state.fault_offset)

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        """Samples as ``Decoder.skip_samples`` has them, the first record of each reason."""
        state = self.state
        state.sampled = 0
        new = [(fault, why) for fault, why in self.reasons.items() if state.skips[fault] and why not in self._sampled]
        self._sampled.update(why for _, why in new)
        return [(why, {"offset": self.base + state.first_skips[fault]}) for fault, why in new]

    def statistics(self) -> dict[str, int]:
        """Counts since the first record; ``type_XX`` counts those of record type 0xXX."""
        state = self.state
        counts = {
            "records": state.records,
            "ticks": state.ticks,
            "not_selected": state.not_selected,
            "skipped_records": sum(state.skips),
            "doubtful_books": state.doubtful_books,
            "doubtful_times": state.doubtful_times,
            "mixed_quotes": state.mixed_quotes,
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


def named_faults(prefix: str, *, cut: str) -> dict[int, str]:
    """The short reasons of a format whose messages name symbols, by fault."""
    words = {"TRUNCATED": cut, "UNKNOWN_TYPE": "unknown type", "LENGTH": "bad length", "FIELD": "bad field",
             "SYMBOLS": "too many symbols"}  # fmt: skip
    return {getattr(lib, f"SD_{prefix}_FAULT_{name}"): reason for name, reason in words.items()}


class NamingDecoder(Decoder):
    """A decoder that numbers symbols as their names come. ``keeps``: makes ticks only of the symbols it says."""

    def __init__(self, state: Any, keeps: Keeps | None) -> None:
        super().__init__(state)
        self._keeps = keeps

    def answer(self, passed: memoryview) -> bool:  # noqa: ARG002 - the name is known
        """Judges the symbol that the decoder has just met."""
        assert self._keeps is not None
        state = self.state
        name = np.array([bytes(ffi.buffer(state.symbols[state.asked]))], f"S{NAME_BYTES}")
        state.wanted[state.asked] = int(self._keeps(name)[0])
        return True

    @property
    def symbol_count(self) -> int:
        """Number of known symbols, the one without a name included."""
        return int(self.state.symbol_count)

    def symbols(self) -> list[str]:
        """Names by index; the first is ``""``."""
        count = self.symbol_count
        names = np.frombuffer(ffi.buffer(self.state.symbols, count * NAME_BYTES), f"S{NAME_BYTES}")
        return [name.decode("ascii").rstrip(" ") for name in names.tolist()]


class PitchDecoder(NamingDecoder):
    """Decoder of one stream. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_pitch_decode")
    reasons: ClassVar = named_faults("PITCH", cut="cut line")

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
        super().__init__(owned(state, lib.sd_pitch_free), keeps)
        if keeps is not None:
            self._select(start_ns, end_ns)
            state.wanted[0] = int(keeps(NO_NAME)[0])

    @property
    def _needs(self) -> str:
        return f"more than {self.state.live_orders} live orders"

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        found = self.state.fault
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

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; ``type_X`` counts the messages of type X."""
        state = self.state
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
