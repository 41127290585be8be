"""Made-up files of every built-in profile of JSON documents, and their ticks by the json module and Decimal.

Nothing here knows of the profiles' TOML: what each item means is written down a second time.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from csv_reference import NONE, Tick, hashed, price, times

START_MS = 1_767_571_200_000


@dataclass(frozen=True)
class Document:
    """A profile's made-up file: its name, how an item is made, what ticks it is, and how its text is laid out.
    ``symbol``: of all items; None: each says its own."""

    file: str
    item: Callable[[random.Random, int], Any]
    ticks: Callable[[Any], list[Tick]]
    indent: int | None = None
    symbol: str | None = None


def _amount(rng: random.Random) -> float:
    return rng.choice([1e-05, rng.randint(1, 9999), rng.randint(1, 10**6) / 10**6, 0.1])


def _trade(ms: int, ident: str | None, side: str | None, cost: Any, amount: Any) -> list[Tick]:
    return [
        {
            "ts_event": ms * 10**6,
            "ref_id": 0 if ident is None else hashed(ident),
            "side": {"buy": "B", "sell": "A", None: "N"}[side],
            "price": price(str(cost)),
            "size": times(str(amount), 10**8),
            "action": "T",
            "kind": 2,
        }
    ]


def ccxt_trade(item: dict[str, Any]) -> list[Tick]:
    (tick,) = _trade(item["timestamp"], item["id"], item["side"], item["price"], item["amount"])
    return [tick | {"symbol": item["symbol"]}]


def freqtrade_trade(item: list[Any]) -> list[Tick]:
    ms, ident, _, side, cost, amount, _ = item
    return _trade(ms, ident, side, cost, amount)


def candle(minutes: int) -> Callable[[list[Any]], list[Tick]]:
    def bar(item: list[Any]) -> list[Tick]:
        begin, prices = item[0] * 10**6, [price(str(number)) for number in item[1:5]]
        shared: Tick = {"ts_event": begin, "ts_recv": begin + minutes * 60 * 10**9, "action": "T", "kind": 2}
        made = [shared | {"price": each, "depth": depth} for depth, each in enumerate(prices)]
        made[-1]["size"] = times(str(item[5]), 10**8)
        return made

    return bar


def _ccxt_item(rng: random.Random, at: int) -> dict[str, Any]:
    # What the venue sent lies inside as it came: with signs of JSON in its texts.
    info = {"raw": '[{"x\\', "levels": [[1, "2"], {"a": "},"}], "none": None}
    cost, amount = rng.randint(1, 10**7) / 100, _amount(rng)
    return {
        "info": info, "timestamp": START_MS + at, "datetime": "2026-01-05T00:00:00.000Z",
        "symbol": rng.choice(["BTC/USDT", "ETH/USDT:USDT"]), "id": rng.choice([None, str(at), "a1-b2"]), "order": None,
        "type": None, "side": rng.choice(["buy", "sell", None]), "takerOrMaker": None, "price": cost, "amount": amount,
        "cost": cost * amount, "fee": {"cost": None, "currency": None}, "fees": [],
    }  # fmt: skip


def _candle_item(rng: random.Random, at: int, minutes: int) -> list[Any]:
    prices = [rng.randint(1, 10**7) / 100 for _ in range(4)]
    return [START_MS + at * minutes * 60_000, *prices, rng.choice([0, rng.randint(1, 10**6) / 10**6])]


DOCUMENTS: dict[str, Document] = {
    "ccxt-trades": Document("trades.json", _ccxt_item, ccxt_trade, indent=2),
    "ccxt-candles": Document(
        "ETH_USDT_USDT-5m-futures.json", lambda rng, at: _candle_item(rng, at, 5), candle(5), symbol="ETH_USDT_USDT"
    ),
    "ccxt-candles in gzip": Document(
        "BTC_USDT-1h.json.gz", lambda rng, at: _candle_item(rng, at, 60), candle(60), symbol="BTC_USDT"
    ),
    "freqtrade-trades": Document(
        "XRP_ETH-trades.json.gz",
        lambda rng, at: [
            START_MS + at, rng.choice([None, str(at)]), None, rng.choice(["buy", "sell"]), rng.randint(1, 9999) / 10**6,
            _amount(rng), 0.001,
        ],
        freqtrade_trade,
        symbol="XRP_ETH",
    ),
}  # fmt: skip


def items_of(name: str, count: int, seed: int = 1) -> list[Any]:
    rng = random.Random(f"{name} {seed}")
    return [DOCUMENTS[name].item(rng, at) for at in range(count)]


def text_of(name: str, items: list[Any]) -> bytes:
    return json.dumps(items, indent=DOCUMENTS[name].indent).encode()


def write(folder: Path, name: str, items: int | list[Any]) -> Path:
    """So many items, or those, as a file under the name of its kind."""
    path = folder / DOCUMENTS[name].file
    data = text_of(name, items_of(name, items) if isinstance(items, int) else items)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def reference(name: str, data: bytes) -> list[Tick]:
    """The ticks of a file's decompressed bytes, as dicts, ``symbol`` among them."""
    document, ticks = DOCUMENTS[name], []
    for item in json.loads(data, parse_float=Decimal):
        for own in document.ticks(item):
            tick: Tick = {"sequence": len(ticks) + 1, "order_id": 0, "ref_id": 0, "publisher_id": 0, "flags": 0}
            tick |= {"symbol": document.symbol, "price": NONE, "size": 0, "side": "N", "action": "N", "depth": 0}
            tick |= own
            tick.setdefault("ts_recv", tick["ts_event"])
            ticks.append(tick)
    return ticks
