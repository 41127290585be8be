"""Content of an ITCH 5.0 file beside its ticks: names and attributes of stocks, and events of the whole market."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple, overload

from strand.binding.itch import LOCATES, ItchDecoder
from strand.feeds.stock_attributes import StockAttributes

__all__ = ["ItchNames", "ItchSymbols", "MarketEvent", "market_event"]


class MarketEvent(NamedTuple):
    """A message about the market as a whole.

    ``type``: ``"S"`` system event, ``"V"`` the day's circuit breaker levels, ``"W"`` a level was breached.
    ``ts_ns``: ns since the UNIX epoch. ``code``: the event's or level's letter, ``""`` for V. ``levels``: the three
    index levels of V in units of 1e-8, none otherwise.
    """

    type: str
    ts_ns: int
    code: str = ""
    levels: tuple[int, ...] = ()


def market_event(message: bytes, midnight_ns: int) -> MarketEvent:
    """A message of type S, V or W, length field apart."""
    ts_ns = midnight_ns + int.from_bytes(message[5:11], "big")
    if message[:1] == b"V":
        return MarketEvent("V", ts_ns, levels=struct.unpack_from(">3Q", message, 11))
    return MarketEvent(chr(message[0]), ts_ns, code=chr(message[11]))


class ItchSymbols(Sequence[str]):
    """Names by stock locate, growing as the directory is read."""

    def __init__(self, decoder: ItchDecoder) -> None:
        self._decoder = decoder
        self._named = -1
        self._names: list[str] = []

    def follow(self, decoder: ItchDecoder) -> None:
        self._decoder = decoder

    def _current(self) -> list[str]:
        if self._named != self._decoder.named_locates:
            self._named = self._decoder.named_locates
            self._names = self._decoder.symbols()
        return self._names

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._current()[index]

    def __len__(self) -> int:
        return len(self._current())

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._current()))

    def market_events(self, midnight_ns: int) -> tuple[MarketEvent, ...]:
        return tuple(market_event(message, midnight_ns) for message in self._decoder.market_events())

    def attributes(self) -> Mapping[str, StockAttributes]:
        """Attributes by name; no two stocks share a name: the directory gives each locate its own."""
        kept = self._decoder.attributes
        if kept is None:
            return {}
        names = [field.name for field in fields(StockAttributes)][1:]
        found = {}
        for locate, name in enumerate(self._current()):
            if name:
                values = (kept[field][locate] for field in names)
                plain = (v.decode("latin-1").rstrip(" ") if isinstance(v, bytes) else int(v) for v in values)
                found[name] = StockAttributes(locate, *plain)  # type: ignore[arg-type]
        return found


class ItchNames:
    """Symbols of a feed of ITCH: the common part of all such feeds."""

    #: An index is a stock locate: in all files of a venue and date the same stock.
    locates: Final = True
    _symbols: ItchSymbols
    _options: dict[str, Any]

    @property
    def symbols(self) -> Sequence[str]:
        """Names by stock locate, as far as directory messages have come: grows while batches are read."""
        return self._symbols

    @property
    def max_symbols(self) -> int:
        """65,536: a stock locate has 16 bits."""
        return LOCATES

    @property
    def directory(self) -> Mapping[str, StockAttributes]:
        """Attributes of each stock from directory messages, by name: grows while batches are read. A later message
        replaces an earlier one."""
        return self._symbols.attributes()

    @property
    def market_events(self) -> tuple[MarketEvent, ...]:
        """System events and market-wide circuit breakers so far, in order; of more than 64 the first 64."""
        return self._symbols.market_events(self._options["midnight_ns"])
