"""The books and trades of Binance spot, live: changes of books, with the books themselves on request.

    python examples/venues/binance.py BTCUSDT ETHUSDT

The messages are those of "WebSocket Streams" and "How to manage a local order book correctly" in Binance's documents of
its spot API: each change has its first and last number (U, u), and a book, requested by HTTP, has its last number.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import strand
from strand.feeds.live.websocket import WebSocketFeed

URL = "wss://stream.binance.com:9443/ws"
BOOKS = "https://api.binance.com/api/v3/depth?limit=1000&symbol="
CHANGES: dict[str, Any] = {
    "where": {"e": "depthUpdate"}, "kind": "quote", "symbol": "^s", "gapless": {"first": "U", "last": "u"},
}  # fmt: skip
BOOK: dict[str, Any] = {"kind": "quote", "symbol": "^book", "snapshot": "rest", "gapless": {"last": "lastUpdateId"}}
LEVEL: dict[str, Any] = {"price": "0", "size": "1", "action": {"constant": "M"}}
AT: dict[str, Any] = {"ts_event": {"column": "^E", "unit": "ms"}}
PROFILE: dict[str, Any] = {
    "name": "binance",
    "size_unit": "0.00000001",
    "message": [
        {**CHANGES, "each": "b", "more": True, "fields": {**LEVEL, **AT, "side": {"constant": "B"}}},
        {**CHANGES, "each": "a", "fields": {**LEVEL, **AT, "side": {"constant": "A"}}},
        {**BOOK, "each": "bids", "more": True, "fields": {**LEVEL, "side": {"constant": "B"}}},
        {**BOOK, "each": "asks", "fields": {**LEVEL, "side": {"constant": "A"}}},
        {
            "where": {"e": "trade"},
            "kind": "trade",
            "symbol": "s",
            "gapless": True,
            "fields": {
                "ts_event": {"column": "T", "unit": "ms"},
                "price": "p",
                "size": "q",
                "sequence": "t",
                "side": {"column": "m", "map": {"true": "A", "false": "B"}},
            },
        },
    ],
}


def book_of(symbol: str) -> dict[str, Any]:
    """Requests a symbol's book."""
    with urllib.request.urlopen(BOOKS + symbol, timeout=10) as answer:
        return {"book": symbol, **json.load(answer)}


def feed(symbols: list[str], url: str = URL, **options: Any) -> WebSocketFeed:
    """The feed of these symbols."""
    streams = [f"{symbol.lower()}@{kind}" for symbol in symbols for kind in ("depth@100ms", "trade")]
    subscribe = [{"method": "SUBSCRIBE", "params": streams, "id": 1}]
    return WebSocketFeed(url, PROFILE, **{"subscribe": subscribe, "snapshot": book_of, **options})


def main(*symbols: str) -> None:
    """Prints the best prices after a minute."""
    result = strand.replay(feed([*symbols], max_seconds=60, clock_s=1, record="binance.ws.gz"), strand.depth(top=1))
    print(result.rows.to_polars().select("symbol", "bid_price", "bid_size", "ask_price", "ask_size"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["BTCUSDT", "ETHUSDT"])
