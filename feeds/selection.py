"""Selection of a feed's ticks: by symbol and by time."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from strand.brief import written
from strand.errors import ConfigurationError
from strand.feeds.base import TickBatch
from strand.options import named_fields

__all__ = ["Selection"]


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """Selects ticks by symbol and by a half-open span of receive times.

    A reader skips the other ticks as early as it can. It yields the same as if every tick had been made and then
    checked with ``mask``.

    Args:
        symbols: Names or globs (``"AA*"``) of the symbols to keep; empty: all.
        start_ns: The first receive time kept, ns since 1970-01-01 UTC; None: no bound.
        end_ns: The first receive time no longer kept, ns since 1970-01-01 UTC; None: no bound.

    Raises:
        ConfigurationError: If ``start_ns`` is not before ``end_ns``.
    """

    symbols: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None

    def __post_init__(self) -> None:
        if self.start_ns is not None and self.end_ns is not None and self.start_ns >= self.end_ns:
            start, end = (str(np.datetime64(ns, "ns")) for ns in (self.start_ns, self.end_ns))
            raise ConfigurationError("start", f"{start} UTC is not before end: {end} UTC")

    def __repr__(self) -> str:
        return written(self)

    def __bool__(self) -> bool:
        return bool(self.symbols) or self.start_ns is not None or self.end_ns is not None

    def keeps(self, name: str) -> bool:
        """Tells whether a symbol is wanted. Upper and lower case differ.

        Args:
            name: The symbol's name.
        """
        return not self.symbols or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.symbols)

    def keys(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Mask of the symbols that are wanted, by ``instrument_id``.

        Args:
            names: The names by ``instrument_id``.

        Returns:
            A bool array of shape (n,), n being the number of names.
        """
        return np.fromiter((self.keeps(name) for name in names), dtype=np.bool_, count=len(names))

    def mask(self, ticks: TickBatch, keys: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Mask of the ticks that are wanted.

        Args:
            ticks: Ticks, shape (n,).
            keys: Which symbols are wanted, as :meth:`keys` returns it.

        Returns:
            A bool array of shape (n,).
        """
        kept: npt.NDArray[np.bool_] = keys[ticks["instrument_id"]]
        within = self.within(ticks["ts_recv"])
        return kept if within is None else kept & within

    def within(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Mask of the receive times that are wanted.

        Args:
            times: Times, ns since 1970-01-01 UTC, shape (n,).

        Returns:
            A bool array of shape (n,); None: the selection has no bound.
        """
        if self.start_ns is None and self.end_ns is None:
            return None
        kept = np.ones(len(times), np.bool_)
        if self.start_ns is not None:
            kept &= times >= np.int64(self.start_ns)
        if self.end_ns is not None:
            kept &= times < np.int64(self.end_ns)
        return kept
