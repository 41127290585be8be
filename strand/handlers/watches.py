"""Events that an object after others in a chain is called for: the book's top has changed, a bar has closed."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers.context import Context

__all__ = ["STATES", "Bar", "Events", "Top", "Watch", "check_states", "stand", "tell_changes", "watches_of"]

#: The method; the fields of a row that it is about; how the names begin of those it is given; what to chain.
STATES: Final = {
    "on_book": (("bid_price", "bid_size", "ask_price", "ask_size"), "", "a book: strand.chain(strand.book(), ...)"),
    "on_bar": (("bars", "last_open", "last_close"), "last_", "bars: strand.chain(strand.bars(...), ...)"),
}

Events = dict[int, list[tuple[Callable[[Any], None], Any]]]


class Top(Protocol):
    """The top of a book, the argument of ``on_book``: a named tuple of the book's row with all its fields. Every book
    has these.

    Attributes:
        bid_price: In 1e-9; ``UNDEF_PRICE`` if the side is empty.
        bid_size: As the feed counts sizes.
        ask_price: In 1e-9; ``UNDEF_PRICE`` if the side is empty.
        ask_size: As the feed counts sizes.
    """

    @property
    def bid_price(self) -> int: ...
    @property
    def bid_size(self) -> int: ...
    @property
    def ask_price(self) -> int: ...
    @property
    def ask_size(self) -> int: ...


class Bar(Protocol):
    """A bar, the argument of ``on_bar`` after ``strand.bars``: a named tuple with the fields of
    ``strand.handlers.BAR``.

    Attributes:
        start: The start of a time bar, or the time of another bar's first trade, ns since the UNIX epoch.
        end: The end of a time bar, which does not belong to it, or the time of another bar's last trade, ns since the
            UNIX epoch.
        open: The first price, in 1e-9.
        high: The highest price, in 1e-9.
        low: The lowest price, in 1e-9.
        close: The last price, in 1e-9.
        vwap: The volume-weighted average price, in 1e-9.
        volume: As the feed counts sizes.
        notional: The sum of price times size, in units of currency.
        trades: The number of trades.
        flags: The sum of ``BAR_PARTIAL``, ``BAR_EMPTY``, ``BAR_CUT`` and ``BAR_OUTSIDE`` of ``strand.handlers`` that
            hold.
    """

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def open(self) -> int: ...
    @property
    def high(self) -> int: ...
    @property
    def low(self) -> int: ...
    @property
    def close(self) -> int: ...
    @property
    def vwap(self) -> int: ...
    @property
    def volume(self) -> int: ...
    @property
    def notional(self) -> float: ...
    @property
    def trades(self) -> int: ...
    @property
    def flags(self) -> int: ...


@cache
def _tuple_of(name: str, fields: tuple[str, ...]) -> Any:
    """A class of named tuples: one for all symbols, since to make one takes as long as some hundred calls."""
    make: Any = namedtuple
    return make(name, fields, rename=True)


class Watch:
    """Finds where the state of a part of the chain has changed, and calls an object's method with it then."""

    def __init__(self, method: Callable[[Any], None], part: str, dtype: np.dtype[Any], name: str) -> None:
        fields, prefix, _ = STATES[name]
        self._method = method
        self._part = part
        self._fields = list(fields)
        names = [field for field in dtype.names or () if field.startswith(prefix)]
        self._make = _tuple_of(
            name.removeprefix("on_").title(), tuple(field.removeprefix(prefix) for field in names)
        )._make
        self._names = names
        self._stands: Any = tuple(np.zeros(1, dtype)[self._fields][0].item())

    def look(self, after: Mapping[str, npt.NDArray[Any]], events: Events) -> None:
        """Adds a call for each tick that changed something."""
        rows = after[self._part]
        watched = [rows[field] for field in self._fields]
        changed = np.zeros(len(rows), dtype=bool)
        for column, before in zip(watched, self._stands, strict=True):
            changed[0] |= column[0] != before
            changed[1:] |= column[1:] != column[:-1]
        at = np.flatnonzero(changed)
        for i, values in zip(at.tolist(), rows[self._names][at].tolist(), strict=True):
            events.setdefault(i, []).append((self._method, self._make(values)))

    def stand(self, after: Mapping[str, npt.NDArray[Any]], at: int) -> None:
        """The calls up to tick ``at`` have been made."""
        self._stands = after[self._part][self._fields][at].item()


def _part_for(name: str, states: Mapping[str, np.dtype[Any]]) -> str | None:
    """The last part of the chain so far whose rows a method is about."""
    wanted = set(STATES[name][0])
    return next((part for part in reversed(list(states)) if wanted <= set(states[part].names or ())), None)


def check_states(handler: str, methods: tuple[str, ...], states: Mapping[str, np.dtype[Any]]) -> None:
    """Raises ConfigurationError for a method that nothing in the chain gives cause to call."""
    for method in methods:
        if _part_for(method, states) is None:
            raise ConfigurationError(f"handler {handler!r}: {method} is only called after {STATES[method][2]}")


def watches_of(thing: object, handler: str, states: Mapping[str, np.dtype[Any]]) -> list[Watch]:
    """Watches for the methods of an object."""
    found = []
    for name in STATES:
        method = getattr(thing, name, None)
        if method is None:
            continue
        check_states(handler, (name,), states)
        part = _part_for(name, states)
        assert part is not None
        found.append(Watch(method, part, states[part], name))
    return found


def tell_changes(watches: Sequence[Watch], context: Context) -> None:
    """Calls the watches at a timer or the end, where ``after`` has one row."""
    events: Events = {}
    for watch in watches:
        watch.look(context.after, events)
        watch.stand(context.after, 0)
    for method, value in events.get(0, ()):
        method(value)


def stand(watches: Sequence[Watch], context: Context) -> None:
    """The object knows of what is in ``after``, which has one row."""
    for watch in watches:
        watch.stand(context.after, 0)
