"""Records that are kept in memory, for an array or an iteration."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import WouldDeadlockError
from strand.output.memory import as_one
from strand.threads import WAITS_FOR_ITSELF, Inside

__all__ = ["Collected"]

Batch = npt.NDArray[Any]


class Collected:
    """The sink of an output that has no other. It keeps batches until a user iterates over them or takes them.

    ``inside``: the threads that may not wait for more.
    """

    def __init__(self, output: str, inside: Inside) -> None:
        self._output = output
        self._inside = inside
        self._batches: list[Batch] = []
        self._over = False
        self._changed = threading.Condition()
        #: True if a user consumes batches while the run goes on. Their memory is then used again.
        self.is_consumed = False

    def write(self, batch: Batch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all iterations after the last batch."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def abort(self) -> None:
        """Closes likewise: the records written stay, and the run raises its error."""
        self.close()

    def next(self) -> Batch | None:
        """Removes the first batch, and waits until there is one; None: there is no more.

        Raises WouldDeadlockError instead of waiting inside the dispatcher.
        """
        self.is_consumed = True
        with self._changed:
            while not self._batches and not self._over:
                if self._inside.here:
                    raise WouldDeadlockError(f"output {self._output!r}: {WAITS_FOR_ITSELF}: use take()")
                self._changed.wait()
            return self._batches.pop(0) if self._batches else None

    def array(self, dtype: np.dtype[Any]) -> Batch:
        """All batches as one array of this dtype, shape (n,). It stays here."""
        with self._changed:
            if len(self._batches) > 1:
                self._batches = [as_one(self._batches)]
            return self._batches[0] if self._batches else np.empty(0, dtype)

    def take(self, dtype: np.dtype[Any]) -> Batch:
        """Removes all batches, and returns them as one array."""
        self.is_consumed = True
        with self._changed:
            found = self.array(dtype)
            self._batches.clear()
        return found
