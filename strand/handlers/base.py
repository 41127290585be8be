"""Interface of all kinds of handlers to the rest of strand.

``NativeHandler``, ``CompiledHandler``, ``PythonHandler``, ``ObjectHandler`` and the kinds of ``BasketHandler`` are
single ones, and a ``ChainHandler`` is several of them in a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeSource
from strand.brief import brief, listed
from strand.errors import ConfigurationError
from strand.handlers.bound import BindContext, BoundHandler
from strand.handlers.feed_trades import trades_of
from strand.handlers.options import Option, Origin
from strand.handlers.state import Parameters, padded

if TYPE_CHECKING:
    from strand.feeds import FeedInfo
    from strand.handlers.compiled.called_again import FailedCall
    from strand.handlers.set_context import SetContext

__all__ = ["FailedSet", "Handler", "HandlerLike", "SingleHandler", "TradesHandler"]


@dataclass(frozen=True, slots=True)
class FailedSet:
    """The set of parameters that a handler with several failed with: its number and values, the handler with it alone,
    and the row that it has then, shape (1,). ``context``: the set's own, where Python runs the handler."""

    number: int
    params: Mapping[str, Any]
    handler: Handler
    row: npt.NDArray[Any]
    context: SetContext | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Handler(ABC):
    """A handler, ready to be given to a dispatcher. Functions of this package make it.

    Attributes:
        name: The handler's name.
        state: The dtype of a symbol's row, which starts as zeros.
        size_unit: What 1 in a size of its feed is worth. None if merged files differ in it; 1.0 if no feed is known.
        origin: What makes the handler again, if that is known.
    """

    name: str
    state: np.dtype[Any]
    size_unit: float | None = 1.0
    origin: Origin | None = field(default=None, compare=False)

    @property
    def described(self) -> str:
        """Name of the handler, and the options it was made with as far as they are known."""
        options = ", ".join(f"{name}={text}" for name, text in (self.origin.options if self.origin else {}).items())
        return f"{self.name} ({options})" if options else self.name

    def __repr__(self) -> str:
        outputs = listed(name for name, _ in self.emitted)
        row = f"row of {listed(self.state.names or ())}" if self.state.names else ""
        return brief(self, self.described, row, f"emits {outputs}" if outputs else "")

    # ---- what it does

    @property
    @abstractmethod
    def is_native(self) -> bool:
        """True if the handler runs without the GIL."""

    @property
    @abstractmethod
    def timers(self) -> bool:
        """True if the handler may ask for timers."""

    @property
    @abstractmethod
    def ends(self) -> bool:
        """True if the handler does something at the end of a run."""

    @property
    def may_publish(self) -> bool:
        """True where it, or a part of it, may publish records itself."""
        return False

    @property
    @abstractmethod
    def needs_ticks(self) -> bool:
        """True if the handler's records have to be of ``strand.TICK``."""

    @property
    @abstractmethod
    def asks_for_trades(self) -> bool:
        """True if the handler, or a part of it, is the user's own and is called with trades."""

    @property
    @abstractmethod
    def takes_ticks_as_plain(self) -> bool:
        """True if the handler, or a part of it, takes ticks as they are, because no feed has declared their meaning."""

    @property
    @abstractmethod
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """The dtypes of the records it emits, by name, as the engine numbers them."""

    # ---- what it is made of

    @abstractmethod
    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:
        """The single handlers it consists of, by name; a single one is ``called`` so."""

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        """Functions that a user wrote of the handler in Python, or the class of its objects."""
        return ()

    @property
    @abstractmethod
    def options(self) -> dict[str, Option]:
        """Options of ``with_options``, by name; those of a chain are called ``part.name``."""

    @property
    @abstractmethod
    def described_params(self) -> dict[str, str]:
        """The parameters it was given, as text, with a digest of those of single symbols; of a chain, by part."""

    @abstractmethod
    def with_params(self, values: Any) -> Self:
        """Same handler with parameters by symbol.

        A symbol takes a value that it is not given from ``"*"``, else from the defaults of the class that declares the
        parameters.

        Args:
            values: A dict like ``{"AAPL": {"threshold": 2.0}, "*": {...}}``, ``"*"`` being all other symbols. Or a
                DataFrame with a column per parameter, and with the symbols in its index or in a column ``symbol``.

        Raises:
            ConfigurationError: If a column is no parameter. The dispatcher checks names of symbols and values when it
                is made.
        """

    @abstractmethod
    def with_options(self, values: Mapping[str, Any]) -> Self:
        """Same handler with other parameters for all symbols that have none of their own.

        Args:
            values: The parameters, by their names as options.
        """

    def known(self, info: FeedInfo) -> Handler:
        """The handler to use in this one's place, or in those of a chain's parts, for a feed; itself for most."""
        return self if self.size_unit == info.size_unit else replace(self, size_unit=info.size_unit)

    # ---- at work

    @abstractmethod
    def bind(self, context: BindContext) -> BoundHandler:
        """Binds the handler to a table of symbols.

        Raises:
            ConfigurationError: If the handler cannot be bound; it names the handler.
        """

    def call_again(self, call: FailedCall) -> None:  # noqa: ARG002 - as those have it that Python can call
        """Calls the handler in Python for a tick that it failed on. Raises the handler's exceptions, and
        ConfigurationError where Python cannot call it."""
        raise ConfigurationError(
            f"replay: handler {self.name!r} is not a single Python function or object: stop before the tick, with "
            "strand.replay(until=...)"
        )

    def failed_set(
        self,
        symbol: str,  # noqa: ARG002 - as those with sets
        row: npt.NDArray[Any],  # noqa: ARG002
        cause: BaseException | None,  # noqa: ARG002
    ) -> FailedSet | None:
        """Returns the set of parameters that the handler failed with; None: it has no sets, or failed with none of
        them. The set is found by the row of the symbol, shape (1,), or by ``cause``, the exception, where Python runs
        the handler."""
        return None

    def reason_of(self, message: str) -> str:
        """Reason for a failure, by the failure's message."""
        return message


HandlerLike = Handler | str | type


@dataclass(frozen=True, kw_only=True, repr=False)
class SingleHandler(Handler):
    """A handler that is not a chain.

    ``outputs``: dtypes of the records it emits, by name, in the order of its numbers. ``params``: the parameters that
    a symbol has, None where it has none.
    """

    outputs: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    params: Parameters | None = None

    @property
    def emitted(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        return tuple(self.outputs.items())

    def parts_as(self, called: str) -> tuple[tuple[str, SingleHandler], ...]:
        return ((called, self),)

    @property
    def options(self) -> dict[str, Option]:
        return {} if self.params is None else self.params.options

    @property
    def described_params(self) -> dict[str, str]:
        return {} if self.params is None else self.params.described

    def with_params(self, values: Any) -> Self:
        if self.params is None:
            raise ConfigurationError("params", f"handler {self.name!r} has none: declare them with params=")
        return replace(self, params=self.params.given(values), origin=None)

    def with_options(self, values: Mapping[str, Any]) -> Self:
        if self.params is None or not values:
            return self
        given = self.params.values
        return self.with_params({**given, "*": {**given.get("*", {}), **values}})

    @property
    def sees_chain(self) -> bool:
        """True where a chain gives it the chain's whole row instead of its own part."""
        return False

    @property
    def has_lines(self) -> bool:
        """True if the handler is Python code, whose failing line another call can find."""
        return False

    def bind(self, context: BindContext) -> BoundHandler:
        return self.bind_row(context, padded(self.state, context.row_stride))

    @abstractmethod
    def bind_row(self, context: BindContext, row: np.dtype[Any]) -> BoundHandler:
        """Binds as ``bind``, for rows of a dtype."""


@dataclass(frozen=True, kw_only=True, repr=False)
class TradesHandler(SingleHandler):
    """Handler that may be called with trades. ``trades``: the source of the trades that it is called with, instead of
    ticks or beside them; None: it is called with ticks alone."""

    trades: TradeSource | None = None

    @property
    def needs_ticks(self) -> bool:
        return self.trades is not None

    @property
    def asks_for_trades(self) -> bool:
        return self.trades is not None

    @property
    def takes_ticks_as_plain(self) -> bool:
        return self.trades is not None and self.trades.assumed

    def _called_with(self, call: FailedCall) -> npt.NDArray[Any]:
        """The tick of a failed call, or the trade that it is, shape (1,). Raises ConfigurationError."""
        from strand.handlers.compiled.called_again import trade_of

        return call.tick if self.trades is None else trade_of(self.trades, call)

    def known(self, info: FeedInfo) -> Handler:
        if self.trades is None:
            return super().known(info)
        return replace(self, trades=trades_of(info), size_unit=info.size_unit)
