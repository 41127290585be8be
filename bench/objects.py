"""Objects in Python: Strand's handlers beside a plain loop, and beside the callback of databento.

    python bench/objects.py                     all parts, 5 turns
    python bench/objects.py --turns 9 many few

``many``: 50 symbols, so that a call has hundreds of ticks. ``few``: 8,172 symbols, 37 ticks each on average, so that a
run also makes an object for each few ticks. ``compiled``: trades in memory through a function that numba has compiled,
with ``on="trade"`` and for each tick.

Sides take turns, each in a process of its own. A figure is processor time per tick, after the same process
has taken the first 1,000 ticks: imports are left out. Plain loop: numpy reads the file, and Python goes over columns as
lists; a dict has the sums by symbol. All sides sum the sizes by symbol, and have to agree. databento reads the same
trades from a file of DBN: ``pip install databento``; a rival that is not there is named and left out.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from turns import Taken, alone, in_turns, is_there, run_parts, spread, taken

PARTS = {"many": (50, 1_000_000), "few": (8_172, 300_000), "compiled": (8_172, 3_000_000)}
Sums = dict[int, int]


class OnTick:
    def __init__(self) -> None:
        self.size = 0

    def on_tick(self, tick: Any) -> None:
        self.size += tick.size


class OnTrade:
    def __init__(self) -> None:
        self.size = 0

    def on_trade(self, trade: Any) -> None:
        self.size += trade.size


class TickFields:
    def __init__(self) -> None:
        self.size = 0

    def on_tick(self, size: int) -> None:
        self.size += size


class TradeFields:
    def __init__(self) -> None:
        self.size = 0

    def on_trade(self, size: int) -> None:
        self.size += size


KINDS: dict[str, Any] = {
    "on_tick(tick)": OnTick, "on_trade(trade)": OnTrade, "on_tick(size)": TickFields, "on_trade(size)": TradeFields
}  # fmt: skip


def by_strand(kind: str, workers: int) -> Callable[[Path, int | None], Sums]:
    def sums(folder: Path, limit: int | None) -> Sums:
        import strand

        objects = strand.replay(folder / "ticks.npy", KINDS[kind], workers=workers, limit=limit).objects
        return {int(name.removeprefix("#").removeprefix("id:")): one.size for name, one in objects.items()}

    return sums


def by_loop(folder: Path, limit: int | None) -> Sums:
    ticks = np.load(folder / "ticks.npy")[:limit]
    sums: Sums = defaultdict(int)
    for key, size in zip(ticks["instrument_id"].tolist(), ticks["size"].tolist(), strict=True):
        sums[key] += size
    return sums


def by_records(folder: Path, limit: int | None) -> Sums:
    """A loop over records of numpy, as one writes it first."""
    sums: Sums = defaultdict(int)
    for tick in np.load(folder / "ticks.npy")[:limit]:
        sums[int(tick["instrument_id"])] += int(tick["size"])
    return sums


def by_databento(folder: Path, limit: int | None) -> Sums:
    import databento

    sums: Sums = defaultdict(int)

    def callback(record: Any) -> None:
        sums[record.instrument_id] += record.size

    name = "ticks.dbn" if limit is None else "first.dbn"
    databento.DBNStore.from_file(folder / name).replay(callback)
    return {key - 1: size for key, size in sums.items()}


SIDES: dict[str, Callable[[Path, int | None], Sums]] = {
    "plain loop, lists": by_loop,
    "plain loop, records": by_records,
    "databento": by_databento,
    **{f"strand {kind}, workers={n}": by_strand(kind, n) for kind in KINDS for n in (0, 1, 2)},
}


def compiled(on: str, folder: Path, limit: int | None) -> Callable[[], Sums]:
    """The ticks are in memory, and the function is compiled, before it is measured."""
    import strand

    @strand.handler(on=on, state=[("size", "i8")])
    def adds(row: Any, tick: Any) -> None:
        row.size += tick.size

    ticks = np.load(folder / "ticks.npy")[:limit]

    def sums() -> Sums:
        with strand.Dispatcher(PARTS["compiled"][0], adds, workers=1, feed="plain") as dispatcher:
            dispatcher.publish(ticks)
        return dict(enumerate(dispatcher.rows.array["size"].tolist()))

    return sums


COMPILED = {f'numba on="{on}"': partial(compiled, on) for on in ("tick", "trade")}


def take(side: str, folder: Path) -> tuple[int, Taken]:
    """A turn of a side, in a process of its own: a digest of the sums, and what they took."""
    prepare = COMPILED.get(side) or partial(partial, SIDES[side])
    prepare(folder, 1000)()
    sums, its_time = taken(prepare(folder, None))
    return sum((key + 1) * size for key, size in sums.items()), its_time


def made(folder: Path, symbols: int, n: int) -> None:
    """Trades as an array of ticks and as DBN."""
    from bars import made_ticks

    ticks = made_ticks(n, symbols)
    np.save(folder / "ticks.npy", ticks)
    for name, some in (("ticks.dbn", ticks), ("first.dbn", ticks[:1000])):
        _write_dbn(folder / name, some)


def _write_dbn(path: Path, ticks: Any) -> None:
    import databento_dbn as dbn

    trade = np.dtype(
        [
            ("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8"),
            ("price", "<i8"), ("size", "<u4"), ("action", "S1"), ("side", "S1"), ("flags", "u1"), ("depth", "u1"),
            ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4"),
        ]
    )  # fmt: skip
    records = np.zeros(len(ticks), trade)
    records["length"], records["publisher_id"] = trade.itemsize // 4, 1
    records["instrument_id"] = ticks["instrument_id"] + 1
    for field in ("ts_event", "price", "size", "action", "side", "flags", "ts_recv"):
        records[field] = ticks[field]
    metadata = dbn.Metadata(
        dataset="XNAS.ITCH", start=int(ticks["ts_recv"][0]), stype_out=dbn.SType.INSTRUMENT_ID,
        schema=dbn.Schema.TRADES, stype_in=None, symbols=[], partial=[], not_found=[], mappings=[], version=2,
    )  # fmt: skip
    path.write_bytes(metadata.encode() + records.tobytes())


def part(name: str, turns: int) -> None:
    symbols, n = PARTS[name]
    sides = list(COMPILED if name == "compiled" else SIDES)
    if name != "compiled" and not is_there("databento"):
        sides.remove("databento")
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder), symbols, n)
        seen = in_turns({side: partial(alone, take, side, Path(folder)) for side in sides}, turns, warm=0)
    assert len({digest for turns_of in seen.values() for digest, _ in turns_of}) == 1, "sides disagree"
    print(f"{name}: {symbols:,} symbols, {n:,} ticks; processor time per tick in ns, median and quartiles; wall; load")
    for side, turns_of in seen.items():
        cpu, wall = ([getattr(one, what) / n * 1e9 for _, one in turns_of] for what in ("cpu", "wall"))
        print(f"  {side:34}{spread(cpu, 1):>26}   wall {statistics.median(wall):8.1f}")
    print(f"  load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    run_parts(__doc__, {name: partial(part, name) for name in PARTS}, 5)
