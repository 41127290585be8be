"""The part of a dispatcher that counts: the engine's counters and histograms, as statistics."""

from __future__ import annotations

from strand.binding.engine_words import histogram_floors_ns
from strand.dispatch.order_watch import OrderWatch
from strand.dispatch.state import RunState
from strand.stats import FrozenDict, Latency, Statistics, WorkerStatistics

__all__ = ["EngineStatistics"]


class EngineStatistics:
    """What the engine has counted so far, and ``orders`` beside it."""

    def __init__(self, state: RunState, orders: OrderWatch) -> None:
        self._state = state
        self._orders = orders
        self._engine = state.engine

    def read(self) -> Statistics:
        """Totals since the start."""
        engine, abandoned = self._engine, self._state.abandoned
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
            handled_inline=t["handled_inline"],
            visits=t["visits"],
            stolen=t["stolen"],
            cut=t["cut"],
            parks=t["parks"],
            wakes=t["wakes"],
            watermark=watermark,
            wait=wait,
            handler=handler,
            end_to_end=end_to_end,
            workers=self._workers(),
            unpinned=self._state.unpinned,
            orders_as_plain=self._orders.count,
        )

    def _workers(self) -> tuple[WorkerStatistics, ...]:
        engine, cores = self._engine, self._state.cores
        keys = ("handled", "busy_ns", "visits", "stolen", "parks")
        config = engine.config
        participants = [engine.counters(i) for i in range(config.n_workers + config.n_publishers)]
        found = [
            WorkerStatistics(f"worker {i}", cores[i] if cores else None, c["handled"], *(c[k] for k in keys[1:]))
            for i, c in enumerate(participants[: config.n_workers])
        ]
        rest = participants[config.n_workers :]
        sums = [sum(c[k] for c in rest) for k in keys]
        return (*found, WorkerStatistics("publishers", None, *sums))
