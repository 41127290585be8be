"""The generated market of csrc/lab/generate: one call a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.binding import ffi, lib
from strand.binding.gate import checked
from strand.binding.memory import filled, owned
from strand.errors import ConfigurationError

__all__ = [
    "CLOSING_MESSAGES",
    "EVENT_BYTES",
    "HOURS_MESSAGES",
    "MAX_ITCH_SYMBOLS",
    "MAX_SYMBOLS",
    "OPENING_MESSAGES",
    "ORDER_BEFORE",
    "ItchWriter",
    "Market",
    "MarketTotals",
    "fill_opening_ticks",
    "fill_route_stream",
    "interpolate_ranks",
    "opening_bytes",
    "weights_from_counts",
    "zipf_weights",
]

MAX_SYMBOLS: Final[int] = lib.SD_MARKET_MAX_SYMBOLS
#: A stock locate has 16 bits, and 0 is none.
MAX_ITCH_SYMBOLS: Final[int] = lib.SD_ITCH_MAX_SYMBOLS
#: Bytes of the longest event, its length field included.
EVENT_BYTES: Final[int] = lib.SD_ITCH_EVENT_BYTES
#: Messages before the first event, besides three a symbol; among the events; and after the last one.
OPENING_MESSAGES: Final[int] = lib.SD_ITCH_OPENING_MESSAGES
HOURS_MESSAGES: Final[int] = lib.SD_ITCH_HOURS_MESSAGES
CLOSING_MESSAGES: Final[int] = lib.SD_ITCH_CLOSING_MESSAGES
#: A halted symbol's day needs at least so many messages.
MESSAGES_A_HALT: Final[int] = lib.SD_MARKET_MESSAGES_A_HALT
#: The order an event is about, as it was before: price in units of 1e-9, side empty where there is none.
ORDER_BEFORE: Final = np.dtype([("price", "<i8"), ("shares", "<u4"), ("side", "S1"), ("unused", "V3")])


def _checked(code: int) -> int:
    return checked(
        code,
        "the generator was given a size or a weight out of its range",
        ConfigurationError,
        no_memory="the generator could not get the memory it needs",
        corrupt="a generated order book does not hold what its header says",
    )


def zipf_weights(symbols: int, exponent_q32: int) -> npt.NDArray[np.uint64]:
    """rank^-exponent, the exponent in units of 2^-32: shape (symbols,), uint64."""
    out = np.empty(symbols, np.uint64)
    _checked(lib.sd_weights_zipf(symbols, exponent_q32, ffi.from_buffer("uint64_t[]", out)))
    return out


def weights_from_counts(counts: npt.NDArray[np.uint64], symbols: int) -> npt.NDArray[np.uint64]:
    """The weights of any number of symbols from the counts of some ranks: shape (symbols,), uint64."""
    out = np.empty(symbols, np.uint64)
    given = ffi.from_buffer("uint64_t[]", np.ascontiguousarray(counts, np.uint64))
    _checked(lib.sd_weights_from_counts(given, len(given), symbols, ffi.from_buffer("uint64_t[]", out)))
    return out


def interpolate_ranks(ranks: Sequence[int], values: Sequence[int], symbols: int) -> npt.NDArray[np.uint32]:
    """Straight lines on logarithmic axes through (rank, value), at ranks 1 to ``symbols``: shape (symbols,), uint32."""
    out = np.empty(symbols, np.uint32)
    x, y = ffi.new("uint32_t[]", list(ranks)), ffi.new("uint32_t[]", list(values))
    _checked(lib.sd_interpolate_ranks(x, y, len(x), symbols, ffi.from_buffer("uint32_t[]", out)))
    return out


@dataclass(frozen=True, slots=True)
class MarketTotals:
    """Events made so far, orders live now, bytes held for them, and shares traded."""

    events: int
    live_orders: int
    order_bytes: int
    volume: int


class Market:
    """A trading day being made. Not for two threads at once."""

    def __init__(self, *, weights: npt.NDArray[np.uint64], run_lengths: npt.NDArray[np.uint32], **numbers: int) -> None:
        """``weights`` and ``run_lengths`` by rank, of one length: the number of symbols. ``numbers``: the other fields
        of ``sd_market_config`` but ``first_sequence``; ratios in units of 2^-16."""
        symbols = len(weights)
        if len(run_lengths) != symbols:
            raise ValueError("weights and run_lengths differ in length")
        config = filled("sd_market_config", numbers, "first_sequence", "symbols")
        config.first_sequence, config.symbols = OPENING_MESSAGES + 3 * symbols + 1, symbols
        made: Any = ffi.new("sd_market **")
        _checked(
            lib.sd_market_create(
                config, ffi.from_buffer("uint64_t[]", weights), ffi.from_buffer("uint32_t[]", run_lengths), made
            )
        )
        self._market: Any = owned(made[0], lib.sd_market_destroy)

    def next_batch(
        self,
        ticks: npt.NDArray[Any],
        types: npt.NDArray[np.uint8] | None = None,
        orders: npt.NDArray[Any] | None = None,
    ) -> int:
        """Fills ``ticks`` (contiguous, ``strand.TICK``) and, when given, ``types`` with the letters of their ITCH
        messages and ``orders`` (``ORDER_BEFORE``) with what their orders were before. Returns how many events were
        made, 0 at the end of the day.
        """
        letters: Any = ffi.NULL
        before: Any = ffi.NULL
        if types is not None:
            if len(types) < len(ticks):
                raise ValueError("types is shorter than ticks")
            letters = ffi.from_buffer("char[]", types, require_writable=True)
        if orders is not None:
            if len(orders) < len(ticks) or orders.dtype != ORDER_BEFORE:
                raise ValueError("orders is shorter than ticks, or of another dtype")
            before = ffi.from_buffer("sd_market_order[]", orders, require_writable=True)
        out = ffi.from_buffer("sd_tick[]", ticks, require_writable=True)
        return _checked(lib.sd_market_next_batch(self._market, out, letters, before, len(ticks)))

    def busiest(self) -> int:
        """Index from 0 of the symbol that is drawn most often."""
        return int(lib.sd_market_busiest(self._market))

    def totals(self) -> MarketTotals:
        """Counts as they stand; looks at every symbol."""
        totals: Any = ffi.new("sd_market_totals *")
        lib.sd_market_read_totals(self._market, totals)
        return MarketTotals(totals.events, totals.live_orders, totals.order_bytes, totals.volume)

    def check(self) -> None:
        """Raises AssertionError when an order book is not what its header says."""
        _checked(lib.sd_market_check(self._market))


def fill_opening_ticks(symbols: int, first: int, midnight_ns: int, out: npt.NDArray[Any]) -> None:
    """The trading states of symbols ``first`` and on, one a tick of ``out``."""
    lib.sd_itch_opening_ticks(
        symbols, first, len(out), midnight_ns, ffi.from_buffer("sd_tick[]", out, require_writable=True)
    )


def opening_bytes(symbols: int) -> bytes:
    """The messages before a day's events: start, directory, trading states, market makers, circuit breaker levels."""
    size = lib.sd_itch_opening_bytes(symbols)
    out = bytearray(size)
    if lib.sd_itch_write_opening(symbols, ffi.from_buffer("uint8_t[]", out)) != size:
        raise AssertionError("the opening is not as long as announced")
    return bytes(out)


class ItchWriter:
    """Writes a day's events as ITCH 5.0, each message after its length."""

    def __init__(self, midnight_ns: int) -> None:
        self._writer: Any = ffi.new("sd_itch_writer *", {"midnight_ns": midnight_ns})

    @staticmethod
    def bytes_for(events: int) -> int:
        """Bytes that so many events take at most."""
        return int(events * lib.SD_ITCH_EVENT_BYTES + lib.SD_ITCH_HOURS_BYTES)

    def events(self, ticks: npt.NDArray[Any], types: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]) -> int:
        """Writes events with the start and the end of market hours among them; returns the bytes written."""
        if len(types) < len(ticks) or len(out) < self.bytes_for(len(ticks)):
            raise ValueError("types or out is too short for the ticks")
        return _checked(
            lib.sd_itch_write_events(
                self._writer,
                ffi.from_buffer("sd_tick[]", ticks),
                ffi.from_buffer("char[]", types),
                len(ticks),
                ffi.from_buffer("uint8_t[]", out, require_writable=True),
            )
        )

    def closing(self) -> bytes:
        """The messages after a day's events: end of system hours and of messages."""
        out = bytearray(lib.SD_ITCH_HOURS_BYTES + 14 * CLOSING_MESSAGES)
        return bytes(out[: lib.sd_itch_write_closing(self._writer, ffi.from_buffer("uint8_t[]", out))])


def fill_route_stream(ticks: npt.NDArray[Any], weights: npt.NDArray[np.float64]) -> None:
    """The routing benchmark's stream (csrc/lab/generate/route_stream.h) for ``weights`` by rank."""
    out = ffi.from_buffer("sd_tick[]", ticks, require_writable=True)
    _checked(lib.sd_route_stream(out, len(ticks), ffi.from_buffer("double[]", weights), len(weights)))
