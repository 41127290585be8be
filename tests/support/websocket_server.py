"""A WebSocket server on this machine, the messages it sends, and feeds that listen to it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strand.feeds.live.websocket import WebSocketFeed

server_module = pytest.importorskip("websockets.sync.server")

TRADES: dict[str, Any] = {
    "name": "trades",
    "size_unit": "0.001",
    "message": [
        {
            "where": {"type": "trade"},
            "each": "data",
            "kind": "trade",
            "symbol": "s",
            "gapless": True,
            "fields": {
                "ts_event": {"column": "T", "unit": "ms"},
                "price": "p",
                "size": "q",
                "sequence": "n",
                "side": {"column": "m", "map": {"true": "A", "false": "B"}},
            },
        }
    ],
}


def trade(n: int, symbol: str = "BTC", **changes: Any) -> dict[str, Any]:
    return {"s": symbol, "T": 1_700_000_000_000 + n, "p": "100.25", "q": "0.5", "n": n, "m": n % 2 == 0, **changes}


def message(*trades: dict[str, Any]) -> str:
    return json.dumps({"type": "trade", "data": list(trades)})


@contextlib.contextmanager
def serving(handle: Callable[[Any, int], None]) -> Iterator[str]:
    """A server on 127.0.0.1; ``handle`` gets each connection and how many there were before. Ends with the block."""
    count = iter(range(1_000))

    def handler(connection: Any) -> None:
        handle(connection, next(count))

    with server_module.serve(handler, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def stay(connection: Any) -> None:
    """Says nothing more until the other side is gone, or for a minute."""
    with contextlib.suppress(Exception):
        connection.recv(timeout=60)


def listen(url: str, **options: Any) -> WebSocketFeed:
    defaults = {"max_seconds": 60.0, "reconnect_min_s": 0.01, "reconnect_max_s": 0.05}
    return WebSocketFeed(url, options.pop("profile", TRADES), **{**defaults, **options})
