"""A replay that was saved: how far it was in its source, and that this is the same source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from strand.dispatch.saved_state import SavedState
from strand.errors import ConfigurationError
from strand.replaying.header import describe_source

if TYPE_CHECKING:
    from strand.dispatch.dispatcher import Dispatcher

__all__ = ["SavedReplay"]


@dataclass
class SavedReplay:
    """``position``: ticks of the selection that were replayed before, or are to be passed over. ``options``: what the
    dispatcher is to be given. ``source``: what the files are known by."""

    position: int
    source: list[dict[str, Any]]
    state: SavedState | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        load: str | os.PathLike[str] | None,
        source: Any,
        feed_options: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        position: int,
        per_day: bool,
        digests: bool,
        save: bool,
    ) -> Self:
        """From the arguments of a replay. Raises ConfigurationError for those that do not go together, SavedStateError
        for a file that does not fit them, FeedError for a source that cannot be read."""
        if load is None and not save:
            return cls(position, [])
        if options.get("workers") == 0:
            raise ConfigurationError("workers: the plain loop, 0, cannot be saved: give 1 or more")
        if per_day:
            raise ConfigurationError("per_day: what is kept of days cannot be saved: replay day by day, without it")
        about = describe_source(source, feed_options)
        if load is None:
            return cls(position, about)
        if position:
            raise ConfigurationError("position: the saved state says where to go on: leave it out")
        if digests:
            raise ConfigurationError("fingerprints: digests of ticks begin with the first tick: take them of one run")
        state = SavedState(Path(load))
        state.array("ticks_by_symbol")
        saved = state.about["more"]
        if len(saved["source"]) != len(about):
            raise state.error(f"it was saved in a replay of {len(saved['source'])} files, and here are {len(about)}")
        for was, now in zip(saved["source"], about, strict=True):
            if was["head"] != now["head"] or (was["size"] is not None and now["size"] < was["size"]):
                raise state.error(f"it was saved in a replay of {was['path']}, and {now['path']} is another file")
        return cls(int(saved["position"]), about, state, {"load": load})

    def ticks_by_symbol(self, n: int) -> npt.NDArray[np.int64]:
        """Of the ticks that were replayed before, shape (n,)."""
        return np.zeros(n, np.int64) if self.state is None else self.state.array("ticks_by_symbol")

    def save(
        self,
        dispatcher: Dispatcher,
        path: str | os.PathLike[str],
        position: int,
        ticks_by_symbol: npt.NDArray[np.int64],
    ) -> None:
        """Ends the run, and writes the file. ``position``: where the next tick is."""
        more = {"position": position, "source": self.source, "ticks_by_symbol": ticks_by_symbol}
        dispatcher.save(path, _more=more)
