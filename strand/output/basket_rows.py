"""The rows of baskets, as their handlers left them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.brief import brief, listed, several
from strand.dicts import TableByName, unknown_name
from strand.errors import ConfigurationError
from strand.handlers.baskets import BasketMemory
from strand.output.fingerprint import OutputDigest
from strand.tables.arrow import arrow_table
from strand.tables.columns import Prices, Shown, Table, with_names
from strand.tables.tabular import Tabular, pandas_frame, polars_frame

if TYPE_CHECKING:
    import polars

__all__ = ["BasketRows", "BusiestBasket"]


class BusiestBasket(NamedTuple):
    """``names``: of baskets that share a strand, ``ticks``: of their symbols, ``share``: of all ticks, from 0 to 1."""

    names: tuple[str, ...]
    ticks: int
    share: float

    def __str__(self) -> str:
        more = f" and {len(self.names) - 1:,} more on its strand" if len(self.names) > 1 else ""
        return f"{self.names[0]!r}{more} had {self.share:.1%} of the ticks"


class BasketRows(TableByName, Tabular):
    """The row of each basket by its name: ``baskets["pair"]``; of all handlers that have baskets.

    While the run goes on these are views of live memory, consistent where none of a basket's symbols has pending ticks.
    After it they are final. Tables have a column ``basket`` before the row's own, and are of one handler: with
    ``handler`` its name, where there are several.
    """

    def __init__(self, memories: Sequence[BasketMemory], units: npt.NDArray[np.intp] | None) -> None:
        """``units``: what shares a strand, by symbol; None: there are no baskets."""
        self._memories = memories
        self._units = units
        self._rows = [memory.rows for memory in memories]
        self._at = {
            name: (number, index)
            for number, memory in enumerate(memories)
            for index, name in enumerate(memory.members.names)
        }

    def __repr__(self) -> str:
        return brief(self, several(len(self), "basket"), listed(self))

    def __getitem__(self, name: str) -> Any:
        """The row of a basket. Raises UnknownNameError."""
        if name not in self._at:
            raise unknown_name("basket", name, self._at)
        number, index = self._at[name]
        return self._rows[number][index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, name: object) -> bool:
        return name in self._at

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the baskets, as handlers number them."""
        return tuple(self._at)

    def members(self, name: str) -> tuple[int, ...]:
        """The indexes of a basket's symbols, in the order of its members. Raises UnknownNameError."""
        self[name]
        number, index = self._at[name]
        return self._memories[number].members.keys[index]

    def busiest(self, ticks_by_symbol: npt.NDArray[np.int64]) -> BusiestBasket | None:
        """The baskets with the most ticks among those that share a strand; None where there are no baskets."""
        if self._units is None or not self._at:
            return None
        ticks = np.bincount(self._units, weights=ticks_by_symbol)
        unit_of = {name: int(self._units[self.members(name)[0]]) for name in self._at}
        most = max(unit_of.values(), key=lambda unit: float(ticks[unit]))
        names = tuple(name for name, unit in unit_of.items() if unit == most)
        return BusiestBasket(names, int(ticks[most]), float(ticks[most] / max(1, int(ticks_by_symbol.sum()))))

    @property
    def array(self) -> npt.NDArray[Any]:
        """All rows, shape (n_baskets,), where one handler has baskets. Raises ConfigurationError where several do, or
        none."""
        return self._rows[self._number(None)]

    def to_numpy(self, handler: str | None = None) -> npt.NDArray[Any]:
        """A structured array of the exact integers with a field ``basket`` before the row's own. Raises
        ConfigurationError as ``array``, UnknownNameError for a handler that has no baskets."""
        number = self._number(handler)
        return with_names(self._rows[number], self._texts(number), 0, called="basket")

    def to_arrow(self, handler: str | None = None, *, prices: Prices = "float") -> Any:
        """A pyarrow.Table of the rows. Raises as ``Tabular.to_arrow`` and ``to_numpy``."""
        number = self._number(handler)
        memory = self._memories[number]
        columns = Table(memory.rows.dtype, memory.size_unit).shown(self._rows[number], prices)
        return arrow_table({"basket": Shown(self._texts(number), None), **columns})

    def to_polars(self, handler: str | None = None, *, prices: Prices = "float") -> polars.DataFrame:
        """A polars.DataFrame of the same. Raises MissingExtraError without polars or pyarrow, else as ``to_arrow``."""
        return polars_frame(partial(self.to_arrow, handler, prices=prices))

    def to_pandas(self, handler: str | None = None, *, prices: Prices = "float") -> Any:
        """A pandas.DataFrame of the same, the baskets its index. Raises MissingExtraError without pandas or pyarrow,
        else as ``to_arrow``."""
        return pandas_frame(partial(self.to_arrow, handler, prices=prices), index="basket")

    def digests(self) -> dict[str, OutputDigest]:
        """Digest of the rows for a run's fingerprint, by basket."""
        found = {}
        for name, (number, index) in self._at.items():
            found[f"basket {name}"] = digest = OutputDigest(self._rows[number].dtype)
            digest.add(self._rows[number][index : index + 1])
        return found

    def of(self, names: Sequence[str]) -> BasketRows:
        """Copies of the rows of some baskets, by name."""
        found, chosen = [], set(names)
        for number, memory in enumerate(self._memories):
            members = memory.members
            at = [index for index, name in enumerate(members.names) if name in chosen]
            some = members._replace(names=tuple(members.names[i] for i in at), keys=tuple(members.keys[i] for i in at))
            found.append(memory._replace(members=some, rows=self._rows[number][at]))
        return BasketRows(found, self._units)

    def begin(self, names: Sequence[str]) -> None:
        """Makes some baskets' rows zeros, as before the first tick. Their symbols have no pending ticks."""
        for number, index in (self._at[name] for name in names):
            self._rows[number][index] = np.zeros((), self._rows[number].dtype)

    def keep(self) -> None:
        """Copies the rows out of the engine's memory, which is not needed any more."""
        self._rows = [rows.copy() for rows in self._rows]

    def _texts(self, number: int) -> npt.NDArray[Any]:
        return np.array(self._memories[number].members.names, np.str_)

    def _number(self, handler: str | None) -> int:
        """The place of a handler by its name, or of the only one."""
        names = [memory.handler for memory in self._memories]
        if handler is None:
            if len(names) != 1:
                raise ConfigurationError(
                    "baskets", f"give the name of a handler with baskets; there are {', '.join(names) or 'none'}"
                )
            return 0
        if handler not in names:
            raise unknown_name("handler with baskets", handler, names)
        return names.index(handler)
