"""A file's ticks on their way into a dispatcher without a stop as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from strand._bindings.itch_flow import CAPACITY, ItchFlow
from strand.feeds._decoded import aligned_ticks

__all__ = ["Flow"]


class Flow:
    """Publishes what a feed's decoder makes, as it is made: what ``DecodedFeed.batches`` takes in place of giving
    batches. Adds ticks by symbol to ``counts``, and ends after ``limit``.

    ``run``: makes the engine go on with an ``ItchFlow``, or raises what publishing raises.
    """

    def __init__(self, run: Callable[[ItchFlow, bool], None], counts: npt.NDArray[np.int64], limit: int | None) -> None:
        self._run = run
        self._flow = ItchFlow(aligned_ticks(CAPACITY), counts, 2**63 - 1 if limit is None else limit)

    def run(self, decoder: Any, data: memoryview, *, last: bool) -> tuple[int, bool]:
        """Decodes and publishes, until more bytes are needed (``is_dry``), the limit is reached, the decoder has
        something to say, or it is time for others to have a word. Returns the bytes used, and whether all is well, as
        decoders do."""
        with self._flow.given(decoder, data, last=last):
            self._run(self._flow, False)
        return len(data) - self._flow.left, self._flow.is_sound

    def flush(self) -> None:
        """Publishes the ticks that wait for others to go with."""
        self._run(self._flow, True)

    @property
    def is_dry(self) -> bool:
        return self._flow.is_dry

    @property
    def published(self) -> int:
        """Ticks published, and counted by symbol."""
        return self._flow.published

    @property
    def held(self) -> npt.NDArray[Any]:
        """Ticks decoded that are not: where publishing them was broken off, some of them may be in."""
        return self._flow.held

    @property
    def feed_ns(self) -> int:
        """The feed's time so far, in ns; 0 before the first tick."""
        return self._flow.feed_time

    @property
    def publishing_s(self) -> float:
        """Time spent on publishing, of all that was spent in ``run`` and ``flush``."""
        return self._flow.publishing_ns / 1e9
