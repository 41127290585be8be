"""What the built-in handlers that read trades and quotes have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand._bindings.tape import TapeMemory, source_bytes, tape_function
from strand.errors import ConfigurationError
from strand.handlers.base import Handler, fills_of

if TYPE_CHECKING:
    from strand.feeds import FeedInfo

__all__ = ["STRETCH", "TOP", "one_of", "tape_handler"]

FILLS: Final = ("reduce", "report")
#: Formats of single orders whose fills have no price of their own.
_WITHOUT_PRICES: Final = frozenset(("itch50", "moldudp64", "pcap", "pitch", "recording", "synthetic"))

#: The best bid and ask in a row: prices in 1e-9, ``UNDEF_PRICE`` where a side is empty, all 0 before the first quote.
TOP: Final = [("bid", "<i8"), ("ask", "<i8"), ("bid_size", "<i8"), ("ask_size", "<i8")]
#: The session a row is in, or what is between two: ns since the epoch, and whether it is one.
STRETCH: Final = [("stretch_start", "<i8"), ("stretch_end", "<i8"), ("inside", "<u8")]


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
    book: bool | None,
    fills: str | None,
    quotes: bool = False,
    outputs: Mapping[str, np.dtype[Any]] | None = None,
    timers: bool = False,
    ends: bool = False,
    shown: str | None = None,
) -> Handler:
    """The handler of the C functions ``sd_handle_NAME``, ``sd_wake_NAME`` and ``sd_finish_NAME``.

    ``params``: those behind its sd_source. ``book``: it takes trades and quotes from books of its own, and ``fills``:
    what a fill does; where they are None a replay goes by its feed, and a dispatcher, which knows none, takes ticks as
    they are, and ``"reduce"``. ``quotes``: it needs quotes, and not trades alone.
    """
    acts = {"timers": timers, "ends": ends}
    report = fills is not None and one_of("fills", fills, FILLS) == 1
    options: dict[str, Any] = {"outputs": outputs, "shown": shown, **acts}

    def for_feed(info: FeedInfo) -> Handler:
        books = _needs_book(info, quotes) if book is None else book
        return tape_handler(
            name, state, params, book=books, fills=fills_of(info) if fills is None else fills, quotes=quotes, **options
        )

    return Handler(
        shown or name,
        state,
        function=None if book else tape_function(name, source_bytes(report), params, **acts),
        memory=(lambda n: TapeMemory(n, name, report, params, **acts)) if book else None,
        needs_ticks=True,
        for_feed=for_feed if book is None or fills is None else None,
        outputs=outputs or {},
        timers=timers,
        ends=ends,
    )


def _needs_book(info: FeedInfo, quotes: bool) -> bool:
    """Whether trades, or quotes, of a feed are only to be had from order books. Raises ConfigurationError where its
    files do not agree."""
    parts = info.details.get("feeds") if info.format == "merged" else None
    found = {_single_orders(part, quotes) for part in parts or [{"format": info.format} | info.details]}
    if len(found) > 1:
        raise ConfigurationError(
            "book: some of the files that are merged have single orders, others trades and quotes; give handlers by "
            "symbol, with book=True and book=False"
        )
    return found.pop()


def _single_orders(part: Mapping[str, Any], quotes: bool) -> bool:
    if part["format"] in _WITHOUT_PRICES:
        return True
    if not quotes:
        return False
    profile = part.get("profile")
    if profile in ("databento", "databento-raw"):
        return "order_id" in part["columns"]
    return profile == "lobster" or part.get("schema") == "mbo"
