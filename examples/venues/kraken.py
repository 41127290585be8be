"""The books and trades of Kraken, live: ten levels of each side.

    python examples/venues/kraken.py BTC/USD ETH/USD

The messages are those of the channels "book" and "trade" in Kraken's documents of its WebSocket API v2. Each connection
starts with the book. A level that others push beyond the tenth is not removed by a message: ``book_levels`` does it.
"""

from __future__ import annotations

import sys
from typing import Any

import strand
from strand.feeds.live.websocket import WebSocketFeed

URL = "wss://ws.kraken.com/v2"
LEVELS = 10
LEVEL: dict[str, Any] = {"price": "price", "size": "qty", "action": {"constant": "M"}}


def _book(kind: str, side: str, **more: Any) -> dict[str, Any]:
    time = {} if kind == "snapshot" else {"ts_event": {"column": "^data.0.timestamp", "unit": "stamp"}}
    return {
        "where": {"channel": "book", "type": kind},
        "each": f"data.0.{side}",
        "kind": "quote",
        "symbol": "^data.0.symbol",
        "fields": {**LEVEL, **time, "side": {"constant": side[0].upper()}},
        **more,
    }


PROFILE: dict[str, Any] = {
    "name": "kraken",
    "size_unit": "0.00000001",
    "book_levels": LEVELS,
    "message": [
        _book("snapshot", "bids", snapshot=True, more=True),
        _book("snapshot", "asks", snapshot=True),
        _book("update", "bids", more=True),
        _book("update", "asks"),
        {
            "where": {"channel": "trade", "type": "update"},
            "each": "data",
            "kind": "trade",
            "symbol": "symbol",
            "gapless": True,
            "fields": {
                "ts_event": {"column": "timestamp", "unit": "stamp"},
                "price": "price",
                "size": "qty",
                "sequence": "trade_id",
                "side": {"column": "side", "map": {"buy": "B", "sell": "A"}},
            },
        },
    ],
}


def feed(symbols: list[str], url: str = URL, **options: Any) -> WebSocketFeed:
    """The feed of these symbols."""
    channels = {"book": {"depth": LEVELS}, "trade": {"snapshot": False}}
    subscribe = [
        {"method": "subscribe", "params": {"channel": name, "symbol": symbols, **more}}
        for name, more in channels.items()
    ]
    return WebSocketFeed(url, PROFILE, **{"subscribe": subscribe, **options})


def main(*symbols: str) -> None:
    """Prints the best prices after a minute."""
    result = strand.replay(feed([*symbols], max_seconds=60, clock_s=1, record="kraken.ws.gz"), strand.depth(top=1))
    print(result.rows.to_polars().select("symbol", "bid_price", "bid_size", "ask_price", "ask_size"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["BTC/USD", "ETH/USD"])
