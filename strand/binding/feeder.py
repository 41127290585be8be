"""A file's ticks on their way into a dispatcher without a stop as arrays (csrc/feeder/feeder.h)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.columns import Seen
from strand.binding.decoders import Decoder
from strand.binding.gate import Code
from strand.binding.memory import held
from strand.binding.merge import MergedFiles
from strand.ticks import aligned_ticks
from strand.validate import MAXIMUM

#: Ticks decoded before they are published: a quarter of a megabyte, which stays in the second cache. Not fewer: who
#: publishes less at a time is taken for a live feed, which is not tried on (TRIAL_MIN in csrc/publish/cost_model.c).
CAPACITY: Final = 4096

#: Lets the engine go on once: takes the dispatcher, the participant and a slice of time in ns, returns a code.
Step = Callable[[Any, int, int], int]


class Feeder:
    """Publishes what a feed's decoder makes, as it is made: what ``DecodedFeed.batches`` takes in place of giving
    batches. One for each run.

    ``go_on``: lets the engine go on with it, by one ``Step`` or more. Raises what publishing raises.
    ``counts``: ticks by symbol, shape (n_symbols,), added to; ``seen``: likewise. ``limit``: it ends after so many
    ticks.
    """

    def __init__(
        self,
        go_on: Callable[[Feeder, Step], None],
        counts: npt.NDArray[np.int64],
        seen: Seen,
        limit: int | None,
    ) -> None:
        self._go_on = go_on
        self._feeder: Any = ffi.new("sd_feeder *")
        self._keep = ffi.from_buffer("int64_t[]", counts, require_writable=True), seen
        #: Ticks by symbol, as given.
        self.counts = counts
        self._decoder: Decoder | None = None
        self._files: MergedFiles | None = None
        self._batch: npt.NDArray[Any] = aligned_ticks(0)
        feeder = self._feeder
        feeder.counts, feeder.n_counts, feeder.seen = self._keep[0], len(counts), seen.state
        feeder.capacity, feeder.limit, feeder.until = CAPACITY, MAXIMUM if limit is None else limit, MAXIMUM

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
                self._go_on(self, self.step)
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
        step, feeder = lib.sd_feeder_step, self._feeder
        self._go_on(self, lambda dispatcher, participant, slice_ns: step(feeder, dispatcher, participant, 1, slice_ns))

    def offer(self, decoder: Decoder, fd: int) -> None:
        """Tells that the decoder's input is the plain file ``fd``: its ticks may go in blocks then."""
        if self._decoder is not decoder:
            self._begin(decoder)
        self._feeder.open_blocks, self._feeder.fd, self._feeder.base = decoder.open_blocks, fd, decoder.base

    def offer_merge(self, files: MergedFiles) -> None:
        """Tells that these files may go in blocks, from where their decoders stand: the ends of one merge so far."""
        self._files = files
        self._feeder.open_blocks, self._feeder.files = files.open_blocks, files.state

    def withdraw(self) -> None:
        """Takes the offer back."""
        self._feeder.open_blocks, self._feeder.in_blocks = ffi.NULL, 0

    @property
    def goes_in_blocks(self) -> bool:
        """True if the next ticks are to go in blocks."""
        return bool(self._feeder.in_blocks)

    def run_blocks(self) -> None:
        """Publishes ticks in blocks for a while, and moves the decoder on in the file that was offered."""
        self._go_on(self, partial(lib.sd_feeder_in_blocks, self._feeder))

    def pass_by(self, ticks: int, until_ns: int) -> None:
        """Takes the number of ticks, 0 or more, that were published without the feeder, up to the decoder's place; and
        the time up to which the feeder may take blocks."""
        self._feeder.until = until_ns

        def step(dispatcher: Any, _participant: int, _slice_ns: int) -> int:
            lib.sd_feeder_pass(self._feeder, dispatcher, ticks)
            return int(Code.OK)

        self._go_on(self, step)

    def end_by(self, until_ns: int) -> None:
        """Tells that blocks may go on up to a time, if they may at all."""
        self._feeder.until = min(self._feeder.until, until_ns)

    def step(self, dispatcher: Any, participant: int, slice_ns: int) -> int:
        """Calls the engine once; returns its code."""
        return int(lib.sd_feeder_step(self._feeder, dispatcher, participant, 0, slice_ns))

    @property
    def published(self) -> int:
        """The number of ticks that were published so far, with those of ``pass_by``."""
        return int(self._feeder.published)

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
        feeder = self._feeder
        if feeder.n_over:
            size = int(feeder.n_over) * self._batch.itemsize
            return np.frombuffer(ffi.buffer(feeder.over, size), self._batch.dtype).copy()
        return self._batch[: int(feeder.held)]

    @property
    def feed_ns(self) -> int:
        """The feed's time so far, in ns; 0 before the first tick."""
        return int(self._feeder.feed_time)

    @property
    def publishing_s(self) -> float:
        """Time spent on publishing, of all it was run for."""
        return float(lib.sd_feeder_publishing_ns(self._feeder) / 1e9)
