"""Packet captures (pcap, pcapng) of NASDAQ's MoldUDP64 with ITCH 5.0, and of IEX's feeds.

Layout of the packets: Nasdaq, "MoldUDP64 Protocol Specification", and IEX, "Transport Specification"; of the files: the
pcap and pcapng drafts of the IETF's opsawg. How lines are arbitrated: csrc/codec/pcap/pcap.h and docs/feeds/pcap.md.
The ticks of each message: strand.feeds.formats.itch; csrc/codec/iex/iex.h and docs/feeds/iex.md, after IEX's "TOPS",
"DEEP" and "DEEP+" specifications. ``flags`` of IEX's ticks are constants of this module.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Unpack

from strand.binding import captures as _captures
from strand.binding.captures import (
    AUCTION,
    BROKEN_TRADE,
    COMPLETE,
    CROSS,
    DIRECTORY,
    EXTENDED_HOURS,
    KEEPS_PRIORITY,
    ODD_LOT,
    OFFICIAL_PRICE,
    OPERATIONAL_HALT,
    OPERATIONAL_RESUME,
    RETAIL_INTEREST,
    SECURITY_EVENT,
    SHORT_SALE_TEST,
    SWEEP,
    THROUGH_EXEMPT,
    UNAVAILABLE,
    IexDecoder,
    IexPcapDecoder,
    PcapDecoder,
)
from strand.binding.itch import FLAGS, ItchDecoder
from strand.errors import ConfigurationError
from strand.feeds.base import FeedInfo, TicksAre
from strand.feeds.formats.decoded import DecodedFeed, orders_info
from strand.feeds.formats.itch import ItchNames, ItchSymbols, MarketEvent
from strand.feeds.formats.options import CaptureOptions, PcapOptions
from strand.feeds.times import NEW_YORK, date_in_names
from strand.options import named_options
from strand.ticks import Flags, aligned_ticks
from strand.validate import whole
from strand.zones import zone_named

__all__ = [
    "AUCTION", "BROKEN_TRADE", "COMPLETE", "CROSS", "DIRECTORY", "EXTENDED_HOURS", "KEEPS_PRIORITY", "ODD_LOT",
    "OFFICIAL_PRICE", "OPERATIONAL_HALT", "OPERATIONAL_RESUME", "RETAIL_INTEREST", "SECURITY_EVENT",
    "SHORT_SALE_TEST", "SWEEP", "THROUGH_EXEMPT", "UNAVAILABLE", "IexFeed",
    "PcapFeed", "recognise", "recognise_iex",
]  # fmt: skip

#: Enough for the first packet of any network but those of jumbo frames of loopback.
_HEAD_BYTES: Final = 1 << 17
_MAGICS: Final = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1")
_NG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_NG_MARKS: Final = (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a")
_SESSION_LETTERS: Final = 10


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` (12 bytes are enough) is a packet capture."""
    return head.startswith(_MAGICS) or (head.startswith(_NG_MAGIC) and head[8:12] in _NG_MARKS)


def _capture_options(of_feed: dict[str, Any], given: CaptureOptions) -> dict[str, Any]:
    """The options of a capture's decoder. ``of_feed``: those of the messages' decoder, without the span from here on,
    which goes by capture times."""
    return {
        "skip": of_feed["skip"],
        "ports": _ports(given["port"]),
        "session": _session(given["session"]),
        **{name: given[name] for name in ("hold", "hold_ns")},
        "span": (of_feed.pop("start_ns", None), of_feed.pop("end_ns", None)),
    }


def _kind_of(head: bytes) -> str:
    return "pcapng" if head.startswith(_NG_MAGIC) else "pcap"


@named_options("PcapFeed()", declares=PcapOptions)
class PcapFeed(ItchNames, DecodedFeed):
    """Reads a capture of MoldUDP64 with ITCH 5.0 as batches of ticks; ``ts_recv`` is the capture time.

    A file whose name has no day is of the capture's day in New York. Damaged records, cut packets and bad messages are
    damage. Gaps are no errors: ``statistics()`` counts them, and ``skipped`` samples them. ``select`` goes by capture
    times.

    Args:
        path: The file.

    Raises:
        UnknownFormatError: If the file is no capture.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
    """

    _decoder: PcapDecoder

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[PcapOptions]) -> None:
        super().__init__(path, options, headroom=_captures.MAX_RECORD)
        self._capture = _capture_options(self._options, options) | {"blank_headers": options["blank_headers"]}
        refusal = "does not start as a pcap or pcapng file does"
        head, names, details = self._read_head(_HEAD_BYTES, recognise, refusal)
        details = {"capture": _kind_of(head), "protocol": "MoldUDP64, ITCH 5.0"} | details
        day = self._dated(options["date"], names, lambda: _captured_on(head))
        self._options["attributes"] = True
        self._decoder = PcapDecoder(ItchDecoder(**self._options), **self._capture)
        self._symbols = ItchSymbols(self._decoder.messages)
        self._info = orders_info("pcap", self._path, "XNAS", day, details, flags=FLAGS)

    @property
    def session(self) -> str:
        """The transport's session read in the latest iteration, ``""`` as long as there is none."""
        return self._decoder.session

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        Those of the messages' decoder, and ``records``, ``packets`` (of the transport, with messages), ``heartbeats``,
        ``ends`` (of session), ``duplicates`` (packets that brought nothing new), ``held`` (packets that had to wait),
        ``gaps`` and ``missing`` (messages in them), ``other_packets``, ``blank_packets`` and ``iex_packets`` (of those,
        what ``blank_headers`` and the format ``iex`` would have read), ``other_sessions``, ``fragments``.
        """
        return super().statistics()

    def _begin(self) -> PcapDecoder:
        itch = ItchDecoder(**self._options, directory_of=self._decoder.messages)
        self._decoder = PcapDecoder(itch, **self._capture)
        self._symbols.follow(itch)
        return self._decoder


_OF_TRADES: Final = THROUGH_EXEMPT | ODD_LOT | EXTENDED_HOURS | SWEEP


class _Protocol(NamedTuple):
    name: str
    ticks: TicksAre
    flags: Flags


_TOPS: Final = Flags(cross=CROSS, other=_OF_TRADES)
#: By the number of a protocol in IEX-TP.
_PROTOCOLS: Final = {
    0x8002: _Protocol("TOPS 1.5", "plain", _TOPS),
    0x8003: _Protocol("TOPS 1.6", "plain", _TOPS),
    0x8004: _Protocol("DEEP 1.0", "plain", Flags(cross=CROSS, last=COMPLETE, other=_OF_TRADES)),
    0x8005: _Protocol("DEEP+ 1.0", "orders", Flags(cross=CROSS, other=_OF_TRADES | KEEPS_PRIORITY)),
}


def _protocol_of(head: bytes) -> int:
    """The protocol of the first packet of IEX-TP in a capture that starts with ``head``; 0: there is none."""
    if not recognise(head):
        return 0
    probe = IexPcapDecoder(IexDecoder(skip=True), skip=True)
    probe.decode(memoryview(head), last=True, out=aligned_ticks(len(head) // 12 + 1))
    return probe.protocol


def recognise_iex(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` is a capture with a packet of IEX-TP in it."""
    return _protocol_of(head) != 0


@named_options("IexFeed()", declares=CaptureOptions)
class IexFeed(DecodedFeed):
    """Reads a capture of TOPS, DEEP or DEEP+ as batches of ticks; ``ts_recv`` is the capture time.

    The feed's first packet says which of them it is. A file whose name has no day is of the capture's day in New York.
    Damaged records, packets whose lengths do not fit and short messages are damage. Gaps, and types that are not known,
    are no errors: ``statistics()`` counts them, and ``skipped`` samples them. ``select`` goes by capture times.

    Args:
        path: The file.

    Raises:
        UnknownFormatError: If the file is no capture, or its start has no packet of IEX-TP.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
    """

    _decoder: IexPcapDecoder

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[CaptureOptions]) -> None:
        super().__init__(path, options, headroom=_captures.MAX_RECORD)
        self._capture = _capture_options(self._options, options)
        refusal = "does not start as a pcap or pcapng file of IEX-TP packets (protocols 0x8002 to 0x8005) does"
        head, names, details = self._read_head(_HEAD_BYTES, recognise_iex, refusal)
        protocol = _PROTOCOLS[_protocol_of(head)]
        day = date_in_names(names) or _captured_on(head)
        self._decoder = self._new_decoder()
        self._names: list[str] = [""]
        self._info = FeedInfo(
            format="iex",
            path=str(self._path),
            date=day.isoformat() if day is not None else None,
            venue="IEXG",
            price_unit=1e-4,
            ticks=protocol.ticks,
            flags=protocol.flags,
            details={"capture": _kind_of(head), "protocol": f"IEX-TP, {protocol.name}"} | details,
            zone=NEW_YORK,
        )

    @property
    def session(self) -> str:
        """See ``PcapFeed``."""
        return self._decoder.session

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration: those that ``PcapFeed`` has."""
        return super().statistics()

    @property
    def symbols(self) -> Sequence[str]:
        """Names in the order they first come, ``""`` before them: grows while batches are read."""
        if len(self._names) < self._decoder.messages.symbol_count:
            self._names = self._decoder.messages.symbols()
        return self._names

    @property
    def max_symbols(self) -> int:
        """65,536: IEX names symbols in each message, and does not say how many there are."""
        return _captures.IEX_SYMBOLS

    @property
    def market_events(self) -> tuple[MarketEvent, ...]:
        """System events so far, in order (type ``"S"``); of more than 64 the first 64."""
        return tuple(MarketEvent("S", ts, letter) for ts, letter in self._decoder.messages.market_events())

    def _begin(self) -> IexPcapDecoder:
        _ = self.symbols  # those of the last iteration stay known: they come in the same order again
        self._decoder = self._new_decoder()
        return self._decoder

    def _new_decoder(self) -> IexPcapDecoder:
        return IexPcapDecoder(IexDecoder(**self._options), **self._capture)


def _captured_on(head: bytes) -> dt.date | None:
    """The day in New York of the first record that the file's start holds whole."""
    probe = PcapDecoder(ItchDecoder(midnight_ns=0, skip=True), skip=True)
    probe.decode(memoryview(head), last=False, out=aligned_ticks(1))
    if not probe.first_ns:
        return None
    return dt.datetime.fromtimestamp(probe.first_ns // 1_000_000_000, zone_named("America/New_York")).date()


def _ports(port: int | Collection[int] | None) -> tuple[int, ...]:
    ports = (
        () if port is None else port if isinstance(port, Collection) and not isinstance(port, str | bytes) else (port,)
    )
    return tuple(whole("port", number, 1, 65535) for number in ports)


def _session(session: str | None) -> bytes | None:
    if session is None:
        return None
    is_text = isinstance(session, str) and session.isascii() and session.isprintable()
    if not is_text or not 0 < len(session) <= _SESSION_LETTERS:
        raise ConfigurationError("session", f"{session!r} is not a session's name: give 1 to 10 printable characters")
    return session.ljust(_SESSION_LETTERS).encode("ascii")
