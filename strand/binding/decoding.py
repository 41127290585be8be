"""The loop around a decoder of csrc/decode/, which stops where Python has to judge a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from strand.binding import ffi
from strand.binding.gate import Code
from strand.binding.memory import held

__all__ = ["decode"]


def decode(
    call: Callable[..., int],
    state: Any,
    data: memoryview,
    *,
    last: bool,
    out: npt.NDArray[Any],
    decide: Callable[[], None],
) -> tuple[int, int, int]:
    """Decodes ``data`` into ``out`` (contiguous, of dtype ``strand.TICK``), by a decoder's function and its state.

    ``decide`` is called where the decoder waits for the judgement of a symbol. Returns the ticks made, the bytes
    consumed, and the code that it ended with.
    """
    ticks, size, room = ffi.from_buffer("sd_tick[]", out, require_writable=True), len(data), len(out)
    made = used = 0
    with held(data) as source:
        while True:
            code = call(state, source + used, size - used, int(last), ticks + made, room - made)
            made += state.made
            used += state.consumed
            if code != Code.AGAIN:
                return made, used, code
            decide()
