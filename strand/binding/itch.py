"""The ITCH 5.0 decoder of csrc/codec/itch, one call a buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.decoders import NAME_BYTES, NO_NAME, Decoder, Keeps, letter_of
from strand.binding.gate import fault_error
from strand.errors import FeedError
from strand.ticks import TICK, Flags, empty

LOCATES: Final[int] = lib.SD_ITCH_LOCATES
#: The longest frame the decoder waits for: what a caller may have to carry from one buffer to the next.
MAX_FRAME: Final[int] = lib.SD_ITCH_MAX_FRAME

NON_PRINTABLE: Final[int] = lib.SD_ITCH_NON_PRINTABLE
ATTRIBUTED: Final[int] = lib.SD_ITCH_ATTRIBUTED
CROSS: Final[int] = lib.SD_ITCH_CROSS
CROSS_OPENING: Final[int] = lib.SD_ITCH_CROSS_OPENING
CROSS_CLOSING: Final[int] = lib.SD_ITCH_CROSS_CLOSING
CROSS_HALT: Final[int] = lib.SD_ITCH_CROSS_HALT
CROSS_INTRADAY: Final[int] = lib.SD_ITCH_CROSS_INTRADAY
CROSS_MASK: Final[int] = lib.SD_ITCH_CROSS_MASK
IMBALANCE: Final[int] = lib.SD_ITCH_IMBALANCE
OPERATIONAL_HALT: Final[int] = lib.SD_ITCH_OPERATIONAL_HALT
OPERATIONAL_RESUME: Final[int] = lib.SD_ITCH_OPERATIONAL_RESUME
REG_SHO: Final[int] = lib.SD_ITCH_REG_SHO
IPO_QUOTING: Final[int] = lib.SD_ITCH_IPO_QUOTING
IPO_CANCELED: Final[int] = lib.SD_ITCH_IPO_CANCELED
LULD_COLLAR: Final[int] = lib.SD_ITCH_LULD_COLLAR
RETAIL_INTEREST: Final[int] = lib.SD_ITCH_RETAIL_INTEREST
DIRECT_LISTING: Final[int] = lib.SD_ITCH_DIRECT_LISTING
DIRECT_LISTING_OPEN: Final[int] = lib.SD_ITCH_DIRECT_LISTING_OPEN
BROKEN_TRADE: Final[int] = lib.SD_ITCH_BROKEN_TRADE
#: Meaning of the bits of orders and trades.
FLAGS: Final = Flags(unprinted=NON_PRINTABLE, cross=CROSS, other=ATTRIBUTED | CROSS_MASK)

#: The length field that leads each message.
PREFIX_BYTES: Final = 2

assert NAME_BYTES == lib.SD_ITCH_SYMBOL_BYTES

_WHOLE: Final = f"V{TICK.itemsize}"
_NO_TICKS: Final = empty(0)

#: Attributes of a stock in a directory message, as they lie there: text, and big-endian numbers.
ATTRIBUTES: Final = np.dtype(
    [
        ("market_category", "S1"),
        ("financial_status", "S1"),
        ("round_lot_size", ">u4"),
        ("round_lots_only", "S1"),
        ("classification", "S1"),
        ("subtype", "S2"),
        ("authenticity", "S1"),
        ("short_sale_threshold", "S1"),
        ("ipo", "S1"),
        ("luld_tier", "S1"),
        ("etp", "S1"),
        ("etp_leverage", ">u4"),
        ("inverse", "S1"),
    ]
)
assert ATTRIBUTES.itemsize == lib.SD_ITCH_ATTRIBUTE_BYTES


def message_length(type_byte: int) -> int:
    """Bytes of a message of this type without its length field; 0 for a type ITCH 5.0 does not have."""
    return int(lib.sd_itch_length(type_byte))


#: ``ffi.new`` for an ``sd_itch``: of its names most pages are never touched, and so not made.
new_state: Final = ffi.new_allocator(
    lambda size: ffi.from_buffer("char[]", np.zeros(size, np.uint8), require_writable=True),
    should_clear_after_alloc=False,
)


class ItchDecoder(Decoder):
    """Decoder of one stream. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_itch_decode")
    open_blocks: ClassVar = ffi.addressof(lib, "sd_itch_open_blocks")
    reasons: ClassVar = {
        lib.SD_ITCH_FAULT_TRUNCATED: "cut message",
        lib.SD_ITCH_FAULT_UNKNOWN_TYPE: "unknown type",
        lib.SD_ITCH_FAULT_LENGTH: "bad length",
        lib.SD_ITCH_FAULT_SIDE: "bad side",
        lib.SD_ITCH_FAULT_SYMBOL: "bad symbol",
        lib.SD_ITCH_FAULT_RENAMED: "renamed locate",
        lib.SD_ITCH_FAULT_SIZE: "bad shares",
    }

    def __init__(
        self,
        *,
        midnight_ns: int,
        skip: bool,
        directory_of: ItchDecoder | None = None,
        keeps: Keeps | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        attributes: bool = False,
    ) -> None:
        """``directory_of``: a decoder of the same stream whose symbol names and attributes this one starts with.

        ``keeps``: makes ticks only of the symbols it says, from ``start_ns`` to before ``end_ns``. A locate without a
        name counts as one of blanks. ``attributes``: keep what the directory says of each symbol.
        """
        super().__init__(new_state("sd_itch *"))
        lib.sd_itch_init(self.state, midnight_ns, int(skip))
        self._keeps = keeps
        self._wanted = np.zeros(LOCATES, np.uint8) if keeps is not None else None
        #: By locate, of dtype ``ATTRIBUTES``; None unless asked for.
        self.attributes = np.zeros(LOCATES, ATTRIBUTES) if attributes else None
        self._adopted: npt.NDArray[Any] = _NO_TICKS
        state = self.state
        if directory_of is not None:
            old = directory_of.state
            ffi.memmove(state.symbols, old.symbols, old.symbol_count * NAME_BYTES)
            state.symbol_count = old.symbol_count
            state.symbol_names = old.symbol_names
            if attributes and directory_of.attributes is not None and old.symbol_names:
                self.attributes = directory_of.attributes.copy()
        if self.attributes is not None:
            state.attributes = ffi.from_buffer("uint8_t[]", self.attributes.view(np.uint8), require_writable=True)
        if keeps is not None and self._wanted is not None:
            self._select(start_ns, end_ns)
            state.wanted = ffi.from_buffer("uint8_t[]", self._wanted, require_writable=True)
            named = self._names()[: state.symbol_count] != b""
            self._wanted[:] = int(keeps(NO_NAME)[0])
            self._wanted[: len(named)][named] = lib.SD_ITCH_UNDECIDED
            state.undecided = state.symbol_names

    def decode(self, data: memoryview, *, last: bool, out: npt.NDArray[Any]) -> tuple[int, int, bool]:
        """Decodes as ``Decoder.decode``. Ticks of adopted stripes come first, and ``data`` follows those stripes."""
        if len(self._adopted):
            given = min(len(self._adopted), len(out))
            out[:given].view(_WHOLE)[:] = self._adopted[:given].view(_WHOLE)
            self._adopted = self._adopted[given:]
            made, used, sound = self.decode(data, last=last, out=out[given:]) if given < len(out) else (0, 0, True)
            return given + made, used, sound
        if not data and not last:
            return 0, 0, True
        return super().decode(data, last=last, out=out)

    def adopt(self, stripe: Any, ticks: npt.NDArray[Any]) -> bool:
        """Tells whether ``stripe`` (``sd_itch_stripe``) goes on where the last ``decode`` ended, and if so adopts it.
        The decoder then continues with the bytes after the stripe. The next calls of ``decode`` return the stripe's
        ``ticks``; the array must stay until all have come."""
        if not lib.sd_itch_stripe_adopt(self.state, stripe):
            return False
        self._adopted = ticks[: stripe.made]
        return True

    @property
    def in_step(self) -> bool:
        """True if frames of true lengths were seen, and the last one was sound."""
        return bool(self.state.prefixed) and not self.state.lost

    def decided(self) -> npt.NDArray[np.uint8]:
        """Mask of the wanted locates, with every locate judged that has a name. For a selection's decoder."""
        assert self._wanted is not None
        if self.state.undecided:
            self._decide_all()
        return self._wanted

    def answer(self, passed: memoryview) -> bool:  # noqa: ARG002 - the names are known
        """Judges the locates named since the last time."""
        assert self._keeps is not None
        assert self._wanted is not None
        state = self.state
        if state.undecided == 1:  # a directory whose every entry is followed by messages of its symbol
            self._wanted[state.asked] = self._keeps(self._names()[state.asked : state.asked + 1])[0]
            state.undecided = 0
        else:
            self._decide_all()
        return True

    def _decide_all(self) -> None:
        assert self._keeps is not None
        assert self._wanted is not None
        which = np.flatnonzero(self._wanted == lib.SD_ITCH_UNDECIDED)
        self._wanted[which] = self._keeps(self._names()[which])
        self.state.undecided = 0

    def _names(self) -> npt.NDArray[np.bytes_]:
        names: npt.NDArray[np.bytes_] = np.frombuffer(ffi.buffer(self.state.symbols), f"S{NAME_BYTES}")
        return names

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (self.reasons[at.fault], {"offset": at.offset, "text": f"type {letter_of(at.type)}, length {at.length}"})
            for at in self._take_samples()
        ]

    def market_events(self) -> list[bytes]:
        """The messages of types S, V and W, as they came; the first 64."""
        state = self.state
        kept = (bytes(ffi.buffer(state.market[i])) for i in range(min(state.market_events, len(state.market))))
        return [event[: message_length(event[0])] for event in kept]

    def fault(self, path: str | Path, *, offset: int | None = None, place: str = "") -> FeedError:
        """The error that ended the last ``decode``, to be raised.

        ``offset``, ``place``: where it is, when the messages travel in something else.
        """
        state = self.state
        letter = letter_of(state.fault_type)
        length = state.fault_length
        texts = {
            lib.SD_ITCH_FAULT_TRUNCATED: "the input ends inside a message; get the whole file, or keep what was read",
            lib.SD_ITCH_FAULT_UNKNOWN_TYPE: (
                f"message type {letter} is not one of ITCH 5.0's"
                + (
                    f" (length {length}); on_bad_record='skip' skips such messages"
                    if length
                    else ", and has no length: the file is damaged or not ITCH 5.0; on_bad_record='skip' searches for "
                    "the next valid message"
                )
            ),
            lib.SD_ITCH_FAULT_LENGTH: (
                f"the length field says {length} where a message of type {letter} has "
                f"{message_length(state.fault_type) or 'no known length'}: the file is damaged or not ITCH 5.0; "
                "on_bad_record='skip' searches for the next valid message"
            ),
            lib.SD_ITCH_FAULT_SIDE: (
                f"the side of a {letter} message is {letter_of(state.fault_value)}, not 'B' or 'S'; "
                "on_bad_record='skip' skips such messages"
            ),
            lib.SD_ITCH_FAULT_SYMBOL: (
                f"the stock name of an {letter} message has {letter_of(state.fault_value)}, which is not a printable "
                "ASCII character; on_bad_record='skip' skips such messages"
            ),
            lib.SD_ITCH_FAULT_RENAMED: (
                "a stock locate has two names: the file holds more than one day or is damaged; "
                "on_bad_record='skip' keeps the first name"
            ),
            lib.SD_ITCH_FAULT_SIZE: (
                f"the shares of a {letter} message are above 2**63 - 1, which a tick cannot hold; "
                "on_bad_record='skip' skips such messages"
            ),
        }
        at = state.fault_offset if offset is None else offset
        return fault_error(texts, state.fault, cut=lib.SD_ITCH_FAULT_TRUNCATED, path=path, offset=at, place=place)

    @property
    def named_locates(self) -> int:
        """Number of stock locates that have a name so far."""
        return int(self.state.symbol_names)

    def symbols(self) -> list[str]:
        """Names by stock locate, up to the highest that has one; ``""`` where a locate has none."""
        state = self.state
        raw = bytes(ffi.buffer(state.symbols, state.symbol_count * NAME_BYTES)).decode("ascii")
        return [raw[at : at + NAME_BYTES].rstrip(" \0") for at in range(0, len(raw), NAME_BYTES)]

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; ``type_X`` counts the messages of type X."""
        state = self.state
        counts = {
            "messages": state.messages,
            "ticks": state.ticks,
            "bytes_decoded": state.offset,
            "not_selected": state.unselected,
            "skipped_unknown_type": state.skipped_unknown_type,
            "skipped_bad_field": state.skipped_bad_field,
            "skipped_bytes": state.skipped_bytes,
        }
        return counts | self._types("type_{:c}")


class Outlook:
    """A copy of what a selection's decoder knows, for those who decode stripes of its stream.

    ``wanted``: by locate; not changed once it is made. ``names``: how many locates had a name when it was last found
    to hold.
    """

    def __init__(self, decoder: ItchDecoder) -> None:
        decoder.decided()
        self.wanted = np.empty(LOCATES, np.uint8)
        self.names = decoder.named_locates
        self.state: Any = new_state("sd_itch *")
        wanted = ffi.from_buffer("uint8_t[]", self.wanted, require_writable=True)
        lib.sd_itch_stripe_follow(self.state, decoder.state, wanted)

    def holds(self, decoder: ItchDecoder) -> bool:
        """Tells whether ``decoder`` still knows no more than this copy."""
        if self.names != decoder.named_locates and np.array_equal(self.wanted, decoder.decided()):
            self.names = decoder.named_locates
        return self.names == decoder.named_locates


class Stripe:
    """Room for what a stretch of ``size`` bytes becomes. One thread at a time.

    ``outlook``: what it was decoded with.
    """

    def __init__(self, size: int) -> None:
        # No message that makes a tick is shorter.
        self.ticks = empty(size // (PREFIX_BYTES + message_length(ord("D"))) + 2)
        self.state: Any = ffi.new("sd_itch_stripe *")
        self.state.ticks = ffi.from_buffer("sd_tick[]", self.ticks, require_writable=True)
        self.state.capacity = len(self.ticks)
        self.outlook: Outlook | None = None

    @property
    def begin(self) -> int | None:
        """Offset of the stripe's first frame; None where no usable frame was found."""
        return None if self.state.refused else int(self.state.begin)

    @property
    def end(self) -> int:
        """Offset of the end of the stripe's last frame."""
        return int(self.state.end)


class StripeDecoder:
    """Decodes stripes of a file, each by itself. One thread at a time. ``piece``: bytes read at once."""

    def __init__(self, piece: int) -> None:
        self._own: Any = new_state("sd_itch *")
        self._wanted = np.empty(LOCATES, np.uint8)
        self._buffer = np.empty(lib.SD_ITCH_STRIPE_HEADROOM + piece, np.uint8)
        self._piece = piece
        self._outlook: Outlook | None = None

    def take(self, fd: int, start: int, stop: int, outlook: Outlook, into: Stripe, *, exact: bool) -> None:
        """Decodes the frames that begin in bytes ``start`` to ``stop`` of the file; whatever the file, never raises.

        ``exact``: a frame begins at ``start``; else one is looked for from there on.
        """
        if self._outlook is not outlook:
            lib.sd_itch_stripe_follow(self._own, outlook.state, ffi.from_buffer("uint8_t[]", self._wanted))
        stripe = into.state
        stripe.start, stripe.stop, stripe.exact = start, stop, int(exact)
        into.outlook = outlook
        lib.sd_itch_stripe_take(self._own, fd, stripe, ffi.from_buffer("uint8_t[]", self._buffer), self._piece)
        self._outlook = None if stripe.refused else outlook
