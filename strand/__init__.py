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
    from strand.config.configuration import Config as Config
    from strand.dispatch.configuration import Limits as Limits
    from strand.dispatch.configuration import Pool as Pool
    from strand.dispatch.dispatcher import Dispatcher as Dispatcher
    from strand.dispatch.guard import Guard as Guard
    from strand.errors import StrandError as StrandError
    from strand.handlers import Bar as Bar
    from strand.handlers import Context as Context
    from strand.handlers import Handler as Handler
    from strand.handlers import Tick as Tick
    from strand.handlers import Top as Top
    from strand.handlers import Trade as Trade
    from strand.handlers import add_total as add_total
    from strand.handlers import bars as bars
    from strand.handlers import basket_handler as basket_handler
    from strand.handlers import batch_handler as batch_handler
    from strand.handlers import bbo as bbo
    from strand.handlers import book as book
    from strand.handlers import chain as chain
    from strand.handlers import depth as depth
    from strand.handlers import handler as handler
    from strand.handlers import imbalance as imbalance
    from strand.handlers import imbalance_bars as imbalance_bars
    from strand.handlers import native as native
    from strand.handlers import object_handler as object_handler
    from strand.handlers import quote_bars as quote_bars
    from strand.handlers import spread as spread
    from strand.handlers import trade_stats as trade_stats
    from strand.handlers import trades as trades
    from strand.handlers import volatility as volatility
    from strand.handlers import vwap as vwap
    from strand.handlers.feed_trades import Inverse as Inverse
    from strand.handlers.sessions import Sessions as Sessions
    from strand.machine import get_include as get_include
    from strand.output.sinks import Sink as Sink
    from strand.outside.attached import Attached as Attached
    from strand.outside.attached import attach as attach
    from strand.policies.policy import Aging as Aging
    from strand.policies.policy import Fair as Fair
    from strand.policies.policy import Fifo as Fifo
    from strand.policies.policy import Levels as Levels
    from strand.replaying.moments import AsOf as AsOf
    from strand.replaying.moments import Between as Between
    from strand.replaying.moments import asof as asof
    from strand.replaying.moments import between as between
    from strand.replaying.replay import follow as follow
    from strand.replaying.replay import replay as replay
    from strand.replaying.result import ReplayResult as ReplayResult
    from strand.replaying.snapshots import snapshot as snapshot
    from strand.stats import Metric as Metric
    from strand.stats import Statistics as Statistics
    from strand.stats import metric as metric
    from strand.sweeping.result import SweepResult as SweepResult
    from strand.sweeping.run import sweep as sweep
    from strand.tasks.core import task as task
    from strand.tasks.groups import TaskGroup as TaskGroup
    from strand.tasks.pool import NativeTask as NativeTask
    from strand.tasks.retry import RetryPolicy as RetryPolicy
    from strand.tasks.scheduler import Scheduler as Scheduler
    from strand.tasks.scheduler import napoleon as napoleon
    from strand.tasks.waits import blocking as blocking
    from strand.tasks.waits import checkpoint as checkpoint
    from strand.ticks import PRICE_SCALE as PRICE_SCALE
    from strand.ticks import TICK as TICK
    from strand.ticks import UNDEF_PRICE as UNDEF_PRICE
    from strand.units import TOTAL as TOTAL


# The names of each module, which are imported on first use.
_NAMES = {
    "strand.config.configuration": "Config",
    "strand.dispatch.configuration": "Limits Pool",
    "strand.dispatch.dispatcher": "Dispatcher",
    "strand.dispatch.guard": "Guard",
    "strand.errors": "StrandError",
    "strand.handlers": "Bar Context Handler Tick Top Trade add_total bars basket_handler batch_handler bbo book "
    "chain depth handler imbalance imbalance_bars native object_handler quote_bars spread trade_stats "
    "trades volatility vwap",
    "strand.handlers.feed_trades": "Inverse",
    "strand.handlers.sessions": "Sessions",
    "strand.machine": "get_include",
    "strand.output.sinks": "Sink",
    "strand.outside.attached": "Attached attach",
    "strand.policies.policy": "Aging Fair Fifo Levels",
    "strand.replaying.moments": "AsOf Between asof between",
    "strand.replaying.replay": "follow replay",
    "strand.replaying.result": "ReplayResult",
    "strand.replaying.snapshots": "snapshot",
    "strand.stats": "Metric Statistics metric",
    "strand.sweeping.result": "SweepResult",
    "strand.sweeping.run": "sweep",
    "strand.tasks.core": "task",
    "strand.tasks.groups": "TaskGroup",
    "strand.tasks.pool": "NativeTask",
    "strand.tasks.retry": "RetryPolicy",
    "strand.tasks.scheduler": "Scheduler napoleon",
    "strand.tasks.waits": "blocking checkpoint",
    "strand.ticks": "PRICE_SCALE TICK UNDEF_PRICE",
    "strand.units": "TOTAL",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

# Subpackages that users reach by name, as ``strand.feeds.open``.
_PACKAGES = ("errors", "feeds", "handlers", "testing", "ticks", "units")


def _load(name: str) -> object:
    """A public name, or a module of the package, on its first use: ``import strand`` itself takes no time."""
    if name in _MODULES:
        found: object = getattr(import_module(_MODULES[name]), name)
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
    __all__ = list(_MODULES)
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted((*_MODULES, *_PACKAGES))
