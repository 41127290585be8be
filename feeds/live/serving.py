"""Sending a recorded ITCH file as MoldUDP64 on two lines, with faults on demand: the partner of a live feed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field
from typing import Any, Final

from strand.binding.live import LineOptions, Sender
from strand.errors import ConfigurationError, FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.itch import recognise
from strand.feeds.io.streams import open_stream
from strand.feeds.live.mold import Address, ipv4, parse_address
from strand.options import Flag, Number, Text, Whole, named_fields, option, read_options

__all__ = ["Faults", "ServeOptions", "serve"]

_CHUNK: Final = 1 << 20
_HEAD_BYTES: Final = 16
_SLICE_NS: Final = 100_000_000
_SHARE: Final = Number(0, 1, metavar="SHARE")
#: Options that the sender takes as they are.
_AS_THEY_ARE: Final = (
    "packet_bytes", "reorder_depth", "seed", "rate", "history_messages", "history_bytes", "request_rate",
)  # fmt: skip


@named_fields
@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a line."""

    loss: float = option(0.0, _SHARE, "Share of packets to lose.", flag=None)
    reorder: float = option(0.0, _SHARE, "Share of packets to send after later ones.", flag=None)
    duplicate: float = option(0.0, _SHARE, "Share of packets to send twice.", flag=None)

    def __post_init__(self) -> None:
        read_options(self).end()


@named_fields
@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of the sender, and ``faults`` of the lines A and B.

    Several session ends are sent, since a receiver whose buffer is full may only hear a later one.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    line: str | Address | Sequence[str | Address] = option(
        MISSING,
        Text("HOST:PORT"),
        "Address to send a line to.",
        more="Two are lines A and B. They are in 127.0.0.0/8 unless ``allow_remote`` is given.",
        flag=None,
    )
    rerequest: str | Address | None = option(
        None, Text("HOST:PORT"), "Answer requests for retransmission at this address.", flag=None
    )
    session: str = option("STRAND0001", Text("NAME"), "Name of the session, 1 to 10 characters.", flag=None)
    rate: float = option(0.0, Number(0, 1e9, metavar="N"), "Messages per second; 0 goes by the speed.", flag=None)
    speed: float = option(
        1.0,
        Number(0, 1e9, metavar="FACTOR"),
        "1 sends as recorded, 10 is ten times as fast, 0 is as fast as possible.",
        flag=None,
    )
    gather_s: float = option(100e-6, Number(0, 1, "s"), "Messages due within this time share packets.")
    packet_bytes: int = option(1400, Whole(300, 9216, metavar="BYTES"), "Largest UDP payload.", flag=None)
    heartbeat_s: float = option(1.0, Number(1e-3, 3600, "s"), "Time without a message after which a heartbeat is sent.")
    faults: tuple[Faults, Faults] = field(default_factory=lambda: (Faults(), Faults()))
    reorder_depth: int = option(4, Whole(1, 64), "Packets that may overtake one that is sent later.")
    seed: int = option(1, Whole(0, 2**64 - 1), "Seed of the random faults.", flag=None)
    history_messages: int = option(1 << 20, Whole(1, 1 << 28), "Messages that can be requested again.")
    history_bytes: int = option(64 << 20, Whole(1 << 16, 1 << 34), "Bytes of messages that can be requested again.")
    request_rate: float = option(20_000.0, Number(0, 1e9), "Most answers per second.")
    end_repeats: int = option(6, Whole(1, 10), "Session ends that are sent.")
    end_pause_s: float = option(
        0.02, Number(0, 10, "s"), "Time between the first two session ends; each further one is twice as long."
    )
    linger_s: float = option(
        0.0, Number(0, 3600, "s", metavar="SECONDS"), "How long to answer requests after the end.", flag=None
    )
    allow_remote: bool = option(False, Flag(), "Allow addresses on other machines.", flag=None)
    interface: str | None = option(
        None, Text("ADDRESS"), "Address of the interface to send multicast from.", unset="the system chooses", flag=None
    )

    def __post_init__(self) -> None:
        read_options(self).end()
        if not self.session.isascii() or not 0 < len(self.session) <= 10:
            raise ConfigurationError("session", f"{self.session!r} is not of 1 to 10 ASCII characters")
        if not 1 <= len(self.lines) <= 2:
            raise ConfigurationError("line", f"{len(self.lines)} of them: give one, or two, A and B")
        for address in self.lines:
            if address.port == 0:
                raise ConfigurationError("line", f"{address} has no port to send to")
            if not (address.is_loopback or self.allow_remote):
                raise ConfigurationError("line", f"{address} is not on this machine; allow_remote permits that")

    @property
    def lines(self) -> list[Address]:
        """Addresses of the lines, one or two."""
        given = [self.line] if isinstance(self.line, str | Address) else self.line
        return [parse_address(each, "line") for each in given]


def serve(
    path: str | os.PathLike[str],
    options: ServeOptions,
    *,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Sends an ITCH 5.0 file, compressed or not; returns what was sent.

    ``stop`` is asked again and again: True ends it early, with the session's end. ``progress`` is called with the
    messages sent.
    The result: ``messages``, ``packets``, ``heartbeats``, requests and answers, ``seconds`` that sending them took,
    ``late_ns`` (the most a message went out after it was due), and by line what was sent and ``lost_ranges`` as
    [from, to) pairs.

    Raises FormatError or TruncatedFeedError for a file that is no whole ITCH 5.0, FeedError.
    """
    with contextlib.ExitStack() as stack:
        sender = _sender(stack, options)
        stream = open_stream(path)
        stack.callback(stream.close)
        begun = time.monotonic()
        try:
            rest = _send_all(sender, stream, path, stop, progress)
            seconds = time.monotonic() - begun
            for repeat in range(options.end_repeats):
                if repeat:
                    sender.idle(round(options.end_pause_s * 1e9 * 2 ** (repeat - 1)))
                sender.end()
            until = time.monotonic() + options.linger_s
            while (left := until - time.monotonic()) > 0 and not stop():
                sender.idle(min(round(left * 1e9), _SLICE_NS))
        except OSError as error:
            raise FeedError(f"cannot be sent: {error.strerror}", path=os.fspath(path)) from error
    if rest:
        raise TruncatedFeedError(
            "the file ends inside a message; what was before it was sent",
            path=os.fspath(path),
            offset=stream.bytes_out - rest,
        )
    lines = {
        name: {**sender.line_counts(at), "lost_ranges": sender.lost(at)}
        for at, name in enumerate("ab"[: len(options.lines)])
    }
    return {"path": os.fspath(path), "session": options.session, "seconds": seconds, **sender.counts(), "lines": lines}


def _send_all(sender: Sender, stream: Any, path: Any, stop: Callable[[], bool], progress: Any) -> int:
    """Bytes left over at the end: part of a message."""
    buffer = bytearray(_CHUNK + 512)
    view = memoryview(buffer)
    filled = 0
    if not recognise(stream.head(_HEAD_BYTES)):
        raise FormatError("does not start with an ITCH 5.0 message", path=path, offset=0)
    while got := stream.readinto(view[filled : filled + _CHUNK]):
        filled += got
        done = 0
        complete = False
        while not complete:
            try:
                used, complete = sender.send(view[done:filled], _SLICE_NS)
            except FormatError as error:
                raise FormatError(str(error), path=path, offset=error.offset) from None
            done += used
            if progress is not None:
                progress(sender.counts()["messages"])
            if stop():
                return 0
        left = filled - done
        view[:left] = bytes(view[done:filled])
        filled = left
    # Two zero bytes end a file whose lengths are true.
    return 0 if bytes(view[:filled]) in (b"", b"\0\0") else filled


def _sender(stack: contextlib.ExitStack, options: ServeOptions) -> Sender:
    lines = []
    for at, address in enumerate(options.lines):
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
        if options.interface is not None:
            local = socket.inet_aton(ipv4(options.interface, "interface"))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
        faults = options.faults[at]
        lines.append(
            LineOptions(sock.fileno(), address.packed, address.port, faults.loss, faults.reorder, faults.duplicate)
        )
    request_fd = -1
    if options.rerequest is not None:
        server = parse_address(options.rerequest, "rerequest")
        if not (server.is_loopback or options.allow_remote):
            raise ConfigurationError("rerequest", f"{server} is not on this machine only; allow_remote permits that")
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
        try:
            sock.bind((server.host, server.port))
        except OSError as error:
            raise FeedError(f"requests cannot be served at {server}: {error.strerror}") from error
        request_fd = sock.fileno()
    return Sender(
        lines,
        session=options.session.encode("ascii"),
        speed=0.0 if options.rate else options.speed,
        gather_ns=round(options.gather_s * 1e9),
        heartbeat_ns=round(options.heartbeat_s * 1e9),
        request_fd=request_fd,
        **{name: getattr(options, name) for name in _AS_THEY_ARE},
    )
