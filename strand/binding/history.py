"""The rows of symbols as they stood at multiples of an interval (csrc/handlers/history.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import made
from strand.binding.memory import owned
from strand.binding.native import NativeFunction, builtin_function

__all__ = ["RowHistory"]

_NEVER: Final = 2**63 - 1
#: An ``sd_history_symbol``.
_SYMBOL: Final = np.dtype(
    [(name, "<i8") for name in ("first", "due", "failed")] + [(name, "<u8") for name in ("run", "n", "capacity", "at")]
)


class RowHistory:
    """The entries of each symbol: fields of its row as they were before records and timers that changed it.

    A symbol's value at a time T, a multiple of the interval, is that of its first entry whose ``time`` is after T, or
    of its row where there is none. Its first entry is of its first record. Entries can be read at rest.

    Raises MemoryError.

    Args:
        n_symbols: Symbols have keys from 0 to ``n_symbols - 1``.
        every_ns: The interval.
        columns: Views of rows' fields by name, each of shape (n_symbols, ...).
        rows: All rows, shape (n_symbols,), whose fields they are.
    """

    def __init__(
        self, n_symbols: int, every_ns: int, columns: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[Any]
    ) -> None:
        self._rows = rows
        offsets = [column.ctypes.data - rows.ctypes.data for column in columns.values()]
        sizes = [column.itemsize * int(np.prod(column.shape[1:])) for column in columns.values()]
        #: An entry's layout.
        self.dtype = np.dtype(
            [("time", "<i8"), *((name, column.dtype, column.shape[1:]) for name, column in columns.items())]
        )
        parts = ffi.new("sd_history_part[]", list(_joined(offsets, sizes)))
        history = made(
            lib.sd_history_create(every_ns, n_symbols, parts, len(parts)),
            f"no memory for the snapshots of {n_symbols:,} symbols",
        )
        self._history = owned(history, lib.sd_history_destroy)
        memory = ffi.buffer(self._history.symbols, n_symbols * ffi.sizeof("sd_history_symbol"))
        self._symbols = np.frombuffer(memory, _SYMBOL)

    def around(self, function: NativeFunction) -> NativeFunction:
        """The function that the engine calls, around a handler's."""
        inner = ffi.new("char[]", function.params) if function.params else ffi.NULL
        made = ffi.new("sd_history_params *", {"history": self._history, "fn": function.pointer, "params": inner})
        made.wake, made.finish = function.wake or ffi.NULL, function.finish or ffi.NULL
        wrapped = builtin_function(
            "history",
            bytes(ffi.buffer(made)),
            timers=function.wake is not None,
            ends=function.finish is not None,
            never_publishes=function.never_publishes,
            keep=(self._history, function, inner),
        )
        return wrapped._replace(yields=function.yields)

    def keep(self, keys: npt.NDArray[np.intp], time: int) -> None:
        """Keeps rows that the caller is about to change at a time of the feed; at rest. Raises MemoryError."""
        rows, stride = ffi.cast("void *", self._rows.ctypes.data), self._rows.strides[0]
        for key in keys.tolist():
            if lib.sd_history_keep(self._history, rows, stride, key, time):
                raise MemoryError("no memory for snapshots")

    def entries(self, key: int) -> npt.NDArray[Any]:
        """A copy of one symbol's entries, shape (n,), in the order of their times."""
        symbol = self._history.symbols[key]
        if not symbol.n:
            return np.empty(0, self.dtype)
        return np.frombuffer(ffi.buffer(symbol.entries, symbol.n * self._history.entry_bytes), self.dtype).copy()

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """By symbol: the time of its first record, the greatest number where it has had none; shape (n_symbols,)."""
        first: npt.NDArray[np.int64] = self._symbols["first"]
        return first

    @property
    def failed(self) -> int | None:
        """The feed's time at the first record, or timer, on which a handler failed; None where none did."""
        first = int(self._symbols["failed"].min(initial=_NEVER))
        return None if first == _NEVER else first


def _joined(offsets: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Offset and size of each part of a row, those that touch as one, in the order given."""
    found: list[tuple[int, int]] = []
    for offset, size in zip(offsets, sizes, strict=True):
        if found and sum(found[-1]) == offset:
            found[-1] = found[-1][0], found[-1][1] + size
        else:
            found.append((offset, size))
    return found
