"""ITCH ticks published as they are decoded (csrc/codec/itch/flow.h)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.memory import held
from strand.binding.tally import Seen

__all__ = ["CAPACITY", "ItchFlow"]

#: Ticks decoded before they are published: a quarter of a megabyte, which stays in the second cache. Not fewer: who
#: publishes less at a time is taken for a live feed, which is not tried on (TRIAL_LEAST in csrc/publish/inline.c).
CAPACITY: Final = 4096


class ItchFlow:
    """``room``: for ``CAPACITY`` ticks, contiguous. Publishes ``limit`` ticks at most, and adds them to ``counts``
    and ``seen``."""

    def __init__(self, room: npt.NDArray[Any], counts: npt.NDArray[np.int64], seen: Seen, limit: int) -> None:
        self._flow = ffi.new("sd_itch_flow *")
        self._room, self._seen = room, seen
        self._arrays = (
            ffi.from_buffer("sd_tick[]", room, require_writable=True),
            ffi.from_buffer("int64_t[]", counts, require_writable=True),
        )
        self._flow.room, self._flow.counts = self._arrays
        self._flow.seen = seen.state
        self._flow.capacity, self._flow.n_counts, self._flow.limit = len(room), len(counts), limit

    @contextmanager
    def given(self, decoder: Any, data: memoryview, *, last: bool) -> Iterator[None]:
        """In the block it may run, on ``data``, by an ``ItchDecoder`` without a selection."""
        flow = self._flow
        with held(data) as source:
            flow.itch, flow.at, flow.left, flow.last, flow.dry = decoder.state, source, len(data), int(last), 0
            yield

    def step(self, dispatcher: Any, participant: int, *, flush: bool, slice_ns: int) -> int:
        return int(lib.sd_itch_flow_run(self._flow, dispatcher, participant, int(flush), slice_ns))

    @property
    def left(self) -> int:
        """Bytes of what was given that are not used."""
        return int(self._flow.left)

    @property
    def is_sound(self) -> bool:
        """Whether the decoder has no fault to tell."""
        return bool(self._flow.decoded == lib.SD_OK)

    @property
    def is_dry(self) -> bool:
        """Whether it needs more bytes."""
        return bool(self._flow.dry)

    @property
    def is_open(self) -> bool:
        """Whether publishing what it holds is under way."""
        return bool(self._flow.open)

    @property
    def published(self) -> int:
        """Ticks published, and counted by symbol."""
        return int(self._flow.published)

    @property
    def held(self) -> npt.NDArray[Any]:
        """Ticks decoded that are not: where publishing them was broken off, some of them may be in."""
        return self._room[: self._flow.held]

    @property
    def feed_ns(self) -> int:
        """The feed's time so far, in ns; 0 before the first tick."""
        return int(self._flow.feed_time)

    @property
    def publishing_s(self) -> float:
        """Time spent on publishing, of all it was run for."""
        return float(lib.sd_itch_flow_publishing_ns(self._flow) / 1e9)
