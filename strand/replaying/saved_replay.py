"""A replay that was saved: how far it was in its source, and that this is the same source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from strand.brief import in_full, several
from strand.dispatch.saving import SavedState, check_name
from strand.errors import ConfigurationError
from strand.replaying.recorder import describe_source
from strand.validate import file_path

if TYPE_CHECKING:
    from strand.dispatch.dispatcher import Dispatcher

__all__ = ["SavedReplay"]


@dataclass
class SavedReplay:
    """``position``: ticks of the selection that were replayed before, or are to be passed over. ``source``: what the
    files are known by, ``selection``: which of their ticks are replayed."""

    position: int
    source: list[dict[str, Any]]
    selection: dict[str, str]
    state: SavedState | None = None

    @classmethod
    def of(
        cls,
        load: str | os.PathLike[str] | None,
        source: Any,
        feed_options: Mapping[str, Any],
        given: Mapping[str, Any],
        *,
        selection: Mapping[str, Any],
        position: int,
        save: str | os.PathLike[str] | None,
    ) -> Self:
        """Makes the state from the arguments of a replay. ``given``: others, with ``workers``, ``per_day`` and
        ``fingerprints``.

        Raises ConfigurationError for arguments that do not go together, and SavedStateError for a file that does not
        fit them. Raises FeedError for a source that cannot be read."""
        if load is None and save is None:
            return cls(position, [], {})
        if save is not None:
            check_name(save)
        if given.get("workers") == 0:
            cannot = "be saved" if load is None else "go on from a saved state"
            raise ConfigurationError("workers", f"a plain loop (workers=0) cannot {cannot}: give 1 or more")
        if given["per_day"]:
            raise ConfigurationError(
                "per_day", "a saved state has no rows of single days: replay day by day, without it"
            )
        about = describe_source(source, feed_options)
        chosen = {name: in_full(value) for name, value in {**selection, **feed_options}.items() if value is not None}
        if load is None:
            return cls(position, about, chosen)
        if position:
            raise ConfigurationError("position", "the saved state says where to go on: leave it out")
        if given["fingerprints"]:
            raise ConfigurationError(
                "fingerprints",
                "they cover a run from its first tick, so they cannot begin at a saved state: leave them out",
            )
        state = SavedState(file_path("load", load))
        state.array("ticks_by_symbol")
        with state.reading():
            saved = state.about["more"]
            _check_same(state, saved, about, chosen)
            return cls(int(saved["position"]), about, chosen, state)

    def ticks_by_symbol(self, n: int) -> npt.NDArray[np.int64]:
        """Number of ticks by symbol that were replayed before, shape (n,)."""
        return np.zeros(n, np.int64) if self.state is None else self.state.array("ticks_by_symbol")

    def save(
        self,
        dispatcher: Dispatcher,
        path: str | os.PathLike[str],
        position: int,
        ticks_by_symbol: npt.NDArray[np.int64],
    ) -> None:
        """Ends the run, and writes the file. ``position``: where the next tick is."""
        more = {
            "position": position,
            "source": self.source,
            "selection": self.selection,
            "ticks_by_symbol": ticks_by_symbol,
        }
        dispatcher.save(path, _more=more)


def _check_same(
    state: SavedState, saved: Mapping[str, Any], source: list[dict[str, Any]], selection: Mapping[str, str]
) -> None:
    """Raises SavedStateError where these are not the ticks that were replayed before."""
    if len(saved["source"]) != len(source):
        raise state.error(
            f"it was saved in a replay of {several(len(saved['source']), 'file')}, and here are {len(source)}"
        )
    for was, now in zip(saved["source"], source, strict=True):
        if was["head"] != now["head"] or (was["size"] is not None and now["size"] < was["size"]):
            raise state.error(f"it was saved in a replay of {was['path']}, and {now['path']} is another file")
    for name in sorted({*saved["selection"], *selection}):
        before, here = saved["selection"].get(name), selection.get(name)
        if before != here:
            raise state.error(f"it was saved with {name}={before}, and here it is {here}: other ticks would be skipped")
