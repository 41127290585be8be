"""Emitting from handlers that Python runs: arrays of records, with the ticks they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, PlaceError, RecordTypeError

__all__ = ["Emit", "EmittingBatch", "places_of", "records_of"]


class EmittingBatch(Protocol):
    """The ticks, or the timer, in hand, as the engine knows them: see strand.binding.py_batches."""

    @property
    def n(self) -> int: ...

    @property
    def at_timer(self) -> bool: ...

    def emit(self, output: int, at: npt.NDArray[np.int64] | None, records: npt.NDArray[Any]) -> None: ...


class Emit:
    """Emits what a handler declares. ``batch``: the ticks in this thread's hands; ``first``: the engine's number of the
    first of the outputs."""

    def __init__(
        self, handler: str, outputs: Mapping[str, np.dtype[Any]], first: int, batch: Callable[[], EmittingBatch]
    ) -> None:
        self._handler = handler
        self._outputs = {name: (first + number, dtype) for number, (name, dtype) in enumerate(outputs.items())}
        self._only = next(iter(self._outputs)) if len(self._outputs) == 1 else None
        self._batch = batch

    def name_of(self, output: str | None) -> str:
        """The output's name where it is given, or the only one's. Raises ConfigurationError for one not declared."""
        name = output if output is not None else self._only
        if name is None or name not in self._outputs:
            there = ", ".join(self._outputs)
            wrong = "say which one, by output=" if name is None and there else f"not {name!r}; give it outputs="
            raise ConfigurationError(f"output: handler {self._handler!r} declares {there or 'none'}: {wrong}")
        return name

    def dtype_of(self, name: str) -> np.dtype[Any]:
        """Dtype of an output's records."""
        return self._outputs[name][1]

    def __call__(self, records: Any, at: Any, output: str | None) -> None:
        """See Context.emit."""
        name = self.name_of(output)
        number, dtype = self._outputs[name]
        batch = self._batch()
        emitted = records_of(records, dtype, name)
        if batch.at_timer:
            if at is not None:
                raise PlaceError(
                    f"at: {at!r} is not a place of a tick: at a timer or at the end there is no tick: leave at out"
                )
            batch.emit(number, None, emitted)
            return
        batch.emit(number, places_of(at, len(emitted), batch.n), emitted)


def places_of(at: Any, n_records: int, n_ticks: int) -> npt.NDArray[np.int64]:
    """The place of each record's tick in a batch. Raises PlaceError."""
    places = np.broadcast_to(np.asarray(at), (n_records,))
    if len(places):
        if places.dtype.kind not in "iu":
            raise PlaceError(f"at: {at!r} are not places of ticks in the batch: give whole numbers")
        outside = places[(places < 0) | (places >= n_ticks)]
        if len(outside):
            raise PlaceError(f"at: {outside[0]} is not a place in a batch of {n_ticks} ticks: places count from 0")
    return np.ascontiguousarray(places, np.int64)


def records_of(records: Any, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Converts emitted values to records of a declared dtype, shape (n,). Raises RecordTypeError."""
    if isinstance(records, np.ndarray | np.void):
        if records.dtype != dtype:
            raise RecordTypeError(f"output {name!r}: records of {records.dtype} were emitted, but {dtype} is declared")
        array = np.atleast_1d(np.asarray(records))
    else:
        try:
            array = np.atleast_1d(np.array(records, dtype))
        except (TypeError, ValueError) as error:
            raise RecordTypeError(f"output {name!r}: {records!r} is not a record of {dtype}: {error}") from error
    if array.ndim != 1:
        raise RecordTypeError(f"output {name!r}: the array has the shape {array.shape}; give one of shape (n,)")
    return np.ascontiguousarray(array)
