"""The engine as a dispatcher makes it: what it says where it cannot be made or takes no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for

from strand import Dispatcher
from strand.binding import CORE, Core
from strand.binding.engine import Engine
from strand.binding.gate import Code, publish_error


class NoMemory:
    """The library, where an engine finds no memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(CORE.lib, name)

    def sd_dispatcher_create(self, *_: object) -> int:
        return Code.NO_MEMORY


def test_where_there_is_no_memory_it_is_said_for_how_many_strands_and_segments() -> None:
    with Dispatcher(4, "count", workers=1, cores=None) as dispatcher:
        config = dispatcher._state.engine.config
    wanted = f"no memory for {config.n_strands} strands and {config.n_segments} segments of 2 KB"
    with pytest.raises(MemoryError, match=wanted):
        Engine(config, Core(CORE.ffi, NoMemory()))


def test_what_was_not_accepted_waits_for_room_on_its_strand_or_for_a_segment() -> None:
    error = publish_error(Code.FULL, ticks_for([0, 0]), np.array([1]), key="instrument_id", symbols=1, started=True)
    assert str(error).endswith("strands are full, a bound over several strands is reached, or all segments are in use")
