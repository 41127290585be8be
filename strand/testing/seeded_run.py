"""Runs whose interleaving a seed decides: the engine's real code on one thread, under a scheduler of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Unpack

from strand.dispatch.options import GROUPS
from strand.errors import ConfigurationError, DifferenceError
from strand.feeds import Feed
from strand.handlers import HandlerLike
from strand.options import named_options
from strand.replaying.options import ReplayOptions
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult
from strand.testing.comparing import assert_same, reference
from strand.testing.seeded_dispatcher import SeededDispatcher
from strand.validate import whole

__all__ = ["check_seeds", "seeded"]


@named_options("seeded()", more=ReplayOptions, like=replay, groups=GROUPS)
def seeded(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    seed: int,
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Replays a feed through a dispatcher in which a seed decides which thread goes on when: same seed, same run.

    It runs the engine's real code on the calling thread. Publisher and workers take turns, and may change places at
    each atomic operation of the engine. Pauses, steals, timers, bounds and drops come about as they do on cores, only
    far oftener. A call of a handler runs whole. Rows, outputs and statistics are the same each time; its times are
    counts of steps. Within the block of a ``strand.testing.Clock`` handlers in Python can take time on it, and
    ``speed=`` goes by it.

    Handlers of all kinds run. Small numbers find most: few ticks, ``capacity_ticks`` and ``budget_ticks`` of a few. It
    raises what ``strand.replay`` raises.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        seed: Decides the order, 0 or more; the same seed gives the same run.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``strand.replay`` and of a Dispatcher: ``workers`` (2 by default, 16 at most),
            ``strands``, ``capacity_ticks``, ``on_full``, ``on_error``, ``out``, ...

    Raises:
        ConfigurationError: If another seeded run of this process is under way, in a handler too.
    """
    make = partial(SeededDispatcher, seed=whole("seed", seed, 0))
    options["timeline"] = False  # its times are counts of steps
    return replay(source, handler, handlers=handlers, _dispatcher=make, **options)


@named_options("check_seeds()", more=ReplayOptions, like=replay, groups=GROUPS)
def check_seeds(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    seeds: Iterable[int] = range(100),
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> None:
    """Runs a feed under many seeds, and compares each run with the plain loop, as ``assert_same`` does.

    A handler that goes by more than its symbol's ticks fails, such as one that writes to something that symbols share.
    So does a handler of ticks that a bound dropped. It raises what ``seeded`` raises, too.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        seeds: The seeds, one run for each.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``seeded``.

    Raises:
        DifferenceError: For the first seed with another outcome; its ``seed`` makes ``seeded`` do the same again.
    """
    if "out" in options:
        raise ConfigurationError("out: what is written to files is not compared: leave it out")
    of_loop = options.copy()
    of_loop.pop("workers", None)
    of_loop.pop("pool", None)
    of_loop.pop("on_error", None)
    expected = reference(source, handler, handlers=handlers, **of_loop)
    for seed in seeds:
        run = seeded(source, handler, seed=seed, handlers=handlers, **options)
        try:
            assert_same(run, expected)
        except DifferenceError as error:
            lost = sum(run.statistics.dropped.values())
            note = f"; {lost:,} ticks were dropped" if lost else ""
            raise DifferenceError(f"seed {seed}: {error}{note}", error.symbols, error.outputs, seed=seed) from None
