"""Messages of an exchange as lines of JSON, and the profile of the page that reads them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "feeds" / "json.md"
TRADE = {"e": "trade", "T": 1, "s": "ETHUSDT", "p": "2683.81", "q": "0.0001", "t": 7, "m": True}
DEPTH = {"e": "depthUpdate", "E": 2, "s": "ETHUSDT", "U": 5, "u": 6, "b": [["1.5", "2"], ["1", "0"]], "a": [["3", "4"]]}
BEST = {"u": 35_346_513_501, "s": "ETHUSDT", "b": "2", "B": "1000000", "a": "3", "A": "0.5"}
FIRST_NS = 1_767_571_200_000_000_000
LINES = [
    {"stream": "ethusdt@trade", "data": TRADE},
    {"stream": "ethusdt@depth", "data": DEPTH},
    {"stream": "ethusdt@bookTicker", "data": BEST},
    {"lastUpdateId": 3, "bids": []},
]


def profile(tmp_path: Path) -> Path:
    found, *_ = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "binance.toml").write_text(found)
    return tmp_path / "binance.toml"


def write(path: Path, lines: list[Any], first_ns: int | None = FIRST_NS) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    if first_ns is not None:
        texts = [f"{first_ns + at} {text}" for at, text in enumerate(texts)]
    data = "\n".join(texts).encode() + b"\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
