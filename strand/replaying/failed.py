"""A replay that a handler's failure ends: what the error says of the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.dispatch.dispatcher import Dispatcher
from strand.errors import HandlerError
from strand.feeds import Feed, TickBatch
from strand.feeds.merge.selected import batches_from
from strand.replaying.result import ReplayResult

if TYPE_CHECKING:
    from strand.reference.loop import SerialLoop

__all__ = ["rereading", "telling_more"]


@contextmanager
def telling_more(
    dispatcher: Dispatcher | SerialLoop,
    result: Callable[[], ReplayResult],
    again: Callable[[], Iterator[TickBatch]] | None,
) -> Iterator[None]:
    """A HandlerError of the block gets ``partial``, the result when the dispatcher has stopped, and ``number``.

    ``again``: reads the ticks of the run once more, from its first one on; None where that cannot be. Only so it is
    known how many ticks of a symbol were before one, where symbols share a strand: nobody counts those as they run.
    """
    try:
        yield
    except HandlerError as error:
        error.partial = result()
        if error.number is None and error.tick is not None and again is not None:
            error.number = _number(error, dispatcher, again())
        raise


def rereading(
    source: Any, position: int, *, symbols: Sequence[str], start: Any, end: Any, options: Mapping[str, Any] | None
) -> Callable[[], Iterator[TickBatch]] | None:
    """What reads the ticks of a replay once more, with its arguments; None where they do not lie in files."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if isinstance(source, Feed) or not all(Path(path).exists() for path in paths):
        return None

    def batches() -> Iterator[TickBatch]:
        feed = feeds.open(source, symbols=symbols, start=start, end=end, **(options or {}))
        try:
            yield from batches_from(feed, position)
        finally:
            feed.close()

    return batches


def _number(error: HandlerError, dispatcher: Dispatcher | SerialLoop, batches: Iterator[TickBatch]) -> int | None:
    """Which one of its symbol's ticks the failed one is; None where ticks were dropped."""
    keys_of_strand: npt.NDArray[np.bool_] | None = None
    if not isinstance(dispatcher, Dispatcher):
        place = dispatcher._failed_at
    else:
        if error._place is None:
            return None
        strand, place = error._place
        keys_of_strand = dispatcher._keys_of_strand(strand)
        if keys_of_strand is None:
            return None
    key = dispatcher.symbols.index(error.symbol)
    number = 0
    for batch in batches:
        keys = batch["instrument_id"]
        in_strand = np.arange(len(keys)) if keys_of_strand is None else np.flatnonzero(keys_of_strand[keys])
        number += int(np.count_nonzero(keys[in_strand[: place + 1]] == key))
        place -= len(in_strand)
        if place < 0:
            break
    return number if place < 0 else None
