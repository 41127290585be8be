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

    The decorated function or class has one of three forms:

    - A function, compiled by numba and called as ``on_tick(tick, row, basket)``. It takes by name, in any order, the
      arguments that it needs: ``tick`` (``trade`` with ``on="trade"``), ``row`` (the symbol's row) and ``basket`` (the
      basket's row). Others are ``member`` (the symbol's place in the basket, from 0), ``index`` (the basket's place
      among all), ``params`` (the symbol's) and ``emit``. A symbol of several baskets has a call for each, in the order
      of the baskets.
    - With ``kind="batch"``, a function that Python calls as ``on_ticks(ticks, rows, basket)``. ``ticks`` (``trades``)
      is an array of shape (n,) of the basket's records in order, read-only and valid during the call. ``rows`` are the
      members' rows, and ``basket`` is the basket's row. It may also take ``members``, shape (n,), the member of each
      record, and ``ctx``, a ``BasketContext``.
    - A class: each basket has an object, and Strand calls the methods that the class defines. They are
      ``on_start(ctx)``, and ``on_tick(tick, row, basket)`` and ``on_trade(trade, row, basket)``, both also with
      ``member``. ``on_finish()`` comes at the end of a run, when everything has been handled, and ``on_stop()`` when
      the run has ended, in whatever way. ``result.objects`` has the objects by the basket's name.

    The result has the baskets' rows as ``result.baskets``. There are no timers.

    Args:
        baskets: A dict of lists of symbols by the basket's name. Or a function of a symbol that returns its basket's
            name, a list of names, or None. Symbols of a basket share a strand, and so do baskets that have a symbol in
            common; other baskets run in parallel. Symbols without a basket are skipped.
        basket_state: The row of each basket, declared as the ``state`` of ``strand.handler``; it starts as zeros.
        state: The row of each symbol, declared as for ``strand.handler``; it starts as zeros. None: a row counts the
            ticks that the handler was called with.
        params: The parameters of each symbol, as for ``strand.handler``.
        name: The handler's name; None: that of the function or class.
        kind: ``"compiled"``, or ``"batch"`` for a function that Python calls.
        cache: Whether compiled code is kept on disk, as for ``strand.handler``.
        outputs: The dtypes of the records it emits, by name, as for ``strand.handler``.
        on: ``"tick"``, or ``"trade"`` for a function that is called with trades.

    Raises:
        ConfigurationError: If the baskets, a row or the arguments of the function or methods cannot work. When a
            dispatcher is made: if the function does not compile.
        UnknownSymbolError: When a dispatcher is made: if the feed does not have a symbol of a basket.
        MissingExtraError: When a dispatcher is made: if numba is not installed.
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
