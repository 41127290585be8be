"""A made-up trading day: as many symbols and messages as asked for, shaped like a real one, the same for one seed.

Orders have consistent lives (only live orders are executed, cancelled or replaced, never for more than they have left;
executions take the best price and there the oldest order), books do not cross, messages spread over symbols and cluster
in time as the calibrated day's did (feeds/synthetic/calibration.py). No name, price or order stems from a real company.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, SupportsIndex, overload

import numpy as np

from strand.binding import lab as _market
from strand.binding.itch import FLAGS
from strand.binding.lab import Market
from strand.errors import ConfigurationError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.synthetic import calibration
from strand.feeds.synthetic.calibration import Skew
from strand.feeds.trading_day import NEW_YORK, as_date, midnight_ns
from strand.ticks import aligned_ticks, empty
from strand.validate import is_number, whole

__all__ = ["Skew", "SyntheticFeed", "WrittenFile", "route_stream", "stream", "symbol_name"]

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


class SyntheticFeed(BaseFeed):
    """Generates a day as batches of ticks, or as an ITCH 5.0 file that decodes to the same ticks.

    Ticks are as the ITCH reader makes them: ``instrument_id`` is the stock locate, the symbol's index plus 1.

    Args:
        symbols: The number of symbols, 1 to 1,000,000; a file can hold 65,535.
        messages: Orders, trades and crosses of the day, 1 to 2^40 - 1. One trading state per symbol precedes them as a
            tick of kind STATUS. A file also has the directory and system events, which are no ticks.
        seed: 0 to 2^64 - 1. With all else equal, one seed gives one stream on every machine and for every
            ``batch_ticks``.
        date: The trading day, ``datetime.date`` or ``"YYYY-MM-DD"``; times are 9:30 to 16:00 in New York.
        skew: How unevenly symbols share the messages: ``"calibrated"``, or the exponent of a Zipf law from 0 to 8.
        burst: 0 for an even day, 1 for the calibrated peaks (busiest second 19 times the mean, busiest millisecond 92
            times), at most 2. For values between, the peaks are these ratios to the power of ``burst``.
        halts: How many symbols are halted once, from 0 to all and to a hundredth of ``messages``. None: one for each
            400 symbols begun, if the day has 10,000 messages or more.
        batch_ticks: Ticks in a full batch.

    Raises:
        ConfigurationError: If an argument cannot work; it names the argument.
    """

    def __init__(
        self,
        symbols: int = calibration.CALIBRATED_SYMBOLS,
        messages: int = 1_000_000,
        *,
        seed: int = 1,
        date: dt.date | str = "2026-01-05",
        skew: Skew = "calibrated",
        burst: float = 1.0,
        halts: int | None = None,
        batch_ticks: int = 16_384,
    ) -> None:
        super().__init__()
        self._symbol_count = whole("symbols", symbols, 1, _market.MAX_SYMBOLS)
        self._messages = whole("messages", messages, 1, MAX_MESSAGES)
        self._seed = whole("seed", seed, 0, 2**64 - 1)
        self._batch_ticks = whole("batch_ticks", batch_ticks, 1, 2**31 - 1)
        self._skew = calibration.check_skew(skew)
        if not is_number(burst) or not 0 <= burst <= MAX_BURST:
            raise ConfigurationError("burst", f"{burst!r} is not a number from 0 to {MAX_BURST:g}")
        self._burst = float(burst)
        self._halts = self._halts_of(halts)
        day = as_date(date)
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
            weights=calibration.symbol_weights(self._symbol_count, self._skew),
            run_lengths=calibration.run_lengths(self._symbol_count),
            peak_second_q16=round(calibration.PEAK_SECOND * 65536),
            peak_millisecond_q16=round(calibration.PEAK_MILLISECOND * 65536),
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
    symbols: int = calibration.CALIBRATED_SYMBOLS,
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


def route_stream(ticks: int, symbols: int = calibration.CALIBRATED_SYMBOLS, skew: Skew = "calibrated") -> TickBatch:
    """The routing benchmark's stream (csrc/lab/generate/route_stream.h): shape (ticks,), dtype ``strand.TICK``.

    ``instrument_id`` is from 0 to ``symbols`` - 1, drawn by calibrated counts or a Zipf exponent; ``sequence`` counts
    a symbol's ticks from 1; ``ts_event`` and ``price`` are the position; ``size`` is 1; all else is 0.
    Raises ConfigurationError.
    """
    whole("ticks", ticks, 1, MAX_MESSAGES)
    whole("symbols", symbols, 1, _market.MAX_SYMBOLS)
    out = aligned_ticks(ticks, _PAGE)
    _market.fill_route_stream(out, calibration.route_weights(symbols, skew))
    return out
