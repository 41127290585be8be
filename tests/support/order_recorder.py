"""A Python handler that records the order in which ticks reach it."""

from __future__ import annotations

from typing import Any

from strand import batch_handler


class Recorder:
    """A Python handler that keeps what it saw and notices company."""

    def __init__(self, symbols: int) -> None:
        self.seen: list[list[tuple[int, int]]] = [[] for _ in range(symbols)]
        self.inside = [0] * symbols
        self.overlaps = 0

    def handler(self) -> Any:
        @batch_handler(state=[("ticks", "u8")], name="recorder")
        def on_ticks(symbol: str, ticks: Any, row: Any) -> None:
            key = int(ticks["instrument_id"][0])
            self.inside[key] += 1
            self.overlaps += self.inside[key] != 1
            assert (ticks["instrument_id"] == key).all()
            assert symbol == f"#{key}"
            self.seen[key] += zip(ticks["publisher_id"].tolist(), ticks["sequence"].tolist(), strict=True)
            row["ticks"] += len(ticks)
            self.inside[key] -= 1

        return on_ticks
