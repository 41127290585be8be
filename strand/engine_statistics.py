"""An engine's counters and histograms, as a dispatcher's statistics."""

from __future__ import annotations

from collections.abc import Sequence

from strand._bindings.engine import Engine
from strand._bindings.engine_words import histogram_floors_ns
from strand.stats import FrozenDict, Latency, Statistics, WorkerStatistics

__all__ = ["statistics_of"]


def statistics_of(
    engine: Engine, cores: Sequence[int | None] | None, abandoned: int, unpinned: str | None, orders_as_plain: int
) -> Statistics:
    """Totals since the start. ``cores``: the workers'; ``abandoned``: ticks that a stop left pending; ``unpinned`` and
    ``orders_as_plain``: as Statistics has them."""
    watermark = engine.watermark()  # before the totals, which then have what is below it
    t = engine.totals()
    floors = histogram_floors_ns()
    wait, handler, end_to_end = (
        Latency.from_histogram(engine.histogram(name), floors) for name in ("wait", "handler", "end_to_end")
    )
    dropped = {
        "newest": t["dropped_newest"],
        "oldest": t["dropped_oldest"],
        "conflated": t["conflated"],
        "quarantined": t["dropped_quarantined"],
        "failed": t["failed"],
        "lost": t["lost"],
        "abandoned": abandoned,
    }
    return Statistics(
        accepted=t["accepted"],
        handled=t["handled"],
        dropped=FrozenDict(dropped),
        pending=t["pending"] - abandoned,
        claimed=t["claimed"],
        visits=t["visits"],
        stolen=t["stolen"],
        cut=t["cut"],
        parks=t["parks"],
        wakes=t["wakes"],
        watermark=watermark,
        wait=wait,
        handler=handler,
        end_to_end=end_to_end,
        workers=_workers(engine, cores),
        unpinned=unpinned,
        orders_as_plain=orders_as_plain,
    )


def _workers(engine: Engine, cores: Sequence[int | None] | None) -> tuple[WorkerStatistics, ...]:
    keys = ("handled", "busy_ns", "visits", "stolen", "parks")
    config = engine.config
    slots = [engine.counters(i) for i in range(config.n_workers + config.n_publishers)]
    found = [
        WorkerStatistics(f"worker {i}", cores[i] if cores else None, c["handled"], *(c[k] for k in keys[1:]))
        for i, c in enumerate(slots[: config.n_workers])
    ]
    rest = slots[config.n_workers :]
    sums = [sum(c[k] for c in rest) for k in keys]
    return (*found, WorkerStatistics("publishers", None, *sums))
