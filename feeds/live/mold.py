"""NASDAQ ITCH 5.0 over the network: MoldUDP64 on one line or two, over IPv4 UDP, received and sent.

Two lines carry the same messages; the first copy of each wins. Messages missing on both lines are requested again if a
re-request server is named. They are given up ``gap_timeout_s`` after the first message behind them: csrc/live/mold.h
has the rules, docs/feeds/live.md what they mean in use. ``serve`` sends a recorded file so, with faults on demand.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field
from typing import Any, Final, Unpack

import numpy as np

from strand.binding import itch as _itch
from strand.binding.itch import FLAGS, ItchDecoder
from strand.binding.live import LINES, OUT_BYTES, LineOptions, Receiver, Sender, stamp
from strand.errors import ConfigurationError, FeedError, FormatError, GapError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, LineNumbers, TickBatch
from strand.feeds.formats.itch import ItchSymbols, recognise
from strand.feeds.formats.recording import Recorder
from strand.feeds.io.files import times_path
from strand.feeds.io.streams import open_stream
from strand.feeds.live.options import Address, MoldOptions, ipv4, parse_address
from strand.feeds.times import NEW_YORK, as_date, midnight_ns
from strand.feeds.write.destinations import check_outputs
from strand.fixed import dataclass
from strand.logs import Event
from strand.options import Flag, Number, Text, Whole, named_fields, named_options, option, read_options
from strand.ticks import empty
from strand.zones import zone_named

__all__ = ["GAP", "Faults", "MoldFeed", "ServeOptions", "receiving_socket", "replies_socket", "serve"]


@contextlib.contextmanager
def receiving_socket(address: Address, group: str | None, interface: str | None, what: str) -> Iterator[socket.socket]:
    """A socket bound to ``address``; where that or ``group`` is a multicast address, it is joined on ``interface``.

    Raises ConfigurationError, FeedError.
    """
    if group is None and address.is_multicast:
        group = address.host
    if group is not None and not Address(ipv4(group, "group"), 0).is_multicast:
        raise ConfigurationError("group", f"{group!r} is not a multicast address (224.0.0.0 to 239.255.255.255)")
    if group is None and interface is not None:
        raise ConfigurationError(
            "interface", "it is for a multicast group, and no group is given: give group=, or leave it out"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            if group is not None:
                # Bound to the group itself, so that no other group's packets on this port come in.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((group, address.port))
                local = ipv4(interface, "interface") if interface is not None else "0.0.0.0"
                request = socket.inet_aton(group) + socket.inet_aton(local)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            else:
                sock.bind((address.host, address.port))
        except OSError as error:
            raise FeedError(
                f"{what} cannot listen at {group or address.host}:{address.port}: {error.strerror}"
            ) from error
        yield sock


@contextlib.contextmanager
def replies_socket(server: Address) -> Iterator[socket.socket]:
    """A socket that takes packets from ``server`` only. Raises FeedError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.connect((server.host, server.port))
        except OSError as error:
            raise FeedError(f"the re-request server {server} cannot be reached: {error.strerror}") from error
        yield sock


# Longest call into the core: Python handles signals between calls.
_SLICE_NS: Final = 100_000_000
GAP: Final = Event("feed.gap", ".feeds", "WARNING", "gap: %(text)s", "symbol", "missing")
#: Interval of counts for those who look from outside, s.
_COUNT_S: Final = 1.0
# As many as one call can deliver: no ITCH message is shorter than 12 bytes.
_BATCH_TICKS: Final = OUT_BYTES // (2 + 12) + 1


@named_options("MoldFeed()", declares=MoldOptions)
class MoldFeed(BaseFeed):
    """Receives ITCH 5.0 messages by MoldUDP64; each batch holds what has arrived.

    ``ts_recv`` of a tick is the kernel's time of receipt, ``sequence`` the message's MoldUDP64 sequence number. The
    constructor opens the sockets, and the kernel queues packets from then on. The feed ends with its session, or before
    at the first of ``max_messages``, ``max_seconds`` and ``idle_timeout_s``.

    Args:
        *line: HOST:PORT to receive a line at: one, or two, A and B. With port 0 the system chooses (``addresses`` has
            the port).
        on_late: Called once, with ``joined_at``, if the feed begins in mid-session.

    Raises:
        ConfigurationError: If an option cannot work.
        FeedError: If a socket cannot be set up, or the re-request server cannot be reached.
    """

    #: As of ``ItchFeed``.
    locates: Final = True
    is_live = True
    #: 65,536: a stock locate has 16 bits.
    max_symbols: int = _itch.LOCATES

    def __init__(
        self,
        *line: str | Address,
        on_late: Callable[[int], None] | None = None,
        **options: Unpack[MoldOptions],
    ) -> None:
        super().__init__()
        group, session, record, date = options["group"], options["session"], options["record"], options["date"]
        if session is not None and not 0 < len(session.encode("latin-1", "replace")) <= 10:
            raise ConfigurationError("session", f"{session!r} is not of 1 to 10 characters")
        if not 1 <= len(line) <= 2:
            raise ConfigurationError("line", f"{len(line)} of them: give one, or two, A and B of the same session")
        lines = [parse_address(each, "line") for each in line]
        if isinstance(group, str) or len(group) > len(lines):
            raise ConfigurationError("group", f"give a sequence of one for each line, and not {group!r}")

        if record is not None:
            self.writes = (os.fspath(record), str(times_path(record)))
            check_outputs([("record", path) for path in self.writes])
        self._options, self._on_late, self._record = options, on_late, record
        self._closed = self._started = self._running = self._stopped = False
        self._counted: Mapping[str, Any] = {}
        self._day = as_date(date) if date is not None else dt.datetime.now(zone_named(NEW_YORK)).date()
        # The decoder does not skip bad messages: ``_decoded`` does, because a message's block gives the exact start of
        # the next one.
        self._decoder = ItchDecoder(midnight_ns=midnight_ns(self._day), skip=False)
        self._symbols = ItchSymbols(self._decoder)
        self._left_out = 0
        timeout, request_after = options["gap_timeout_s"], options["request_after_s"]
        request_after = timeout / 8 if request_after is None else request_after
        self._receiver = Receiver(
            first_sequence=options["first_sequence"] or 0,
            message_limit=options["max_messages"] or 0,
            gap_timeout_ns=round(timeout * 1e9),
            request_after_ns=max(round(request_after * 1e9), 100_000),
            jump_window=options["jump_window"],
            stop_at_gap=options["on_gap"] == "raise",
            session=session.encode("latin-1") if session is not None else None,
        )
        interface, receive_bytes, rerequest = options["interface"], options["receive_bytes"], options["rerequest"]
        with contextlib.ExitStack() as opened:
            self.addresses: tuple[Address, ...] = ()
            self.warnings: tuple[str, ...] = ()
            for at, address in enumerate(lines):
                joined = group[at] if at < len(group) else None
                sock = opened.enter_context(receiving_socket(address, joined, interface, f"line {LINES[at].upper()}"))
                self.warnings += _attach(self._receiver, at, sock, receive_bytes)
                self.addresses += (Address(*sock.getsockname()),)
            if rerequest is not None:
                server = parse_address(rerequest, "rerequest")
                sock = opened.enter_context(replies_socket(server))
                self.warnings += _attach(self._receiver, len(LINES) - 1, sock, receive_bytes)
                self._receiver.rerequest(server.packed, server.port)
            self._where = "udp:" + ",".join(map(str, self.addresses))
            self._sockets = opened.pop_all()

    @property
    def info(self) -> FeedInfo:
        """Description of the feed; ``path`` is the address that it listens on."""
        return FeedInfo(
            format="moldudp64",
            path=self._where,
            date=self._day.isoformat(),
            price_unit=1e-4,
            ticks="orders",
            flags=FLAGS,
            zone=NEW_YORK,
            details={"session": self._receiver.session, "lines": len(self.addresses)},
        )

    @property
    def symbols(self) -> Sequence[str]:
        """Names by stock locate, as far as directory messages have come."""
        return self._symbols

    def batches(self) -> Iterator[TickBatch]:
        """Yields batches of ticks; each is valid until the next. The first one is empty: it says that the feed is
        ready.

        The feed can be iterated once. Each error comes after every tick before it.

        Raises:
            GapError: If a gap stays, under ``on_gap="raise"``.
            FormatError: If a message is no ITCH 5.0, unless ``on_bad_record`` is ``"skip"``; it names the byte offset
                in what was received.
            FeedError: If the feed was read or closed before, if receiving fails, or if another session begins before
                the end of this one.
        """
        if self._closed or self._started:
            raise FeedError("a live feed can be read once", path=self._where)
        self._started = self._running = True
        out = empty(_BATCH_TICKS)
        try:
            with (
                Recorder(self._record, self._day) if self._record is not None else contextlib.nullcontext() as recorder
            ):
                yield out[:0]
                yield from self._received(out, recorder)
        finally:
            self._running = False
            self._count()
            self.close()

    def _received(self, out: TickBatch, recorder: Recorder | None) -> Iterator[TickBatch]:
        receiver = self._receiver
        max_seconds, idle_timeout_s = self._options["max_seconds"], self._options["idle_timeout_s"]
        clock_s = self._options["clock_s"]
        slice_ns = _SLICE_NS if clock_s is None else min(_SLICE_NS, round(clock_s * 1e9))
        begun = heard = counted = timed = time.monotonic()
        while True:
            now_ns = time.time_ns()  # what comes from here on was not received before
            try:
                frames, runs = receiver.poll(slice_ns)
            except OSError as error:
                raise FeedError(f"cannot be received: {error.strerror}", path=self._where) from error
            if self._on_late is not None and self.joined_at is not None:
                self._on_late(self.joined_at)
                self._on_late = None
            yield from self._decoded(frames, runs, out, recorder)
            now = time.monotonic()
            heard = now if len(frames) else heard
            timed = now if len(frames) else timed
            if clock_s is not None and now - timed >= clock_s and not receiver.counts()["held"]:
                timed = now
                yield self._told(now_ns, out, recorder)
            if now - counted >= _COUNT_S:
                self._count()
                counted = now
            if receiver.ended or receiver.new_session is not None or self._stopped:
                break
            if max_seconds is not None and now - begun >= max_seconds:
                break
            if idle_timeout_s is not None and now - heard >= idle_timeout_s:
                break
        complete = False
        while not complete:
            frames, runs, complete = receiver.finish()
            yield from self._decoded(frames, runs, out, recorder)
        if clock_s is not None:
            yield self._told(time.time_ns(), out, recorder)
        if self._options["on_gap"] == "raise" and (gaps := receiver.gaps()):
            raise GapError(
                f"messages {gaps[0][0]:,} to {gaps[0][1] - 1:,} came on no line; on_gap='continue' continues after "
                "them",
                path=self._where,
                gaps=tuple(gaps),
            )
        if (new := receiver.new_session) is not None:
            raise FeedError(
                f"session {receiver.session!r} was replaced by {new!r} before its end; make a new feed for that one, "
                f"or give session={receiver.session!r} to skip all others",
                path=self._where,
            )

    def _told(self, now_ns: int, out: TickBatch, recorder: Recorder | None) -> TickBatch:
        """An empty batch: time has passed up to then."""
        self.passed_ns = now_ns
        if recorder is not None:
            recorder.clock(self._decoder.statistics()["messages"] + 1, now_ns)
        return out[:0]

    def _decoded(self, frames: memoryview, runs: Any, out: TickBatch, recorder: Recorder | None) -> Iterator[TickBatch]:
        """The ticks of whole frames, each recorded before it is handed out.

        The recording holds every message that the decoder could read, and with ``on_bad_record="raise"`` also the one
        that it refused.
        """
        decoder, at, made = self._decoder, 0, 0
        # A full output may have left clear records of the last message: they have its time.
        while at < len(frames) or made == len(out):
            first = decoder.statistics()["messages"] + self._left_out + 1
            made, used, sound = decoder.decode(frames[at:], last=False, out=out)
            raises = not sound and self._options["on_bad_record"] == "raise"
            end = len(frames) if raises else at + used
            ticks = out[:made]
            stamp(ticks, runs, self._left_out)
            if recorder is not None and end > at:
                last = None if raises else decoder.statistics()["messages"] + self._left_out
                recorder.write(frames[at:end], _between(runs, first, last), self._left_out)
            at = end
            fault = None if sound else decoder.fault(self._where)
            if fault is not None and not raises:
                # The message is bad, but its block still says where the next one begins.
                at += 2 + int.from_bytes(frames[at : at + 2], "big")
                self.skipped.add("not ITCH 5.0", offset=fault.offset, text=str(fault))
                self._left_out += 1
            if made:
                self.passed_ns = None
                yield ticks
            if fault is not None and raises:
                raise fault

    @property
    def joined_at(self) -> int | None:
        """The sequence number of the first message heard, if the feed begins in mid-session.

        The messages before it are neither in the feed nor counted as missing. None if the feed begins with the session,
        or if ``first_sequence`` was given.
        """
        first = self._receiver.first_sequence
        return first if self._options["first_sequence"] is None and first is not None and first > 1 else None

    def statistics(self) -> dict[str, int]:
        """The decoder's counts, ``gap_messages`` that stayed missing, ``sequence_jumps`` (packets too far beyond what
        was heard), ``jumps_believed`` (those that a second one agreed with), and ``left_out``."""
        counts = self._receiver.counts()
        return {
            **self._decoder.statistics(),
            "gap_messages": counts["gap_messages"],
            "sequence_jumps": sum(self._receiver.line_counts(line)["jumps"] for line in range(len(LINES))),
            "jumps_believed": counts["jumps_believed"],
            "left_out": self._left_out,
        }

    def line_numbers(self) -> LineNumbers:
        """The MoldUDP64 sequence numbers of the messages that were delivered, and of those that stayed missing."""
        receiver = self._receiver
        first, behind = receiver.first_sequence, receiver.counts()["next_sequence"]
        return LineNumbers(first or 0, behind if first else 0, receiver.gaps())

    def live_counts(self) -> Mapping[str, Any]:
        return self._counted

    def _count(self) -> None:
        """Makes ``live_counts`` anew: in the thread that receives, which alone may look at the receiver."""
        counts, lines = self._receiver.counts(), range(len(self.addresses))
        if missing := counts["gap_messages"] - self._counted.get("gap_messages", 0):
            GAP(text=f"{missing:,} messages came on no line", symbol=None, missing=missing)
        of_lines = {LINES[at]: self._receiver.line_counts(at) for at in lines}
        self._counted = {
            "messages": counts["delivered"],
            "gaps": counts["gap_count"],
            "gap_messages": counts["gap_messages"],
            "reconnects": 0,
            "lines": {
                name: {"gaps": line["gap_count"], "gap_messages": line["gap_messages"]}
                for name, line in of_lines.items()
            },
            "statistics": self.statistics(),
        }

    def report(self) -> dict[str, Any]:
        """Report of the lines: counts, ``gaps`` and ``latency_ns``.

        ``gaps`` has those of each line and those that stayed, as [from, to) pairs. ``latency_ns`` is from the kernel's
        receipt of a message to its delivery in order.
        """
        receiver = self._receiver
        used = [*range(len(self.addresses)), len(LINES) - 1]
        lines = {LINES[at]: dict(receiver.line_counts(at)) for at in used}
        return {
            "session": receiver.session,
            "joined_at": self.joined_at,
            **receiver.counts(),
            "gaps": receiver.gaps(),
            "lines": lines,
            "line_gaps": {LINES[at]: receiver.gaps(at) for at in range(len(self.addresses))},
            "latency_ns": receiver.latency_ns(),
        }

    def stop(self) -> None:
        """Ends the iteration under way, or the next: it gives the ticks that are held, and stops. Any thread or a
        signal may call it.
        """
        self._stopped = True
        self._receiver.wake()

    def close(self) -> None:
        """Ends the iteration under way as :meth:`stop` does, and the feed. May be repeated."""
        self._closed = True
        self.stop()
        if not self._running:
            self._sockets.close()


def _attach(receiver: Receiver, line: int, sock: socket.socket, receive_bytes: int) -> tuple[str, ...]:
    """Attaches a line's socket. Returns a warning if its buffer is smaller than it should be. Raises FeedError."""
    try:
        receiver.attach(line, sock.fileno(), min(receive_bytes, (1 << 31) - 1))
    except OSError as error:
        raise FeedError(f"line {LINES[line]}: the socket cannot be set up: {error.strerror}") from error
    # The kernel counts its own overhead in, and doubles what it is asked for.
    given = receiver.line_counts(line)["receive_bytes"] // 2
    if given >= receive_bytes:
        return ()
    warning = (
        f"line {LINES[line]}: the kernel gave {given:,} bytes of receive buffer, not {receive_bytes:,}, and drops "
        f"packets when it is full; raise net.core.rmem_max to {receive_bytes}"
    )
    return (warning,)


def _between(runs: Any, first: int, last: int | None) -> Any:
    """The runs of the positions from ``first`` to ``last``; the first one may begin inside a run."""
    at = max(int(np.searchsorted(runs["position"], first, side="right")) - 1, 0)
    end = len(runs) if last is None else int(np.searchsorted(runs["position"], last, side="right"))
    cut = runs[at:end].copy()
    if len(cut) and cut["position"][0] < first:
        cut["sequence"][0] += np.uint64(first - int(cut["position"][0]))
        cut["position"][0] = first
    return cut


_CHUNK: Final = 1 << 20
_HEAD_BYTES: Final = 16
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
