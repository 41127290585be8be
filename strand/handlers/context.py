"""What a Python handler knows of where it is: its symbol, its row, the time, a logger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError

__all__ = ["Call", "Context", "FailedOnTick"]

#: What a worker calls with a symbol's next ticks.
Call = Callable[[npt.NDArray[Any]], None]


class FailedOnTick(Exception):  # noqa: N818 - it says where an error, its __cause__, happened
    """A handler failed on one tick of a batch, and had handled those before it."""

    def __init__(self, handled: int) -> None:
        super().__init__(handled)
        self.handled = handled


class _Logger(logging.LoggerAdapter[logging.Logger]):
    """Puts the symbol before what is logged, and into the record's ``symbol``."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        symbol = (self.extra or {})["symbol"]
        kwargs["extra"] = {"symbol": symbol, **(kwargs.get("extra") or {})}
        return f"{symbol}: {msg}", kwargs


class Context:
    """One symbol's place in a Python handler, the same object at every call for it.

    ``symbol`` is its name, ``key`` its index (``instrument_id``), ``row`` its row, ``params`` its record of
    parameters (None without). After other handlers in a chain, ``after["book"]`` is an array of shape (n,): the row
    of that part of the chain right after each tick of the batch. ``log`` is a logger named
    ``strand.handlers.NAME`` that says which symbol it is.
    """

    def __init__(
        self,
        handler: str,
        symbol: str,
        key: int,
        row: Any,
        *,
        params: Any = None,
        states: Mapping[str, np.dtype[Any]] | None = None,
        emit: Callable[[Any, Any, str | None], None] | None = None,
    ) -> None:
        self.handler = handler
        self.symbol = symbol
        self.key = key
        self.row = row
        self.params = params
        self.object: Any = None
        self.ticks: npt.NDArray[Any] | None = None
        self.states: Mapping[str, np.dtype[Any]] = states or {}
        self._emit = emit
        #: The place of the tick in hand in the batch; None where the handler has all of them in hand.
        self.at: int | None = None
        self.after: Mapping[str, npt.NDArray[Any]] = {}

    @property
    def time(self) -> int:
        """The feed's time, ns since the UNIX epoch: the greatest ``ts_recv`` of the batch in hand, for an object up to
        the tick in hand; 0 before the first one. Raises ConfigurationError for records without that field."""
        ticks = self.ticks
        if ticks is None or len(ticks) == 0:
            return 0
        if "ts_recv" not in (ticks.dtype.names or ()):
            raise ConfigurationError(f"handler {self.handler!r}: its records have no field ts_recv to tell the time by")
        return int(ticks["ts_recv"][: None if self.at is None else self.at + 1].max())

    def emit(self, records: Any, at: Any = None, output: str | None = None) -> None:
        """Emits records on behalf of ticks in hand.

        ``records``: an array of shape (n,) of the output's dtype, or a single record (a tuple will do). ``at``: the
        place of each one's tick in the batch, shape (n,), or one place for all; an object that is called tick by tick
        may leave it out. ``output``: which one, where the handler has several. Records of one tick keep the order they
        are emitted in; ticks may come in any order.

        Raises RecordTypeError for records of another dtype, IndexError for a place outside the batch,
        ConfigurationError for an output that the handler has not declared.
        """
        if self._emit is None:
            raise ConfigurationError(f"handler {self.handler!r} runs where nothing can be emitted")
        self._emit(records, self.at if at is None else at, output)

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """For ``ctx.log.info(...)``: what a handler logs names its symbol."""
        return _Logger(logging.getLogger(f"strand.handlers.{self.handler}"), {"symbol": self.symbol})

    def __repr__(self) -> str:
        return f"<Context of {self.handler} for {self.symbol}>"
