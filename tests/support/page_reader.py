"""A reader of pages, a feed with names of one's choice, and a result with bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import numpy.typing as npt
from engine_support import ticks_for

import strand
from strand.feeds import FeedInfo

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """Checks that tags close as they open, and keeps text, links and images."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


class Named:
    """A feed of one batch, with names and a path of one's choice."""

    def __init__(self, names: Sequence[str], path: str = "named", ticks: int = 10_000) -> None:
        self.symbols = list(names)
        self.max_symbols = len(self.symbols)
        self.info = FeedInfo("own", path)
        self._ticks = ticks

    def batches(self) -> Iterator[npt.NDArray[Any]]:
        if self._ticks:
            yield ticks_for(np.arange(self._ticks) % self.max_symbols, kind=2)

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def with_bars(n: int) -> strand.ReplayResult:
    """A result as one of a handler that emits n bars of each of two symbols."""
    result = strand.replay(Named(["A", "B"]), "count", watch=1)
    prices = [(name, "i8") for name in ("open", "high", "low", "close")]
    bars = np.zeros(2 * n, [("number", "i8"), ("ts", "u8"), ("instrument_id", "u4"), *prices, ("volume", "u8")])
    bars["instrument_id"] = np.arange(2 * n) % 2
    bars["ts"] = 1_767_623_400_000_000_000 + np.arange(2 * n) // 2 * 60_000_000_000
    middle = (100 + np.cumsum(np.where(np.arange(2 * n) % 7 < 3, 1, -1))) * 10**9
    bars["open"], bars["close"], bars["volume"] = middle, middle + 3 * 10**8, 100
    bars["low"], bars["high"] = middle - 10**9, middle + 10**9
    object.__setattr__(result, "outputs", {"signals": bars[["number", "ts"]], "bars": bars})
    return result
