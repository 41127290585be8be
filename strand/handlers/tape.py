"""What the built-in handlers that read trades and quotes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from strand._bindings.tape import TapeMemory, finish_function, tape_function, wake_function
from strand.errors import ConfigurationError
from strand.handlers.base import Handler

__all__ = ["STRETCH", "TOP", "one_of", "tape_handler"]

FILLS: Final = ("reduce", "report")

#: The best bid and ask in a row: prices in 1e-9, ``UNDEF_PRICE`` where a side is empty, all 0 before the first quote.
TOP: Final = [("bid", "<i8"), ("ask", "<i8"), ("bid_size", "<u8"), ("ask_size", "<u8")]
#: The session a row is in, or what is between two: ns since the epoch, and whether it is one.
STRETCH: Final = [("stretch_start", "<u8"), ("stretch_end", "<u8"), ("inside", "<u8")]


def one_of(name: str, value: str, choices: tuple[str, ...]) -> int:
    """The place of a choice. Raises ConfigurationError."""
    if value not in choices:
        raise ConfigurationError(f"{name}: {value!r} is not one of {', '.join(choices)}")
    return choices.index(value)


def tape_handler(
    name: str,
    state: np.dtype[Any],
    params: bytes,
    *,
    book: bool,
    fills: str,
    outputs: Mapping[str, np.dtype[Any]] | None = None,
    timers: bool = False,
    finish: bool = False,
    shown: str | None = None,
) -> Handler:
    """The handler of the C functions ``sd_handle_NAME``, ``sd_wake_NAME`` and ``sd_finish_NAME``.

    ``params``: those behind its sd_source. ``book``: it takes trades and quotes from books of its own.
    """
    report = one_of("fills", fills, FILLS) == 1
    return Handler(
        shown or name,
        state,
        function=None if book else tape_function(name, report, params),
        memory=(lambda n: TapeMemory(n, name, report, params)) if book else None,
        needs_ticks=True,
        outputs=outputs or {},
        wake=wake_function(name) if timers else None,
        finish=finish_function(name) if finish else None,
    )
