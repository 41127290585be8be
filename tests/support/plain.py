"""A plain run, the oracle of the contract suite: every tick alone, in order, through functions of Python.

It shares no code with Strand and imports nothing of it. It follows the rules of the pages: ticks in publish order,
timers in the feed's time, outputs in the order of the ticks, baskets, parameters, faults, stops, days and snapshots.
Rows are dicts of Python's numbers, and records are tuples.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

#: Fields of a row or of a record: names, and types as numpy spells them.
Fields = Sequence[tuple[str, str]]
Row = dict[str, Any]

AT_TIMER, AT_END, NO_SEQUENCE = -1, -2, -1
NEVER = 2**64 - 1
#: A field's letter for ``struct`` by its type.
_LETTERS = {"u8": "Q", "i8": "q", "u4": "I", "i4": "i", "u2": "H", "u1": "B", "f8": "d", "f4": "f"}


class PlainError(Exception):
    """A plain handler fails on its tick, timer or end."""


@dataclass(frozen=True)
class Plain:
    """A handler.

    Attributes:
        state: The fields of a symbol's row, all 0 at first.
        outputs: The fields of the records by output.
        on_tick: Called as ``on_tick(here, row, tick)``; for baskets as ``on_tick(here, row, tick, basket, member)``.
        on_wake: Called as ``on_wake(here, row, time)`` where the symbol's timer is due.
        on_finish: Called as ``on_finish(here, row)`` at the end, for each symbol that had a tick.
        baskets: The symbols of each basket, by its name.
        basket_state: The fields of a basket's row.
    """

    state: Fields
    on_tick: Callable[..., None]
    on_wake: Callable[..., None] | None = None
    on_finish: Callable[..., None] | None = None
    outputs: Mapping[str, Fields] = field(default_factory=dict)
    baskets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    basket_state: Fields = ()


@dataclass(frozen=True)
class Failure:
    """The first failure: its symbol, the tick's position in the run and among its symbol's (from 1), and the row then.

    For a timer and for an end ``position``, ``number`` and ``sequence`` are None.
    """

    symbol: str
    position: int | None
    number: int | None
    sequence: int | None
    row: Row


@dataclass(frozen=True)
class Ran:
    """The result of a run.

    Attributes:
        rows: By symbol, of those that had a tick.
        counts: Ticks that came for each symbol, by name.
        baskets: By basket.
        outputs: Records by output: (number, sequence, ts, symbol, values...).
        days: For each day that has ended: rows and counts by symbol.
        snapshots: (time, rows by symbol) at each time of ``every_ns``.
        ticks: How many ticks came.
        failures: In the order of the ticks; with ``quarantine`` there may be several.
    """

    rows: dict[str, Row]
    counts: dict[str, int]
    baskets: dict[str, Row]
    outputs: dict[str, list[tuple[Any, ...]]]
    days: list[tuple[dict[str, Row], dict[str, int]]]
    snapshots: list[tuple[int, dict[str, Row]]]
    ticks: int
    failures: list[Failure]


class Here:
    """A call's surroundings: ``symbol``, ``time`` of the feed, ``params``, and the requests of the handler."""

    def __init__(self, run: _Run, symbol: str, params: Mapping[str, Any]) -> None:
        self._run, self.symbol, self.params = run, symbol, params
        self.alarm = 0

    @property
    def time(self) -> int:
        return self._run.time

    def wake_at(self, time: int) -> None:
        """Set, replace or clear (0 and 2^64 - 1) the symbol's only timer."""
        self.alarm = 0 if time in (0, NEVER) else max(time, self._run.time + 1)

    def emit(self, output: str, *values: Any) -> None:
        self._run.emit(self.symbol, output, values)


def ticks_of(array: Any) -> list[SimpleNamespace]:
    """A structured array of ticks as plain values. Two fields hold the sequence (docs/tick.md)."""
    names = array.dtype.names
    found = [SimpleNamespace(**dict(zip(names, values, strict=True))) for values in zip(
        *(array[name].tolist() for name in names), strict=True)]  # fmt: skip
    for tick in found:
        tick.sequence = tick.sequence_low + (tick.sequence_high << 32)
    return found


def plain_run(
    handler: Plain,
    symbols: Sequence[str],
    ticks: Iterable[Any],
    *,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    limit: int | None = None,
    until: tuple[str, int] | int | None = None,
    per_day: bool = False,
    every_ns: int | None = None,
    quarantine: bool = False,
    ends: bool = True,
) -> Ran:
    """Run a handler over ticks.

    Args:
        handler: The handler.
        symbols: Names by ``instrument_id``.
        ticks: Objects with the fields of a tick.
        params: Parameters by symbol; ``"*"`` has those of all others.
        limit: The most ticks; the handler's ends run.
        until: The last tick as (symbol, number from 1), or the last time; the handler's ends do not run.
        per_day: Whether rows begin anew at a clear record.
        every_ns: The interval of snapshots.
        quarantine: Whether other symbols go on after a failure.
        ends: Whether ends run.
    """
    return _Run(handler, list(symbols), params or {}, quarantine=quarantine).run(
        ticks, limit=limit, until=until, per_day=per_day, every_ns=every_ns, ends=ends and until is None
    )


class _Run:
    def __init__(self, handler: Plain, symbols: list[str], params: Mapping[str, Any], *, quarantine: bool) -> None:
        self.handler, self.symbols, self.quarantine = handler, symbols, quarantine
        # No tick has come: a time before all others.
        self.time = 0
        self.rows = {name: dict.fromkeys((f for f, _ in handler.state), 0) for name in symbols}
        self.counts = dict.fromkeys(symbols, 0)
        #: Ticks of the day under way, by symbol; rows at its end, and the symbols whose day is over.
        self.of_day = dict.fromkeys(symbols, 0)
        self.at_end: dict[str, Row] = {}
        self.over: set[str] = set()
        self.baskets: dict[str, Row] = {
            n: dict.fromkeys((f for f, _ in handler.basket_state), 0) for n in handler.baskets
        }
        self.heres = {name: Here(self, name, {**params.get("*", {}), **params.get(name, {})}) for name in symbols}
        self.strands = _strands(symbols, handler.baskets)
        self.aside: set[int] = set()
        self.failures: list[Failure] = []
        self.days: list[tuple[dict[str, Row], dict[str, int]]] = []
        self.snapshots: list[tuple[int, dict[str, Row]]] = []
        self._records: list[tuple[tuple[int, ...], str, tuple[Any, ...]]] = []
        #: Where the call in hand has its place among all others, and what its records say of that.
        self._place: tuple[int, ...] = ()
        self._head: tuple[int, int, int] = (AT_END, NO_SEQUENCE, 0)
        self.ended = False
        #: A strand that is set aside has ticks: not all is handled, so no end runs.
        self.waiting = False

    def run(
        self, ticks: Iterable[Any], *, limit: int | None, until: Any, per_day: bool, every_ns: int | None, ends: bool
    ) -> Ran:
        done, due = 0, None
        for tick in ticks:
            symbol, recv = self.symbols[tick.instrument_id], tick.ts_recv
            if done == limit or (isinstance(until, int) and recv > until):
                break
            if every_ns is not None:
                if due is None:
                    due = -(-recv // every_ns) * every_ns
                while due < max(recv, self.time):
                    self.snapshots.append((due, self._copy()))
                    due += every_ns
            if per_day:
                self._see_day(tick, symbol)
            self.time = max(self.time, recv)
            self._fire_due()
            self.counts[symbol] += 1
            self._handle(symbol, tick, done)
            done += 1
            if self.ended or until == (symbol, self.counts[symbol]):
                break
        if not self.ended:
            self._fire_due()
        if due is not None and every_ns is not None and due <= self.time:
            self.snapshots.append((due, self._copy()))
        if per_day:
            self._begin_day()
        if not self.ended and not self.waiting and ends:
            self._finish()
        if per_day:
            self._add_day(self._copy(), self.symbols)
        records = sorted(self._records, key=lambda record: record[0])
        return Ran(
            {name: row for name, row in self.rows.items() if self.counts[name]},
            {name: n for name, n in self.counts.items() if n},
            self.baskets,
            {name: [values for _, output, values in records if output == name] for name in self.handler.outputs},
            self.days, self.snapshots, done, self.failures,
        )  # fmt: skip

    def emit(self, symbol: str, output: str, values: tuple[Any, ...]) -> None:
        place = (*self._place, len(self._records))
        self._records.append((place, output, (*self._head, symbol, *values)))

    def _copy(self) -> dict[str, Row]:
        return {name: dict(row) for name, row in self.rows.items() if self.counts[name]}

    def _call(self, symbol: str, place: tuple[int, ...], head: tuple[int, int, int], call: Callable[[], None]) -> bool:
        """Runs a call, and tells whether it went well. Records of a failed call are dropped."""
        self._place, self._head, before = place, head, len(self._records)
        try:
            call()
        except PlainError:
            del self._records[before:]
            self.aside.add(self.strands[symbol])
            self.ended = self.ended or not self.quarantine
            return False
        return True

    def _handle(self, symbol: str, tick: Any, position: int) -> None:
        if self.strands[symbol] in self.aside:
            self.waiting = True
            return
        row, here = self.rows[symbol], self.heres[symbol]
        if self.handler.baskets:
            calls = [
                (row, tick, self.baskets[basket], members.index(symbol))
                for basket, members in self.handler.baskets.items()
                if symbol in members
            ]
        else:
            calls = [(row, tick)]

        def call() -> None:
            for arguments in calls:
                self.handler.on_tick(here, *arguments)

        if not self._call(symbol, (0, self.time, 1, position), (position, tick.sequence, self.time), call):
            self.failures.append(Failure(symbol, position, self.counts[symbol], tick.sequence, dict(row)))

    def _fire_due(self) -> None:
        """Fire the timers that are due by the feed's time, in the order of their times and then of keys."""
        if self.handler.on_wake is None:
            return
        until, order = self.time, {name: key for key, name in enumerate(self.symbols)}
        while not self.ended:
            due = [(here.alarm, order[name], name) for name, here in self.heres.items() if 0 < here.alarm <= until
                   and self.strands[name] not in self.aside]  # fmt: skip
            if not due:
                break
            time, key, name = min(due)
            here, row = self.heres[name], self.rows[name]
            here.alarm, self.time = 0, time
            call = partial(self.handler.on_wake, here, row, time)
            if not self._call(name, (0, time, 0, key), (AT_TIMER, NO_SEQUENCE, time), call):
                self.failures.append(Failure(name, None, None, None, dict(row)))
        self.time = until

    def _finish(self) -> None:
        if self.handler.on_finish is None:
            return
        for key, name in enumerate(self.symbols):
            if self.counts[name] and self.strands[name] not in self.aside and not self.ended:
                row = self.rows[name]
                call = partial(self.handler.on_finish, self.heres[name], row)
                if not self._call(name, (1, key), (AT_END, NO_SEQUENCE, self.time), call):
                    self.failures.append(Failure(name, None, None, None, dict(row)))

    def _see_day(self, tick: Any, symbol: str) -> None:
        """Keep rows before the clear records of a boundary, and let them begin anew behind the last of these."""
        if tick.kind == 4 and tick.action == b"R":
            if not self.over:
                self.at_end = self._copy()
            self.over.add(symbol)
            return
        self._begin_day()
        self.of_day[symbol] += 1

    def _begin_day(self) -> None:
        if self.over:
            self._add_day(self.at_end, self.over)
            for name in self.over:
                self.rows[name] = dict.fromkeys(self.rows[name], 0)
        self.over = set()

    def _add_day(self, rows: dict[str, Row], over: Iterable[str]) -> None:
        """Of symbols that had a tick on the day, clear records aside."""
        mine = [name for name in self.symbols if name in over and self.of_day[name]]
        if mine:
            self.days.append(({name: rows[name] for name in mine}, {name: self.of_day[name] for name in mine}))
        self.of_day.update(dict.fromkeys(mine, 0))


def _strands(symbols: Sequence[str], baskets: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The symbols that fail together: those of a basket, and of baskets with a common symbol."""
    found = {name: number for number, name in enumerate(symbols)}
    for members in baskets.values():
        joined = {found[name] for name in members}
        for name, number in found.items():
            if number in joined:
                found[name] = min(joined)
    return found


# ---- fingerprints, as docs/determinism.md says


def fingerprint_of(handler: Plain, rows: Mapping[str, Row], counts: Mapping[str, int], ran: Ran | None = None) -> str:
    """The fingerprint of rows and counts by symbol; with ``ran``, also of its outputs and baskets."""
    sums = [0, 0]
    for name, row in rows.items():
        text = b"%d %b\0" % (counts[name], name.encode())
        digest = blake2b(_layout(handler.state) + text + _packed(handler.state, row.values()), digest_size=16).digest()
        sums = [(one + other) % 2**64 for one, other in zip(sums, struct.unpack("<QQ", digest), strict=True)]
    whole = blake2b(struct.pack("<QQ", *sums), digest_size=16)
    for name, (count, digest) in sorted(_digests(handler, ran).items() if ran is not None else ()):
        whole.update(b"%b\0%d " % (name.encode(), count) + digest)
    return whole.hexdigest()


def _digests(handler: Plain, ran: Ran) -> dict[str, tuple[int, bytes]]:
    """Of each output and each basket: how many records, and their digest."""
    found = {}
    for name, fields in handler.outputs.items():
        every = [("number", "i8"), ("sequence", "i8"), ("ts", "i8"), ("instrument_id", "u4"), *fields]
        digest = blake2b(_layout(every), digest_size=16)
        for number, sequence, ts, symbol, *values in ran.outputs[name]:
            name_id = int.from_bytes(blake2b(symbol.encode(), digest_size=8).digest(), "little") | 1
            digest.update(struct.pack("<Q", name_id) + _packed(every, [number, sequence, ts, 0, *values]))
        found[name] = len(ran.outputs[name]), digest.digest()
    for name, row in ran.baskets.items():
        packed = _packed(handler.basket_state, row.values())
        found[f"basket {name}"] = 1, blake2b(_layout(handler.basket_state) + packed, digest_size=16).digest()
    return found


def _layout(fields: Fields) -> bytes:
    types = [(name, f"|{kind}" if kind.endswith("1") else f"<{kind}") for name, kind in fields]
    return blake2b(repr(types).encode(), digest_size=8).digest()


def _packed(fields: Fields, values: Iterable[Any]) -> bytes:
    return struct.pack("<" + "".join(_LETTERS[kind] for _, kind in fields), *values)
