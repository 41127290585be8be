"""The plain loop of csrc/reference/serial.h: rows, and a handler's function over records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.engine_words import Failure
from strand.binding.gate import made, text_of
from strand.binding.memory import owned
from strand.binding.native import NativeFunction

__all__ = ["HEAD", "POSITION", "PlainRows", "SerialOutput", "SerialRun"]

LINE = 64


class PlainRows:
    """The rows of ``n_symbols``, zeros at first, each a whole number of cache lines."""

    def __init__(self, n_symbols: int, row_bytes: int) -> None:
        self.stride = (row_bytes + LINE - 1) // LINE * LINE
        self.n_symbols = n_symbols
        raw = np.zeros(n_symbols * self.stride + LINE, np.uint8)
        start = -raw.ctypes.data % LINE
        self.memory = raw[start : start + n_symbols * self.stride]

    def rows(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """All rows as records of a dtype, shape (n_symbols,)."""
        return np.ndarray((self.n_symbols,), dtype, self.memory, strides=(self.stride,))


#: A record's place: its number in the order of publishing, and the feed's time there.
POSITION: Final = np.dtype([("number", "<u8"), ("time", "<i8")])
#: Head before an emitted record.
HEAD: Final = np.dtype([("number", "<u8"), ("sequence", "<i8"), ("time", "<i8"), ("key", "<u4"), ("link", "<u4")])


class SerialOutput:
    """Records that native handlers emitted to one output, until they are taken. Raises MemoryError."""

    def __init__(self, record_bytes: int) -> None:
        output = made(
            lib.sd_serial_output_create(record_bytes), f"no memory for an output of {record_bytes} bytes per record"
        )
        self.output = owned(output, lib.sd_serial_output_destroy)
        size = int(self.output.writer.entry_bytes)
        self.dtype = np.dtype(
            {"names": ["head", "record"], "formats": [HEAD, f"V{record_bytes}"], "offsets": [0, HEAD.itemsize],
             "itemsize": size}
        )  # fmt: skip

    def take(self) -> npt.NDArray[Any]:
        """Entries in the order they were emitted, shape (n,)."""
        o = self.output
        used = 0 if o.begin == ffi.NULL else int(o.writer.at - o.begin)
        if not used:
            return np.empty(0, self.dtype)
        taken: npt.NDArray[Any] = np.frombuffer(ffi.buffer(o.begin, used), np.uint8).copy().view(self.dtype)
        o.writer.at = o.begin
        return taken


class RecordLayout(Protocol):
    """Layout of a record as the loop needs it: ``strand.dispatch.records.RecordReader``."""

    dtype: np.dtype[Any]
    key_offset: int

    @property
    def sequence_offset(self) -> int | None: ...

    @property
    def sequence_high(self) -> int: ...


class SerialRun:
    """Runner of one native handler for records as ``reader`` has them, over the rows; it emits to ``outputs``.

    ``alarms``: the due time of each symbol's timer, 0: never, shape (n_symbols,). The runner fires due timers before
    their symbols' records, and sets new ones. Without ``alarms``, only ``wake`` fires timers.
    """

    def __init__(
        self,
        function: NativeFunction,
        rows: PlainRows,
        reader: RecordLayout,
        outputs: Sequence[SerialOutput] = (),
        *,
        alarms: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        params = ffi.new("char[]", function.params) if function.params else ffi.NULL
        memory = ffi.from_buffer(rows.memory, require_writable=True)
        writers = ffi.new(
            "sd_output_writer *[]", [ffi.addressof(o.output, "writer") for o in outputs for _ in range(2)]
        )
        self._keep = (function, params, rows, memory, tuple(outputs), writers, alarms)
        self._run: Any = ffi.new("sd_serial *")
        self._run.fn = ffi.cast("sd_handler_fn", function.pointer)
        self._run.params = ffi.cast("void *", params)
        self._run.rows = memory
        self._run.row_stride, self._run.n_rows = rows.stride, rows.n_symbols
        self._run.record_size, self._run.key_offset = reader.dtype.itemsize, reader.key_offset
        low = lib.SD_NONE if reader.sequence_offset is None else reader.sequence_offset
        self._run.sequence = lib.sd_sequence_at_of(reader.key_offset, low, reader.sequence_high)
        self._run.writers, self._run.n_outputs = writers, len(outputs)
        self._run.wake, self._run.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        self.finishes = function.finish is not None
        if alarms is not None:
            self._run.alarms = ffi.cast("uint64_t *", ffi.from_buffer(alarms, require_writable=True))

    def __call__(self, records: npt.NDArray[Any], positions: npt.NDArray[Any]) -> Failure | None:
        """Runs over contiguous records whose keys are in range; ``positions`` are theirs (``POSITION``). None where the
        handler took all of them."""
        at = ffi.cast("sd_position *", ffi.from_buffer(positions.view(np.uint8)))
        done = int(lib.sd_serial_run(self._run, ffi.from_buffer(records.view(np.uint8)), at, len(records)))
        if done == len(records) and not self._run.tried_to_publish:
            return None
        return self._failure(min(done, len(records) - 1))

    @property
    def handled(self) -> int:
        """Records that calls have handled so far."""
        return int(self._run.handled)

    def track(
        self, records: npt.NDArray[Any], positions: npt.NDArray[Any], after: npt.NDArray[Any]
    ) -> tuple[int, Failure | None]:
        """Runs a chain over records, as a call does, and copies the beginning of the row after each into ``after``,
        shape (n,). Returns the number of records handled. If some are left, the chain failed on the next record, or
        stopped before its own alarm."""
        failed = ffi.new("int32_t *")
        at = ffi.cast("sd_position *", ffi.from_buffer(positions.view(np.uint8)))
        into = ffi.from_buffer(after.view(np.uint8), require_writable=True)
        records_at = ffi.from_buffer(records.view(np.uint8))
        done = int(lib.sd_serial_track(self._run, records_at, at, len(records), after.itemsize, into, failed))
        return done, self._failure(done) if failed[0] else None

    def wake(self, key: int, time: int) -> Failure | None:
        """Runs a symbol's timer; None where that went well."""
        return self._failure(0) if lib.sd_serial_wake(self._run, key, time) else None

    def finish(self, key: int, time: int) -> Failure | None:
        """Runs a symbol's end; None where that went well."""
        return self._failure(0) if lib.sd_serial_finish(self._run, key, time) else None

    def _failure(self, handled: int) -> Failure:
        run = self._run
        message = text_of(run.message)
        if run.tried_to_publish:
            message = "it publishes, which a plain loop (workers=0) cannot do: give workers=1 or more"
        key, time = (int(run.key), int(run.time)) if run.at_timer else (None, None)
        return Failure(int(run.error_code), message, handled=handled, key=key, time=time)
