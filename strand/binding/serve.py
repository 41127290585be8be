"""The MoldUDP64 sender of csrc/live/serve.h."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from strand.binding import ffi, lib
from strand.binding.gate import Code, check_system, fault_error, made
from strand.binding.memory import filled, owned
from strand.errors import FeedError

__all__ = ["LineOptions", "Sender"]

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
        state = made(lib.sd_serve_new(options), "there is no memory for the history of what was sent", FeedError)
        self._state: Any = owned(state, lib.sd_serve_free)

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
