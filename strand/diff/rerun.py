"""The input of a recorded run, opened again, and its handlers, run again over it in a plain loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.errors import ConfigurationError
from strand.feeds import Feed
from strand.feeds.merge.selected import batches_from, feeds_of_batch
from strand.handlers import Handler
from strand.handlers.loading import load_handler
from strand.output.fingerprint import layout_of, packed, row_digests, row_head
from strand.output.tick_feeds import TickFeeds
from strand.reference.loop import SerialLoop
from strand.replaying.header import describe_source
from strand.symbols import SymbolTable
from strand.ticks import named

__all__ = ["Load", "Rerun", "Ticks", "chosen", "handlers_of", "open_input"]


#: A handler's name, and its options as text.
Load = tuple[str, Mapping[str, str]]


class Ticks:
    """The ticks of a run: (position of the first, batch), as often as it is iterated over."""

    def __init__(self, feed: Feed, position: int, limit: int | None) -> None:
        self.feed = feed
        self._position = position
        self._limit = limit
        #: Told of each batch before it is given, where this is a merge's.
        self.tick_feeds: TickFeeds | None = None

    def __iter__(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        at, cut = 0, self._position > 0
        for batch in batches_from(self.feed, self._position):
            part = batch if self._limit is None else batch[: self._limit - at]
            if self.tick_feeds is not None:
                self.tick_feeds.add(feeds_of_batch(self.feed, len(batch), cut=cut)[: len(part)])
                cut = cut and not len(batch)
            if len(part):
                yield at, part
            at += len(part)
            if at == self._limit:
                return

    def names(self) -> SymbolTable:
        """A place for every index the feed may use, with the names known by now."""
        return SymbolTable.with_capacity(self.feed.symbols, self.feed.max_symbols)

    def name(self, key: int) -> str:
        """A symbol's name as far as it is known by now."""
        names = self.feed.symbols
        return names[key] if key < len(names) and names[key] else f"#{key}"

    def keys_of(self, wanted: Iterable[str], batch: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Mask of a batch's ticks whose symbol is wanted, shape (n,)."""
        wanted = set(wanted)
        keys, inverse = np.unique(batch["instrument_id"], return_inverse=True)
        kept = np.fromiter((self.name(k) in wanted for k in keys.tolist()), np.bool_, len(keys))
        found: npt.NDArray[np.bool_] = kept[inverse]
        return found


def chosen(batch: npt.NDArray[Any], keep: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """A copy of some ticks. numpy copies records field by field, unless they look like one field."""
    whole = np.ascontiguousarray(batch).view(f"V{batch.dtype.itemsize}")
    return named(whole[keep].view(batch.dtype))


@contextmanager
def open_input(header: Mapping[str, Any], source: Sequence[str] | None) -> Iterator[Ticks]:
    """The input that a fingerprint file's header speaks of; ``source`` says where it is now.

    Raises ConfigurationError where it is not there, or not what it was; FeedError where it cannot be read.
    """
    recorded = header.get("source", [])
    paths = list(source) if source is not None else [str(s["path"]) for s in recorded]
    if any(s["size"] is None for s in recorded) and source is None:
        raise ConfigurationError(
            f"the run's input was not a file ({paths[0]}): name files with the same ticks with --source"
        )
    options = dict(header.get("feed_options", {}))
    if source is None:
        for now, then in zip(describe_source(paths, options), recorded, strict=True):
            if (now["size"], now["head"]) != (then["size"], then["head"]):
                raise ConfigurationError(f"{then['path']} has changed since the run was recorded")
    selection = header.get("selection", {})
    feed = feeds.open(
        paths if len(paths) > 1 else paths[0],
        symbols=selection.get("symbols", ()),
        start=selection.get("start"),
        end=selection.get("end"),
        **options,
    )
    try:
        yield Ticks(feed, selection.get("position", 0), selection.get("limit"))
    finally:
        feed.close()


def handlers_of(
    header: Mapping[str, Any], ticks: Ticks, load: Load | None
) -> tuple[dict[str, Handler], dict[str, Load]]:
    """A recorded run's handlers by symbol, and what they were loaded by. ``load``: the name and the options of one for
    all symbols, instead of those recorded. Raises ConfigurationError where one cannot be loaded."""
    recorded = header.get("handlers", {})
    if load is not None:
        recorded = {"*": {"load": load[0], "options": load[1]}}
    handlers: dict[str, Handler] = {}
    loaded: dict[str, Load] = {}
    for symbol, one in recorded.items():
        if one.get("load") is None:
            raise ConfigurationError(
                f"the file does not say where handler {one.get('name')!r} is loaded from: give it with --handler-a "
                "or --handler-b"
            )
        loaded[symbol] = str(one["load"]), one.get("options", {})
        handlers[symbol] = load_handler(*loaded[symbol]).known(ticks.feed.info)
    return handlers, loaded


class Rerun:
    """A recorded run's handlers, run again; ``load`` as ``handlers_of`` has it. Raises ConfigurationError."""

    def __init__(self, header: Mapping[str, Any], ticks: Ticks, load: Load | None) -> None:
        #: ``loaded``: what was loaded, by symbol.
        handlers, self.loaded = handlers_of(header, ticks, load)
        self.described = ", ".join(dict.fromkeys(h.described for h in handlers.values()))
        self._ticks = ticks
        alone = handlers.get("*") if len(handlers) == 1 else None
        self._loop = SerialLoop(ticks.names(), alone, handlers=None if alone is not None else handlers)
        self._counts = np.zeros(ticks.feed.max_symbols, np.int64)

    def publish(self, batch: npt.NDArray[Any]) -> None:
        """Runs the handlers over ticks."""
        if self._loop._wants_names:
            self._loop.learn_symbols(self._ticks.feed.symbols)
        self._loop.publish(batch)
        np.add.at(self._counts, batch["instrument_id"], 1)

    def row(self, key: int) -> np.void:
        """A symbol's row."""
        row: np.void = self._loop.rows.at(key)
        return row

    def digest(self, symbol: str) -> str:
        """A symbol's digest as fingerprint files have it."""
        self._loop.learn_symbols(self._ticks.feed.symbols)
        key = self._loop.symbols.index(symbol)
        row = np.array([self.row(key)])
        head = row_head(layout_of(row.dtype))
        found = row_digests(self._loop.symbols, [key], [int(self._counts[key])], packed(row), head)
        return found.tobytes()[:8].hex()
