"""JSON messages of venues beside plain loops over orjson, which read the same fields as floats into tuples.

    python bench/messages.py                         all venues and ways, 7 turns
    python bench/messages.py --turns 3 --messages 20000 binance
    pip install picows orjson                        the other clients, and the loops' parser

Venues: ``trades`` are Binance's alone, ``binance`` those with quotes and depth, and so on.
Ways: ``disk``: JSON lines in a file. ``websockets`` and ``picows``: the same messages from a server in a process of its
own, on 127.0.0.1, which sends as fast as it can. Sides take turns, each in a process of its own. A figure is messages
per second of processor time, and of wall time; the ratio is Strand's over the loop's, the median of all turns with its
quartiles. A way whose package is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import importlib
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from turns import Taken, alone, in_turns, is_there, ratios, spread, taken

SYMBOLS = ["BTCUSDT", "ETHUSDT", "SOLUSDT", "XRPUSDT", "ADAUSDT"]
BEGUN_MS = 1_767_571_200_000
Loop = Callable[[Any], int]


# ---- messages, and the profile and the plain loop that read them


def price_of(rng: random.Random, at: int) -> str:
    return f"{1_000 * (at + 1) + rng.randint(-300, 300) / 100:.2f}"


def levels(rng: random.Random, at: int) -> list[list[str]]:
    return [
        [price_of(rng, at), "0.00000000" if rng.random() < 0.3 else f"{rng.lognormvariate(0, 2):.8f}"]
        for _ in range(rng.randint(1, 5))
    ]


def stamp(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}{ms % 997:03}Z"


def binance(rng: random.Random, n: int, at: int, ms: int) -> Any:
    name, size = SYMBOLS[at], f"{rng.lognormvariate(0, 2):.8f}"
    if n % 10 < 4:
        data: Any = {"e": "trade", "E": ms, "s": name, "t": n, "p": price_of(rng, at), "q": size, "T": ms, "m": True}
    elif n % 10 < 8:
        data = {"e": "bookTicker", "u": n, "s": name, "b": price_of(rng, at), "B": size, "a": price_of(rng, at),
                "A": size, "T": ms, "E": ms}  # fmt: skip
    else:
        data = {"e": "depthUpdate", "E": ms, "s": name, "U": 5 * n, "u": 5 * n + 4, "b": levels(rng, at),
                "a": levels(rng, at)}  # fmt: skip
    return {"stream": f"{name.lower()}@{data['e']}", "data": data}


def trades(rng: random.Random, n: int, at: int, ms: int) -> Any:
    return binance(rng, 10 * n, at, ms)


def of_binance(message: Any) -> int:
    data = message["data"]
    kind = data["e"]
    if kind == "trade":
        handed(data["s"], data["T"], float(data["p"]), float(data["q"]), data["t"], data["m"])
        return 1
    if kind == "bookTicker":
        handed(data["s"], data["T"], float(data["b"]), float(data["B"]), float(data["a"]), float(data["A"]), data["u"])
        return 1
    for price, size in data["b"]:
        handed(data["s"], data["E"], float(price), float(size), "B")
    for price, size in data["a"]:
        handed(data["s"], data["E"], float(price), float(size), "A")
    return len(data["b"]) + len(data["a"])


def sides_of(names: tuple[str, str], **rule: Any) -> list[dict[str, Any]]:
    """Rules of the levels of both sides."""
    fields = rule.pop("fields")
    return [
        {**rule, "each": name, "kind": "quote", "more": side == "B",
         "fields": {**fields, "side": {"constant": side}, "action": {"constant": "M"}}}
        for name, side in zip(names, "BA", strict=True)
    ]  # fmt: skip


BINANCE = {
    "size_unit": "0.00000001",
    "message": [
        {"where": {"data.e": "trade"}, "kind": "trade", "symbol": "data.s", "fields": {
            "ts_event": {"column": "data.T", "unit": "ms"}, "price": "data.p", "size": "data.q", "ref_id": "data.t",
            "side": {"column": "data.m", "map": {"true": "A", "false": "B"}}}},
        {"where": {"data.e": "bookTicker"}, "kind": "quote", "symbol": "data.s", "fields": {
            "ts_event": {"column": "data.T", "unit": "ms"}, "bid_price": "data.b", "bid_size": "data.B",
            "ask_price": "data.a", "ask_size": "data.A", "sequence": "data.u"}},
        *sides_of(("data.b", "data.a"), where={"data.e": "depthUpdate"}, symbol="data.s", fields={
            "ts_event": {"column": "data.E", "unit": "ms"}, "price": "0", "size": "1"}),
    ],
}  # fmt: skip


def coinbase(rng: random.Random, n: int, at: int, ms: int) -> Any:
    if n % 10 < 6:
        ids = [f"{rng.getrandbits(32):08x}-2f1c-4a6b-9d7e-{rng.getrandbits(48):012x}" for _ in range(2)]
        return {"type": "match", "trade_id": n, "sequence": 3 * n, "maker_order_id": ids[0], "taker_order_id": ids[1],
                "time": stamp(ms), "product_id": SYMBOLS[at], "size": f"{rng.lognormvariate(0, 2):.8f}",
                "price": price_of(rng, at), "side": rng.choice(["buy", "sell"])}  # fmt: skip
    changes = [[side, *level] for side in ("buy", "sell") for level in levels(rng, at)]
    return {"type": "l2update", "product_id": SYMBOLS[at], "changes": changes, "time": stamp(ms)}


def of_coinbase(message: Any) -> int:
    symbol, time = message["product_id"], message["time"]
    if message["type"] == "match":
        handed(symbol, time, float(message["price"]), float(message["size"]), message["trade_id"], message["side"])
        return 1
    for side, price, size in message["changes"]:
        handed(symbol, time, float(price), float(size), side)
    return len(message["changes"])


COINBASE = {
    "size_unit": "0.00000001",
    "message": [
        {"where": {"type": "match"}, "kind": "trade", "symbol": "product_id", "fields": {
            "ts_event": {"column": "time", "unit": "stamp"}, "price": "price", "size": "size", "ref_id": "trade_id",
            "side": {"column": "side", "map": {"buy": "A", "sell": "B"}}}},
        {"where": {"type": "l2update"}, "each": "changes", "kind": "quote", "symbol": "product_id", "fields": {
            "ts_event": {"column": "time", "unit": "stamp"}, "side": "0", "price": "1", "size": "2",
            "action": {"constant": "M"}}},
    ],
}  # fmt: skip


def kraken(rng: random.Random, n: int, at: int, ms: int) -> Any:
    if n % 10 < 6:
        data: Any = {"symbol": SYMBOLS[at], "side": rng.choice(["buy", "sell"]), "price": float(price_of(rng, at)),
                     "qty": round(rng.lognormvariate(0, 2), 8), "ord_type": "market", "trade_id": n,
                     "timestamp": stamp(ms)}  # fmt: skip
        return {"channel": "trade", "type": "update", "data": [data]}
    bids, asks = ([{"price": float(p), "qty": float(q)} for p, q in levels(rng, at)] for _ in range(2))
    data = {"symbol": SYMBOLS[at], "bids": bids, "asks": asks, "checksum": n, "timestamp": stamp(ms)}
    return {"channel": "book", "type": "update", "data": [data]}


def of_kraken(message: Any) -> int:
    data = message["data"]
    if message["channel"] == "trade":
        for each in data:
            handed(each["symbol"], each["timestamp"], each["price"], each["qty"], each["trade_id"], each["side"])
        return len(data)
    book = data[0]
    for side, found in (("B", book["bids"]), ("A", book["asks"])):
        for level in found:
            handed(book["symbol"], book["timestamp"], level["price"], level["qty"], side)
    return len(book["bids"]) + len(book["asks"])


KRAKEN = {
    "size_unit": "0.00000001",
    "message": [
        {"where": {"channel": "trade"}, "each": "data", "kind": "trade", "symbol": "symbol", "fields": {
            "ts_event": {"column": "timestamp", "unit": "stamp"}, "price": "price", "size": "qty", "ref_id": "trade_id",
            "side": {"column": "side", "map": {"buy": "B", "sell": "A"}}}},
        *sides_of(("data.0.bids", "data.0.asks"), where={"channel": "book"}, symbol="^data.0.symbol", fields={
            "ts_event": {"column": "^data.0.timestamp", "unit": "stamp"}, "price": "price", "size": "qty"}),
    ],
}  # fmt: skip


def bybit(rng: random.Random, n: int, at: int, ms: int) -> Any:
    name = SYMBOLS[at]
    if n % 10 < 6:
        data: Any = [
            {"i": f"{rng.getrandbits(64):016x}", "T": ms, "p": price_of(rng, at), "v": f"{rng.random():.3f}",
             "S": rng.choice(["Buy", "Sell"]), "s": name, "BT": False}
            for _ in range(rng.randint(1, 2))
        ]  # fmt: skip
        return {"topic": f"publicTrade.{name}", "type": "snapshot", "ts": ms, "data": data}
    data = {"s": name, "b": levels(rng, at), "a": levels(rng, at), "u": n, "seq": 7 * n}
    return {"topic": f"orderbook.50.{name}", "type": "delta", "ts": ms, "data": data, "cts": ms}


def of_bybit(message: Any) -> int:
    data = message["data"]
    if message["type"] == "snapshot":
        for each in data:
            handed(each["s"], each["T"], float(each["p"]), float(each["v"]), each["S"])
        return len(data)
    for side in "ba":
        for price, size in data[side]:
            handed(data["s"], message["ts"], float(price), float(size), side)
    return len(data["b"]) + len(data["a"])


BYBIT = {
    "size_unit": "0.00000001",
    "message": [
        {"where": {"type": "snapshot"}, "each": "data", "kind": "trade", "symbol": "s", "fields": {
            "ts_event": {"column": "T", "unit": "ms"}, "price": "p", "size": "v",
            "side": {"column": "S", "map": {"Buy": "B", "Sell": "A"}}}},
        *sides_of(("data.b", "data.a"), where={"type": "delta"}, symbol="data.s", fields={
            "ts_event": {"column": "ts", "unit": "ms"}, "price": "0", "size": "1"}),
    ],
}  # fmt: skip

VENUES: dict[str, tuple[Callable[..., Any], dict[str, Any], Loop]] = {
    "trades": (trades, BINANCE, of_binance),
    "binance": (binance, BINANCE, of_binance),
    "coinbase": (coinbase, COINBASE, of_coinbase),
    "kraken": (kraken, KRAKEN, of_kraken),
    "bybit": (bybit, BYBIT, of_bybit),
}


def handed(*values: Any) -> None:
    """A user's callback, which gets the fields."""


def write(venue: str, count: int, path: Path) -> None:
    rng = random.Random(1)
    with path.open("w") as file:
        for n in range(count):
            message = VENUES[venue][0](rng, n, rng.randrange(len(SYMBOLS)), BEGUN_MS + n)
            file.write(f"{(BEGUN_MS + n) * 10**6} {json.dumps(message, separators=(',', ':'))}\n")


# ---- sides: each reads all messages once and returns how many ticks they made


def strand_disk(path: Path, profile: Any, loop: Loop) -> int:
    from strand import feeds

    with feeds.open(path, format="jsonl", profile=profile) as feed:
        return sum(len(batch) for batch in feed.batches())


def loop_disk(path: Path, profile: Any, loop: Loop) -> int:
    import orjson

    with path.open("rb") as file:
        return sum(loop(orjson.loads(line[line.index(b"{") :])) for line in file)


def strand_live(url: str, client: str, messages: int, profile: Any) -> int:
    from strand.feeds.live.websocket import WebSocketFeed

    options: dict[str, Any] = {} if client == "websockets" else {"client": client}
    with WebSocketFeed(url, profile, max_messages=messages, **options) as feed:
        return sum(len(batch) for batch in feed.batches())


def loop_websockets(url: str, messages: int, loop: Loop) -> int:
    import orjson
    from websockets.asyncio.client import connect

    async def read() -> int:
        async with connect(url, compression=None) as connection:
            return sum([loop(orjson.loads(await connection.recv(decode=False))) for _ in range(messages)])

    return asyncio.run(read())


def loop_picows(url: str, messages: int, loop: Loop) -> int:
    import orjson
    import picows

    class Listener(picows.WSListener):  # type: ignore[misc]
        left, ticks = messages, 0

        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            if frame.msg_type == picows.WSMsgType.TEXT and self.left:
                self.ticks += loop(orjson.loads(frame.get_payload_as_memoryview()))
                self.left -= 1
                if not self.left:
                    transport.disconnect()

    async def read() -> int:
        transport, listener = await picows.ws_connect(Listener, url)
        await transport.wait_disconnected()
        ticks: int = listener.ticks
        return ticks

    return asyncio.run(read())


def turn_of(side: str, way: str, venue: str, place: str, messages: int) -> tuple[int, Taken]:
    """A turn of a side, in a process of its own: ticks, and what they took. ``place``: a file, or the server's URL."""
    _, profile, loop = VENUES[venue]
    for name in {"strand": ("strand.feeds.live.websocket",), "loop": ("orjson",)}[side]:
        importlib.import_module(name)
    if way == "disk":
        return taken(strand_disk if side == "strand" else loop_disk, Path(place), profile, loop)
    if side == "strand":
        return taken(strand_live, place, way, messages, profile)
    return taken(loop_websockets if way == "websockets" else loop_picows, place, messages, loop)


# ---- the server


def frames(path: Path) -> Iterator[bytes]:
    for line in path.read_bytes().splitlines():
        data = line.partition(b" ")[2]
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        yield b"\x81" + size + data


def serve(path: Path) -> None:
    """Sends all messages to each client, as fast as it takes them."""
    sent = b"".join(frames(path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            client, _ = server.accept()
            with client:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += client.recv(1 << 12)
                asked = dict(line.split(b": ", 1) for line in head.split(b"\r\n") if b": " in line)
                key = next(value for name, value in asked.items() if name.lower() == b"sec-websocket-key")
                digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
                client.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
                )
                try:
                    client.sendall(sent)
                    client.recv(1 << 12)
                except OSError:
                    pass


# ---- turns


def compare(way: str, venue: str, path: Path, messages: int, turns: int) -> str:
    server = None
    place = str(path)
    if way != "disk":
        server = subprocess.Popen([sys.executable, __file__, "--serve", str(path)], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        place = f"ws://127.0.0.1:{int(server.stdout.readline())}"
    try:
        sides = {side: partial(alone, turn_of, side, way, venue, place, messages) for side in ("strand", "loop")}
        found = in_turns(sides, turns, warm=0)
    finally:
        if server is not None:
            server.kill()
            server.wait()
    ticks = {side: turns_of[-1][0] for side, turns_of in found.items()}
    assert ticks["strand"] == ticks["loop"], ticks
    text = f"{venue:<9} {way:<10} {ticks['strand'] / messages:4.1f} ticks/message"
    for which, what in (("cpu", "processor"), ("wall", "wall")):
        ours, theirs = ([messages / getattr(one, which) for _, one in found[side]] for side in sides)
        text += (
            f"; {what}: strand {statistics.median(ours) / 1e3:,.0f} k/s, loop {statistics.median(theirs) / 1e3:,.0f} "
            f"k/s, ratio {spread(ratios(ours, theirs))}"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venues", nargs="*", metavar="VENUE", help=f"{', '.join(VENUES)}; all if none is given")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--way", action="append", help="disk, websockets, picows; all if none is given")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(Path(given.serve))
    else:
        ways = given.way or ["disk", "websockets", "picows"]
        ways = [way for way in ways if way == "disk" or is_there(way)] if is_there("orjson") else []
        print(f"load of the last minute: {os.getloadavg()[0]:.1f}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for venue in given.venues or VENUES:
                path = Path(folder) / f"{venue}.jsonl"
                write(venue, given.messages, path)
                for way in ways:
                    print(compare(way, venue, path, given.messages, max(given.turns, 2)), flush=True)


if __name__ == "__main__":
    main()
