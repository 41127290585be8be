"""Names that go over from one instrument to another, as a continuous symbol does at a roll, in tables of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.feeds.base import TickBatch
from strand.ticks import clear_records, joined, named

__all__ = ["Rolls", "roll_text"]

_DAY_NS: Final = 86_400 * 10**9
_NONE: Final = -1


class Rolls:
    """The instrument of each name in one reading of a file.

    If a name goes over to another instrument, a clear record (action R, kind status) comes before the new instrument's
    first tick, as in DBN. A name may go back to an instrument that it had on the same UTC day. Then it stands for both
    at a time, and that is no roll.

    Attributes:
        count: How many names went over so far.
        first: The first time: the name's key, the instrument before, the one after, and the tick's ``ts_recv``.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: tuple[int, int, int, int] | None = None
        self._latest = np.full(1, _NONE, np.int64)
        self._days: dict[tuple[int, int], int] = {}  # by key and instrument, of keys with several: the latest day

    def put_in(self, ticks: TickBatch, instruments: npt.NDArray[Any]) -> TickBatch:
        """The ticks, with one more wherever a name goes over. ``instruments``: the number of each tick's."""
        if not len(ticks):
            return ticks
        keys = ticks["instrument_id"]
        if (most := int(keys.max())) >= len(self._latest):
            self._latest = np.concatenate([self._latest, np.full(most + 1, _NONE, np.int64)])
        ids = instruments.astype(np.int64)
        if (self._latest[keys] == ids).all():
            return ticks
        order = np.argsort(keys, kind="stable")
        by_key, own = keys[order], ids[order]
        begins = np.append(True, by_key[1:] != by_key[:-1])
        before = np.where(begins, self._latest[by_key], np.append(_NONE, own[:-1]))
        changes = np.flatnonzero((before != own) & (before != _NONE))
        places = np.sort(order[changes]).tolist()
        was = dict(zip(order[changes].tolist(), before[changes].tolist(), strict=True))
        rolled = [at for at in places if self._is_roll(ticks, at, int(ids[at]), int(was[at]))]
        ends = np.append(begins[1:], True)
        self._latest[by_key[ends]] = own[ends]
        if not rolled:
            return ticks
        if self.first is None:
            at = rolled[0]
            self.first = int(keys[at]), int(was[at]), int(ids[at]), int(ticks["ts_recv"][at])
        self.count += len(rolled)
        marks = clear_records(keys[rolled], ticks["ts_recv"][rolled])
        pieces, begin = [], 0
        for number, at in enumerate(rolled):
            pieces += [ticks[begin:at], marks[number : number + 1]]
            begin = at
        return named(joined([*pieces, ticks[begin:]]))

    def _is_roll(self, ticks: TickBatch, at: int, to: int, was: int) -> bool:
        key, day = int(ticks["instrument_id"][at]), int(ticks["ts_recv"][at]) // _DAY_NS
        had = self._days.get((key, to))
        self._days[key, to] = self._days[key, was] = day
        return had != day

    def details(self, names: Sequence[str]) -> dict[str, Any]:
        """Entries of ``FeedInfo.details`` for the first roll; empty if there was none."""
        if self.first is None:
            return {}
        key, before, after, time = self.first
        return {"examples": {"rolled_instruments": roll_text(names[key], before, after, time)}}


def roll_text(name: str, before: int, after: int, time: int) -> str:
    """The example that a warning shows: ``time`` is in ns since the UNIX epoch."""
    return f"{name}: instrument {after} follows {before} at {np.datetime64(time, 'ns')} UTC"
