"""A file's ticks on their way into a dispatcher without a stop as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.binding.itch_flow import CAPACITY, ItchFlow
from strand.binding.tally import Seen
from strand.ticks import aligned_ticks
from strand.validate import MAXIMUM

__all__ = ["Flow"]


class Flow(ItchFlow):
    """Publishes what a feed's decoder makes, as it is made: what ``DecodedFeed.batches`` takes in place of giving
    batches. Adds ticks by symbol to ``counts``, all of them to ``seen``, and ends after ``limit``.

    ``go_on``: makes the engine go on with it, and to the end of what it holds if so told, or raises what publishing
    raises.
    """

    def __init__(
        self, go_on: Callable[[Flow, bool], None], counts: npt.NDArray[np.int64], seen: Seen, limit: int | None
    ) -> None:
        super().__init__(aligned_ticks(CAPACITY), counts, seen, MAXIMUM if limit is None else limit)
        self._go_on = go_on

    def run(self, decoder: Any, data: memoryview, *, last: bool) -> tuple[int, bool]:
        """Decodes and publishes, until more bytes are needed (``is_dry``), the limit is reached, the decoder has
        something to say, or it is time for others to have a word. Returns the bytes used, and whether all is well, as
        decoders do."""
        with self.given(decoder, data, last=last):
            self._go_on(self, False)
        return len(data) - self.left, self.is_sound

    def flush(self) -> None:
        """Publishes the ticks that wait for others to go with."""
        self._go_on(self, True)
