"""The books and trades of Bybit spot, live: fifty levels of each side.

    python examples/venues/bybit.py BTCUSDT ETHUSDT

The messages are those of the topics "orderbook" and "publicTrade" in Bybit's documents of its public WebSocket API v5.
A subscription starts with the book, and each change has the number after that of the one before. Where one is missing,
the feed connects anew.
"""

from __future__ import annotations

import sys
from typing import Any

import strand
from strand.feeds.live.websocket import WebSocketFeed

URL = "wss://stream.bybit.com/v5/public/spot"
LEVEL: dict[str, Any] = {"price": "0", "size": "1", "action": {"constant": "M"}}


def _book(kind: str, side: str, **more: Any) -> dict[str, Any]:
    return {
        "where": {"type": kind},
        "each": f"data.{side}",
        "kind": "quote",
        "symbol": "^data.s",
        "gapless": {"last": "data.u"},
        "fields": {**LEVEL, "ts_event": {"column": "^cts", "unit": "ms"}, "side": {"constant": side.upper()}},
        **more,
    }


PROFILE: dict[str, Any] = {
    "name": "bybit",
    "size_unit": "0.00000001",
    "message": [
        {
            "where": {"type": "snapshot"},
            "each": "data",
            "kind": "trade",
            "symbol": "s",
            "optional": True,
            "fields": {
                "ts_event": {"column": "T", "unit": "ms"},
                "price": "p",
                "size": "v",
                "side": {"column": "S", "map": {"Buy": "B", "Sell": "A"}},
            },
        },
        _book("snapshot", "b", snapshot=True, more=True),
        _book("snapshot", "a", snapshot=True),
        _book("delta", "b", more=True),
        _book("delta", "a"),
    ],
}


def feed(symbols: list[str], url: str = URL, **options: Any) -> WebSocketFeed:
    """The feed of these symbols."""
    topics = [f"{kind}.{symbol}" for symbol in symbols for kind in ("orderbook.50", "publicTrade")]
    subscribe = [{"op": "subscribe", "args": topics}]
    return WebSocketFeed(url, PROFILE, **{"subscribe": subscribe, "reconnect_at_gap": True, **options})


def main(*symbols: str) -> None:
    """Prints the best prices after a minute."""
    result = strand.replay(feed([*symbols], max_seconds=60, clock_s=1, record="bybit.ws.gz"), strand.depth(top=1))
    print(result.rows.to_polars().select("symbol", "bid_price", "bid_size", "ask_price", "ask_size"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["BTCUSDT", "ETHUSDT"])
