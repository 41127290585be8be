"""The books and trades of Coinbase Exchange, live: whole books by price.

    python examples/venues/coinbase.py BTC-USD ETH-USD

The messages are those of the channels "level2_batch" and "matches" in Coinbase's documents of its Exchange WebSocket
feed. Each connection starts with the book. ``side`` of a match is that of the order that rested.
"""

from __future__ import annotations

import sys
from typing import Any

import strand
from strand.feeds.live.websocket import WebSocketFeed

URL = "wss://ws-feed.exchange.coinbase.com"
LEVEL: dict[str, Any] = {"price": "0", "size": "1", "action": {"constant": "M"}}
BOOK: dict[str, Any] = {"where": {"type": "snapshot"}, "kind": "quote", "symbol": "^product_id", "snapshot": True}
PROFILE: dict[str, Any] = {
    "name": "coinbase",
    "size_unit": "0.00000001",
    "message": [
        {**BOOK, "each": "bids", "more": True, "fields": {**LEVEL, "side": {"constant": "B"}}},
        {**BOOK, "each": "asks", "fields": {**LEVEL, "side": {"constant": "A"}}},
        {
            "where": {"type": "l2update"},
            "each": "changes",
            "kind": "quote",
            "symbol": "^product_id",
            "fields": {
                "ts_event": {"column": "^time", "unit": "stamp"},
                "side": {"column": "0", "map": {"buy": "B", "sell": "A"}},
                "price": "1",
                "size": "2",
                "action": {"constant": "M"},
            },
        },
        {
            "where": {"type": "match"},
            "kind": "trade",
            "symbol": "product_id",
            "gapless": True,
            "fields": {
                "ts_event": {"column": "time", "unit": "stamp"},
                "price": "price",
                "size": "size",
                "sequence": "trade_id",
                "side": {"column": "side", "map": {"buy": "A", "sell": "B"}},
            },
        },
    ],
}


def feed(symbols: list[str], url: str = URL, **options: Any) -> WebSocketFeed:
    """The feed of these symbols."""
    subscribe = [{"type": "subscribe", "product_ids": symbols, "channels": ["level2_batch", "matches"]}]
    return WebSocketFeed(url, PROFILE, **{"subscribe": subscribe, **options})


def main(*symbols: str) -> None:
    """Prints the best prices after a minute."""
    result = strand.replay(feed([*symbols], max_seconds=60, clock_s=1, record="coinbase.ws.gz"), strand.depth(top=1))
    print(result.rows.to_polars().select("symbol", "bid_price", "bid_size", "ask_price", "ask_size"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["BTC-USD", "ETH-USD"])
