"""Definition of a feed: batches of ticks, a symbol table, a description of their source, what was skipped in it, and
the selection of its ticks."""

from __future__ import annotations

import fnmatch
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from strand.binding.columns import Showing, ShownColumn, ShownNames, show_ticks
from strand.brief import brief, several, written
from strand.errors import ConfigurationError, FeedError, called
from strand.fixed import dataclass
from strand.lazy import imported
from strand.options import named_fields
from strand.symbols import SymbolTable
from strand.tables.arrow import DECIMAL_DIGITS, arrow_table
from strand.tables.columns import Prices, SymbolNames, Table
from strand.tables.tabular import pandas_frame, polars_frame
from strand.ticks import Flags, joined, named, zeros
from strand.units import COUNT, PRICE, SIZE, TIME, declare
from strand.validate import unit_power

if TYPE_CHECKING:
    import polars

__all__ = [
    "SAMPLES", "BaseFeed", "Feed", "FeedInfo", "Flags", "Selection", "Skipped", "SkippedRecord", "StockAttributes",
    "TickBatch", "TicksAre", "as_base", "batches_from", "inflates", "is_glob", "merges_in_blocks", "names_like",
    "numbered", "shown_ticks", "skipped_of", "usual_flags",
]  # fmt: skip

#: Characters of a path that a line shows.
_PATH: Final = 80

#: A one-dimensional array of ``strand.TICK`` records, in replay order, valid until the next batch is asked for.
TickBatch = npt.NDArray[np.void]

#: Meaning of a feed's ticks, in which formats differ. Handlers decide by it alone which ticks are trades, and whether
#: they need order books. Converted files keep it.
#:
#: - ``"plain"``: trades and quotes that say all themselves. The side of action T is the aggressor's, the side of
#:   action F the resting order's.
#: - ``"orders"``: single orders (ITCH, PITCH, LOBSTER). A fill (action F) takes its size off its order, and has that
#:   order's price unless it brings its own. Action T is an execution of a hidden order, whose side says nothing, or
#:   a cross.
#: - ``"dbn"``: Databento's trades and quotes. A trade is action T alone.
#: - ``"dbn-orders"``: Databento's single orders. A fill only reports what a trade (action T) said before it. No change
#:   of a book is shown before its event ends; each publisher has a book.
#:
#: The feed's ``flags`` say which bits mark what does not count, a cross, and the end of an event.
TicksAre = Literal["plain", "orders", "dbn", "dbn-orders"]

#: Flags of ticks that somebody makes by Strand's own rules, and Databento's (docs/tick.md).
_USUAL: Final = Flags(unprinted=1, cross=4, best=4, snapshot=32)
_DATABENTO: Final = Flags(snapshot=32, last=128, top=64, other=0x1F)


def usual_flags(ticks: TicksAre | None, come: Literal["raw", "made", "never"] = "made") -> Flags:
    """The flags of ticks about which nothing else is known.

    Args:
        ticks: What the ticks mean. Databento's have its flags.
        come: ``"made"``: somebody set them by Strand's own rules (docs/tick.md). ``"raw"``: they are those of a source
            that Strand does not know, so no bit has a meaning. ``"never"``: no tick has one.
    """
    if ticks in ("dbn", "dbn-orders"):
        return _DATABENTO
    return _USUAL if come == "made" else Flags(other=0xFF) if come == "raw" else Flags()


#: Stands for the flags that ``ticks`` implies.
_BY_TICKS: Final = Flags()


@dataclass(frozen=True, slots=True, repr=False)
class FeedInfo:
    """Facts about a feed that are known without reading all of it.

    Attributes:
        format: A short name of the format (``"itch50"``, ``"npy"``, ``"lean"``).
        path: Where the feed comes from.
        date: The trading date as ``YYYY-MM-DD``; None: unknown.
        venue: The market's name; None: unknown.
        price_unit: What 1 in the source's own prices is worth in currency (ITCH: 0.0001); None: unknown. A tick's price
            is in 1e-9 whatever the source.
        span: The first and the last receive time, ns since the UNIX epoch. None if they are not known without reading
            on.
        details: Whatever else the format tells, by name.
        undated: Whether the format has only times of day, and their day is unknown. Times count from 1970-01-01 then.
        size_unit: What 1 in a tick's ``size`` is worth in units of the instrument (crypto: 0.00000001 coins), a power
            of ten as a number or text. None if merged feeds differ in it.
        ticks: What the ticks mean (``TicksAre``); None if merged feeds differ in it.
        ticks_assumed: Whether ``ticks`` is an assumption, because neither the file nor an option says it.
        prices_assumed: Whether whole numbers of the source's prices are taken for currency, because nothing says what 1
            is worth.
        zone: The time zone of the market's sessions, like ``"America/New_York"``. None if it is unknown, or if merged
            feeds differ in it. Ticks' times are always in UTC.
        flags: Which bits of a tick's ``flags`` mean what. None if merged feeds differ in it. A reader that does not say
            it has those of Strand's own ticks, or Databento's (docs/tick.md).
        has_sizes: Whether trades have sizes. Where they have none, a trade is a tick of size 0.
        bars: The length of the feed's ready-made bars in ns; a tick's ``ts_recv`` is its bar's end. None: the feed has
            no bars. 0: merged feeds differ in it.
    """

    format: str
    path: str
    date: str | None = None
    venue: str | None = None
    price_unit: float | None = None
    span: tuple[int, int] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    undated: bool = False
    size_unit: float | None = 1.0
    ticks: TicksAre | None = "plain"
    ticks_assumed: bool = False
    prices_assumed: bool = False
    zone: str | None = None
    flags: Flags | None = _BY_TICKS
    has_sizes: bool = True
    bars: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", called(self.path))
        if self.flags is _BY_TICKS:
            object.__setattr__(self, "flags", usual_flags(self.ticks))
        if self.size_unit is not None:
            object.__setattr__(self, "size_unit", float(f"1e{unit_power('size_unit', self.size_unit)}"))

    def __repr__(self) -> str:
        return brief(self, *self.figures)

    @property
    def figures(self) -> tuple[str, ...]:
        """The format, path, date and venue as texts, as far as they are known."""
        path = self.path if len(self.path) <= _PATH else f"...{self.path[3 - _PATH :]}"
        return self.format, path, self.date or "", self.venue or ""


#: Samples kept of each reason.
SAMPLES: Final = 8


def inflates(info: FeedInfo) -> bool:
    """True if the feed's file is compressed: then a thread is busy with it for most of a run. A member that a zip
    archive stores uncompressed does not count."""
    return bool(info.details.get("compression", "none") != "none" and info.details.get("inflater", "") is not None)


class SkippedRecord(NamedTuple):
    """A record that was passed over: why, and where (byte offset in the decompressed stream, or line from 1)."""

    reason: str
    offset: int | None = None
    line: int | None = None
    text: str = ""


@dataclass(slots=True, repr=False)
class Skipped:
    """Counts by reason, and the first records of each reason."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[SkippedRecord] = field(default_factory=list)

    def add(
        self, reason: str, n: int = 1, *, offset: int | None = None, line: int | None = None, text: str = ""
    ) -> None:
        """Counts ``n`` records under a short reason (``"unknown type"``), with the first one's place."""
        if sum(sample.reason == reason for sample in self.samples) < SAMPLES:
            self.samples.append(SkippedRecord(reason, offset, line, text[:80]))
        self.counts[reason] += n

    def __repr__(self) -> str:
        return brief(self, several(self.total, "record"), *(f"{n:,} {reason}" for reason, n in self.counts.items()))

    def clear(self) -> None:
        """Clears all counts and samples, for a feed that is read again."""
        self.counts.clear()
        self.samples.clear()

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class LineNumbers(NamedTuple):
    """Numbers of the messages of a line, which rise by one.

    Attributes:
        first: The number of the first message.
        next: The number behind the last message so far.
        missing: The ranges [from, to) between the two that did not come.
    """

    first: int
    next: int
    missing: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class StockAttributes:
    """A stock as the directory message (type R) describes it, in the letters of the specification.

    ``locate`` is the stock locate. A blank letter is ``""``. ``round_lot_size`` counts shares.
    """

    locate: int
    market_category: str
    financial_status: str
    round_lot_size: int
    round_lots_only: str
    classification: str
    subtype: str
    authenticity: str
    short_sale_threshold: str
    ipo: str
    luld_tier: str
    etp: str
    etp_leverage: int
    inverse: str


_WILD: Final = "*?["


def is_glob(pattern: str) -> bool:
    """Tells whether a name that was asked for stands for several."""
    return any(letter in pattern for letter in _WILD)


@lru_cache(maxsize=16)
def names_like(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """A function that tells whether a name is one of these, or matches one of the globs among them. It takes as long
    for thousands of names as for one."""
    globs = [pattern for pattern in patterns if is_glob(pattern)]
    exact = frozenset(patterns).difference(globs)
    if not globs:
        return exact.__contains__
    matches = re.compile("|".join(map(fnmatch.translate, globs))).match
    return lambda name: name in exact or matches(name) is not None


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """Selects ticks by symbol and by a half-open span of receive times.

    A reader skips the other ticks as early as it can. It yields the same as if every tick had been made and then
    checked with ``mask``.

    Args:
        symbols: Names or globs (``"AA*"``) of the symbols to keep; empty: all.
        start_ns: The first receive time kept, ns since 1970-01-01 UTC; None: no bound.
        end_ns: The first receive time no longer kept, ns since 1970-01-01 UTC; None: no bound.

    Raises:
        ConfigurationError: If ``start_ns`` is not before ``end_ns``.
    """

    symbols: tuple[str, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None

    def __post_init__(self) -> None:
        if self.start_ns is not None and self.end_ns is not None and self.start_ns >= self.end_ns:
            start, end = (str(np.datetime64(ns, "ns")) for ns in (self.start_ns, self.end_ns))
            raise ConfigurationError("start", f"{start} UTC is not before end: {end} UTC")

    def __repr__(self) -> str:
        return written(self)

    def __bool__(self) -> bool:
        return bool(self.symbols) or self.start_ns is not None or self.end_ns is not None

    def keeps(self, name: str) -> bool:
        """Tells whether a symbol is wanted. Upper and lower case differ.

        Args:
            name: The symbol's name.
        """
        return not self.symbols or names_like(tuple(self.symbols))(name)

    def keys(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Mask of the symbols that are wanted, by ``instrument_id``.

        Args:
            names: The names by ``instrument_id``.

        Returns:
            A bool array of shape (n,), n being the number of names.
        """
        if not self.symbols:
            return np.ones(len(names), np.bool_)
        return np.fromiter(map(names_like(tuple(self.symbols)), names), dtype=np.bool_, count=len(names))

    def mask(self, ticks: TickBatch, keys: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Mask of the ticks that are wanted.

        Args:
            ticks: Ticks, shape (n,).
            keys: Which symbols are wanted, as :meth:`keys` returns it.

        Returns:
            A bool array of shape (n,).
        """
        kept: npt.NDArray[np.bool_] = keys[ticks["instrument_id"]]
        within = self.within(ticks["ts_recv"])
        return kept if within is None else kept & within

    def within(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Mask of the receive times that are wanted.

        Args:
            times: Times, ns since 1970-01-01 UTC, shape (n,).

        Returns:
            A bool array of shape (n,); None: the selection has no bound.
        """
        if self.start_ns is None and self.end_ns is None:
            return None
        kept = np.ones(len(times), np.bool_)
        if self.start_ns is not None:
            kept &= times >= np.int64(self.start_ns)
        if self.end_ns is not None:
            kept &= times < np.int64(self.end_ns)
        return kept


@runtime_checkable
class Feed(Protocol):
    """Anything that can be replayed.

    ``symbols`` may grow while batches are read (a directory message in mid-stream), and never beyond ``max_symbols``:
    every ``instrument_id`` in every batch is below ``max_symbols``. Iterating reads the feed from its start, each time
    anew. ``close`` may be called more than once, also in the middle of an iteration.
    """

    @property
    def info(self) -> FeedInfo:
        """Facts about the feed that are known without reading all of it."""
        ...

    @property
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``; an empty string for an index without a name."""
        ...

    @property
    def max_symbols(self) -> int:
        """An upper bound: every ``instrument_id`` is below it."""
        ...

    def batches(self) -> Iterator[TickBatch]:
        """Yields arrays of ticks, shape (n,), in order. Each is valid until the next one is asked for."""
        ...

    def statistics(self) -> dict[str, int]:
        """Counts kept while reading: records read, ticks made, skipped by reason, bytes in and out."""
        ...

    def close(self) -> None:
        """Ends the feed; may be called again."""
        ...


class BaseFeed(ABC):
    """The base class of feeds: a subclass defines ``info``, ``symbols`` and ``batches``.

    Iterating over a feed gives its batches; a ``with`` block closes it at its end. ``to_arrow`` and the like read it to
    its end into one table. A reader of its ``__arrow_c_stream__`` has one batch of 65,536 ticks at a time in memory.

    Attributes:
        skipped: The records that were skipped under ``on_bad_record="skip"``: counts and samples.
    """

    #: At an empty batch: no tick before this time will come, in ns since 1970-01-01 UTC, so timers up to it are due.
    #: None: only ticks tell the time.
    passed_ns: int | None = None
    #: True if ticks come when they happen, however fast they are handled. If a run cannot keep up with such a feed, it
    #: says so (docs/overload.md).
    is_live: bool = False
    #: The files that the feed writes itself, as a live feed its recording: no output of a run may be one of them.
    writes: Sequence[str] = ()

    def __init__(self) -> None:
        self.skipped = Skipped()
        self._closed = False

    @property
    @abstractmethod
    def info(self) -> FeedInfo:
        """Facts about the feed that are known without reading all of it."""

    @property
    @abstractmethod
    def symbols(self) -> Sequence[str]:
        """Names by ``instrument_id``; an empty string for an index without a name."""

    @property
    def max_symbols(self) -> int:
        """An upper bound: every ``instrument_id`` is below it. By default the number of symbols."""
        return len(self.symbols)

    @property
    def reads(self) -> Sequence[str]:
        """The files that the feed reads: no output of a run may be one of them."""
        return (self.info.path,)

    def live_counts(self) -> Mapping[str, Any]:
        """Counts of a live feed so far, for those who look at its run from outside; empty for other feeds. Any thread
        may call it.

        ``messages``, ``gaps`` that stayed with their ``gap_messages``, ``reconnects``, the gaps and missing messages of
        each line (``lines``), and ``statistics``.
        """
        return {}

    def state(self) -> Mapping[str, Any] | None:
        """The feed's place as values of JSON: ``resume`` of another feed continues behind the batches that were given.
        None: the feed cannot tell its place, and is read from its start.

        Raises:
            FeedError: If it cannot be saved now.
        """
        return None

    def line_numbers(self) -> LineNumbers | None:
        """The numbers of the messages that were read, if they are those of a line: ticks have them as ``sequence``, and
        messages without ticks count too. None: only ticks show them."""
        return None

    def follow(self, published: Callable[[], int], handled: Callable[[], int]) -> None:  # noqa: B027 - most need not
        """Takes two counters of a run, before the first batch. A feed that acknowledges messages reads them.

        Args:
            published: Returns the number of ticks that the run has published. When it asks for a batch, it has
                published all batches before that one.
            handled: Returns a number n: the first n ticks that were published have been handled or dropped.
        """

    @property
    def tick_feeds(self) -> npt.NDArray[np.int32] | None:
        """The feed that each tick of a merge's latest batch came from, shape (n,), as its place in
        ``info.details["feeds"]``.

        -1 stands for a tick that came from none of them. None if the feed is no merge. A run that finds more or fewer
        numbers than ticks ends with a RecordTypeError.
        """
        return None

    @abstractmethod
    def batches(self) -> Iterator[TickBatch]:
        """Yields arrays of ticks, shape (n,), in order. Each is valid until the next one is asked for."""

    def batches_from(self, position: int) -> Iterator[TickBatch]:
        """Yields the batches after the first ``position`` ticks.

        Args:
            position: The number of ticks that an earlier iteration gave before it stopped.
        """
        for batch in self.batches():
            if position >= len(batch):
                position -= len(batch)
                continue
            yield batch[position:]
            position = 0

    def last_batches(self, ticks: int) -> Iterator[TickBatch] | None:
        """Yields the last ticks, and perhaps some more before them, without reading the rest of the file.

        Symbols are numbered in the order in which they come, which may differ from that of ``batches``.

        Args:
            ticks: The number of ticks wanted; it is below ``count()``.

        Returns:
            The batches; None if the format has no way to its end.
        """
        del ticks
        return None

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """Reads all ticks of the feed, from its start, into a ``pyarrow.Table``.

        Args:
            prices: The type of price columns: ``"float"``, ``"decimal"`` or ``"integer"`` (docs/handlers/units.md).

        Raises:
            MissingExtraError: If pyarrow is not installed.
        """
        return tick_stream(self, prices).read_all()

    def to_polars(self, *, prices: Prices = "float") -> polars.DataFrame:
        """Reads all ticks of the feed, from its start, into a ``polars.DataFrame``.

        Args:
            prices: As for ``to_arrow``.

        Raises:
            MissingExtraError: If polars or pyarrow is not installed.
        """
        return polars_frame(lambda: tick_stream(self, prices, views=True).read_all())

    def to_pandas(self, *, prices: Prices = "float") -> Any:
        """Reads all ticks of the feed, from its start, into a ``pandas.DataFrame``.

        Args:
            prices: As for ``to_arrow``.

        Raises:
            MissingExtraError: If pandas or pyarrow is not installed.
        """
        return pandas_frame(lambda: self.to_arrow(prices=prices))

    def to_numpy(self) -> npt.NDArray[np.void]:
        """Reads all ticks of the feed, from its start, into a ``strand.Ticks`` array of shape (n,), exact integers."""
        batches = [batch.copy() for batch in self.batches()]
        return named(joined(batches)) if batches else zeros(0)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All ticks as a stream of Arrow's C interface. An error of the feed is the stream's error."""
        return tick_stream(self, "float").__arrow_c_stream__(requested_schema)

    def count(self) -> int | None:
        """The number of ticks in all; None if it is not cheap to know."""
        return None

    def statistics(self) -> dict[str, int]:
        """Counts kept while reading, by name."""
        return {}

    def close(self) -> None:
        """Ends the feed; may be repeated. Strand's own feeds end every iteration under way: asking one for more raises
        FeedError.
        """
        self._closed = True

    def __repr__(self) -> str:
        figures: tuple[str, ...] = ()
        with suppress(Exception):  # a feed that could not be made, or one of a user's own: an error may have to show it
            read = self.statistics().get("ticks", 0)
            figures = (*self.info.figures, several(read, "tick") if read else "")
        return brief(self, *figures, "closed" if getattr(self, "_closed", False) else "")

    def _check_open(self) -> None:
        if self._closed:
            raise FeedError("the feed is closed", path=self.info.path)

    def __iter__(self) -> Iterator[TickBatch]:
        return self.batches()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: Rows of a record batch at most.
BATCH_ROWS: Final = 1 << 16

_ID: Final = declare(COUNT, "<u8", none=(0,))
#: The columns, with what they mean: ``number`` and ``sequence`` are those of an output's records.
COLUMNS: Final = np.dtype(
    [
        ("number", declare(COUNT, none=(-1,))),
        ("sequence", declare(COUNT, none=(-1,))),
        ("ts_event", TIME),
        ("ts_recv", TIME),
        ("instrument_id", "<u4"),
        ("kind", "u1"),
        ("action", "S1"),
        ("side", "S1"),
        ("price", PRICE),
        ("size", SIZE),
        ("bid_price", PRICE),
        ("bid_size", declare(SIZE, given={"bid_price": None})),
        ("ask_price", PRICE),
        ("ask_size", declare(SIZE, given={"ask_price": None})),
        ("order_id", _ID),
        ("ref_id", _ID),
        ("publisher_id", declare(COUNT, "<u2", none=(0,))),
        ("flags", "u1"),
        ("depth", "u1"),
    ]
)


def batches_from(feed: Feed, position: int) -> Iterator[TickBatch]:
    """The batches of any feed after its first ``position`` ticks. A feed's own ``batches_from`` seeks; other feeds are
    read from the start."""
    if position == 0:
        return feed.batches()
    own: Any = getattr(feed, "batches_from", None)
    found: Iterator[TickBatch] = BaseFeed.batches_from(feed, position) if own is None else own(position)  # type: ignore[arg-type]
    return found


def skipped_of(feed: Feed) -> Skipped:
    """Records that a feed skipped under ``on_bad_record="skip"``; nothing where the feed does not count them."""
    found = getattr(feed, "skipped", None)
    return found if isinstance(found, Skipped) else Skipped()


def merges_in_blocks(feed: Feed) -> bool:
    """True if blocks may take ticks of the feed's files (``MergedFeed.merges_in_blocks``). Its own class has to say so:
    a feed of one's own may hand on the attributes of another one, whose batches it changes."""
    return hasattr(type(feed), "merges_in_blocks") and bool(cast(Any, feed).merges_in_blocks)


def as_base(feed: Feed) -> BaseFeed:
    """Any feed with all members of a ``BaseFeed``, which supplies those that the feed lacks."""
    return feed if isinstance(feed, BaseFeed) else cast(BaseFeed, _Completed(feed))


class _Completed:
    """A feed of another class, with the defaults of ``BaseFeed``."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._feed, name):
            return getattr(self._feed, name)
        default = vars(BaseFeed)[name]
        return default.__get__(self._feed) if hasattr(default, "__get__") else default


def shown_ticks(
    feed: Feed, batches: Iterable[tuple[int, TickBatch]], columns: Sequence[ShownColumn]
) -> Iterator[tuple[TickBatch, list[Showing], ShownNames]]:
    """Columns of a feed's ticks, at most ``BATCH_ROWS`` at a time, with these ticks and the names of symbols so far.

    ``batches``: those of the feed, each with the number of its first tick.
    """
    symbols, names = SymbolTable.with_capacity(feed.symbols, max(feed.max_symbols, 1)), ShownNames()
    for number, ticks in batches:
        known, is_late = symbols.n_named, symbols.learn(feed.symbols)
        if is_late or known < min(len(names), symbols.n_named):  # some were shown without their names
            names = ShownNames()
        names.add(symbols[len(names) : symbols.n_named])
        for at in range(0, len(ticks), BATCH_ROWS):
            part = ticks[at : at + BATCH_ROWS]
            while isinstance(made := show_ticks(part, number + at, columns, names), int):
                names.add(symbols[len(names) : made])
            yield part, made, names


def numbered(batches: Iterable[TickBatch], first: int = 0) -> Iterator[tuple[int, TickBatch]]:
    """Batches, each with the number of its first tick. ``first``: that of the first batch."""
    for ticks in batches:
        yield first, ticks
        first += len(ticks)


def tick_stream(
    feed: Feed,
    prices: Prices,
    *,
    views: bool = False,
    batches: Iterable[tuple[int, TickBatch]] | None = None,
    only: Collection[str] | None = None,
    zone: str | None = "UTC",
    exact: bool = False,
) -> Any:
    """A pyarrow.RecordBatchReader that reads the feed from its start, in batches of at most 65,536 rows.

    ``views``: texts are views, as polars has them, where pyarrow knows these. ``batches``: those to show in place of
    the feed's, each with the number of its first tick. ``only``: the names of the columns wanted. ``zone``: that of
    times, None for times that have none. ``exact``: sizes are decimals too, where their unit is not 1.

    Raises MissingExtraError without pyarrow, ConfigurationError for other ``prices``, and for sizes whose unit nobody
    knows. Exceptions of the feed while it is read come out of the reader.
    """
    arrow = imported("pyarrow", "parquet")
    table = Table(COLUMNS, feed.info.size_unit)
    none: dict[str, Any] = dict(table.shown(np.zeros(0, COLUMNS), prices))
    at = list(none).index("instrument_id")
    symbol = ("symbol", SymbolNames(np.zeros(0, np.uint32), SymbolTable(1)))
    named_columns = dict([*list(none.items())[:at], symbol, *list(none.items())[at:]])
    schema = arrow_table({name: named_columns[name] for name in named_columns if only is None or name in only}).schema
    units, kinds, columns = table.units, arrow.types, []
    for place, one in enumerate(schema):
        if exact and kinds.is_floating(one.type):
            scale = units[one.name].scale or Decimal(1)
            one = one.with_type(arrow.decimal128(DECIMAL_DIGITS, -unit_power(one.name, scale)))
        elif kinds.is_timestamp(one.type):
            one = one.with_type(arrow.timestamp("ns", zone))
        is_text, is_float = kinds.is_string(one.type), kinds.is_floating(one.type)
        as_view = is_text and views and hasattr(arrow, "string_view")
        width = 16 if as_view else 0 if is_text or is_float else one.type.bit_width // 8
        columns.append(ShownColumn(one.name, width, (is_float and units[one.name].scale) or Decimal(1)))
        schema = schema.set(place, one.with_type(arrow.string_view()) if as_view else one)
    undefined = arrow.py_buffer(bytes(16 * BATCH_ROWS))

    def array(kind: Any, rows: int, shown: Showing, texts: Any) -> Any:
        values = arrow.py_buffer(shown.values)
        if len(shown.ends):
            return arrow.Array.from_buffers(kind, rows, [None, arrow.py_buffer(shown.ends), values])
        if not len(shown.valid):
            return arrow.Array.from_buffers(kind, rows, [None, values, texts])
        if shown.undefined == rows:
            return arrow.Array.from_buffers(kind, rows, [undefined, undefined], rows)
        valid = arrow.py_buffer(shown.valid) if shown.undefined else None
        return arrow.Array.from_buffers(kind, rows, [valid, values], shown.undefined)

    def read() -> Iterator[Any]:
        for part, made, names in shown_ticks(feed, numbered(feed.batches()) if batches is None else batches, columns):
            texts = arrow.py_buffer(names.texts)
            arrays = [
                array(kind, len(part), *each) for kind, *each in zip(schema.types, made, repeat(texts), strict=False)
            ]
            yield arrow.RecordBatch.from_arrays(arrays, schema=schema)

    return arrow.RecordBatchReader.from_batches(schema, read())
