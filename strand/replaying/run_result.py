"""Result of a run: its rows, outputs, counts and times, and its warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.columns import TickCounts
from strand.brief import brief, listed, several
from strand.errors import ConfigurationError
from strand.feeds import Feed, FeedInfo
from strand.feeds.base import Skipped, as_base, inflates
from strand.fixed import dataclass
from strand.output.books import NO_BOOKS, Books
from strand.output.emitted import EmittedRecords
from strand.output.fingerprint import OutputDigest, fingerprint_of_rows
from strand.output.rows import BasketRows, BusiestBasket, Rows
from strand.replaying.days import Day
from strand.stats import Statistics
from strand.symbols import SymbolTable
from strand.units import NO_SIZE_UNIT

if TYPE_CHECKING:
    from strand.handlers.feed_trades import ContractsUsed
    from strand.replaying.fingerprint_file import Interval
    from strand.replaying.pacing import Pacing
    from strand.replaying.snapshot_tables import Snapshots
    from strand.replaying.timeline import Timeline


@dataclass(frozen=True, slots=True, repr=False)
class RunWarning:
    """Warning about one kind of thing that happened to the data.

    ``kind``: a short name (``"unknown orders"``). ``count``: how often it happened. ``example``: one place where, as
    exactly as is known. ``cure``: what to do about it.
    """

    kind: str
    count: int
    example: str
    cure: str

    def __repr__(self) -> str:
        return brief(self, self.kind, f"{self.count:,}", self.example)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.kind}: {self.count:,} ({self.example}); {self.cure}"


class _Counter(NamedTuple):
    """A field of a row, or of a feed's statistics, that counts what does not fit."""

    field: str
    kind: str
    cure: str


_WHOLE: Final = "replay all files of the day from its start, and skip no record"
_CORRECT: Final = "correct the source"
_NAMES: Final = "begin where the source names its symbols, or open a numpy file with NpyFeed(path, symbols=names)"
_UNPRICED_TRADES: Final = _Counter(
    "unpriced",
    "unpriced trades",
    "replay from the start of the day, and give book=True for a feed of single orders: no volume includes these trades",
)
#: Cure of trades without a price in a feed without orders.
_SAY_PRICE: Final = (
    "name the column of prices by columns={'price': NAME} (--feed columns.price=NAME) or in the profile, or correct "
    "the source: no volume includes these trades"
)
_OUTSIDE_TRADES: Final = _Counter(
    "outside",
    "trades outside of sessions",
    "they came before a session, after it, or on a day without one, and none counts: compare the sessions with the "
    "feed's days and zone; closing auctions come at a session's end or later: take crosses in by auctions='5m' (bars, "
    "vwap, trade_stats), or let the sessions end later",
)
_STRADDLING: Final = _Counter(
    "straddling",
    "straddling bars",
    "let sessions and intervals begin where a bar begins, as 09:00 for bars of hours, or read shorter bars: each of "
    "these counts whole where it ends, also what was traded before",
)
_OUTSIDE_TICKS: Final = _Counter(
    "outside",
    "ticks outside of sessions",
    "let the sessions begin earlier or end later if these should count: none of them does",
)
_UNENDED: Final = _Counter(
    "unended",
    "unended events",
    "read the feed to the end of a message, or say by event= where its events end: these ended without their last "
    "tick, and may be halves",
)
_CROSSED_QUOTES: Final = _Counter(
    "locked",
    "crossed quotes",
    "use the quotes of one venue: these have a bid at or above the ask, and no spread includes them",
)

#: Symbols of Binance's COIN-margined futures: perpetual, and of a date.
_OF_USD: Final = re.compile(r"USD_(PERP|\d{6})$")
#: By profile, symbols whose sizes count contracts of a fixed sum of USD.
_INVERSE: Final = {
    **dict.fromkeys(("binance-trades", "binance-aggtrades", "binance-klines"), _OF_USD),
    "bybit-trades": re.compile(r"USD([FGHJKMNQUVXZ]\d\d)?$"),
    **dict.fromkeys(("okx-trades", "okx-trades-zh"), re.compile(r"-USD-(SWAP|\d{6})$")),
}
#: Names of Binance's files of aggregated trades and of klines, whose sizes of such futures count contracts.
_SAYS_CONTRACTS: Final = re.compile(r"-(aggTrades|\d+([smhdw]|mo))-")
_COINS: Final = (
    "give contracts={'BTC*': strand.Inverse(100)}, or read Binance's files of trades, whose base_qty is in coins: here "
    "a size counts inverse contracts (of Binance and OKX 100 USD of BTC, 10 USD of other coins; of Bybit 1 USD), so "
    "notional and vwap mean nothing"
)
_UNFIT: Final = "correct the name or pattern in contracts: a symbol has its own name's, else the first that fits"
_ABSENT: Final = _Counter(
    "absent", "unknown levels", "begin with a full snapshot: levels to remove did not exist, and no snapshot came"
)

_SAY_TICKS: Final = (
    "say by ticks=, or the key ticks of a profile, what they mean: 'orders' if fills reduce their orders, "
    "'dbn-orders' for Databento, 'plain' if trades are complete; 'plain' was assumed"
)

_SAY_PRICES: Final = (
    "say by price_unit= what 1 in the column is worth: '1' for currency, which was assumed, '0.01' for cents, or '1e-9'"
)

_UNDATED: Final = "give date= (--date): times are those of the market's day, and count from 1970-01-01"

#: For handlers of quotes alone.
_MIXED_QUOTES: Final = _Counter(
    "mixed_quotes",
    "mixed quotes",
    "read consolidated quotes (Databento's cmbp-1 and cbbo), DBN's mbo, in which each publisher has a book of its own, "
    "or a file of one venue: each of these quotes took the place of another publisher's",
)
#: Counters of a feed's statistics.
_OF_FEEDS: Final = (
    _Counter("rows_rounded", "rounded rows", "leave out inexact='round' to get an error at the first one"),
    _Counter(
        "gap_messages",
        "missing messages",
        "receive two lines, or name a retransmission server (rerequest); after a gap of a WebSocket, take a snapshot",
    ),
    _Counter("missing", "missing messages", "use a capture of both lines, or of the other line"),
    _Counter(
        "gone_messages",
        "messages that are gone",
        "read the topic more often, or let it keep its messages longer: these were deleted before they were read",
    ),
    _Counter(
        "moved_ticks",
        "moved symbols",
        "let the producer choose partitions by the symbol as key: ticks of these symbols came from another partition "
        "than before, and may be out of order",
    ),
    _Counter(
        "sequence_jumps",
        "sequence jumps",
        "find out who else sends to the group; if an outage was that long, give a larger jump_window",
    ),
    _Counter(
        "unused_rows",
        "unused rows",
        "correct the symbols in renames (those of the source) and splits (the names after renames): these rows changed "
        "nothing",
    ),
    _Counter(
        "unended_lines",
        "unended last line",
        "check that the file is complete: its last number has no line end and may be cut off",
    ),
    _Counter(
        "not_rising",
        "repeated sequences",
        "find out why the venue's numbers repeat or run back: trades among them may count twice; levels that were sent "
        "twice are left out",
    ),
    _Counter(
        "begun_anew",
        "numbers begun anew",
        "see what lies between the recording and the line: the numbers of these symbols fell there, and do not tell "
        "what is missing, nor within 5 s what came twice",
    ),
    _Counter(
        "stale_books",
        "stale books",
        "request a snapshot after each break of a connection and each gap: until one comes, levels that went meanwhile "
        "stay in the books",
    ),
    _Counter(
        "sequences_left_out",
        "left out sequences",
        "leave the field sequence out of the profile: ticks hold numbers up to 2^40 - 1, and these have their position",
    ),
    _Counter(
        "rolled_instruments",
        "rolled instruments",
        "read each contract by its own name; books, bars and returns begin anew where another instrument takes over a "
        "name, unless carry_over=True says that nothing ends",
    ),
    _Counter(
        "doubtful_books",
        "doubtful books",
        "begin at a snapshot after the source's gap: Databento marks these records F_MAYBE_BAD_BOOK",
    ),
    _Counter(
        "doubtful_times",
        "doubtful times",
        "use ts_event as their time: Databento marks these records F_BAD_TS_RECV",
    ),
    _Counter(
        "bars_as_trades",
        "bars as trades",
        "say by bars='ohlcv-1m' which schema the file's bars have, and read bars of several lengths from a file each: "
        "these count in the interval that begins where they end",
    ),
    _Counter(
        "repeated_ids",
        "repeated ids",
        "get the file again, or remove rows that come twice: the ids of its trades rise, and these do not",
    ),
    _Counter(
        "unnamed_instruments",
        "unnamed instruments",
        "get the file again with its symbols for all of its days (UTC): records of a day without one are those of id:N",
    ),
    _Counter(
        "times_raised", "raised times", "sort the archive: times that ran backwards became the latest time so far"
    ),
    _Counter(
        "hours_missing",
        "missing hours",
        "get these hours, too: between an instrument's first and last one there is no file for them, while an hour "
        "without ticks is a file of no bytes",
    ),
)

# Rows of built-in handlers are known by these fields: a row of a user's own may have some of them.
_BOOK: Final = frozenset({"unknown", "duplicates", "clipped", "unusable", "crossed"})
_DEPTH: Final = frozenset({"absent", "beyond", "unusable", "crossed", "passed_over"})
_SPREAD: Final = frozenset({"quotes", "locked", "one_sided", "quoted"})
_IMBALANCE: Final = frozenset({"quotes", "ofi", "queue_mean"})
_VWAP: Final = frozenset({"trades", "notional", "vwap", "unpriced"})
_TRADE_STATS: Final = frozenset({"signed_volume", "interarrival_ns", "unpriced"})
_BBO: Final = frozenset({"changes", "one_sided", "locked"})
_TRADES: Final = frozenset({"volume", "last_size", "unpriced"})
_BARS: Final = frozenset({"bars", "outside", "late", "unpriced"})
_QUOTE_BARS: Final = frozenset({"bars", "halved", "undefined"})
_VOLATILITY: Final = frozenset({"rv", "bv", "left_out"})
_AS_OF: Final = frozenset({"quoted", "priced_ns", "ignored"})
_BETWEEN: Final = frozenset({"quoted", "priced_ns", "unpriced"})

#: Counters of these rows.
_OF_ROWS: Final[Mapping[frozenset[str], tuple[_Counter, ...]]] = {
    _BOOK: (
        _Counter("unknown", "unknown orders", f"{_WHOLE}: changes of these orders are missing from the books"),
        _Counter("duplicates", "duplicate orders", f"{_WHOLE}: books keep the first order of each id"),
        _Counter("clipped", "clipped orders", f"{_WHOLE}: these orders were reduced by more than was left"),
        _Counter("unusable", "unusable orders", f"{_CORRECT}: those without a price, a side or a size are left out"),
        _Counter("crossed", "crossed books", f"{_WHOLE}: after each of these ticks the bid was at or above the ask"),
    ),
    _DEPTH: (
        _ABSENT,
        _Counter(
            "beyond",
            "clipped levels",
            "give depth a larger max_levels: a side was full, and its worst level was removed",
        ),
        _UNPRICED_TRADES,
        _Counter("unusable", "unusable levels", f"{_CORRECT}: those without a price, a side or a size are left out"),
        _Counter("crossed", "crossed books", "begin with a full snapshot: the bid was at or above the ask"),
        _UNENDED,
    ),
    _IMBALANCE: (_OUTSIDE_TICKS,),
    _SPREAD: (
        _CROSSED_QUOTES,
        _OUTSIDE_TICKS,
        _Counter(
            "unusable",
            "unusable mids",
            "use quoted, the spread in currency: a mid at or below 0 has no relative spread, and its time is left out",
        ),
    ),
    _BBO: (_CROSSED_QUOTES,),
    _VWAP: (_UNPRICED_TRADES, _OUTSIDE_TRADES),
    _TRADE_STATS: (_UNPRICED_TRADES, _OUTSIDE_TRADES),
    _TRADES: (_UNPRICED_TRADES,),
    _BETWEEN: (_UNPRICED_TRADES,),
    _BARS: (
        _UNPRICED_TRADES,
        _OUTSIDE_TRADES,
        _Counter(
            "late", "late trades", "give the feed a larger reorder_ns: these trades are in a later bar than their time"
        ),
    ),
    _VOLATILITY: (
        _OUTSIDE_TICKS,
        _Counter(
            "left_out", "unusable prices", f"{_CORRECT}: prices at or below 0 have no logarithm, and are left out"
        ),
    ),
}


class _Need(NamedTuple):
    """Kind of tick that a handler needs. ``used``: fields of its row that are above 0 where it got any such tick. The
    handler lacks the kind only where all these fields are 0."""

    row: frozenset[str]
    kind: str
    used: tuple[str, ...]
    cure: str


_SAY_TRADES: Final = ", or constants.kind=trade if its ticks are trades"
_ZERO_SIZES: Final = (
    "correct the source: these are no trades; if they are prices without sizes, read no column for size, or give bars "
    "zero_sizes=price"
)
_SAY_SIZE: Final = (
    "name the column of sizes by columns={'size': NAME} (--feed columns.size=NAME) or in the profile: without sizes "
    "volumes are 0, and average prices undefined"
)
_TOPS: Final = "a feed of quotes or single orders; changes of price levels are for depth"
_NEEDS: Final = (
    _Need(_BOOK, "single order", (), "give book a feed of single orders, or use depth or spread for this feed"),
    _Need(_DEPTH, "quote", (), "give depth a feed of quotes or price levels, or use book for this feed"),
    _Need(_SPREAD, "quote of the top or order", ("quotes",), f"give spread {_TOPS}"),
    _Need(_IMBALANCE, "quote of the top or order", ("quotes",), f"give imbalance {_TOPS}"),
    _Need(_BBO, "quote of the top or order", ("changes",), f"give bbo {_TOPS}"),
    _Need(_VWAP, "trade or order", ("trades", "unpriced", "outside"), f"give vwap a feed that has trades{_SAY_TRADES}"),
    _Need(_VWAP, "trade with a size", ("volume", "unpriced", "outside"), _SAY_SIZE),
    _Need(
        _TRADE_STATS,
        "trade or order",
        ("trades", "unpriced", "outside"),
        f"give trade_stats a feed that has trades{_SAY_TRADES}",
    ),
    _Need(_TRADES, "trade or order", ("trades", "unpriced"), f"give trades a feed that has trades{_SAY_TRADES}"),
    _Need(
        _BARS,
        "trade or order",
        ("trades", "bars", "outside", "unpriced"),
        f"give bars a feed that has trades{_SAY_TRADES}",
    ),
    _Need(
        _QUOTE_BARS,
        "quote or order",
        ("quotes", "undefined", "outside"),
        "give quote_bars a feed of quotes or orders, or make bars of trades by bars",
    ),
    _Need(
        _VOLATILITY,
        "trade or order",
        ("prices", "left_out", "outside"),
        f"give volatility a feed of trades{_SAY_TRADES}, or price='mid'",
    ),
    _Need(
        _VOLATILITY,
        "quote or order",
        ("prices", "left_out", "outside"),
        "give volatility a feed of quotes, or price='trade'",
    ),
    _Need(_AS_OF, "quote or order", ("quoted",), "give asof a feed of quotes or orders"),
    _Need(_BETWEEN, "trade or order", ("trades", "unpriced"), f"give between a feed that has trades{_SAY_TRADES}"),
    _Need(_BETWEEN, "trade with a size", ("volume", "unpriced"), _SAY_SIZE),
)

#: Rows for which quotes of several publishers are mixed.
_OF_QUOTES: Final = (_SPREAD, _IMBALANCE, _BBO, _QUOTE_BARS, _DEPTH, _AS_OF, _BETWEEN)


#: Warnings that something is not in the feed. A run of a part cannot tell: it may be in another part.
_OF_WHOLE_FEEDS: Final = frozenset({"unusable ticks", "unused rows", "unused contracts"})


def warnings_of(result: RunResult) -> tuple[RunWarning, ...]:
    """The warnings of a run: about ticks without use for its handlers, and about its rows, days, feed, times, symbols,
    baskets and pace."""
    parts = [*_of_meaning(result), *_of_unused(result), *_of_trades(result), *_of_rows(result), *_of_feed(result)]
    parts += [*_of_ends(result), *_of_units(result), *_of_contracts(result), *_of_times(result), *_of_symbols(result)]
    if result._in_part:
        parts = [warning for warning in parts if warning.kind not in _OF_WHOLE_FEEDS]
    return (*parts, *_of_shared_rows(result), *_of_pace(result))


def _parts(table: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """A handler's rows, and those of each part of a chain."""
    yield table
    for name in table.dtype.names or ():
        yield from _parts(table[name])


def _all_parts(rows: Rows) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[Any]]]:
    """Rows of each handler and part of a chain, with the indices of their symbols."""
    return ((symbols, part) for symbols, table in rows.by_handler() for part in _parts(table))


def _is(part: npt.NDArray[Any], row: frozenset[str]) -> bool:
    return row <= set(part.dtype.names or ())


def _all_rows(result: RunResult) -> Sequence[Rows]:
    """A run per day has its last day's rows among those of the others."""
    return [day.rows for day in result.days] or [result.rows]


def _lacks(result: RunResult, kind: str) -> bool:
    """Tells whether the feed had ticks, but none of the kind that a handler needs."""
    seen = result.seen
    if kind == "single order":
        return not seen.orders and (bool(seen.quotes) or 0 < seen.trades == result.ticks)
    if kind == "quote":
        return not seen.quotes and bool(seen.orders or seen.trades)
    if kind == "quote or order":  # ticks may be of no kind at all
        return not seen.quotes and not seen.orders and bool(result.ticks)
    if kind == "quote of the top or order":  # ticks of kind quote may be changes of price levels
        return not seen.orders and bool(seen.quotes or seen.trades)
    if kind == "trade with a size":
        return not result.info.has_sizes and bool(seen.trades)
    return not seen.trades and not seen.orders and bool(result.ticks)


def _of_ends(result: RunResult) -> Iterator[RunWarning]:
    waiting = result.statistics.dropped["abandoned"]
    if result.failures and waiting and result.rows.have_ends:
        cure = (
            "handlers' ends run where all is handled, so that bars under way are missing for all symbols: leave the "
            "symbols that fail out, or mend their handler"
        )
        yield RunWarning("ends left out", waiting, f"behind {result.failures[0]}", cure)


def _of_unused(result: RunResult) -> Iterator[RunWarning]:
    for need in _NEEDS:
        if not _lacks(result, need.kind):
            continue
        ours = [symbols for symbols, part in _all_parts(result.rows) if _is(part, need.row)]
        parts = (part for rows in _all_rows(result) for _, part in _all_parts(rows) if _is(part, need.row))
        if any(part[name].any() for part in parts for name in need.used if name in (part.dtype.names or ())):
            continue
        counts = np.zeros_like(result.ticks_by_symbol)
        for symbols in ours:
            counts[symbols] = result.ticks_by_symbol[symbols]
        if total := int(counts.sum()):
            most = int(counts.argmax())
            example = f"none of the {int(counts[most]):,} of {result.symbols[most]} is a {need.kind}"
            yield RunWarning("unusable ticks", total, example, need.cure)


def _of_trades(result: RunResult) -> Iterator[RunWarning]:
    """Warnings about ticks without use for handlers of trades, and about the user's handlers that were called with no
    trade."""
    kind = "trade or order"
    if result.rows.asks_for_trades and _lacks(result, kind):
        counts = np.where(result.rows.asking, result.ticks_by_symbol, 0)
        if total := int(counts.sum()):
            most = int(counts.argmax())
            example = f"none of the {int(counts[most]):,} of {result.symbols[most]} is a {kind}"
            yield RunWarning("unusable ticks", total, example, f"give the handler a feed that has trades{_SAY_TRADES}")
    info = result.info
    plain = info.ticks in ("plain", "dbn") and info.has_sizes and info.bars is None
    if result.seen.zero_sizes and plain and _counts_trades(result) and not result.rows.takes_zero_sizes:
        yield RunWarning("trades of size 0", result.seen.zero_sizes, f"in {info.path}", _ZERO_SIZES)


def _counts_trades(result: RunResult) -> bool:
    parts = [part for _, part in _all_parts(result.rows)]
    ours = [_DEPTH, *(need.row for need in _NEEDS if need.kind == "trade or order")]
    return result.rows.asks_for_trades or any(_is(part, row) for part in parts for row in ours)


def _of_rows(result: RunResult) -> Iterator[RunWarning]:
    found: dict[_Counter, Counter[str]] = {}
    for rows in _all_rows(result):
        for symbols, table in rows.by_handler():
            for counter, values in _counted(result, table).items():
                at = np.flatnonzero(values)
                counts = zip(symbols[at].tolist(), values[at].tolist(), strict=True)
                found.setdefault(counter, Counter()).update({rows.symbols[i]: count for i, count in counts})
    # Trades that the user's own handlers were not called with, and quotes; another handler beside them counts the same.
    unfit = (_UNPRICED_TRADES, result.unpriced), (_UNENDED, result.unended), (_STRADDLING, result.straddling)
    for counter, numbers in unfit:
        for i in np.flatnonzero(numbers).tolist():
            name, mine = result.symbols[i], found.setdefault(counter, Counter())
            mine[name] = max(mine[name], int(numbers[i]))
    for counter, by_symbol in found.items():
        if by_symbol:
            ((symbol, most),) = by_symbol.most_common(1)
            cure = _SAY_PRICE if counter is _UNPRICED_TRADES and not result.seen.orders else counter.cure
            yield RunWarning(counter.kind, by_symbol.total(), f"{most:,} of {symbol}", cure)


def _counted(result: RunResult, table: npt.NDArray[Any]) -> dict[_Counter, npt.NDArray[Any]]:
    """Counters of a handler's rows, shape (n,). Parts of a chain that have the same counter have met the same ticks."""
    found: dict[_Counter, npt.NDArray[Any]] = {}
    for part in _parts(table):
        for row, counters in _OF_ROWS.items():
            # A book took quotes for orders that it does not know.
            if _is(part, row) and not (row is _BOOK and result.seen.quotes and not result.seen.orders):
                # Rows of handlers without sessions leave nothing out.
                for counter in (one for one in counters if one.field in (part.dtype.names or ())):
                    values = part[counter.field]
                    if counter is _ABSENT:
                        # A snapshot has a limited depth, and a venue's changes reach below it.
                        values = np.where(part["snapshots"] > 0, 0, values)
                    found[counter] = np.maximum(found.get(counter, values), values)
    return found


def feed_counts(feed: Feed) -> dict[str, Any]:
    """Counts of a live feed so far, with those of its warnings by kind, for those who look from outside."""
    counts = dict(as_base(feed).live_counts())
    statistics = counts.pop("statistics", {})
    warnings = {one.kind: n for one in _OF_FEEDS if (n := statistics.get(one.field, 0))}
    return counts | {"warnings": warnings} if counts else {}


def _of_feed(result: RunResult) -> Iterator[RunWarning]:
    examples: Mapping[str, str] = result.info.details.get("examples", {})
    parts = [part for _, part in _all_parts(result.rows)]
    of_quotes = any(_is(part, row) for part in parts for row in _OF_QUOTES)
    for counter in (*_OF_FEEDS, *([_MIXED_QUOTES] if of_quotes else [])):
        if count := result.feed_statistics.get(counter.field, 0):
            example = examples.get(counter.field, f"in {result.info.path}")
            yield RunWarning(counter.kind, count, example, counter.cure)


def _of_meaning(result: RunResult) -> Iterator[RunWarning]:
    parts = [part for _, part in _all_parts(result.rows)]
    built_in = any(_is(part, need.row) for part in parts for need in _NEEDS if need.row is not _DEPTH)
    if not built_in and not result.rows.asks_for_trades:
        return
    if result.info.ticks_assumed and result.seen.orders:
        yield RunWarning("orders of an unsaid kind", result.seen.orders, f"in {result.info.path}", _SAY_TICKS)


def _of_units(result: RunResult) -> Iterator[RunWarning]:
    if result.info.prices_assumed and result.ticks:
        yield RunWarning("whole-number prices", result.ticks, f"in {result.info.path}", _SAY_PRICES)
    if result.info.size_unit is None and result.ticks:
        yield RunWarning("mixed size units", result.ticks, f"in {result.info.path}", NO_SIZE_UNIT)


def _of_contracts(result: RunResult) -> Iterator[RunWarning]:
    """Contracts that fit no symbol; and inverse futures in files that say contracts alone."""
    unused = result.contracts.unused
    if unused:
        yield RunWarning("unused contracts", len(unused), f"{unused[0]!r} fits no symbol", _UNFIT)
    details = result.info.details
    of_usd = _INVERSE.get(str(details.get("profile")))
    if of_usd is None and any(_SAYS_CONTRACTS.search(str(part["path"])) for part in details.get("feeds", ())):
        of_usd = _OF_USD
    if of_usd is None:
        return
    ticks = {result.symbols[i]: int(result.ticks_by_symbol[i]) for i in np.flatnonzero(result.ticks_by_symbol).tolist()}
    declared = result.contracts.symbols
    found = {name: n for name, n in ticks.items() if of_usd.search(name) and name not in declared}
    if found:
        symbol = max(found, key=lambda name: found[name])
        yield RunWarning("contracts of USD", sum(found.values()), f"{found[symbol]:,} of {symbol}", _COINS)


def _of_times(result: RunResult) -> Iterator[RunWarning]:
    seen = result.seen
    if result.info.undated and result.ticks:
        yield RunWarning("unknown date", result.ticks, f"in {result.info.path}", _UNDATED)
    if seen.behind:
        place = f"tick {seen.furthest_at + 1:,}, of {result.symbols[seen.furthest_symbol]}"
        if result.info.format == "moldudp64":
            cure = "nothing is out of order: messages are in the venue's sequence, and retransmitted ones came later"
        else:
            cure = f"give reorder_ns={seen.furthest_ns} if the times are in the right order and the source is not"
        yield RunWarning("backward times", seen.behind, f"{place}, is {seen.furthest_ns:,} ns behind", cure)


def _of_symbols(result: RunResult) -> Iterator[RunWarning]:
    unnamed = [i for i in np.flatnonzero(result.ticks_by_symbol).tolist() if not result.symbols.has_name(i)]
    if unnamed:
        most = max(unnamed, key=lambda i: int(result.ticks_by_symbol[i]))
        example = f"{result.symbols[most]} with {int(result.ticks_by_symbol[most]):,} ticks"
        yield RunWarning("unnamed symbols", len(unnamed), example, _NAMES)


def _of_shared_rows(result: RunResult) -> Iterator[RunWarning]:
    busiest = result.busiest_basket
    if busiest is not None and result.workers and busiest.share > 1 / result.workers:
        cure = f"use smaller baskets, or fewer than {result.workers} workers: one worker at a time handles a basket"
        yield RunWarning("busy basket", busiest.ticks, str(busiest), cure)


def _of_pace(result: RunResult) -> Iterator[RunWarning]:
    pacing = result.pacing
    if pacing is not None and pacing.late:
        example = f"one was {pacing.lateness.maximum_ns / 1e6:,.3f} ms late"
        yield RunWarning("late ticks", pacing.late, example, "replay at a lower speed, or with more workers")
    overload = result.statistics.overload
    if overload is not None:
        yield RunWarning("lasting overload", overload.pending, overload.said, overload.cure)


@dataclass(frozen=True, repr=False)
class RunResult:
    """Result of a run.

    Attributes:
        info: What the feed says of itself.
        symbols: The feed's names, by ``instrument_id``; as many as have a name or a tick.
        rows: The final state of all symbols.
        ticks: How many ticks were handed to the dispatcher.
        ticks_by_symbol: The same by symbol, shape (n,), i8.
        seen: How many ticks of each kind there were, and how many with times that run backwards.
        unpriced: By symbol, trades without a price, shape (n,), i8. Your own handlers that ask for trades were not
            called with them.
        unended: By symbol, events of quotes whose last tick never came, shape (n,), i8: the most of any handler.
        straddling: By symbol, ready-made bars that begin before the session or interval that they count in, shape (n,),
            i8.
        contracts: The use of the contracts that handlers were given.
        wall_s: Seconds from asking for the first batch to the end of the last handler.
        setup_s: The part of ``wall_s`` that it took to make the dispatcher and start its workers.
        feed_s: Seconds that the publishing thread spent getting batches: reading, inflating, decoding.
        input_wait_s: The part of ``feed_s`` that went into the file's bytes: reading them, or waiting for the thread
            that reads and inflates them. 0 if the feed does not tell.
        workers: How many worker threads there were; 0 for a plain loop.
        n_strands: How many strands there were.
        statistics: The dispatcher's counters at the end.
        feed_statistics: The feed's own counts, by name.
        skipped: What the feed skipped under ``on_bad_record="skip"``.
        failures: The failures of quarantined strands, as text.
        outputs: What handlers emitted, by the output's name, shape (n,): see ``strand.output``.
        written: By the output's name, the file that it was written to and the number of records.
        pacing: How well the pace was kept; None for a replay as fast as possible.
        objects: The objects of an object handler, by symbol.
        timeline: Counters and rows over the run; None with ``timeline=False``, and for a plain loop.
        intervals: What ``fingerprint_every`` recorded.
        days: The rows of each day, with ``per_day=True``.
    """

    info: FeedInfo
    symbols: SymbolTable
    rows: Rows
    ticks: int
    ticks_by_symbol: npt.NDArray[np.int64]
    seen: TickCounts
    unpriced: npt.NDArray[np.int64]
    unended: npt.NDArray[np.int64]
    straddling: npt.NDArray[np.int64]
    contracts: ContractsUsed
    wall_s: float
    setup_s: float
    feed_s: float
    input_wait_s: float
    workers: int
    n_strands: int
    statistics: Statistics
    feed_statistics: Mapping[str, int]
    skipped: Skipped
    failures: tuple[str, ...]
    outputs: Mapping[str, EmittedRecords] = field(default_factory=dict)
    written: Mapping[str, tuple[Path, int]] = field(default_factory=dict)
    pacing: Pacing | None = None
    objects: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline | None = None
    intervals: tuple[Interval, ...] = ()
    days: tuple[Day, ...] = ()
    _in_part: bool = field(default=False, repr=False)
    _books: Books | None = field(default=None, repr=False)
    _snapshots: Snapshots | None = field(default=None, repr=False)
    _digests: Callable[[], Mapping[str, OutputDigest]] = field(default=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        symbols = several(int(np.count_nonzero(self.ticks_by_symbol)), "symbol")
        figures = f"{self.wall_s:.3g} s", f"{self.ticks_per_s:,.0f} ticks/s", listed(self.rows.handlers)
        warned = (several(len(self.warnings), "warning"),) if self.warnings else ()
        return brief(self, f"{several(self.ticks, 'tick')} of {symbols}", *figures, *warned)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of each symbol's row and tick count, by name, and of all outputs and baskets: 32 hexadecimal digits.

        It is the same for any number of workers, grouping and batches. It is computed when it is first asked for.
        """
        return fingerprint_of_rows(self.rows, self.symbols, self.ticks_by_symbol, self._digests())

    @cached_property
    def warnings(self) -> tuple[RunWarning, ...]:
        """Warnings of the run (docs/warnings.md): changes that it made to the data and faults that it found, one entry
        per kind. Empty if there was nothing.

        ``skipped`` and ``statistics.dropped`` count what options let pass.
        """
        return warnings_of(self)

    @property
    def baskets(self) -> BasketRows:
        """The final state of baskets, by name (``strand.basket_handler``)."""
        return self.rows.shared

    @property
    def books(self) -> Books:
        """The order books.

        Raises:
            ConfigurationError: If no handler keeps books.
        """
        if self._books is None:
            raise ConfigurationError("books", f"{NO_BOOKS}")
        return self._books

    @property
    def snapshots(self) -> Snapshots:
        """The values of all symbols at regular times, as ``snapshot=`` asked for them.

        Raises:
            ConfigurationError: If ``snapshot=`` was not given.
        """
        if self._snapshots is None:
            raise ConfigurationError("snapshots", "none were asked for; give replay(snapshot=strand.snapshot(...))")
        return self._snapshots

    @property
    def busiest_basket(self) -> BusiestBasket | None:
        """The baskets that share the busiest strand of baskets; None without baskets.

        Only one worker at a time runs a strand, so that strand's share of the handlers' work bounds the speed of the
        run.
        """
        return self.baskets.busiest(self.ticks_by_symbol)

    @property
    def ticks_per_s(self) -> float:
        """Ticks per second of ``wall_s``."""
        return self.ticks / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def input_work(self) -> str:
        """Work that ``input_wait_s`` was spent on: ``reading``, or for a compressed file ``reading and inflating``."""
        packed = inflates(self.info) or any(
            feed.get("compression") not in (None, "none") for feed in self.info.details.get("feeds", ())
        )
        return "reading and inflating" if packed else "reading"

    @property
    def limited_by(self) -> str:
        """Part of the run that took most of its time, as a word.

        It is ``feed`` (getting ticks), ``dispatch`` (publishing and handlers, and what is read in blocks), ``set-up``
        or ``pacing``. Where getting ticks took most, and at least half of that was input, it is what ``input_work``
        says.
        """
        waited_s = self.pacing.waited_s if self.pacing is not None else 0.0
        parts = {
            "pacing": waited_s,
            "feed": self.feed_s,
            "set-up": self.setup_s,
            "dispatch": self.wall_s - self.feed_s - self.setup_s - waited_s,
        }
        part = max(parts, key=lambda name: parts[name])
        return self.input_work if part == "feed" and 2 * self.input_wait_s >= self.feed_s else part

    @property
    def busy_share(self) -> float:
        """The share of the run's time in which a worker ran handlers, 0 to 1, averaged over workers."""
        busy = [w.busy_ns for w in self.statistics.workers if w.name != "publishers"]
        return sum(busy) / len(busy) / (self.wall_s * 1e9) if busy and self.wall_s > 0 else 0.0
