"""Packet captures (pcap, pcapng) of MoldUDP64 that carries NASDAQ TotalView-ITCH 5.0.

Layout of the packets: Nasdaq, "MoldUDP64 Protocol Specification"; of the files: the pcap and pcapng drafts of the
IETF's opsawg. The ticks of each message: strand.feeds.formats.itch; how lines are arbitrated: csrc/codec/pcap/pcap.h
and docs/feeds/pcap.md.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection
from typing import Any, Final, Unpack

from strand.binding import itch as _pcap
from strand.binding.itch import FLAGS, ItchDecoder, PcapDecoder
from strand.errors import ConfigurationError
from strand.feeds.formats.decoded import DecodedFeed
from strand.feeds.formats.itch import ItchNames, ItchSymbols
from strand.feeds.formats.options import PcapOptions
from strand.options import named_options
from strand.ticks import aligned_ticks
from strand.validate import whole
from strand.zones import zone_named

__all__ = ["PcapFeed", "recognise"]

#: Enough for the first packet of any network but those of jumbo frames of loopback.
_HEAD_BYTES: Final = 1 << 17
_MAGICS: Final = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1")
_NG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_NG_MARKS: Final = (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a")
_SESSION_LETTERS: Final = 10


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` (12 bytes are enough) is a packet capture."""
    return head.startswith(_MAGICS) or (head.startswith(_NG_MAGIC) and head[8:12] in _NG_MARKS)


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
        super().__init__(path, options, headroom=_pcap.MAX_RECORD)
        self._capture: dict[str, Any] = {
            "skip": self._options["skip"],
            "ports": _ports(options["port"]),
            "session": _session(options["session"]),
            **{name: options[name] for name in ("blank_headers", "hold", "hold_ns")},
            "span": (self._options.pop("start_ns", None), self._options.pop("end_ns", None)),
        }
        refusal = "does not start as a pcap or pcapng file does"
        head, names, details = self._read_head(_HEAD_BYTES, recognise, refusal)
        day = self._dated(options["date"], names, lambda: _captured_on(head))
        self._options["attributes"] = True
        self._decoder = PcapDecoder(ItchDecoder(**self._options), **self._capture)
        self._symbols = ItchSymbols(self._decoder.itch)
        kind = "pcapng" if head.startswith(_NG_MAGIC) else "pcap"
        details = {"capture": kind, "protocol": "MoldUDP64, ITCH 5.0"} | details
        self._info = self._orders_info("pcap", "XNAS", day, details, FLAGS)

    @property
    def session(self) -> str:
        """The MoldUDP64 session read in the latest iteration, ``""`` as long as there is none."""
        return self._decoder.session

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        Those of ``ItchFeed.statistics``, and ``records``, ``packets`` (of MoldUDP64, with messages), ``heartbeats``,
        ``ends`` (of session), ``duplicates`` (packets that brought nothing new), ``held`` (packets that had to wait),
        ``gaps`` and ``missing`` (messages in them), ``other_packets``, ``blank_packets`` (of those, what
        ``blank_headers`` would have read), ``other_sessions``, ``fragments``.
        """
        return super().statistics()

    def _begin(self) -> PcapDecoder:
        itch = ItchDecoder(**self._options, directory_of=self._decoder.itch)
        self._decoder = PcapDecoder(itch, **self._capture)
        self._symbols.follow(itch)
        return self._decoder


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
