"""Dispatchers and schedulers of other processes, looked at without a lock and without stopping them."""

from strand.outside.snapshot import (
    FeedFigures,
    Figures,
    GroupFigures,
    KindSnapshot,
    LevelFigures,
    LineFigures,
    Snapshot,
    TaskCounts,
)

__all__ = [
    "FeedFigures", "Figures", "GroupFigures", "KindSnapshot", "LevelFigures", "LineFigures", "Snapshot", "TaskCounts",
]  # fmt: skip
