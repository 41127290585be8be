"""The examples of venues, each beside a server on this machine that speaks as the venue's documents say, and loses
messages and connections."""

from __future__ import annotations

import importlib
import json
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from websocket_server import serving, stay

import strand

pytestmark = pytest.mark.python

EXAMPLES = Path(__file__).parents[4] / "examples" / "venues"
SYMBOLS = ["AAA/USD", "BBB/USD"]
UNIT = 10**8


class Venue:
    """The true books of a venue: by symbol and side, sizes by price, both in units of 1e-8. Each change sets a level.

    ``may_lose``: whether a message may be lost on the way. ``double``: it is sent two subscriptions.
    """

    changes_per_connection: ClassVar = 150

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.lock = threading.Lock()
        self.books: dict[str, dict[str, dict[int, int]]] = {name: {"b": {}, "a": {}} for name in SYMBOLS}
        self.connections = 0
        for name in SYMBOLS * 30:
            self._change(name)

    def _change(self, name: str) -> tuple[str, int, int]:
        draw, side = self.draw, self.draw.choice("ba")
        book = self.books[name][side]
        price = 100 * UNIT + (draw.randrange(1, 40) * (-1 if side == "b" else 1)) * UNIT // 100
        size = draw.choice((0, draw.randrange(1, 10**10)))
        if size:
            book[price] = size
        else:
            book.pop(price, None)
        return side, price, size

    def levels(self, name: str, side: str) -> list[tuple[int, int]]:
        """From the best one on."""
        return sorted(self.books[name][side].items(), reverse=side == "b")

    def handle(self, connection: Any, before: int) -> None:
        """One connection: the last of several loses nothing, and then falls silent."""
        connection.recv()
        if self.double:
            connection.recv()
        loses = before < 3
        self.connections = max(self.connections, before + 1)
        with self.lock:
            first = list(self.begin())
        for message in first:
            connection.send(json.dumps(message))
        for _ in range(self.changes_per_connection):
            with self.lock:
                message = self.change(self.draw.choice(SYMBOLS))
            if not (loses and self.may_lose and self.draw.random() < 0.05):
                connection.send(json.dumps(message))
        if loses:
            connection.socket.close()
        else:
            stay(connection)

    double = False
    may_lose = True

    def begin(self) -> Iterator[Any]:
        yield from ()

    def change(self, name: str) -> Any:
        raise NotImplementedError


def text(number: int) -> str:
    return f"{number // UNIT}.{number % UNIT:08d}"


class Binance(Venue):
    """Numbers all changes, tells up to three in a message, and gives a book on request, which may be old."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.number = dict.fromkeys(SYMBOLS, 1_000)
        self.answers: dict[str, Any] = {}
        self.requests = 0

    def change(self, name: str) -> Any:
        first = self.number[name] + 1
        found: dict[str, Any] = {"b": [], "a": []}
        for _ in range(self.draw.randrange(1, 4)):
            side, price, size = self._change(name)
            found[side].append([text(price), text(size)])
            self.number[name] += 1
        return {"e": "depthUpdate", "E": 1_700_000_000_000, "s": name, "U": first, "u": self.number[name], **found}

    def book_of(self, name: str) -> Any:
        with self.lock:
            self.requests += 1
            new = {
                "lastUpdateId": self.number[name],
                "bids": [[text(price), text(size)] for price, size in self.levels(name, "b")],
                "asks": [[text(price), text(size)] for price, size in self.levels(name, "a")],
            }
            old = self.answers.setdefault(name, new)
            self.answers[name] = new
            if self.requests % 3 == 0:
                raise OSError("the server is busy")
            return {"book": name, **(old if self.requests % 3 == 1 else new)}


class Bybit(Venue):
    """Numbers messages by symbol; a connection starts with the books."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.number = dict.fromkeys(SYMBOLS, 77)

    def _message(self, name: str, kind: str, b: Any, a: Any) -> Any:
        data = {"s": name, "b": b, "a": a, "u": self.number[name], "seq": 9}
        return {
            "topic": f"orderbook.50.{name}",
            "type": kind,
            "ts": 1_700_000_000_001,
            "data": data,
            "cts": 1_700_000_000_000,
        }

    def begin(self) -> Iterator[Any]:
        yield {"success": True, "op": "subscribe"}
        for name in SYMBOLS:
            sides = [[[text(price), text(size)] for price, size in self.levels(name, side)] for side in "ba"]
            yield self._message(name, "snapshot", *sides)

    def change(self, name: str) -> Any:
        side, price, size = self._change(name)
        self.number[name] += 1
        level = [[text(price), text(size)]]
        return self._message(name, "delta", level if side == "b" else [], level if side == "a" else [])


class Kraken(Venue):
    """Tells the best ten levels alone, and not that a level fell behind them."""

    may_lose = False  # messages have no numbers
    double = True

    def begin(self) -> Iterator[Any]:
        yield {"method": "subscribe", "success": True}
        for name in SYMBOLS:
            yield {
                "channel": "book",
                "type": "snapshot",
                "data": [{"symbol": name, **self._sides(self._best(name)), "checksum": 1}],
            }

    def _best(self, name: str) -> dict[str, dict[int, int]]:
        return {side: dict(self.levels(name, side)[:10]) for side in "ba"}

    def _sides(self, found: dict[str, dict[int, int]]) -> dict[str, Any]:
        return {
            side: [{"price": price / UNIT, "qty": size / UNIT} for price, size in found[side[0]].items()]
            for side in ("bids", "asks")
        }

    def change(self, name: str) -> Any:
        before = self._best(name)
        side, price, size = self._change(name)
        after = self._best(name)
        new = {each: {p: s for p, s in after[each].items() if before[each].get(p) != s} for each in "ba"}
        if not size and price in before[side]:
            new[side][price] = 0
        data = {"symbol": name, **self._sides(new), "checksum": 1, "timestamp": "2026-01-05T10:00:00.000001Z"}
        return {"channel": "book", "type": "update", "data": [data]}


class Coinbase(Venue):
    """Starts a connection with the books, and then tells the new sizes of levels."""

    may_lose = False  # changes of levels have no numbers

    def begin(self) -> Iterator[Any]:
        for name in SYMBOLS:
            sides = {
                side: [[text(price), text(size)] for price, size in self.levels(name, side[0])]
                for side in ("bids", "asks")
            }
            yield {"type": "snapshot", "product_id": name, **sides}

    def change(self, name: str) -> Any:
        side, price, size = self._change(name)
        change = ["buy" if side == "b" else "sell", text(price), text(size)]
        return {"type": "l2update", "product_id": name, "time": "2026-01-05T10:00:00.000001Z", "changes": [change]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [Binance, Bybit, Kraken, Coinbase])
def test_books_are_those_of_the_venue_after_losses_and_broken_connections(
    kind: type[Venue], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module(kind.__name__.lower())
    monkeypatch.delitem(sys.modules, example.__name__)
    venue, path = kind(seed), tmp_path / "day.ws"
    options: dict[str, Any] = {"snapshot": venue.book_of} if isinstance(venue, Binance) else {}
    with serving(venue.handle) as url:
        feed = example.feed(
            SYMBOLS, url, record=path, idle_timeout_s=2.5, reconnect_min_s=0.001, reconnect_max_s=0.01, **options
        )
        live = strand.replay(feed, "depth")
    assert venue.connections >= 4
    replayed = strand.replay(path, "depth", workers=0)
    bound = 10 if kind is Kraken else None
    for name in SYMBOLS:
        for result in (live, replayed):
            book = result.books[name]
            for side, found in (("b", book.bids()), ("a", book.asks())):
                truth = [(price * 10, size) for price, size in venue.levels(name, side)[:bound]]
                assert [(int(p), int(s)) for p, s in found[["price", "size"]].tolist()] == truth
    assert (feed.statistics()["gap"] > 0) == kind.may_lose
    assert live.fingerprint == replayed.fingerprint
