"""Strand: market-data ticks through per-symbol handlers on all cores, in order."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as typing has it, whose import takes longer than all else here
if TYPE_CHECKING:
    from strand import errors as errors
    from strand import feeds as feeds
    from strand import handlers as handlers
    from strand import testing as testing
    from strand import ticks as ticks
    from strand import units as units
    from strand.config.configuration import Config
    from strand.dispatch.configuration import Limits, Pool
    from strand.dispatch.dispatcher import Dispatcher
    from strand.dispatch.guard import Guard
    from strand.errors import StrandError
    from strand.handlers import (
        Bar,
        Context,
        Handler,
        Tick,
        Top,
        Trade,
        add_total,
        bars,
        basket_handler,
        batch_handler,
        bbo,
        book,
        chain,
        depth,
        handler,
        imbalance,
        imbalance_bars,
        native,
        object_handler,
        quote_bars,
        spread,
        trade_stats,
        trades,
        volatility,
        vwap,
    )
    from strand.handlers.feed_trades import Inverse
    from strand.handlers.sessions import Sessions
    from strand.machine import get_include
    from strand.output.sinks import Sink
    from strand.outside.attached import Attached, attach
    from strand.policies.policy import Aging, Fair, Fifo, Levels
    from strand.replaying.moments import AsOf, Between, asof, between
    from strand.replaying.replay import follow, replay
    from strand.replaying.result import ReplayResult
    from strand.replaying.snapshots import snapshot
    from strand.stats import Metric, Statistics, metric
    from strand.sweeping.result import SweepResult
    from strand.sweeping.run import sweep
    from strand.tasks.core import task
    from strand.tasks.groups import TaskGroup
    from strand.tasks.pool import NativeTask
    from strand.tasks.retry import RetryPolicy
    from strand.tasks.scheduler import Scheduler, napoleon
    from strand.tasks.waits import blocking, checkpoint
    from strand.ticks import PRICE_SCALE, TICK, UNDEF_PRICE
    from strand.units import TOTAL

__all__ = [
    "PRICE_SCALE",
    "TICK",
    "TOTAL",
    "UNDEF_PRICE",
    "Aging",
    "AsOf",
    "Attached",
    "Bar",
    "Between",
    "Config",
    "Context",
    "Dispatcher",
    "Fair",
    "Fifo",
    "Guard",
    "Handler",
    "Inverse",
    "Levels",
    "Limits",
    "Metric",
    "NativeTask",
    "Pool",
    "ReplayResult",
    "RetryPolicy",
    "Scheduler",
    "Sessions",
    "Sink",
    "Statistics",
    "StrandError",
    "SweepResult",
    "TaskGroup",
    "Tick",
    "Top",
    "Trade",
    "add_total",
    "asof",
    "attach",
    "bars",
    "basket_handler",
    "batch_handler",
    "bbo",
    "between",
    "blocking",
    "book",
    "chain",
    "checkpoint",
    "depth",
    "follow",
    "get_include",
    "handler",
    "imbalance",
    "imbalance_bars",
    "metric",
    "napoleon",
    "native",
    "object_handler",
    "quote_bars",
    "replay",
    "snapshot",
    "spread",
    "sweep",
    "task",
    "trade_stats",
    "trades",
    "volatility",
    "vwap",
]

# Module of a name that is imported on first use; all others are of strand.handlers.
_MODULES = {
    "Aging": "strand.policies.policy",
    "AsOf": "strand.replaying.moments",
    "Attached": "strand.outside.attached",
    "Between": "strand.replaying.moments",
    "Config": "strand.config.configuration",
    "Dispatcher": "strand.dispatch.dispatcher",
    "Fair": "strand.policies.policy",
    "Fifo": "strand.policies.policy",
    "Guard": "strand.dispatch.guard",
    "Levels": "strand.policies.policy",
    "Limits": "strand.dispatch.configuration",
    "Metric": "strand.stats",
    "NativeTask": "strand.tasks.pool",
    "PRICE_SCALE": "strand.ticks",
    "Pool": "strand.dispatch.configuration",
    "ReplayResult": "strand.replaying.result",
    "RetryPolicy": "strand.tasks.retry",
    "Scheduler": "strand.tasks.scheduler",
    "Inverse": "strand.handlers.feed_trades",
    "Sessions": "strand.handlers.sessions",
    "Sink": "strand.output.sinks",
    "Statistics": "strand.stats",
    "StrandError": "strand.errors",
    "SweepResult": "strand.sweeping.result",
    "TICK": "strand.ticks",
    "TOTAL": "strand.units",
    "TaskGroup": "strand.tasks.groups",
    "UNDEF_PRICE": "strand.ticks",
    "asof": "strand.replaying.moments",
    "attach": "strand.outside.attached",
    "between": "strand.replaying.moments",
    "blocking": "strand.tasks.waits",
    "checkpoint": "strand.tasks.waits",
    "get_include": "strand.machine",
    "metric": "strand.stats",
    "napoleon": "strand.tasks.scheduler",
    "follow": "strand.replaying.replay",
    "replay": "strand.replaying.replay",
    "sweep": "strand.sweeping.run",
    "snapshot": "strand.replaying.snapshots",
    "task": "strand.tasks.core",
}

# Subpackages that users reach by name, as ``strand.feeds.open``.
_PACKAGES = ("errors", "feeds", "handlers", "testing", "ticks", "units")


def _load(name: str) -> object:
    """A public name, or a module of the package, on its first use: ``import strand`` itself takes no time."""
    if name in __all__:
        found: object = getattr(import_module(_MODULES.get(name, "strand.handlers")), name)
    else:
        module = f"strand.{name}"
        try:
            found = None if name.startswith("_") else import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            found = None
        if found is None:
            raise AttributeError(f"module 'strand' has no attribute {name!r}", name=name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a checker knows the names from above, and that there are no others
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted((*__all__, *_PACKAGES))
