"""A file's ticks on their way into a dispatcher without a stop as arrays (csrc/feeder/feeder.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.columns import Seen
from strand.binding.decoders import Decoder
from strand.binding.gate import Code
from strand.binding.memory import held
from strand.ticks import aligned_ticks
from strand.validate import MAXIMUM

__all__ = ["CAPACITY", "Feeder"]

#: Ticks decoded before they are published: a quarter of a megabyte, which stays in the second cache. Not fewer: who
#: publishes less at a time is taken for a live feed, which is not tried on (TRIAL_MIN in csrc/publish/cost_model.c).
CAPACITY: Final = 4096


class Feeder:
    """Publishes what a feed's decoder makes, as it is made: what ``DecodedFeed.batches`` takes in place of giving
    batches. One for each run.

    ``go_on``: lets the engine go on with it, to the end of the ticks that it holds if so told. Raises what publishing
    raises. ``counts``: ticks by symbol, shape (n_symbols,), added to; ``seen``: likewise. ``limit``: it ends after so
    many ticks.
    """

    def __init__(
        self,
        go_on: Callable[[Feeder, bool], None],
        counts: npt.NDArray[np.int64],
        seen: Seen,
        limit: int | None,
    ) -> None:
        self._go_on = go_on
        self._feeder: Any = ffi.new("sd_feeder *")
        self._keep = ffi.from_buffer("int64_t[]", counts, require_writable=True), seen
        self._decoder: Decoder | None = None
        self._batch: npt.NDArray[Any] = aligned_ticks(0)
        feeder = self._feeder
        feeder.counts, feeder.n_counts, feeder.seen = self._keep[0], len(counts), seen.state
        feeder.capacity, feeder.limit = CAPACITY, MAXIMUM if limit is None else limit

    def run(self, decoder: Decoder, data: memoryview, *, last: bool) -> tuple[int, bool]:
        """Decodes and publishes, until more bytes are needed (``is_dry``) or the limit is reached. A fault or samples
        of the decoder end it too, and so does a moment for Python to look for signals. Returns the bytes used, and
        whether all is well, as ``Decoder.decode`` does."""
        feeder = self._feeder
        if self._decoder is not decoder:
            self._begin(decoder)
        with held(data) as source:
            feeder.at, feeder.left, feeder.last = source, len(data), int(last)
            while True:
                feeder.dry = feeder.decoded.code = feeder.decoded.sampled = 0
                self._go_on(self, False)
                used, code = len(data) - feeder.left, feeder.decoded.code
                if code != Code.AGAIN or not decoder.answer(data[:used]):
                    return used, decoder.is_sound(code)

    def _begin(self, decoder: Decoder) -> None:
        feeder, self._decoder = self._feeder, decoder
        self._batch = aligned_ticks(CAPACITY + decoder.max_per_record - 1)
        feeder.batch = ffi.from_buffer("sd_tick[]", self._batch, require_writable=True)
        feeder.decode, feeder.decoder, feeder.max_per_record = decoder.function, decoder.state, decoder.max_per_record

    def flush(self) -> None:
        """Publishes the ticks that wait for others to go with."""
        self._go_on(self, True)

    def step(self, dispatcher: Any, participant: int, *, flush: bool, slice_ns: int) -> int:
        """Calls the engine once; returns its code."""
        return int(lib.sd_feeder_step(self._feeder, dispatcher, participant, int(flush), slice_ns))

    @property
    def is_dry(self) -> bool:
        """True if the decoder needs more bytes."""
        return bool(self._feeder.dry)

    @property
    def is_open(self) -> bool:
        """True if a part of the held ticks has been published, and the rest has not."""
        return bool(self._feeder.open)

    @property
    def held(self) -> npt.NDArray[Any]:
        """Ticks decoded that are not: where publishing them was broken off, some of them may be in."""
        return self._batch[: int(self._feeder.held)]

    @property
    def feed_ns(self) -> int:
        """The feed's time so far, in ns; 0 before the first tick."""
        return int(self._feeder.feed_time)

    @property
    def publishing_s(self) -> float:
        """Time spent on publishing, of all it was run for."""
        return float(lib.sd_feeder_publishing_ns(self._feeder) / 1e9)
