"""``strand.basket_handler``: functions and classes made handlers with baskets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from strand.handlers.basket_arguments import check_arguments
from strand.handlers.basket_handlers import BasketHandler, CompiledBasketHandler
from strand.handlers.baskets import Baskets
from strand.handlers.emitted import output_dtypes
from strand.handlers.feed_trades import On, source_for
from strand.handlers.functions import name_of
from strand.handlers.hosted_baskets import BasketBatchHandler, BasketObjectHandler, check_methods
from strand.handlers.object_handlers import OBJECT_ROW
from strand.handlers.parameters import Parameters
from strand.handlers.state import row_dtype
from strand.options import named_options
from strand.validate import one_of

__all__ = ["basket_handler"]


@named_options("basket_handler()")
def basket_handler(
    *,
    baskets: Any,
    basket_state: Any,
    state: Any = None,
    params: Any = None,
    name: str | None = None,
    kind: Literal["compiled", "batch"] = "compiled",
    cache: bool = True,
    outputs: Mapping[str, Any] | None = None,
    on: On = "tick",
) -> Callable[[Callable[..., Any]], BasketHandler]:
    """Decorates a function, or a class, that sees the ticks of several symbols in the order of publishing.

    A function is compiled by numba, and called as ``on_tick(tick, row, basket)``: by name, in any order, with those of
    these that it takes: ``tick`` (``trade`` with ``on="trade"``), ``row`` (the symbol's), ``basket`` (the basket's
    row), ``member`` (the symbol's place in the basket, from 0), ``index`` (the basket's place among all), ``params``
    (the symbol's), ``emit``. A symbol of several baskets has a call for each, in the order of the baskets. With
    ``kind="batch"`` Python calls it as ``on_ticks(ticks, rows, basket)``: ``ticks`` (``trades``) is an array of shape
    (n,) of the basket's records in order, read-only and valid during the call; ``members`` has shape (n,), the member
    each is of; ``rows`` are the members' rows, ``basket`` is the basket's, ``ctx`` a ``BasketContext``. A class has an
    object for each basket: of ``on_start(ctx)``, ``on_tick(tick, row, basket)``, ``on_trade(trade, row, basket)``, each
    with ``member`` where it takes it, ``on_finish()`` at the end of a run, when everything has been handled, and
    ``on_stop()`` when it has ended, however, those are called that it defines. ``result.objects`` has them by the
    basket's name.

    ``params``. ``outputs``. ``name``.

    Args:
        baskets: A dict of lists of symbols by the basket's name, or a function of a symbol that returns its basket's
            name, a list of names, or None. Symbols of a basket share a strand, and so do baskets that have a symbol in
            common; other baskets run in parallel. Symbols without a basket are passed over.
        basket_state: The row of each basket.
        state: That of each symbol, as ``strand.handler`` has them; both begin as zeros. Without a ``state`` a symbol's
            row counts the ticks that the handler was called with.
        cache: As ``strand.handler`` has them. There are no timers. The result has the baskets' rows as
            ``result.baskets``.

    Raises:
        ConfigurationError: For baskets that cannot be, for rows that are none, and for a function or method with other
            arguments; when a dispatcher is made.
        UnknownSymbolError: For a symbol that the feed does not have.
        MissingExtraError: Without numba.
        ConfigurationError: For a function that does not compile.
    """
    one_of("kind", kind, ("compiled", "batch"))
    common: dict[str, Any] = {
        "state": OBJECT_ROW if state is None else row_dtype(state),
        "counts": state is None,
        "basket_state": row_dtype(basket_state, "basket_state"),
        "baskets": Baskets.declared(baskets),
        "params": Parameters.declared(params),
        "outputs": output_dtypes(outputs),
    }
    source = source_for(on)

    def wrap(function: Callable[..., Any]) -> BasketHandler:
        called = name or name_of(function)
        if isinstance(function, type):
            check_methods(called, function)
            trades = source_for("trade" if hasattr(function, "on_trade") else "tick")
            return BasketObjectHandler(name=called, factory=function, trades=trades, **common)
        if kind == "batch":
            check_arguments(called, function, (f"{on}s", "rows", "basket", "members", "ctx"))
            return BasketBatchHandler(name=called, on_ticks=function, trades=source, **common)
        both = {"params": ("params", params), "emit": ("outputs", outputs)}
        check_arguments(
            called,
            function,
            (on, "row", "basket", "member", "index", "params", "emit"),
            declared=[argument for argument, (_, given) in both.items() if given],
            undeclared=[(argument, keyword) for argument, (keyword, given) in both.items() if not given],
        )
        return CompiledBasketHandler(name=called, on_tick=function, cache=cache, trades=source, **common)

    return wrap
