"""The MoldUDP64 receiver and sender of csrc/live, and waiting at a pace."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import Code, check_system, fault_error, made
from strand.binding.memory import filled, owned_from
from strand.errors import FeedError
from strand.fixed import dataclass

#: Lines by index: A, B, and what the re-request server answers.
LINES: Final = ("a", "b", "retransmitted")
#: Messages in a row that came in one packet (``sd_mold_run``).
RUN: Final = np.dtype([("position", "<u8"), ("sequence", "<u8"), ("ts_recv", "<u8")])

#: The most bytes of frames that one call delivers.
OUT_BYTES: Final = 1 << 18
_OUT_RUNS: Final = 1 << 13
_SUB_BITS: Final = 4


def stamp(ticks: npt.NDArray[Any], runs: npt.NDArray[Any], shift: int = 0) -> None:
    """Gives ticks their receive times and the venue's sequence numbers, in place.

    ``ticks``: dtype ``strand.TICK``, contiguous, ``sequence`` being a position; ``runs``: dtype ``RUN``, contiguous,
    for positions that are higher by ``shift``. Both in rising order.
    """
    lib.sd_mold_stamp(
        ffi.from_buffer("sd_tick[]", ticks, require_writable=True),
        len(ticks),
        ffi.from_buffer("sd_mold_run[]", runs),
        len(runs),
        shift,
    )


class Receiver:
    """Two lines in, one ordered stream of ITCH frames out. One thread at a time, ``wake`` apart. ``session``: None for
    the first one heard; ``numbers``: the other fields of ``sd_mold_options``."""

    def __init__(self, *, session: bytes | None, **numbers: int) -> None:
        options = filled("sd_mold_options", numbers, "session", "any_session")
        options.any_session = session is None
        if session is not None:
            ffi.memmove(options.session, session.ljust(10), 10)
        state = owned_from(lib.sd_mold_new, options, lib.sd_mold_free)
        self._state: Any = made(state, "there is no memory, or no file descriptor, for a receiver", FeedError)
        self._out = np.empty(OUT_BYTES, np.uint8)
        self._runs = np.empty(_OUT_RUNS, RUN)
        self._c_out = ffi.from_buffer("uint8_t[]", self._out, require_writable=True)
        self._c_runs = ffi.from_buffer("sd_mold_run[]", self._runs, require_writable=True)
        self._counts: Any = lib.sd_mold_look(self._state)
        #: Ends the ``poll`` under way, or the next one. Any thread.
        self.wake: Callable[[], None] = partial(lib.sd_mold_wake, self._state)

    def attach(self, line: int, fd: int, receive_bytes: int) -> None:
        """Receives a line on a UDP socket. Raises OSError."""
        check_system(lib.sd_mold_attach(self._state, line, fd, receive_bytes))

    def rerequest(self, address: bytes, port: int) -> None:
        """Sets the address for retransmission requests: four bytes and a port."""
        lib.sd_mold_rerequest(
            self._state, int.from_bytes(address, "little"), int.from_bytes(port.to_bytes(2, "big"), "little")
        )

    def poll(self, timeout_ns: int) -> tuple[memoryview, npt.NDArray[np.void]]:
        """Returns the frames that have arrived, and their runs; both are valid until the next call. Raises OSError."""
        check_system(lib.sd_mold_poll(self._state, self._c_out, OUT_BYTES, self._c_runs, _OUT_RUNS, timeout_ns))
        return self._delivered()

    def take(self, line: int, packet: bytes, ts_recv: int, now_ns: int) -> tuple[memoryview, npt.NDArray[np.void]]:
        """A packet that came by no socket, at a time on a clock that does not jump; what it made deliverable."""
        self._begin()
        lib.sd_mold_take(self._state, line, packet, len(packet), ts_recv, now_ns)
        return self._delivered()

    def tick(self, now_ns: int) -> tuple[memoryview, npt.NDArray[np.void]]:
        """Gives up what is due by then; what that made deliverable."""
        self._begin()
        lib.sd_mold_tick(self._state, now_ns)
        return self._delivered()

    def _begin(self) -> None:
        lib.sd_mold_output(self._state, self._c_out, OUT_BYTES, self._c_runs, _OUT_RUNS, time.time_ns())

    def finish(self) -> tuple[memoryview, npt.NDArray[np.void], bool]:
        """Gives up the gaps before held frames. Returns these frames and their runs, and True if no more is held."""
        self._begin()
        code = lib.sd_mold_finish(self._state)
        return *self._delivered(), code == lib.SD_OK

    def _delivered(self) -> tuple[memoryview, npt.NDArray[np.void]]:
        frames = self._out.data[: lib.sd_mold_out_bytes(self._state)]
        return frames, self._runs[: lib.sd_mold_out_runs(self._state)]

    @property
    def first_sequence(self) -> int | None:
        """Sequence number that delivery begins with; None before anything was heard."""
        return int(self._counts.first_sequence) if self._counts.started else None

    @property
    def ended(self) -> bool:
        return bool(self._counts.ended)

    @property
    def new_session(self) -> str | None:
        """The session that came up in place of the one that is followed."""
        return _text(self._counts.new_session) if self._counts.session_changed else None

    @property
    def session(self) -> str | None:
        return _text(self._counts.session) if self._counts.started else None

    def gaps(self, line: int = -1) -> list[tuple[int, int]]:
        """Gaps that stayed missing, or that one line missed: (from, to) with ``to`` excluded, in order."""
        count = ffi.new("uint64_t *")
        ranges = lib.sd_mold_gaps(self._state, line, count)
        if not count[0]:
            return []
        pairs = np.frombuffer(ffi.buffer(ranges, count[0] * ffi.sizeof("sd_range")), np.uint64).reshape(-1, 2)
        return [(first, end) for first, end in pairs.tolist()]

    def counts(self) -> dict[str, int]:
        """The numbers of ``sd_mold_counts``."""
        lib.sd_mold_look(self._state)
        names = (
            "delivered", "first_sequence", "next_sequence", "high", "held", "max_held", "gap_count", "gap_messages",
            "gaps_unlisted", "requests", "requested_messages", "forced", "jumps_believed",
        )  # fmt: skip
        return {name: int(getattr(self._counts, name)) for name in names}

    def line_counts(self, line: int) -> Mapping[str, int]:
        """The numbers of ``sd_mold_line``."""
        lib.sd_mold_look(self._state)
        found = self._counts.line[line]
        return {name: int(getattr(found, name)) for name, _ in ffi.typeof("sd_mold_line").fields}

    def latency_ns(self) -> dict[str, int]:
        """Percentiles of the time from the kernel's receipt to delivery in order, a message each: upper bounds."""
        buckets = np.frombuffer(ffi.buffer(self._counts.latency), np.uint64).astype(np.int64)
        total = int(buckets.sum())
        if not total:
            return {}
        reached = np.cumsum(buckets)
        found = {
            name: _bucket_top(int(np.searchsorted(reached, share * total, side="left")))
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
        }
        return {**found, "max": _bucket_top(int(np.flatnonzero(buckets)[-1]))}


def _bucket_top(bucket: int) -> int:
    """The highest value of a log-linear bucket (csrc/memory/counters.h)."""
    bucket += 1
    sub = 1 << _SUB_BITS
    if bucket < sub:
        return bucket - 1
    octave = bucket // sub + _SUB_BITS - 1
    return (1 << octave) + ((bucket % sub) << (octave - _SUB_BITS)) - 1


def _text(session: Any) -> str:
    return bytes(session).decode("latin-1").rstrip(" \0")


_ERRNO_BASE: Final = 1000


@dataclass(frozen=True, slots=True)
class LineOptions:
    """A line's socket, destination (four bytes, port) and the shares of packets that faults befall."""

    fd: int
    address: bytes
    port: int
    loss: float
    reorder: float
    duplicate: float


class Sender:
    """Frames in, packets on two lines out. One thread. ``numbers``: the other fields of ``sd_serve_options``."""

    def __init__(self, lines: list[LineOptions], *, session: bytes, **numbers: float) -> None:
        options = filled("sd_serve_options", numbers, "session", "line")
        ffi.memmove(options.session, session.ljust(10), 10)
        for at in range(lib.SD_SERVE_LINES):
            line = options.line[at]
            line.fd = -1
            if at < len(lines):
                line.fd = lines[at].fd
                line.address = int.from_bytes(lines[at].address, "little")
                line.port = int.from_bytes(lines[at].port.to_bytes(2, "big"), "little")
                line.loss = lines[at].loss
                line.reorder = lines[at].reorder
                line.duplicate = lines[at].duplicate
        state = owned_from(lib.sd_serve_new, options, lib.sd_serve_free)
        self._state: Any = made(state, "there is no memory for the history of what was sent", FeedError)

    def send(self, data: memoryview, limit_ns: int) -> tuple[int, bool]:
        """Sends frames when they are due, for at most so long; returns the bytes taken, and whether that was all whole
        frames. Raises FormatError, OSError."""
        used = ffi.new("uint64_t *")
        code = lib.sd_serve_send(self._state, ffi.from_buffer("uint8_t[]", data), len(data), limit_ns, used)
        if code == Code.FORMAT:
            raise fault_error(
                {code: "not an ITCH 5.0 message: its length and type do not agree; serve a whole, undamaged file"},
                code,
                offset=int(lib.sd_serve_look(self._state).fault_offset),
            )
        check_system(code, _ERRNO_BASE)
        return int(used[0]), code == lib.SD_OK

    def end(self) -> None:
        """Sends what is kept back, and the session's end. Raises OSError."""
        check_system(lib.sd_serve_end(self._state), _ERRNO_BASE)

    def idle(self, for_ns: int) -> None:
        """Answers requests for so long. Raises OSError."""
        check_system(lib.sd_serve_idle(self._state, for_ns), _ERRNO_BASE)

    def counts(self) -> dict[str, int]:
        """The numbers of ``sd_serve_counts``."""
        found = lib.sd_serve_look(self._state)
        fields = ffi.typeof("sd_serve_counts").fields
        return {name: int(getattr(found, name)) for name, _ in fields if name not in ("line", "fault_offset")}

    def line_counts(self, line: int) -> dict[str, int]:
        """The numbers of ``sd_serve_line``."""
        found = lib.sd_serve_look(self._state).line[line]
        return {name: int(getattr(found, name)) for name, _ in ffi.typeof("sd_serve_line").fields}

    def lost(self, line: int) -> list[tuple[int, int]]:
        """Sequence numbers that were not sent on a line: (from, to) with ``to`` not in it, in order."""
        count = ffi.new("uint64_t *")
        ranges = lib.sd_serve_lost(self._state, line, count)
        if not count[0]:
            return []
        pairs = np.frombuffer(ffi.buffer(ranges, count[0] * ffi.sizeof("sd_range")), np.uint64).reshape(-1, 2)
        return [(first, end) for first, end in pairs.tolist()]


def now_ns() -> int:
    """CLOCK_MONOTONIC."""
    return int(lib.sd_pace_now())


@cache
def resolution_ns() -> float:
    """Resolution of the clock of ``now_ns`` in ns: the median difference of two successive readings. Measured once."""
    readings = [now_ns() for _ in range(1002)]
    return float(max(1, sorted(after - before for before, after in pairwise(readings))[500]))


def wait_until(until_ns: int, spin_ns: int) -> bool:
    """Waits without the GIL, until it is ``until_ns`` (True) or a signal has come (False)."""
    return bool(lib.sd_pace_wait(until_ns, spin_ns))


class Book:
    """Lateness of ticks: counts by bucket of the engine's histograms, but of ns."""

    def __init__(self) -> None:
        self._book: Any = ffi.new("sd_pace_book *")

    def note(self, due_ns: npt.NDArray[np.int64], now_ns: int, late_after_ns: int) -> None:
        """Ticks that were due at these times (contiguous) are published now."""
        lib.sd_pace_note(self._book, ffi.from_buffer("int64_t[]", due_ns), len(due_ns), now_ns, late_after_ns)

    @property
    def ticks(self) -> int:
        return int(self._book.ticks)

    @property
    def late(self) -> int:
        """Ticks that were late by more than what was said to be late."""
        return int(self._book.late)

    @property
    def furthest_ns(self) -> int:
        return int(self._book.furthest)

    def counts(self) -> npt.NDArray[np.uint64]:
        """Ticks by bucket, shape (buckets,)."""
        return np.frombuffer(ffi.buffer(self._book.bucket), np.uint64).copy()

    @staticmethod
    def floors_ns() -> npt.NDArray[np.float64]:
        """The smallest value of each bucket, shape (buckets,)."""
        floors = np.zeros(lib.SD_BUCKETS, np.uint64)
        lib.sd_pace_floors(ffi.from_buffer("uint64_t[]", floors, require_writable=True))
        return floors.astype(np.float64)
