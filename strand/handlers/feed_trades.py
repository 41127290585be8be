"""Meaning of a feed's ticks and fills for handlers: the source of its trades, and what a unit of a size is worth."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import ref

import numpy as np
import numpy.typing as npt

from strand.binding.books import TradeRules, TradeSource
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import named_fields
from strand.spans import span_text
from strand.ticks import PRICE_SCALE
from strand.validate import one_of, path

if TYPE_CHECKING:
    from fractions import Fraction

    from strand.binding.memory import Space
    from strand.feeds import FeedInfo, Flags
    from strand.feeds.base import TicksAre
    from strand.symbols import SymbolTable

#: Input of a handler.
On = Literal["tick", "trade"]
#: Effect of a fill (action F) on its order.
Fills = Literal["reduce", "report"]


def ticks_of(info: FeedInfo) -> TicksAre:
    """Meaning of a feed's ticks. Raises ConfigurationError where its files do not agree."""
    if info.ticks is None:
        raise ConfigurationError(
            "handler",
            "the merged files differ: only some have single orders, or fills that only report (DBN): give handlers by "
            "symbol, with book= and fills=",
        )
    return info.ticks


def fills_of(info: FeedInfo) -> Fills:
    """Effect of a fill in a feed. Raises ConfigurationError where its files do not agree."""
    return "report" if ticks_of(info) in ("dbn", "dbn-orders") else "reduce"


def flags_of(info: FeedInfo) -> Flags:
    """Meaning of the bits of a feed's flags. Raises ConfigurationError where its files do not agree."""
    if info.flags is None:
        raise ConfigurationError(
            "flags",
            "the merged files differ: one bit of them has two meanings: replay files of one format at a time, or say "
            "by flags= what the bits of each file mean",
        )
    return info.flags


_WEEK: Final = 7 * 86400 * 10**9


def check_intervals(every: int, bars: int, bars_of: str | None = None) -> None:
    """Raises ConfigurationError where ready-made bars of ``bars`` ns cannot fill intervals of ``every`` ns.

    ``bars_of``: what the bars are (``"days of America/New_York"``), where intervals are aligned to the UNIX epoch.
    """
    if not bars:
        raise ConfigurationError(
            "every", "the merged files differ: only some have ready-made bars, or bars of one length: replay them apart"
        )
    if bars_of is not None and bars_of.startswith("months"):
        raise ConfigurationError(
            "every",
            f"the feed's bars are calendar {bars_of}, and intervals are of one length: leave every out, and for "
            "bars give ticks=1; or give every='31d' and sessions that are these months, as a table",
        )
    if every % bars:
        raise ConfigurationError(
            "every",
            f"the feed has ready-made bars of {span_text(bars)}, which do not fill intervals of "
            f"{span_text(every)}: give a multiple of {span_text(bars)}",
        )
    if bars % _WEEK == 0:
        raise ConfigurationError(
            "every",
            "the feed's bars are weeks from Monday on, and intervals of 7d begin on Thursdays, as the UNIX "
            "epoch does: leave every out, and for bars give ticks=1",
        )
    kind, _, zone = (bars_of or "").partition(" of ")
    if kind == "days":
        raise ConfigurationError(
            "every",
            f"the feed's bars are days of {zone}, and without sessions an interval is a day of UTC: give "
            f"sessions='00:00-00:00 {zone} mon-sun'",
        )


def usual_for(fills: Fills | None) -> Flags:
    """Flags of ticks of which no feed is known."""
    from strand.feeds.base import usual_flags

    return usual_flags("dbn" if fills == "report" else "plain")


def source_for(on: On) -> TradeSource | None:
    """Source of a handler's trades, as long as no feed is known; None for a handler of ticks. Raises
    ConfigurationError."""
    source = TradeSource(TradeRules(flags=usual_for(None)), assumed=True)
    return source if one_of("on", on, ("tick", "trade")) == 1 else None


def trades_of(info: FeedInfo) -> TradeSource:
    """Source of a feed's trades. Raises ConfigurationError where its files do not agree."""
    ticks = ticks_of(info)
    rules = TradeRules(
        orders=ticks in ("orders", "dbn-orders"),
        fills_report=fills_of(info) == "report",
        flags=flags_of(info),
        sizeless=not info.has_sizes,
    )
    return TradeSource(rules, books=ticks == "orders")


_WILD: Final = re.compile(r"[*?\[]")
_EXAMPLE: Final = "give {'ES*': 50, 'BTCUSD_PERP': strand.Inverse(100)}, or text: 'ES*=50, BTCUSD_PERP=inverse 100'"
#: An ``sd_contract`` of csrc/measures/tape.h.
_CONTRACT: Final = np.dtype(
    [("worth", "<f8"), ("inverse", "<u4"), ("used", "<u4"), ("minimum_low", "<u8"), ("minimum_high", "<i8")]
)

_USED: Final = 2
_PLAIN: Final = (0.0, 0, 0, 0, 0)


@named_fields
@dataclass(frozen=True, slots=True)
class Inverse:
    """An inverse contract: a fixed amount of currency, whose value in coins is that amount / price.

    Args:
        face: The units of currency that one contract is: 100 for ``BTCUSD_PERP`` of Binance. A float stands for its
            shortest decimal.

    Raises:
        ConfigurationError: If the face is no number above 0.
    """

    face: int | float | str | Decimal

    def __post_init__(self) -> None:
        _worth("Inverse", self.face)


@dataclass(frozen=True, slots=True)
class Contracts:
    """The contracts of symbols, as pairs of a name or pattern and a contract, in their order.

    Args:
        by_pattern: Pairs of a name or pattern and what it is: the units of currency that one point of price is worth,
            and whether the contract is inverse, whose worth is its face.
    """

    by_pattern: tuple[tuple[str, Decimal, bool], ...] = ()

    def __str__(self) -> str:
        """The contracts as an option's text."""
        return ", ".join(f"{name}={'inverse ' if inverse else ''}{worth:f}" for name, worth, inverse in self.by_pattern)


ContractsLike = Contracts | Mapping[str, int | float | str | Decimal | Inverse] | str


@dataclass(frozen=True, slots=True)
class ContractsUsed:
    """The use of a run's contracts. ``unused``: names and patterns that fit no symbol. ``symbols``: those that have a
    contract in all handlers that make notionals."""

    unused: tuple[str, ...] = ()
    symbols: frozenset[str] = frozenset()


def contracts_of(given: ContractsLike | None) -> Contracts:
    """The contracts that an option gives; none for None. Raises ConfigurationError."""
    if given is None:
        return Contracts()
    if isinstance(given, Contracts):
        return given
    pairs: list[tuple[str, int | float | str | Decimal | Inverse]]
    if isinstance(given, str):
        pairs = [_pair(part) for part in given.split(",")]
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        raise ConfigurationError("contracts", f"{type(given).__name__} is no dict by symbol: {_EXAMPLE}")
    found: dict[str, tuple[str, Decimal, bool]] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not name:
            raise ConfigurationError("contracts", f"{name!r} is not a symbol's name or pattern: {_EXAMPLE}")
        if name in found:
            raise ConfigurationError("contracts", f"{name!r} is given twice")
        inverse = isinstance(value, Inverse)
        worth = _worth(path("contracts", name), value.face if isinstance(value, Inverse) else value)
        found[name] = name, worth, inverse
    if not found:
        raise ConfigurationError("contracts", f"there is none: {_EXAMPLE}")
    return Contracts(tuple(found.values()))


def _pair(text: str) -> tuple[str, Inverse | str]:
    """The parts of ``NAME=50`` or ``NAME=inverse 100``."""
    name, equals, value = text.rpartition("=")
    if not equals:
        raise ConfigurationError("contracts", f"{text.strip()!r} has no '=': {_EXAMPLE}")
    kind, _, face = value.strip().partition(" ")
    return name.strip(), Inverse(face.strip()) if kind == "inverse" else value.strip()


def _worth(where: str, value: object) -> Decimal:
    try:
        worth = Decimal(str(value))
    except InvalidOperation as error:
        raise ConfigurationError(where, f"{value!r} is not a number above 0: {_EXAMPLE}") from error
    if isinstance(value, bool) or not worth.is_finite() or not Decimal("1e-18") <= worth <= Decimal("1e18"):
        raise ConfigurationError(where, f"{value!r} is not a number from 1e-18 to 1e18: {_EXAMPLE}")
    return worth.normalize()


class ContractMemory:
    """The contracts of a handler's symbols, by key, as its function in C finds them.

    A symbol takes the contract of its own name, else of the first pattern that fits. One without a name takes that of
    ``"*"``. Names that a feed tells later count from then on.

    Args:
        contracts: The contracts by name and pattern.
        amount: The notional that closes a bar, in units of currency / ``size_unit``; None: no bar closes by it.
        space: The space in which they lie.
        table: The symbols.

    Raises:
        ConfigurationError: If ``amount`` is too large for a contract.
        MemoryError: If there is no memory for them.
    """

    def __init__(self, contracts: Contracts, amount: Fraction | None, space: Space, table: SymbolTable) -> None:
        self._exact = {name: i for i, (name, _, _) in enumerate(contracts.by_pattern) if not _WILD.search(name)}
        self._patterns = [
            (re.compile(fnmatch.translate(name)).match, i)
            for i, (name, _, _) in enumerate(contracts.by_pattern)
            if name not in self._exact
        ]
        self._names = [name for name, _, _ in contracts.by_pattern]
        self._records = [_record(worth, inverse, amount) for _, worth, inverse in contracts.by_pattern]
        self._unfit = set(self._names)
        self._symbols: set[str] = set()
        self._table = table
        self._holes: set[int] = set()
        self._known = 0
        self._by_key = space.zeros(len(table), _CONTRACT) if contracts.by_pattern else np.zeros(0, _CONTRACT)
        if "*" in self._names and table.n_named < len(table):
            self._by_key[table.n_named :] = self._records[self._names.index("*")]
        if self._names:
            # State saved by another process has the contracts of the names that it knew.
            memory = ref(self)
            space.keep_books(lambda _books, _space: _again(memory), None)
        self.learn()

    @property
    def address(self) -> int:
        """The address of the contract of key 0; 0: there are none."""
        return int(self._by_key.ctypes.data) if self._names else 0

    @property
    def unused(self) -> list[str]:
        """The names and patterns that have fitted no symbol so far."""
        return [name for name in self._names if name in self._unfit]

    @property
    def symbols(self) -> set[str]:
        """The symbols that have a contract."""
        return self._symbols

    def publishing(self, keys: npt.NDArray[Any]) -> None:
        """Notes that symbols have ticks from now on. ``keys``: theirs, shape (n,); others than the table's are none."""
        self._by_key["used"][keys[keys < len(self._by_key)]] = 1

    def learn(self) -> None:
        """Gives symbols that have got a name their contracts.

        Raises:
            ConfigurationError: If a symbol has had ticks before it got a name that has another contract.
        """
        if not self._names:
            return
        table = self._table
        holes = set()
        for key in [*sorted(self._holes), *range(self._known, table.n_named)]:
            if not table.has_name(key):
                holes.add(key)
                if "*" in self._names:
                    self._by_key[key] = self._records[self._names.index("*")]
                continue
            self._give(key, table.name(key))
        self._holes, self._known = holes, table.n_named

    def learn_again(self) -> None:
        """Gives all symbols their contracts, for memory that was read back."""
        self._holes, self._known = set(), 0
        self.learn()

    def _give(self, key: int, name: str) -> None:
        at = self._exact.get(name)
        if at is None:
            at = next((i for matches, i in self._patterns if matches(name)), None)
        before, after = self._by_key[key].item(), _PLAIN if at is None else self._records[at]
        used = before[_USED]
        if before != (*after[:_USED], used, *after[_USED + 1 :]):
            # Workers may be reading it once the symbol has ticks.
            if used:
                raise ConfigurationError(
                    "contracts",
                    f"the feed named {name!r} after ticks of it, too late for its contract: give a feed "
                    "that names its symbols before their ticks",
                )
            self._by_key[key] = after
        if at is not None:
            self._unfit.discard(self._names[at])
            self._symbols.add(name)


def _again(memory: ref[ContractMemory]) -> int:
    found = memory()
    if found is not None:
        found.learn_again()
    return 0


def _record(worth: Decimal, inverse: bool, amount: Fraction | None) -> tuple[float, int, int, int, int]:
    minimum = 0
    if amount is not None:
        from fractions import Fraction

        minimum = ceil(amount / Fraction(worth) * (1 if inverse else PRICE_SCALE))
        if minimum >= 2**126:
            raise ConfigurationError("notional", "give less, or read sizes in a coarser unit")
    return float(worth), int(inverse), 0, minimum % 2**64, minimum >> 64
