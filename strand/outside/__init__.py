"""Dispatchers and schedulers of other processes, looked at without a lock and without stopping them."""

from strand.outside.snapshot import Figures, GroupFigures, KindSnapshot, LevelFigures, Snapshot, TaskCounts

__all__ = ["Figures", "GroupFigures", "KindSnapshot", "LevelFigures", "Snapshot", "TaskCounts"]
