"""Decoders of captures (csrc/codec/pcap), and of IEX's messages in them (csrc/codec/iex)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Final

from strand.binding import ffi, lib
from strand.binding.decoders import NAME_BYTES, Decoder, Keeps, NamingDecoder, letter_of, named_faults
from strand.binding.gate import fault_error, made
from strand.binding.itch import ItchDecoder
from strand.binding.memory import owned
from strand.errors import FeedError

#: Every ``instrument_id`` of IEX is below this.
IEX_SYMBOLS: Final[int] = lib.SD_IEX_SYMBOLS

COMPLETE: Final[int] = lib.SD_IEX_COMPLETE
KEEPS_PRIORITY: Final[int] = lib.SD_IEX_KEEPS_PRIORITY
CROSS: Final[int] = lib.SD_IEX_CROSS
THROUGH_EXEMPT: Final[int] = lib.SD_IEX_THROUGH_EXEMPT
ODD_LOT: Final[int] = lib.SD_IEX_ODD_LOT
EXTENDED_HOURS: Final[int] = lib.SD_IEX_EXTENDED_HOURS
SWEEP: Final[int] = lib.SD_IEX_SWEEP
UNAVAILABLE: Final[int] = lib.SD_IEX_UNAVAILABLE
OPERATIONAL_HALT: Final[int] = lib.SD_IEX_OPERATIONAL_HALT
OPERATIONAL_RESUME: Final[int] = lib.SD_IEX_OPERATIONAL_RESUME
SHORT_SALE_TEST: Final[int] = lib.SD_IEX_SHORT_SALE_TEST
RETAIL_INTEREST: Final[int] = lib.SD_IEX_RETAIL_INTEREST
BROKEN_TRADE: Final[int] = lib.SD_IEX_BROKEN_TRADE
OFFICIAL_PRICE: Final[int] = lib.SD_IEX_OFFICIAL_PRICE
SECURITY_EVENT: Final[int] = lib.SD_IEX_SECURITY_EVENT
DIRECTORY: Final[int] = lib.SD_IEX_DIRECTORY
AUCTION: Final[int] = lib.SD_IEX_AUCTION

assert NAME_BYTES == lib.SD_IEX_SYMBOL_BYTES


def iex_message_length(type_byte: int) -> int:
    """The least bytes of a message of this type without its length field; 0 for a type that IEX does not have."""
    return int(lib.sd_iex_length(type_byte))


class IexDecoder(NamingDecoder):
    """Decoder of IEX's messages with their lengths. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_iex_decode")
    reasons: ClassVar = named_faults("IEX", cut="cut message")

    def __init__(self, *, skip: bool, keeps: Keeps | None = None) -> None:
        """``keeps``: makes ticks only of the symbols it says."""
        state = made(lib.sd_iex_new(int(skip)), "there is no memory for an IEX decoder")
        super().__init__(owned(state, lib.sd_iex_free), keeps)
        if keeps is not None:
            state.selective = 1

    def fault(self, path: str | Path, *, offset: int | None = None, place: str = "") -> FeedError:
        """The error that ended the last ``decode``, to be raised.

        ``offset``, ``place``: where it is, when the messages travel in something else.
        """
        found = self.state.fault
        letter = letter_of(found.type)
        texts = {
            lib.SD_IEX_FAULT_TRUNCATED: "the input ends inside a message; get the whole file, or keep what was read",
            lib.SD_IEX_FAULT_LENGTH: (
                f"a message of type {letter} has {found.length} bytes where its type has "
                f"{iex_message_length(found.type) or 'at least 1'}"
            ),
            lib.SD_IEX_FAULT_FIELD: (
                f"a message of type {letter} has a price, side or name at byte {found.length} that its field cannot "
                "have"
            ),
            lib.SD_IEX_FAULT_SYMBOLS: f"the file names more than {IEX_SYMBOLS - 1} symbols",
        }
        return fault_error(
            texts,
            found.fault,
            cut=lib.SD_IEX_FAULT_TRUNCATED,
            path=path,
            offset=found.offset if offset is None else offset,
            place=place,
            advice="; on_bad_record='skip' skips such messages",
        )

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (self.reasons[at.fault], {"offset": at.offset, "text": f"message {at.message}, type {letter_of(at.type)}"})
            for at in self._take_samples()
        ]

    def market_events(self) -> list[tuple[int, str]]:
        """The system events: the time, ns since the UNIX epoch, and the letter; the first 64."""
        state = self.state
        return [(at.ts, chr(at.letter)) for at in state.market[0 : min(state.market_events, len(state.market))]]

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; ``type_X`` counts the messages of type X."""
        state = self.state
        counts = {
            "messages": state.messages,
            "ticks": state.ticks,
            "bytes_decoded": state.offset,
            "not_selected": state.unselected,
            "grown_messages": state.grown,
            "skipped_messages": sum(state.skips),
        }
        return counts | self._types("type_{:c}")


#: The longest record the decoder waits for: what a caller may have to carry from one buffer to the next.
MAX_RECORD: Final[int] = lib.SD_PCAP_MAX_RECORD

#: The most packets that can be held until what is missing before them has come.
MAX_HELD: Final[int] = lib.SD_PCAP_HELD - 1

_SESSION_BYTES: Final[int] = lib.SD_PCAP_SESSION_BYTES
_COUNTS: Final = (
    "records",
    "other_packets",
    "blank_packets",
    "iex_packets",
    "other_sessions",
    "fragments",
    "packets",
    "heartbeats",
    "ends",
    "duplicates",
    "held",
    "gaps",
    "missing",
    "skipped_bytes",
)


class CaptureDecoder(Decoder):
    """Decoder of one capture, over a decoder of its messages. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_pcap_decode")
    reasons: ClassVar = {
        lib.SD_PCAP_FAULT_TRUNCATED: "cut record",
        lib.SD_PCAP_FAULT_RECORD: "bad record",
        lib.SD_PCAP_FAULT_LINK: "unknown link",
        lib.SD_PCAP_FAULT_SNAPPED: "snapped packet",
        lib.SD_PCAP_FAULT_SESSION: "other session",
        lib.SD_PCAP_FAULT_MESSAGE: "bad length",
        lib.SD_PCAP_FAULT_ANEW: "session begun anew",
    }

    def __init__(
        self,
        messages: ItchDecoder | IexDecoder,
        *,
        skip: bool,
        ports: Collection[int] = (),
        session: bytes | None = None,
        blank_headers: bool = False,
        hold: int = MAX_HELD,
        hold_ns: int = (1 << 63) - 1,
        span: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """``ports``: destination ports to look at, none for all. ``session``: ten bytes; by default the first there
        is. ``blank_headers``: packets without session and sequence go on where the last one ended.
        ``hold``, ``hold_ns``: how many packets are held, and how long the first of them, before a gap is
        given up. Ticks are made of what was captured from the first time of ``span``, ns, to before the last."""
        self.messages = messages
        itch, iex = (messages.state if isinstance(messages, of) else ffi.NULL for of in (ItchDecoder, IexDecoder))
        state = made(lib.sd_pcap_new(itch, iex, int(skip)), "there is no memory for a capture's decoder")
        super().__init__(owned(state, lib.sd_pcap_free))
        state.blank_headers = int(blank_headers)
        state.hold = hold
        state.hold_ns = hold_ns
        for port in ports:
            state.any_port = 0
            state.ports[port // 8] |= 1 << port % 8
        if session is not None:
            ffi.memmove(state.session, session, _SESSION_BYTES)
            state.session_known = state.session_chosen = 1
        if span != (None, None):
            self._select(*span)

    _needs = "a packet"

    def answer(self, passed: memoryview) -> bool:
        return self.messages.answer(passed)

    @property
    def first_ns(self) -> int:
        """Capture time of the first record, ns since the UNIX epoch; 0 before it is read."""
        return int(self.state.first_ts)

    @property
    def session(self) -> str:
        """The session that is read; ``""`` before the first packet."""
        return bytes(self.state.session).decode("ascii") if self.state.session_known else ""

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        found = self.state.fault
        if found.fault == lib.SD_PCAP_FAULT_CONTENT:
            return self.messages.fault(path, offset=found.offset, place=f"message {found.sequence}: ")
        texts = {
            lib.SD_PCAP_FAULT_TRUNCATED: "the capture ends inside a record; get the whole file, or keep what was read",
            lib.SD_PCAP_FAULT_RECORD: (
                f"a record's length, time or mark is impossible ({found.value}): the capture is damaged; "
                "on_bad_record='skip' searches for the next record"
            ),
            lib.SD_PCAP_FAULT_LINK: (
                f"packets of link type or interface {found.value} cannot be read; only Ethernet, raw IP and Linux "
                "cooked can"
            ),
            lib.SD_PCAP_FAULT_SNAPPED: (
                f"only {found.value} bytes of the packet were captured: capture whole packets (a snap length of 0), or "
                "choose the feed's port; on_bad_record='skip' skips such packets"
            ),
            lib.SD_PCAP_FAULT_MESSAGE: (
                f"message {found.sequence} has {found.value} bytes, which is not the length of its type; "
                "on_bad_record='skip' skips such messages"
            ),
            **self._texts(found),
        }
        cut = lib.SD_PCAP_FAULT_TRUNCATED
        return fault_error(texts, found.fault, cut=cut, path=path, offset=found.offset)

    @abstractmethod
    def _texts(self, found: Any) -> dict[int, str]:
        """Texts of a fault in a packet of the transport."""

    def skips(self) -> dict[str, int]:
        """Messages that were skipped since the first byte, by reason, and ``missing messages`` of gaps."""
        found = super().skips()
        for reason, count in self.messages.skips().items():
            found[reason] = found.get(reason, 0) + count
        return found | ({"missing messages": int(self.state.missing)} if self.state.missing else {})

    @property
    def has_samples(self) -> bool:
        """True if ``skip_samples`` has something to give."""
        return super().has_samples or self.messages.has_samples

    def skip_samples(self) -> list[tuple[str, dict[str, Any]]]:
        """Samples as ``Decoder.skip_samples`` has them, with the offset of the record, and samples of missing
        messages."""
        gap = "{0.value} from message {0.sequence} on"
        other = "message {0.sequence}, value {0.value}"
        samples = [
            (
                self.reasons.get(at.fault, "missing messages"),
                {"offset": at.offset, "text": (other if at.fault else gap).format(at)},
            )
            for at in self._take_samples()
        ]
        return samples + self.messages.skip_samples()

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; those of ITCH where they are about messages."""
        state = self.state
        counts = self.messages.statistics()
        counts["messages"] = sum(n for name, n in counts.items() if name.startswith("type_"))
        counts["ticks"] = state.ticks
        counts["bytes_decoded"] = state.offset
        return counts | {name: int(getattr(state, name)) for name in _COUNTS}


class PcapDecoder(CaptureDecoder):
    """Decoder of a capture of MoldUDP64 with ITCH 5.0."""

    messages: ItchDecoder
    reasons: ClassVar = CaptureDecoder.reasons | {lib.SD_PCAP_FAULT_PACKET: "not MoldUDP64"}

    def _texts(self, found: Any) -> dict[int, str]:
        return {
            lib.SD_PCAP_FAULT_PACKET: (
                "give blank_headers=True: a packet on a chosen port has zeros for session and sequence"
                if self.state.blank_packets
                else f"{found.value} bytes on a chosen port are not a MoldUDP64 packet; on_bad_record='skip' skips them"
            ),
            lib.SD_PCAP_FAULT_SESSION: (
                f"message {found.sequence} belongs to another session than {self.session!r}: choose one with session="
            ),
        }


class IexPcapDecoder(CaptureDecoder):
    """Decoder of a capture of IEX-TP."""

    messages: IexDecoder
    reasons: ClassVar = CaptureDecoder.reasons | {lib.SD_PCAP_FAULT_PACKET: "not IEX-TP"}

    @property
    def protocol(self) -> int:
        """The protocol that is read; 0 before the first packet."""
        return int(self.state.stream) >> 32

    def _texts(self, found: Any) -> dict[int, str]:
        return {
            lib.SD_PCAP_FAULT_PACKET: (
                f"the lengths in {found.value} bytes are not those of an IEX-TP packet: the capture is damaged, or the "
                "port another one; on_bad_record='skip' skips such packets"
            ),
            lib.SD_PCAP_FAULT_SESSION: (
                f"message {found.sequence} is of another stream (protocol 0x{found.value:04x}) than session "
                f"{self.session.rstrip()!r} of protocol 0x{self.protocol:04x}: choose one with session= or port="
            ),
            lib.SD_PCAP_FAULT_ANEW: (
                f"session {self.session.rstrip()!r} begins anew with message 1, as after a restart of the venue: cut "
                "the capture there and read the files one by one; on_bad_record='skip' leaves the rest out"
            ),
        }
