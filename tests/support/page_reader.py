"""A reader of pages, and a feed with names of one's choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
import numpy.typing as npt
from engine_support import ticks_for

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
