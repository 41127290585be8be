"""Made-up trading days: the market, the real day that it is made to match, how close it comes, and its files.

Source of the figures: published per-symbol statistics of one NASDAQ ITCH 5.0 day of 2015 (8,172 symbols, 206.6 million
changes of the inside quote). ``strand/data/symbol_counts.txt`` has the messages of each rank; the figures below are
that day's aggregate bursts and the most messages one symbol had within a millisecond. No name, price or order stems
from a real company. docs/feeds/generator.md compares a generated day with them.
"""

# Not with annotations as text: the declarations of options stand in types.

import datetime as dt
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, SupportsIndex, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from strand.binding import lab as _market
from strand.binding.itch import FLAGS
from strand.binding.lab import MAX_LEVELS, MBO, Events, LobsterWriter, Market, MboWriter, PitchWriter
from strand.errors import ConfigurationError
from strand.feeds.base import BaseFeed, Feed, FeedInfo, TickBatch
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.times import NEW_YORK, as_date, midnight_ns
from strand.feeds.write.destinations import check_outputs
from strand.feeds.write.npy import npy_header
from strand.fixed import dataclass
from strand.options import Number, Text, Whole, named_options
from strand.ticks import TICK, aligned_ticks, empty
from strand.validate import is_number, whole

__all__ = [
    "CALIBRATED_SYMBOLS", "GAP_QUANTILES", "MAX_EXPONENT", "MBO", "P999_MILLISECOND", "PEAK_MILLISECOND",
    "PEAK_SECOND", "TOP_SHARES", "Measure", "Skew", "SkewKind", "SyntheticFeed", "SyntheticOptions", "WrittenFile",
    "check_calibration",
    "route_stream", "route_weights", "run_lengths", "stream", "symbol_counts", "symbol_name", "symbol_weights",
    "write_lobster", "write_mbo", "write_pitch", "write_ticks",
]  # fmt: skip

#: Spread of messages over symbols: as on the calibrated day, or by rank to the power of minus this.
Skew = Literal["calibrated"] | float

CALIBRATED_SYMBOLS: Final = 8172
MAX_EXPONENT: Final = 8.0

#: Messages in the busiest second, and in the mean second of the 6.5 hours.
_MAX_A_SECOND, _MEAN_A_SECOND = 168_533, 8_830
_MAX_A_MILLISECOND, _P999_A_MILLISECOND = 814, 253
_MESSAGES, _SESSION_NS = 206_622_013, 23_400 * 10**9
#: The busiest second over the mean second, the busiest millisecond over the mean millisecond.
PEAK_SECOND: Final = _MAX_A_SECOND / _MEAN_A_SECOND
PEAK_MILLISECOND: Final = 1000 * _MAX_A_MILLISECOND / _MEAN_A_SECOND
#: The number of messages that one millisecond in a thousand exceeds, over the mean.
P999_MILLISECOND: Final = 1000 * _P999_A_MILLISECOND / _MEAN_A_SECOND

# Times between one message and the next. The source has higher quantiles too (6.4 s at 90 %), which no day of so many
# messages can have over all symbols: they are left out.
_GAP_NS: Final = {0.05: 676, 0.10: 1_061, 0.25: 3_801, 0.50: 18_788, 0.75: 72_398}
#: Quantiles of the time between one message and the next, over its mean.
GAP_QUANTILES: Final = {part: ns * _MESSAGES / _SESSION_NS for part, ns in _GAP_NS.items()}

#: Share of all messages that the busiest n symbols have.
TOP_SHARES: Final = {1: 0.0126, 10: 0.0777, 100: 0.263, 500: 0.5606}

# By rank, the most messages that the symbol had within one millisecond. The last point is not measured: it makes the
# runs of rare symbols shrink to a few messages.
_RUN_RANKS: Final = (1, 10, 100, 1000, CALIBRATED_SYMBOLS)
_RUN_LENGTHS: Final = (300, 245, 168, 48, 4)


@functools.cache
def symbol_counts() -> npt.NDArray[np.uint64]:
    """Messages by rank on the calibrated day: shape (8172,), dtype uint64, read-only, falling."""
    text = resources.files("strand").joinpath("data", "symbol_counts.txt").read_text("ascii")
    counts = np.array([int(line) for line in text.splitlines() if not line.startswith("#")], np.uint64)
    counts.flags.writeable = False
    return counts


def check_skew(skew: Skew, field: str = "skew") -> Skew:
    """``skew`` as it is, an int as a float. Raises ConfigurationError."""
    if skew == "calibrated":
        return "calibrated"
    if not is_number(skew) or not 0 <= skew <= MAX_EXPONENT:
        raise ConfigurationError(field, f"{skew!r} is neither 'calibrated' nor an exponent from 0 to {MAX_EXPONENT:g}")
    return float(skew)


def symbol_weights(symbols: int, skew: Skew) -> npt.NDArray[np.uint64]:
    """Weights of so many symbols by rank, in integers that are the same on every machine: shape (symbols,), uint64.

    Calibrated: up to 8,172 symbols are the busiest of the day; more stretch its curve along the logarithm of the rank.
    """
    skew = check_skew(skew)
    if skew == "calibrated":
        return _market.weights_from_counts(symbol_counts(), symbols)
    return _market.zipf_weights(symbols, round(skew * 2**32))


def route_weights(symbols: int, skew: Skew) -> npt.NDArray[np.float64]:
    """Weights by rank for the routing benchmark's stream: shape (symbols,), float64.

    Calibrated: the day's counts, and 1 for each symbol beyond them.
    """
    skew = check_skew(skew)
    if skew == "calibrated":
        weights = np.ones(symbols, np.float64)
        counts = symbol_counts()[:symbols]
        weights[: len(counts)] = counts
        return weights
    # math.pow is the C library's pow, which is what programs compared with us call; numpy's rounds differently.
    return np.fromiter((1 / math.pow(rank, skew) for rank in range(1, symbols + 1)), np.float64, symbols)


def run_lengths(symbols: int) -> npt.NDArray[np.uint32]:
    """Longest run of messages of the symbol of each rank in a crowded millisecond: shape (symbols,), uint32."""
    return _market.interpolate_ranks(_RUN_RANKS, _RUN_LENGTHS, symbols)


_OPEN_NS: Final = 34_200 * 10**9
_SESSION_S: Final = 23_400
# Gaps are counted in buckets of a hundred and twenty-eighth of an octave: quantiles are within 0.6 %.
_BUCKETS_AN_OCTAVE: Final = 128
_OCTAVES: Final = 48


@dataclass(frozen=True, slots=True)
class Measure:
    """Figure of a day. ``low`` and ``high`` bound ``found / target`` for a generated day of 8,172 symbols and ten
    million messages or more, at burst 1 and calibrated skew."""

    name: str
    target: float
    found: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """``found / target``."""
        return self.found / self.target

    @property
    def close(self) -> bool:
        """True if the ratio is within its bounds."""
        return self.low <= self.ratio <= self.high


class _Counts:
    """Ticks by symbol, by millisecond of the session, and by the gap since the one before."""

    def __init__(self, max_symbols: int, open_ns: int) -> None:
        self.symbols = np.zeros(max_symbols, np.int64)
        self.milliseconds = np.zeros(_SESSION_S * 1000, np.int32)
        self.gaps = np.zeros(_OCTAVES * _BUCKETS_AN_OCTAVE, np.int64)
        self._open_ns = open_ns
        self._last: int | None = None

    def add(self, ticks: TickBatch) -> None:
        keys = np.bincount(ticks["instrument_id"])
        if len(keys) > len(self.symbols):
            self.symbols = np.pad(self.symbols, (0, len(keys) - len(self.symbols)))
        self.symbols[: len(keys)] += keys
        since = ticks["ts_event"].astype(np.int64) - self._open_ns
        since = since[(since >= 0) & (since < _SESSION_S * 10**9)]
        if not len(since):
            return
        at, count = np.unique(since // 10**6, return_counts=True)
        self.milliseconds[at] += count.astype(np.int32)
        gaps = np.diff(since, prepend=since[0] if self._last is None else self._last)
        if self._last is None:
            gaps = gaps[1:]
        self._last = int(since[-1])
        buckets = (np.log2(np.maximum(gaps, 1)) * _BUCKETS_AN_OCTAVE).astype(np.int64)
        self.gaps += np.bincount(buckets, minlength=len(self.gaps))

    def gap_quantile(self, part: float) -> float:
        """Quantile of the gaps in ns: the middle of the bucket that has it."""
        summed = np.cumsum(self.gaps)
        bucket = int(np.searchsorted(summed, part * summed[-1]))
        return float(2 ** ((bucket + 0.5) / _BUCKETS_AN_OCTAVE))


def check_calibration(feed: Feed) -> list[Measure]:
    """Reads a feed to its end and measures it against the calibrated day.

    Raises ConfigurationError when the feed has no date or fewer than two ticks in the session, and what reading raises.
    """
    if feed.info.date is None:
        raise ConfigurationError(f"{feed.info.path}: without the trading day the session is unknown; give its date")
    counts = _Counts(feed.max_symbols, midnight_ns(as_date(feed.info.date)) + _OPEN_NS)
    for batch in feed.batches():
        counts.add(batch)
    if counts.gaps.sum() < 1:
        raise ConfigurationError(f"{feed.info.path}: fewer than two ticks between 9:30 and 16:00: nothing to measure")
    return [*_shares(counts.symbols), *_peaks(counts.milliseconds), *_gaps(counts)]


def _shares(symbols: npt.NDArray[np.int64]) -> list[Measure]:
    falling = np.sort(symbols)[::-1]
    return [
        Measure(f"share of the top {top}", share, float(falling[:top].sum() / falling.sum()), 0.97, 1.03)
        for top, share in TOP_SHARES.items()
    ]


def _peaks(milliseconds: npt.NDArray[np.int32]) -> list[Measure]:
    seconds = milliseconds.reshape(-1, 1000).sum(1)
    mean = float(milliseconds.mean())
    return [
        Measure("peak second / mean", PEAK_SECOND, float(seconds.max() / seconds.mean()), 0.98, 1.02),
        Measure("peak millisecond / mean", PEAK_MILLISECOND, float(milliseconds.max() / mean), 0.95, 1.05),
        Measure(
            "99.9 % of milliseconds / mean",
            P999_MILLISECOND,
            float(np.quantile(milliseconds, 0.999) / mean),
            0.9,
            1.1,
        ),
    ]


def _gaps(counts: _Counts) -> list[Measure]:
    mean_ns = _SESSION_S * 1e9 / int(counts.milliseconds.sum())
    return [
        Measure(f"gap p{round(100 * part)} / mean", target, counts.gap_quantile(part) / mean_ns, 0.5, 1.1)
        for part, target in GAP_QUANTILES.items()
    ]


MAX_MESSAGES: Final = 2**40 - 1
MAX_BURST: Final = 2.0
_LETTERS: Final = 5
_SYMBOLS_A_HALT: Final = 400
_HALTS_FROM_MESSAGES: Final = 10_000
_PAGE: Final = 4096


def symbol_name(index: int) -> str:
    """The name of the symbol with this index from 0: AAAAA, AAAAB, ... as an ITCH file's directory has it."""
    letters = []
    for _ in range(_LETTERS):
        index, letter = divmod(index, 26)
        letters.append(chr(ord("A") + letter))
    return "".join(reversed(letters))


class _Names(Sequence[str]):
    """Names by stock locate, made when asked for: a million of them cost nothing."""

    def __init__(self, symbols: int) -> None:
        self._locates = range(symbols + 1)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self._name(locate) for locate in self._locates[index]]
        return self._name(self._locates[index])

    def __len__(self) -> int:
        return len(self._locates)

    @staticmethod
    def _name(locate: int) -> str:
        return symbol_name(locate - 1) if locate else ""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Result of ``write_itch``: all messages, the ticks they decode to, and bytes before compression."""

    path: str
    messages: int
    ticks: int
    bytes: int


_USUAL_MESSAGES: Final = 1_000_000


class SkewKind(Text):
    """The word calibrated, or a Zipf exponent; text of it will do."""

    def read(self, field: str, value: Any) -> Skew:
        return check_skew(value, field)

    def parse(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text


class _Chances(TypedDict, total=False):
    """Options of a day beside its size."""

    seed: Annotated[
        int,
        1,
        Whole(0, 2**64 - 1),
        "The seed: with all else equal, the same seed gives the same file.\nIt does so on every machine, and for every "
        "``batch_ticks``.",
    ]
    date: Annotated[
        dt.date | str,
        "2026-01-05",
        Text("YYYY-MM-DD"),
        'The trading day, ``datetime.date`` or ``"YYYY-MM-DD"``.\nTimes are 9:30 to 16:00 in New York.',
    ]
    skew: Annotated[
        Skew,
        "calibrated",
        SkewKind(),
        f"How ticks spread over symbols: ``calibrated``, or the exponent of a Zipf law from 0 to {MAX_EXPONENT:g}.",
    ]
    burst: Annotated[
        float,
        1.0,
        Number(0, MAX_BURST),
        "How busy the peaks are: 0 is an even day, 1 has the peaks of a real day.\nWith 1 the busiest second has 19 "
        "times the mean, and the busiest millisecond 92 times. For other values, the peaks are these ratios to the "
        "power of ``burst``.",
    ]
    halts: Annotated[
        int | None,
        None,
        Whole(0),
        "How many symbols are halted once. None: one for each 400 symbols begun.\nAt most all of them, and a hundredth "
        "of ``messages``. A day of less than 10,000 messages has none by itself.",
    ]
    batch_ticks: Annotated[int, 16_384, Whole(1, 2**31 - 1), "Ticks in a full batch."]


class SyntheticOptions(_Chances, total=False):
    """Options of ``SyntheticFeed``."""

    symbols: Annotated[
        int, CALIBRATED_SYMBOLS, Whole(1, _market.MAX_SYMBOLS), "The number of symbols.\nA file can hold 65,535."
    ]
    messages: Annotated[
        int,
        _USUAL_MESSAGES,
        Whole(1, MAX_MESSAGES),
        "The number of messages: orders, trades, crosses, imbalances and halts.\nOne trading state per symbol precedes "
        "them as a tick of kind STATUS. A file also has the directory and system events, which are no ticks.",
    ]


@named_options("SyntheticFeed()", declares=SyntheticOptions)
class SyntheticFeed(BaseFeed):
    """Generates a day as batches of ticks, or as an ITCH 5.0 file that decodes to the same ticks.

    Ticks are as the ITCH reader makes them: ``instrument_id`` is the stock locate, the symbol's index plus 1.

    Raises:
        ConfigurationError: If an argument cannot work; it names the argument.
    """

    def __init__(
        self, symbols: int = CALIBRATED_SYMBOLS, messages: int = _USUAL_MESSAGES, **options: Unpack[_Chances]
    ) -> None:
        super().__init__()
        self._symbol_count, self._messages = symbols, messages
        self._seed, self._skew, self._burst = options["seed"], options["skew"], options["burst"]
        self._batch_ticks = options["batch_ticks"]
        self._halts = self._halts_of(options["halts"])
        day = as_date(options["date"])
        self._midnight_ns = midnight_ns(day)
        self._iteration = 0
        self._ticks_made = self._messages_made = 0
        self._info = FeedInfo(
            format="synthetic",
            path=f"synthetic:{self._symbol_count}x{self._messages}",
            date=day.isoformat(),
            ticks="orders",
            flags=FLAGS,
            zone=NEW_YORK,
            details={
                "symbols": self._symbol_count,
                "messages": self._messages,
                "seed": self._seed,
                "skew": self._skew,
                "burst": self._burst,
                "halts": self._halts,
            },
        )

    def _halts_of(self, halts: int | None) -> int:
        maximum = min(self._symbol_count, self._messages // _market.MESSAGES_A_HALT)
        if halts is None:
            return -(-self._symbol_count // _SYMBOLS_A_HALT) if self._messages >= _HALTS_FROM_MESSAGES else 0
        try:
            return whole("halts", halts, 0, maximum)
        except ConfigurationError as error:
            cure = f"at most one per symbol, and at most one in {_market.MESSAGES_A_HALT} messages"
            raise ConfigurationError(error.field, f"{error.reason}: {cure}") from None

    @property
    def info(self) -> FeedInfo:
        """``details`` has the arguments that make the stream."""
        return self._info

    @property
    def symbols(self) -> Sequence[str]:
        """Names by stock locate; locate 0 is none."""
        return _Names(self._symbol_count)

    @property
    def max_symbols(self) -> int:
        """Highest stock locate, plus one."""
        return self._symbol_count + 1

    @property
    def messages(self) -> int:
        """Events of the day: what ``messages`` was given."""
        return self._messages

    @property
    def midnight_ns(self) -> int:
        """The trading day's midnight in New York, ns since the UNIX epoch."""
        return self._midnight_ns

    def locate_of(self, symbol: str | None) -> int:
        """The stock locate of a symbol.

        Args:
            symbol: The symbol's name; None: the one with the most messages to come.

        Raises:
            ConfigurationError: If the day does not have the name.
        """
        if symbol is None:
            return int(self.market().busiest()) + 1
        index = 0
        for letter in symbol:
            index = 26 * index + ord(letter) - ord("A")
        if not 0 <= index < self._symbol_count or symbol_name(index) != symbol:
            raise ConfigurationError(
                "symbol", f"the day has no {symbol!r}: its symbols are AAAAA to {symbol_name(self._symbol_count - 1)}"
            )
        return index + 1

    def market(self) -> Market:
        """A generator of this day's events, at its start."""
        return Market(
            messages=self._messages,
            seed=self._seed,
            midnight_ns=self._midnight_ns,
            weights=symbol_weights(self._symbol_count, self._skew),
            run_lengths=run_lengths(self._symbol_count),
            peak_second_q16=round(PEAK_SECOND * 65536),
            peak_millisecond_q16=round(PEAK_MILLISECOND * 65536),
            burst_q16=round(self._burst * 65536),
            halts=self._halts,
        )

    def batches(self) -> Iterator[TickBatch]:
        """The day from its start in batches of ``batch_ticks``, the last one shorter; each valid until the next.

        An iteration under way when the feed is closed, or when another one starts, ends there.
        """
        self._iteration += 1
        iteration = self._iteration
        self._ticks_made = self._messages_made = 0
        return self._batches(iteration)

    def _batches(self, iteration: int) -> Iterator[TickBatch]:
        market = self.market()
        ticks = empty(min(self._batch_ticks, self._symbol_count + self._messages))
        announced = 0
        while self._iteration == iteration:
            states = min(self._symbol_count - announced, len(ticks))
            _market.fill_opening_ticks(self._symbol_count, announced, self._midnight_ns, ticks[:states])
            announced += states
            filled = states + market.next_batch(ticks[states:])
            if not filled:
                return
            self._ticks_made += filled
            self._messages_made = int(ticks["sequence"][filled - 1])
            yield ticks[:filled]

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration: ``ticks`` made, ``messages`` that a file of them would hold until then, and
        ``skipped``, always 0."""
        return {"messages": self._messages_made, "ticks": self._ticks_made, "skipped": 0}

    def close(self) -> None:
        """Ends iterations under way. The feed can be read anew."""
        self._iteration += 1

    def write_itch(
        self, path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None
    ) -> WrittenFile:
        """Writes the day as an ITCH 5.0 file, compressed when the name ends in ``.gz`` or ``.zst``.

        The file appears under its name when it is whole, and not before.

        Args:
            path: The file.
            progress: Called with the messages written and those in all; an error that it raises stops the writing and
                leaves no file.

        Raises:
            ConfigurationError: If there are more symbols than a file can hold.
            FeedError: If the file cannot be written.
        """
        if self._symbol_count > _market.MAX_ITCH_SYMBOLS:
            raise ConfigurationError(
                "symbols",
                f"an ITCH 5.0 file numbers its stocks in 16 bits and holds {_market.MAX_ITCH_SYMBOLS:,} at "
                f"most, not {self._symbol_count:,}; take fewer symbols, or the ticks as arrays",
            )
        opening = _market.opening_bytes(self._symbol_count)
        writer = _market.ItchWriter(self._midnight_ns)
        before = _market.OPENING_MESSAGES + 3 * self._symbol_count
        total = before + self._messages + _market.HOURS_MESSAGES + _market.CLOSING_MESSAGES
        written = len(opening)
        done = before
        with atomic_write(path) as file:
            file.write(opening)
            for messages, data in self._encoded(writer):
                file.write(data)
                written += len(data)
                done += messages
                if progress is not None:
                    progress(done, total)
            written += file.write(writer.closing())
        if progress is not None:
            progress(total, total)
        return WrittenFile(os.fspath(path), total, self._symbol_count + self._messages, written)

    def _encoded(self, writer: _market.ItchWriter) -> Iterator[tuple[int, memoryview]]:
        market = self.market()
        size = 16_384
        ticks = empty(size)
        types = np.empty(size, np.uint8)
        out = np.empty(writer.bytes_for(size), np.uint8)
        while made := market.next_batch(ticks, types):
            used = writer.events(ticks[:made], types, out)
            yield made, out.data[:used]


def stream(
    ticks: int,
    symbols: int = CALIBRATED_SYMBOLS,
    skew: Skew = "calibrated",
    seed: int = 1,
    *,
    burst: float = 1.0,
    halts: int | None = None,
) -> TickBatch:
    """The events of a generated day as one array: shape (ticks,), dtype ``strand.TICK``.

    They are the ticks of ``SyntheticFeed(symbols, ticks, ...)`` without the trading states at its start;
    ``instrument_id`` is from 1 to ``symbols``. Raises ConfigurationError.
    """
    feed = SyntheticFeed(symbols, ticks, seed=seed, skew=skew, burst=burst, halts=halts)
    out = aligned_ticks(ticks, _PAGE)
    if feed.market().next_batch(out) != ticks:
        raise AssertionError("the market made fewer events than it was asked for")
    return out


def route_stream(ticks: int, symbols: int = CALIBRATED_SYMBOLS, skew: Skew = "calibrated") -> TickBatch:
    """The routing benchmark's stream (csrc/lab/generate/route_stream.h): shape (ticks,), dtype ``strand.TICK``.

    ``instrument_id`` is from 0 to ``symbols`` - 1, drawn by calibrated counts or a Zipf exponent; ``sequence`` counts
    a symbol's ticks from 1; ``ts_event`` and ``price`` are the position; ``size`` is 1; all else is 0.
    Raises ConfigurationError.
    """
    whole("ticks", ticks, 1, MAX_MESSAGES)
    whole("symbols", symbols, 1, _market.MAX_SYMBOLS)
    out = aligned_ticks(ticks, _PAGE)
    _market.fill_route_stream(out, route_weights(symbols, skew))
    return out


_ROOM: Final = 16_384

Progress = Callable[[int, int], None]


def _states(feed: SyntheticFeed) -> Iterator[Any]:
    """The trading states at the day's start, in batches that are valid until the next."""
    ticks = empty(_ROOM)
    for first in range(0, feed.max_symbols - 1, _ROOM):
        count = min(_ROOM, feed.max_symbols - 1 - first)
        _market.fill_opening_ticks(feed.max_symbols - 1, first, feed.midnight_ns, ticks[:count])
        yield ticks[:count]


def _events(feed: SyntheticFeed, progress: Progress | None = None) -> Iterator[Events]:
    """The day's events in batches that are valid until the next."""
    market = feed.market()
    events = Events(_ROOM, empty(_ROOM))
    done = 0
    while made := market.next_batch(events.ticks, events.types, events.orders):
        events.count = made
        yield events
        done += made
        if progress is not None:
            progress(done, feed.messages)


def write_pitch(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the day as Cboe PITCH text (csrc/lab/generate/market_pitch.h): a line a message, times in milliseconds.

    Returns lines as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be
    written.
    """
    writer = PitchWriter(_ROOM, feed.midnight_ns)
    written = 0
    with atomic_write(path) as file:
        for states in _states(feed):
            written += file.write(writer.states(states))
        for events in _events(feed, progress):
            written += file.write(writer.events(events))
    return WrittenFile(os.fspath(path), writer.lines, writer.lines, written)


def write_mbo(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the day as a numpy ``.npy`` of DBN-like MBO records: shape (records,), dtype ``MBO``
    (csrc/lab/generate/market_mbo.h).

    The header of such a file says how many records follow, so the day is made twice: once to count. Returns the
    records as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be written,
    ConfigurationError for a name in ``.npz``.
    """
    _check_npy(path)
    records = feed.max_symbols - 1 + sum(MboWriter.count(events.types[: events.count]) for events in _events(feed))
    header = npy_header(MBO, records)
    writer = MboWriter(_ROOM)
    with atomic_write(path) as file:
        written = file.write(header)
        for states in _states(feed):
            written += file.write(writer.clears(states).data.cast("B"))
        for events in _events(feed, progress):
            written += file.write(writer.events(events).data.cast("B"))
    if written != len(header) + records * MBO.itemsize:
        raise AssertionError("the day had other records when it was made again")
    return WrittenFile(os.fspath(path), records, records, written)


def write_ticks(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the feed's ticks as a numpy ``.npy``: shape (symbols + messages,), dtype ``strand.TICK``.

    Returns the ticks as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be
    written, ConfigurationError for a name in ``.npz``.
    """
    _check_npy(path)
    count = feed.max_symbols - 1 + feed.messages
    with atomic_write(path) as file:
        written = file.write(npy_header(TICK, count))
        for states in _states(feed):
            written += file.write(states.data.cast("B"))
        for events in _events(feed, progress):
            written += file.write(events.ticks[: events.count].data.cast("B"))
    return WrittenFile(os.fspath(path), count, count, written)


def _check_npy(path: str | os.PathLike[str]) -> None:
    if os.fspath(path).lower().endswith(".npz"):
        raise ConfigurationError(f"{path}: one array is written, and no archive of arrays: end the name in .npy")


class LobsterOptions(TypedDict, total=False):
    """Options of ``write_lobster``."""

    symbol: Annotated[str | None, None, Text("NAME"), "The symbol to write. None: the busiest."]
    levels: Annotated[int, 10, Whole(1, MAX_LEVELS), "Levels of the book on each side."]


@named_options("write_lobster()", declares=LobsterOptions)
def write_lobster(
    feed: SyntheticFeed,
    path: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    **options: Unpack[LobsterOptions],
) -> tuple[WrittenFile, WrittenFile]:
    """Writes one symbol of the day as LOBSTER's pair of CSV files (csrc/lab/generate/market_lobster.h).

    A row for each of its orders, trades and halts.

    ``path``: an existing folder, where the files get LOBSTER's names; or the file of messages, with ``message`` in its
    name where the other one's has ``orderbook``. Returns the file of messages and the one of the book. Raises
    ConfigurationError for a symbol that the day lacks or has no messages of, and for a name without ``message``. Raises
    FeedError when a file cannot be written; it leaves no file then.
    """
    levels, locate = options["levels"], feed.locate_of(options["symbol"])
    messages, book = _pair(Path(path), feed, feed.symbols[locate], levels)
    writer = LobsterWriter(locate, levels, feed.midnight_ns)
    check_outputs([("messages", messages), ("orderbook", book)])
    written = [0, 0]
    with atomic_write(messages) as message_file, atomic_write(book) as book_file:
        for events in _events(feed, progress):
            _write_rows(writer, events, (message_file, book_file), written)
        if writer.rows == 0:
            raise ConfigurationError(
                "symbol",
                f"{feed.symbols[locate]} has no messages on this day of {feed.messages:,}, and its files "
                "would be empty: give another one, or leave it out for the busiest",
            )
    return tuple(  # type: ignore[return-value]
        WrittenFile(str(name), writer.rows, writer.rows, size)
        for name, size in zip((messages, book), written, strict=True)
    )


def _write_rows(writer: LobsterWriter, events: Events, files: tuple[BinaryIO, BinaryIO], written: list[int]) -> None:
    start = 0
    while start < events.count:
        passed, *texts = writer.events(events, start)
        start += passed
        for i, text in enumerate(texts):
            written[i] += files[i].write(text)


def _pair(path: Path, feed: SyntheticFeed, name: str, levels: int) -> tuple[Path, Path]:
    """LOBSTER's names give a day's first and last moment in ms since midnight. Here the last one is the end of the
    closing crosses."""
    if path.is_dir():
        start = f"{name}_{feed.info.date}_34200000_57610000"
        return path / f"{start}_message_{levels}.csv", path / f"{start}_orderbook_{levels}.csv"
    if path.name.count("message") != 1:
        raise ConfigurationError(
            f"{path}: name the file of messages with 'message' in it once, so that the book beside it can have "
            "'orderbook' in its place; or give a folder that exists"
        )
    return path, path.with_name(path.name.replace("message", "orderbook"))
