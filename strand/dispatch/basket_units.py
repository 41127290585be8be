"""Sets of a run's symbols that have to share a strand, since their handlers' baskets have them together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers import Handler
from strand.handlers.basket_handlers import BasketHandler, basket_parts
from strand.handlers.baskets import units_of
from strand.symbols import SymbolTable

__all__ = ["basket_units", "check_learnt", "kinds_of_units"]


def basket_units(
    table: SymbolTable, handlers: Sequence[Handler], handler_of_symbol: npt.NDArray[np.uint16]
) -> npt.NDArray[np.intp] | None:
    """See ``units_of``. Raises ConfigurationError where a basket has a symbol of another handler, and for two baskets
    of one name; and what baskets raise that do not fit the table."""
    found = []
    owner: dict[str, BasketHandler] = {}
    for number, handler in enumerate(handlers):
        for part in basket_parts(handler):
            members = part.members(table)
            found.append(members)
            for name, keys in zip(members.names, members.keys, strict=True):
                if owner.setdefault(name, part) is not part:
                    raise ConfigurationError(
                        f"baskets: handlers {owner[name].name!r} and {part.name!r} both have one named {name!r}"
                    )
                others = [key for key in keys if handler_of_symbol[key] != number]
                if others:
                    raise ConfigurationError(
                        f"handler {part.name!r}: basket {name!r} has {table.name(others[0])!r}, "
                        "which has another handler"
                    )
    return units_of(len(table), found)


def check_learnt(handlers: Sequence[Handler], table: SymbolTable, known: int) -> None:
    """Symbols from the index ``known`` on have got their names. Raises ConfigurationError where one has a basket."""
    for handler in handlers:
        for part in basket_parts(handler):
            part.baskets.check_learnt(part.name, table, known)


def kinds_of_units(
    kind_of_symbol: npt.NDArray[np.uint32], units: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.uint32]:
    """The kind of each unit, that of its first symbol."""
    if units is None:
        return kind_of_symbol
    return kind_of_symbol[np.unique(units, return_index=True)[1]]
