"""Strand of each symbol: decided once, by the figures known then, with its priority and marks.

A strand costs a publisher about one cache miss a batch, so thousands of quiet symbols are cheaper in company; a busy
symbol alone keeps its order without holding others up. Only symbols with the same handler share, and symbols whose
handler is Python's never do: its batches are of one symbol.

Symbols that share rows have to share a strand: they are placed together, as one unit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.engine import Engine
from strand.binding.engine_words import PolicyConfig
from strand.dispatch.python_handlers import PythonHandlers
from strand.errors import ConfigurationError, WouldDeadlockError
from strand.fixed import dataclass
from strand.handlers.base import BoundHandler, BoundPython
from strand.handlers.loading import Assigned
from strand.policies.policy import Groups, Policy
from strand.symbols import SymbolTable
from strand.threads import WAITS_FOR_ITSELF, Inside
from strand.validate import is_whole, path, yes_or_no


def kinds_of_units(
    kind_of_symbol: npt.NDArray[np.uint32], units: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.uint32]:
    """The kind of each unit, that of its first symbol."""
    if units is None:
        return kind_of_symbol
    return kind_of_symbol[np.unique(units, return_index=True)[1]]


StrandsLike = Literal["auto", "per-symbol"] | int

#: Strands a worker that "auto" aims at: enough to balance, few enough to stay cheap. For three workers 256 cost 3 % of
#: a market's throughput: a batch goes to more of them, and a visit finds fewer ticks.
STRANDS_A_WORKER = 32
MIN_STRANDS = 96


class Grouping(NamedTuple):
    """``strand_of_symbol`` has shape (n_symbols,), ``kind_of_strand`` shape (n_strands,)."""

    strand_of_symbol: npt.NDArray[np.uint32]
    kind_of_strand: npt.NDArray[np.uint32]


def strand_count(
    strands: StrandsLike, kind_of_symbol: npt.NDArray[np.uint32], alone: Sequence[bool], workers: int
) -> int:
    """Number of strands, before it is known how busy each symbol is."""
    symbols = len(kind_of_symbol)
    if strands == "per-symbol":
        return symbols
    if strands == "auto":
        wanted = max(MIN_STRANDS, STRANDS_A_WORKER * workers)
    elif is_whole(strands) and int(strands) >= 1:
        wanted = int(strands)
    else:
        raise ConfigurationError("strands", f"{strands!r} is not 'auto', 'per-symbol' or a number of at least 1")
    sizes = np.bincount(kind_of_symbol, minlength=len(alone))
    single = sum(int(n) for n, lonely in zip(sizes, alone, strict=True) if lonely)
    shared = [int(n) for n, lonely in zip(sizes, alone, strict=True) if n and not lonely]
    if not shared:
        return symbols
    return single + min(sum(shared), max(wanted, len(shared)))


def strands_for(
    n_strands: int, kind_of_symbol: npt.NDArray[np.uint32], alone: Sequence[bool], counts: npt.NDArray[Any] | None
) -> Grouping:
    """Spreads symbols over ``n_strands``: those whose count is over half a strand's share alone, the rest in turn.

    ``counts`` has shape (n_symbols,), what is known of how many ticks each symbol will have; None: nothing is.
    """
    symbols = len(kind_of_symbol)
    if n_strands >= symbols:
        return Grouping(np.arange(symbols, dtype=np.uint32), kind_of_symbol.astype(np.uint32))
    weight = np.ones(symbols) if counts is None else np.asarray(counts, dtype=np.float64)
    if not any(alone) and (only := kind_of_symbol[0]) == kind_of_symbol.max() == kind_of_symbol.min():
        # Mostly; and what follows takes milliseconds where a feed has room for 65,536 symbols.
        return Grouping(_spread(weight, n_strands), np.full(n_strands, only, dtype=np.uint32))
    strand_of = np.empty(symbols, dtype=np.uint32)
    kind_of = np.zeros(n_strands, dtype=np.uint32)
    lonely = np.isin(kind_of_symbol, np.flatnonzero(alone))
    singles = np.flatnonzero(lonely)
    strand_of[singles] = np.arange(len(singles))
    kind_of[: len(singles)] = kind_of_symbol[singles]
    first = len(singles)
    together = np.flatnonzero(~lonely)
    together = together[np.argsort(kind_of_symbol[together], kind="stable")]
    groups = np.split(together, np.flatnonzero(np.diff(kind_of_symbol[together])) + 1)
    for group, room in zip(groups, _rooms(groups, weight, n_strands - first), strict=True):
        strand_of[group] = first + _spread(weight[group], room)
        kind_of[first : first + room] = kind_of_symbol[group[0]]
        first += room
    return Grouping(strand_of, kind_of)


def _rooms(groups: list[npt.NDArray[np.int64]], weight: npt.NDArray[np.float64], n: int) -> list[int]:
    """Divides n strands over groups by weight: at least one each, never more than symbols, n in all."""
    total = sum(float(weight[g].sum()) for g in groups) or 1.0
    rooms = [min(len(g), max(1, int(n * float(weight[g].sum()) / total))) for g in groups]
    left = n - sum(rooms)
    while left < 0:
        rooms[int(np.argmax(rooms))] -= 1
        left += 1
    for i, g in enumerate(groups):
        more = min(len(g) - rooms[i], left)
        rooms[i] += more
        left -= more
    return rooms


def _spread(weight: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.uint32]:
    """Strand 0..n-1 of each symbol: hot ones alone on the first, the others dealt over the rest by falling weight."""
    # Most of a feed's symbols are not seen at first: they keep their order behind those that are.
    seen = np.flatnonzero(weight)
    order = np.concatenate([seen[np.argsort(-weight[seen], kind="stable")], np.flatnonzero(weight == 0)])
    hot = int(np.count_nonzero(weight * 2 * n > weight.sum())) if n > 1 else 0
    hot = min(hot, n // 2) if len(weight) > n else len(weight)
    strand = np.empty(len(weight), dtype=np.uint32)
    strand[order[:hot]] = np.arange(hot)
    rest = order[hot:]
    if len(rest):
        strand[rest] = np.resize(np.arange(hot, n, dtype=np.uint32), len(rest))
    return strand


def priorities_of(policy: Policy, table: SymbolTable, given: Mapping[str, Any] | None) -> npt.NDArray[np.uint32]:
    """The priority of each symbol as the core has it, shape (n_symbols,). Raises ConfigurationError where the policy
    has none, or for a priority that it does not have, and UnknownSymbolError."""
    found = np.full(len(table), policy.usual_priority or 0, np.uint32)
    if given is None or given == {}:
        return found
    if not isinstance(given, Mapping):
        raise ConfigurationError("priorities", f"{type(given).__name__} is not a dict of priorities by symbol")
    if policy.usual_priority is None:
        policy.priority_of("priorities", None)
    named = dict(given)
    if "*" in named:
        found[:] = policy.priority_of("priorities.*", named.pop("*"))
    for symbol, priority in named.items():
        found[table.index(symbol)] = policy.priority_of(path("priorities", symbol), priority)
    return found


@dataclass(frozen=True)
class Order:
    """The order of ready strands: a policy, and what it goes by.

    Attributes:
        policy: The policy; ``config``: as the engine takes it.
        ranks: The priority of each symbol, shape (n_symbols,), which under Fair is the number of its group.
        marks: The marks of each symbol, a set of bits, likewise.
        groups: The groups under Fair.
    """

    policy: Policy
    config: PolicyConfig
    ranks: npt.NDArray[np.uint32]
    marks: npt.NDArray[np.uint8]
    groups: Groups | None


def kinds_of(
    handler_of_symbol: npt.NDArray[np.uint16],
    priorities: npt.NDArray[np.uint32],
    marks: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
    """Symbols of one kind may share a strand: they have one handler, one priority and the same marks. The kind of each
    symbol, shape (n_symbols,), and the handler of each kind, shape (n_kinds,)."""
    if priorities.size and priorities.min() == priorities.max() and marks.min() == marks.max():
        return handler_of_symbol.astype(np.uint32), np.arange(int(handler_of_symbol.max()) + 1, dtype=np.uint16)
    orders = marks.astype(np.uint64) << np.uint64(32) | priorities
    found, kind_of_symbol = np.unique(
        handler_of_symbol.astype(np.uint64) << np.uint64(40) | orders, return_inverse=True
    )
    return kind_of_symbol.astype(np.uint32), (found >> np.uint64(40)).astype(np.uint16)


#: Records of the first array that "auto" looks at to tell busy symbols from quiet ones.
FIRST_LOOK = 1 << 18


class Routing:
    """Routing of symbols to strands, with the priority and the marks of each. ``bound``: the handlers; ``outputs``: the
    numbers of each handler's outputs.

    Attributes:
        policy: The policy of the run.
        groups: The groups under Fair, whose numbers are the priorities then.
    """

    def __init__(
        self,
        engine: Engine,
        assigned: Assigned,
        order: Order,
        python: PythonHandlers,
        *,
        bound: Sequence[BoundHandler],
        outputs: Sequence[Sequence[int]],
        inside: Inside,
    ) -> None:
        self.policy = order.policy
        self.groups = order.groups
        self._engine = engine
        self._assigned = assigned
        self._python = python
        #: Of each symbol, shape (n_symbols,); they change here.
        self._priorities = order.ranks
        self._marks = order.marks
        self._bound = bound
        self._outputs = outputs
        self._strand_of: npt.NDArray[np.uint32] | None = None
        #: What the engine took of the space when it was given the handlers: from and to; none before.
        self.taken = (0, 0)
        self._inside = inside
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        return self._strand_of is not None

    def strand_of(self, symbol: str | int) -> int:
        """The strand of a symbol. Raises UnknownSymbolError."""
        return int(self.by_counts(None)[self._assigned.table.index(symbol)])

    def by_counts(self, counts: npt.NDArray[Any] | None) -> npt.NDArray[np.uint32]:
        """The strand of each symbol, shape (n_symbols,): by what is expected of each, unless it is known already."""
        if self._strand_of is not None:
            return self._strand_of
        if self._inside.here:
            raise WouldDeadlockError(f"strands: they are not decided yet, and {WAITS_FOR_ITSELF}: ask later")
        me = threading.get_ident()
        try:
            self._inside.threads.append(me)
            with self._lock:
                if self._strand_of is None:
                    self._strand_of = self._settle(counts)
            return self._strand_of
        finally:
            self._inside.threads.remove(me)

    def by_keys(self, keys: npt.NDArray[Any]) -> None:
        """Routes by the first keys that are published. They are copied: another thread may change them meanwhile."""
        keys, symbols = keys[:FIRST_LOOK].copy(), len(self._assigned.table)
        self.by_counts(np.bincount(keys[keys < symbols], minlength=symbols))

    def restore(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Restores the strands of another process, before anything else is asked for."""
        handler_of_strand = np.zeros(self._engine.config.n_strands, np.uint16)
        handler_of_strand[strand_of_symbol] = self._assigned.of_symbol
        self._strand_of = self._take(strand_of_symbol, handler_of_strand)

    def _settle(self, counts: npt.NDArray[Any] | None) -> npt.NDArray[np.uint32]:
        kind_of_symbol, handler_of = kinds_of(self._assigned.of_symbol, self._priorities, self._marks)
        alone = [isinstance(self._bound[handler], BoundPython) for handler in handler_of]
        units = self._assigned.units
        if units is not None and counts is not None:
            counts = np.bincount(units, weights=counts)
        kinds = kinds_of_units(kind_of_symbol, units)
        found = strands_for(self._engine.config.n_strands, kinds, alone, counts)
        strand_of = found.strand_of_symbol if units is None else found.strand_of_symbol[units]
        return self._take(strand_of, handler_of[found.kind_of_strand])

    def _take(
        self, strand_of_symbol: npt.NDArray[np.uint32], handler_of_strand: npt.NDArray[np.uint16]
    ) -> npt.NDArray[np.uint32]:
        self._engine.route(strand_of_symbol, handler_of_strand)
        self._python.route(strand_of_symbol)
        self._order(strand_of_symbol)
        start = self._engine.space.bytes
        self._engine.set_handlers([bound.for_engine for bound in self._bound], self._outputs)
        self.taken = start, self._engine.space.bytes
        return strand_of_symbol

    def _order(self, strand_of_symbol: npt.NDArray[np.uint32]) -> None:
        """Tells the engine the priority of each strand, and the marks of all its symbols, before it has ticks."""
        usual = self.policy.usual_priority if self.groups is None else 0
        if usual is None:
            return
        if self.groups is not None:
            self._engine.schedule.set_groups(len(self.groups), self.groups.weights)
        order = np.argsort(strand_of_symbol, kind="stable")
        strands, first = np.unique(strand_of_symbol[order], return_index=True)
        for strand, of_symbols in zip(strands.tolist(), np.split(self._priorities[order], first[1:]), strict=True):
            priority = self.policy.of_strand(of_symbols)
            if priority != usual:
                self._engine.strands.prioritise(strand, priority, for_backlog=False)
        marks = np.zeros(self._engine.config.n_strands, np.uint8)
        np.bitwise_or.at(marks, strand_of_symbol, self._marks)
        for strand in np.flatnonzero(marks).tolist():
            self._engine.strands.mark(strand, int(marks[strand]))

    def prioritise(self, symbol: str | int, priority: Any, *, for_backlog: bool) -> None:
        """See ``Dispatcher.prioritise``."""
        index, strand_of = self._assigned.table.index(symbol), self.by_counts(None)
        number, strand = self.policy.priority_of("priority", priority), int(strand_of[index])
        for_backlog = yes_or_no("for_backlog", for_backlog)
        with self._lock:
            if not for_backlog:
                self._priorities[index] = number
                number = self.policy.of_strand(self._priorities[strand_of == strand])
            self._engine.strands.prioritise(strand, number, for_backlog=for_backlog)

    def regroup(self, symbol: str | int, group: str) -> None:
        """See ``Dispatcher.regroup``."""
        index, strand_of = self._assigned.table.index(symbol), self.by_counts(None)
        if self.groups is None:
            raise ConfigurationError("group", f"{type(self.policy).__name__} has no groups; give policy=Fair()")
        number, strand = self.groups.number(group), int(strand_of[index])
        with self._lock:
            self._priorities[strand_of == strand] = number
            self._engine.strands.prioritise(strand, number, for_backlog=False)
