"""The plain loop of csrc/sd_serial.h: rows, and a handler's function over records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings import ffi, lib
from strand._bindings.engine import NativeFunction

__all__ = ["PlainRows", "SerialRun", "Stumble"]

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


@dataclass(frozen=True, slots=True)
class Stumble:
    """Where a handler failed: ``index`` of the record, the handler's own ``code`` and ``message``.

    ``published``: it tried to publish, which a plain loop cannot do."""

    index: int
    code: int
    message: str
    published: bool


class SerialRun:
    """One native handler, called for records of ``record_size`` bytes over the rows."""

    def __init__(self, function: NativeFunction, rows: PlainRows, record_size: int) -> None:
        params = ffi.new("char[]", function.params) if function.params else ffi.NULL
        memory = ffi.from_buffer(rows.memory, require_writable=True)
        self._keep = (function, params, rows, memory)
        self._run: Any = ffi.new("sd_serial *")
        self._run.fn = ffi.cast("sd_handler_fn", function.pointer)
        self._run.params = ffi.cast("void *", params)
        self._run.rows = memory
        self._run.row_stride, self._run.n_rows = rows.stride, rows.n_symbols
        self._run.record_size = record_size

    def __call__(self, records: npt.NDArray[Any]) -> Stumble | None:
        """Runs over contiguous records whose keys are in range; None where the handler took all of them."""
        done = int(lib.sd_serial_run(self._run, ffi.from_buffer(records.view(np.uint8)), len(records)))
        if done == len(records) and not self._run.tried_to_publish:
            return None
        message = ffi.string(self._run.message).decode("utf-8", "replace")
        return Stumble(min(done, len(records) - 1), self._run.error_code, message, bool(self._run.tried_to_publish))
