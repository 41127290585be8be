"""Recording of a live feed: the messages that it received, written so that a replay gives the same ticks.

A recording is two files. ``FILE`` is plain ITCH 5.0: the messages in order, as they came, each behind its length; any
reader of ITCH takes it. ``FILE.times`` says when each packet's messages were received and how the venue numbered them,
little-endian: the eight bytes ``SDTIMES1``; the trading day as u64 YYYYMMDD, 0 where it is unknown; then an entry of
three u64 for each run of messages of one packet. It has the position of the run's first message in FILE from 1, its
sequence number, and the receive time in ns since the UNIX epoch. An entry with the sequence number 0 is the clock's: no
message had come, and the feed's time went on to this one before the message at its position, which may not be there.
``strand.feeds.open(FILE)`` takes both where both are
there. Read without it, FILE gives the same ticks but for ``ts_recv`` (the venue's time instead) and ``sequence`` (the
position instead).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, Self, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.live import RUN, stamp
from strand.errors import FormatError, TruncatedFeedError
from strand.feeds.base import BaseFeed, FeedInfo, LineNumbers, TickBatch
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.formats.options import RecordedOptions
from strand.feeds.io.atomic_write import atomic_write, flushed, partial_path
from strand.feeds.io.files import times_path
from strand.options import named_options
from strand.ticks import empty

MAGIC: Final = b"SDTIMES1"
_HEADER_BYTES: Final = 16
#: Frames that wait for their times to be written first.
_HELD_BYTES: Final = 1 << 16
_RUNS_A_READ: Final = 1 << 15


def recognise(head: bytes) -> bool:
    """Tells whether a file that begins with ``head`` is the ``.times`` half of a recording."""
    return head.startswith(MAGIC)


class Recorder:
    """Writes a recording; both files appear under their names when it ends, however it ends.

    A reader that is interrupted leaves what had come in by then. Only what cannot be written leaves nothing: FeedError.
    A process that is killed leaves ``.FILE.*.partial`` and ``.FILE.*.partial.times``: a recording of all but about the
    last second. The times of frames are always written before the frames, so that no frame is without its time.
    """

    def __init__(self, path: str | os.PathLike[str], date: dt.date | None) -> None:
        self._path = Path(path)
        self._day = int(date.strftime("%Y%m%d")) if date is not None else 0
        self._stack = contextlib.ExitStack()
        self._lock: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        self._frames: BinaryIO | None = None
        self._times: BinaryIO | None = None
        self._held = bytearray()

    def __enter__(self) -> Self:
        partial = partial_path(self._path)
        self._frames = self._stack.enter_context(atomic_write(self._path, partial))
        self._times = self._stack.enter_context(atomic_write(times_path(self._path), times_path(partial)))
        self._times.write(MAGIC + self._day.to_bytes(8, "little"))
        self._lock = self._stack.enter_context(flushed(self._flush))
        return self

    def write(self, frames: memoryview, runs: npt.NDArray[np.void], shift: int) -> None:
        """Whole frames and their runs; ``shift``: how many messages that runs count were left out before them."""
        assert self._times is not None
        moved = runs.copy()
        moved["position"] -= np.uint64(shift)
        try:
            with self._lock:
                self._times.write(moved.tobytes())
                self._held += frames
                if len(self._held) > _HELD_BYTES:
                    self._hand_over()
        except OSError as error:
            failed = self._stack.pop_all()
            failed.__exit__(type(error), error, error.__traceback__)
            raise

    def clock(self, position: int, now_ns: int) -> None:
        """Time has passed before the message at a position."""
        self.write(memoryview(b""), np.array([(position, 0, now_ns)], RUN), 0)

    def _hand_over(self) -> None:
        assert self._frames is not None
        assert self._times is not None
        self._times.flush()
        self._frames.write(self._held)
        self._held.clear()

    def _flush(self) -> None:
        assert self._frames is not None
        if self._held:
            self._hand_over()
            self._frames.flush()

    def __exit__(self, *_: object) -> None:
        with self._stack, self._lock:
            if self._held:
                self._hand_over()


class _Times:
    """The runs of a recording, a stretch at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._file.seek(_HEADER_BYTES)
        self._window = np.empty(0, RUN)
        #: Entries of the clock, which no batch has come to yet.
        self._clocks = np.empty(0, RUN)
        self._cut = False
        #: The first run, the latest one that was read, and the messages that are missing before positions.
        self._first, self._latest = np.empty(0, RUN), np.empty(0, RUN)
        self._missing: list[tuple[int, int, int]] = []

    def _read(self) -> bool:
        """Reads the next entries. Returns False at the end."""
        data = b"" if self._cut else self._file.read(_RUNS_A_READ * RUN.itemsize)
        self._cut = self._cut or len(data) % RUN.itemsize != 0
        read = np.frombuffer(data[: len(data) // RUN.itemsize * RUN.itemsize], RUN)
        is_clock = read["sequence"] == 0
        self._clocks = np.concatenate([self._clocks, read[is_clock]])
        self._window = np.concatenate([self._window, read[~is_clock]])
        self._look_for_missing(read[~is_clock])
        for found, least in ((self._window, 1), (self._clocks, 0)):
            if np.any(np.diff(found["position"].astype(np.int64)) < least):
                raise FormatError("positions do not rise: the file is damaged", path=self._path)
        return bool(data)

    def upto(self, first: int, last: int) -> npt.NDArray[np.void]:
        """Runs of the positions ``first`` to ``last``, which must rise from call to call."""
        while (not len(self._window) or self._window["position"][-1] <= last) and self._read():
            pass
        before = int(np.searchsorted(self._window["position"], first, side="right")) - 1
        if before < 0:
            raise FormatError(f"has no entry for message {first}", path=self._path)
        self._window = self._window[before:]
        return self._window

    def _look_for_missing(self, read: npt.NDArray[np.void]) -> None:
        runs = np.concatenate([self._latest, read])
        if len(runs):
            self._first, self._latest = (self._first if len(self._first) else runs[:1]), runs[-1:]
            positions, numbers = runs["position"].astype(np.int64), runs["sequence"].astype(np.int64)
            expected = numbers[:-1] + np.diff(positions)
            for at in np.flatnonzero(numbers[1:] > expected).tolist():
                self._missing.append((int(positions[at + 1]), int(expected[at]), int(numbers[at + 1])))

    def numbers(self, last: int) -> LineNumbers | None:
        """Numbers of the messages up to a position."""
        if last < 1:
            return None
        runs = self.upto(last, last)
        at = int(np.searchsorted(runs["position"], last, side="right")) - 1
        behind = int(runs["sequence"][at]) + last - int(runs["position"][at]) + 1
        return LineNumbers(int(self._first["sequence"][0]), behind, [m[1:] for m in self._missing if m[0] <= last])

    def clocks(self, last: int) -> npt.NDArray[np.void]:
        """Takes the clock's entries before the message at the position ``last``, which ``upto`` has come to."""
        n = int(np.searchsorted(self._clocks["position"], last, side="right"))
        taken, self._clocks = self._clocks[:n], self._clocks[n:]
        return taken

    def clocks_left(self) -> npt.NDArray[np.void]:
        """The clock's entries behind the last message."""
        while self._read():
            self._window = self._window[-1:]
        return self._clocks

    def fault_after(self, last: int) -> TruncatedFeedError | None:
        """Returns the error of a file that ends inside an entry, if positions up to ``last`` go beyond its whole
        entries."""
        if not self._cut or last < int(self._window["position"][-1]):
            return None
        return TruncatedFeedError(
            f"ends inside an entry; without it {self._path.stem} can still be read as ITCH",
            path=self._path,
            offset=self._file.tell(),
        )

    def close(self) -> None:
        self._file.close()


@named_options("RecordedFeed()", declares=RecordedOptions)
class RecordedFeed(BaseFeed):
    """A recording (``FILE``, or ``FILE.times``) as the ticks that were live: the same receive times and sequences.

    ``date``: in place of the day that was noted. Raises FeedError, what ItchFeed raises, and FormatError where the
    times are no such file.
    """

    #: As of ``ItchFeed``.
    locates: Final = True

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[RecordedOptions]) -> None:
        super().__init__()
        named = Path(path)
        frames = named.with_suffix("") if named.suffix == ".times" else named
        self._times_path = times_path(frames)
        try:
            with self._times_path.open("rb") as file:
                head = file.read(_HEADER_BYTES)
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror}", path=self._times_path) from error
        if len(head) < _HEADER_BYTES or not recognise(head):
            raise FormatError("is not the times of a recording", path=self._times_path, offset=0)
        day = int.from_bytes(head[8:], "little")
        if options["date"] is None and day:
            options["date"] = f"{day // 10000:04}-{day // 100 % 100:02}-{day % 100:02}"
        self._itch = ItchFeed(frames, **options)
        self.skipped = self._itch.skipped
        self._numbers: LineNumbers | None = None

    @property
    def info(self) -> FeedInfo:
        found = self._itch.info
        details = {**found.details, "times": str(self._times_path)}
        return replace(found, format="recording", span=None, undated=False, details=details)

    @property
    def reads(self) -> Sequence[str]:
        return (*self._itch.reads, str(self._times_path))

    @property
    def symbols(self) -> Sequence[str]:
        return self._itch.symbols

    @property
    def max_symbols(self) -> int:
        return self._itch.max_symbols

    def batches(self) -> Iterator[TickBatch]:
        """The recording from its start. Each batch is valid until the next."""
        times, self.passed_ns, self._numbers = _Times(self._times_path), None, None
        try:
            for batch in self._itch.batches():
                first, last = int(batch["sequence"][0]), int(batch["sequence"][-1])
                runs = times.upto(first, last)
                fault = times.fault_after(last)
                if fault is not None:
                    # The last entry that is whole may be of one message or of many.
                    batch = batch[: int(np.searchsorted(batch["sequence"], runs["position"][-1], side="right"))]
                clocks, at = times.clocks(last), 0
                cuts = np.searchsorted(batch["sequence"], clocks["position"]).tolist()
                stamp(batch, runs)
                for cut, passed in zip([*cuts, len(batch)], [*clocks["ts_recv"].tolist(), None], strict=True):
                    if at < cut:
                        self.passed_ns = None
                        yield batch[at:cut]
                    if passed is not None:
                        self.passed_ns = passed
                        yield batch[:0]
                    at = cut
                if fault is not None:
                    self._numbers = times.numbers(int(runs["position"][-1]))
                    raise fault
            self._numbers = times.numbers(self._itch.statistics()["messages"])
            for passed in times.clocks_left()["ts_recv"].tolist():
                self.passed_ns = passed
                yield empty(0)
        except TruncatedFeedError:
            if self._numbers is None:
                self._numbers = times.numbers(self._itch.statistics()["messages"])
            raise
        finally:
            times.close()

    def line_numbers(self) -> LineNumbers | None:
        """The numbers of the messages, when all of them have been read."""
        return self._numbers

    def statistics(self) -> dict[str, int]:
        return self._itch.statistics()

    def close(self) -> None:
        self._itch.close()
