"""The decoder of captured MoldUDP64 of csrc/codec/pcap/pcap.h, one call a buffer."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar, Final

from strand.binding import ffi, lib
from strand.binding.decoding import Decoder
from strand.binding.gate import fault_error, made
from strand.binding.itch import ItchDecoder
from strand.binding.memory import owned
from strand.errors import FeedError

__all__ = ["MAX_HELD", "MAX_RECORD", "PcapDecoder"]

#: The longest record the decoder waits for: what a caller may have to carry from one buffer to the next.
MAX_RECORD: Final[int] = lib.SD_PCAP_MAX_RECORD
#: The most packets that can be held until what is missing before them has come.
MAX_HELD: Final[int] = lib.SD_PCAP_HELD - 1

_SESSION_BYTES: Final[int] = lib.SD_PCAP_SESSION_BYTES
_COUNTS: Final = (
    "records",
    "other_packets",
    "blank_packets",
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


class PcapDecoder(Decoder):
    """Decoder of one capture, over an ITCH decoder of its messages. Not for two threads at once."""

    function: ClassVar = ffi.addressof(lib, "sd_pcap_decode")
    reasons: ClassVar = {
        lib.SD_PCAP_FAULT_TRUNCATED: "cut record",
        lib.SD_PCAP_FAULT_RECORD: "bad record",
        lib.SD_PCAP_FAULT_LINK: "unknown link",
        lib.SD_PCAP_FAULT_SNAPPED: "snapped packet",
        lib.SD_PCAP_FAULT_MOLD: "not MoldUDP64",
        lib.SD_PCAP_FAULT_SESSION: "other session",
        lib.SD_PCAP_FAULT_MESSAGE: "bad length",
    }

    def __init__(
        self,
        itch: ItchDecoder,
        *,
        skip: bool,
        ports: Collection[int] = (),
        session: bytes | None = None,
        blank_headers: bool = False,
        hold: int = MAX_HELD,
        hold_ns: int = (1 << 63) - 1,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> None:
        """``ports``: destination ports to look at, none for all. ``session``: ten bytes; by default the first there
        is. ``blank_headers``: packets without session and sequence go on where the last one ended.
        ``hold``, ``hold_ns``: how many packets are held, and how long the first of them, before a gap is
        given up. Ticks are made of what was captured from ``start_ns`` to
        before ``end_ns``."""
        self.itch = itch
        state = made(lib.sd_pcap_new(itch.state, int(skip)), "there is no memory for a capture's decoder")
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
        if start_ns is not None or end_ns is not None:
            self._select(start_ns, end_ns)

    _needs = "a packet"

    def answer(self, passed: memoryview) -> bool:
        return self.itch.answer(passed)

    @property
    def first_ns(self) -> int:
        """Capture time of the first record, ns since the UNIX epoch; 0 before it is read."""
        return int(self._state.first_ts)

    @property
    def session(self) -> str:
        """The session that is read; ``""`` before the first packet."""
        return bytes(self._state.session).decode("ascii") if self._state.session_known else ""

    def fault(self, path: str | Path) -> FeedError:
        """The error that ended the last ``decode``, to be raised."""
        found = self._state.fault
        if found.fault == lib.SD_PCAP_FAULT_ITCH:
            return self.itch.fault(path, offset=found.offset, place=f"message {found.sequence}: ")
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
            lib.SD_PCAP_FAULT_MOLD: (
                "give blank_headers=True: a packet on a chosen port has zeros for session and sequence"
                if self._state.blank_packets
                else f"{found.value} bytes on a chosen port are not a MoldUDP64 packet; on_bad_record='skip' skips them"
            ),
            lib.SD_PCAP_FAULT_SESSION: (
                f"message {found.sequence} belongs to another session than {self.session!r}: choose one with session="
            ),
            lib.SD_PCAP_FAULT_MESSAGE: (
                f"message {found.sequence} has {found.value} bytes, which is not the length of its type; "
                "on_bad_record='skip' skips such messages"
            ),
        }
        cut = lib.SD_PCAP_FAULT_TRUNCATED
        return fault_error(texts, found.fault, cut=cut, path=path, offset=found.offset)

    def skips(self) -> dict[str, int]:
        """Messages that were skipped since the first byte, by reason, and ``missing messages`` of gaps."""
        found = super().skips()
        for reason, count in self.itch.skips().items():
            found[reason] = found.get(reason, 0) + count
        return found | ({"missing messages": int(self._state.missing)} if self._state.missing else {})

    @property
    def has_samples(self) -> bool:
        """True if ``skip_samples`` has something to give."""
        return super().has_samples or self.itch.has_samples

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
        return samples + self.itch.skip_samples()

    def statistics(self) -> dict[str, int]:
        """Counts since the first byte; those of ITCH where they are about messages."""
        state = self._state
        counts = self.itch.statistics()
        counts["messages"] = sum(n for name, n in counts.items() if name.startswith("type_"))
        counts["ticks"] = state.ticks
        counts["bytes_decoded"] = state.offset
        return counts | {name: int(getattr(state, name)) for name in _COUNTS}
