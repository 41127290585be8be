"""Bars of trades beside polars' group_by, on the same cores, with the same numbers; ratios are of medians.

    python bench/bars.py [memory] [file] [--trades 10000000] [--symbols 8172] [--step 1m] [--cores 1 --cores 4]

``memory``: the trades are in memory for both, as an array of ticks and as columns. Of polars the faster of its two
engines counts (in memory or streaming), for its group_by(symbol, window), and for one key that holds both, which it is
faster with and who knows may write. ``file``: from a Parquet file
to a Parquet file in one pass, each turn in a process of its own, with the most memory it took. Both results are
compared bar by bar. Polars comes with the extra ``bench``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import numpy.typing as npt

NEEDED = 1.5
COLUMNS = ("instrument_id", "start", "open", "high", "low", "close", "vwap", "volume", "trades")
WAYS = ("two keys", "packed key", "two keys, streaming", "packed key, streaming")


# ---- the data


def made_ticks(trades: int, symbols: int) -> npt.NDArray[Any]:
    """A day of trades, symbols as on a real one, prices that walk, bursts and lulls."""
    from strand.feeds.synthetic import route_stream
    from strand.ticks import KIND_TRADE

    rng = np.random.default_rng(7)
    ticks = route_stream(trades, symbols)
    gaps = rng.exponential(1.0, trades) * rng.choice([0.02, 1.0, 5.0], trades)
    ticks["ts_recv"] = 1_767_623_400 * 10**9 + (np.cumsum(gaps) * (23_400 * 10**9 / gaps.sum())).astype(np.int64)
    ticks["ts_event"] = ticks["ts_recv"]
    base = rng.integers(1_000, 60_000, symbols)[ticks["instrument_id"]]
    ticks["price"] = (base + rng.integers(-40, 41, trades)) * 10_000_000
    ticks["size"] = rng.integers(1, 12, trades) * np.where(rng.random(trades) < 0.7, 100, 7)
    ticks["kind"], ticks["action"], ticks["side"], ticks["flags"] = KIND_TRADE, b"T", b"N", 0
    return ticks


def columns_of(ticks: npt.NDArray[Any]) -> Any:
    import polars as pl

    return pl.DataFrame(
        {
            "instrument_id": ticks["instrument_id"].copy(),
            "ts_recv": ticks["ts_recv"].astype(np.int64),
            "price": ticks["price"].copy(),
            "size": ticks["size"].astype(np.int64),
        }
    )


# ---- the two sides


def by_strand(ticks: npt.NDArray[Any], symbols: int, step_ns: int, workers: int) -> list[npt.NDArray[Any]]:
    import strand

    with strand.Dispatcher(symbols, strand.bars(step_ns), workers=workers) as dispatcher:
        dispatcher.publish(ticks)
    return list(dispatcher.outputs["bars"])


def by_polars(frame: Any, step_ns: int, way: str, file: Path | None = None) -> Any:
    import polars as pl

    window = pl.col("ts_recv") // step_ns
    packed = (pl.col("instrument_id").cast(pl.Int64) * (1 << 36) + window).alias("key")
    keys = [packed] if way.startswith("packed") else ["instrument_id", window.alias("window")]
    notional, volume = pl.col("notional"), pl.col("volume")
    lazy = (
        frame.lazy()
        .group_by(keys)
        .agg(
            open=pl.col("price").first(),
            high=pl.col("price").max(),
            low=pl.col("price").min(),
            close=pl.col("price").last(),
            volume=pl.col("size").sum(),
            notional=(pl.col("price") * pl.col("size")).sum(),
            trades=pl.len(),
        )
        .with_columns(vwap=(2 * notional + volume) // (2 * volume))
    )
    if file is not None:
        return lazy.sink_parquet(file)
    return lazy.collect(engine="streaming" if way.endswith("streaming") else "in-memory")


def table_of(bars: Any, step_ns: int) -> npt.NDArray[np.int64]:
    """Shape (bars, columns), sorted by symbol and start: what both have to agree on."""
    if isinstance(bars, list):
        bars = np.concatenate(bars)
        table = np.stack([bars[name].astype(np.int64) for name in COLUMNS], axis=1)
    else:
        if "key" in bars.columns:
            key = bars["key"].to_numpy()
            ids, windows = key >> 36, key & ((1 << 36) - 1)
        else:
            ids, windows = bars["instrument_id"].to_numpy().astype(np.int64), bars["window"].to_numpy()
        rest = [bars[name].to_numpy().astype(np.int64) for name in COLUMNS[2:]]
        table = np.stack([ids, windows * step_ns, *rest], axis=1)
    return table[np.lexsort((table[:, 1], table[:, 0]))]


# ---- one turn, in a process of its own


def in_memory(task: dict[str, Any]) -> dict[str, Any]:
    """Both sides, one after the other, with their data at hand; repeated, as the first run brings pages in."""
    ticks = made_ticks(task["trades"], task["symbols"])
    frame = columns_of(ticks)
    sides: dict[str, Callable[[], Any]] = {
        "strand": lambda: by_strand(ticks, task["symbols"], task["step_ns"], task["workers"])
    }
    for way in WAYS:
        sides[f"polars, {way}"] = lambda way=way: by_polars(frame, task["step_ns"], way)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    expected: npt.NDArray[np.int64] | None = None
    for turn in range(task["turns"] + 1):
        for name, run in sides.items():
            begun = time.perf_counter()
            found = run()
            spent = time.perf_counter() - begun
            table = table_of(found, task["step_ns"])
            expected = table if expected is None else expected
            assert np.array_equal(table, expected), f"{name} found other bars"
            if turn:
                seconds[name].append(spent)
            del found, table
    assert expected is not None
    return {"seconds": seconds, "bars": len(expected)}


def from_file(task: dict[str, Any]) -> dict[str, Any]:
    """One side, once: file to file."""
    begun = time.perf_counter()
    if task["side"] == "strand":
        import strand

        strand.replay(
            task["source"],
            strand.bars(task["step_ns"]),
            out={"bars": task["out"]},
            workers=task["workers"],
            feed_options={"constants": {"kind": 2, "action": b"T"}},
        )
    else:
        import polars as pl

        by_polars(pl.scan_parquet(task["source"]), task["step_ns"], task["side"], Path(task["out"]))
    spent = time.perf_counter() - begun
    return {"seconds": spent, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory this program took. getrusage's figure begins with that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    """In a fresh process on so many cores."""
    cores = sorted(os.sched_getaffinity(0))[-task["cores"] :]
    environment = {**os.environ, "POLARS_MAX_THREADS": str(task["cores"])}
    # Who installs a package has it compiled, as polars is here; of an editable one that is left to the first import.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores)), sys.executable, __file__, "--task", json.dumps(task)],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- the parts


def memory(base: dict[str, Any]) -> dict[str, Any]:
    found = run_task({**base, "part": "memory"})
    medians = {name: median(spent) for name, spent in found["seconds"].items()}
    for name, spent in medians.items():
        click.echo(f"  {name:<30} {spent:7.3f} s  {base['trades'] / spent / 1e6:7.1f} M trades/s")
    ratios = {}
    for what, keys in (("group_by(symbol, window)", "two keys"), ("the same by one packed key", "packed key")):
        best = min((name for name in medians if keys in name), key=lambda name: medians[name])
        turns = [b / a for a, b in zip(found["seconds"]["strand"], found["seconds"][best], strict=True)]
        ratio = ratios[best] = medians[best] / medians["strand"]
        click.echo(
            f"memory, {base['cores']} cores, {found['bars']:,} bars: {ratio:.2f} times {what} ({best}; "
            f"{min(turns):.2f} to {max(turns):.2f}), needed {NEEDED}: {'holds' if ratio >= NEEDED else 'MISSED'}"
        )
    return {"part": "memory", "cores": base["cores"], "bars": found["bars"], "ratios": ratios, "seconds": medians}


def file(base: dict[str, Any], folder: Path) -> dict[str, Any]:
    import polars as pl

    source = folder / "trades.parquet"
    if not source.exists():
        columns_of(made_ticks(base["trades"], base["symbols"])).write_parquet(source, row_group_size=1 << 18)
    sides = ["strand", WAYS[2], WAYS[3]]
    spent: dict[str, list[float]] = {side: [] for side in sides}
    peaks: dict[str, list[float]] = {side: [] for side in sides}
    expected: npt.NDArray[np.int64] | None = None
    for turn in range(base["turns"]):
        for side in sides:
            out = folder / f"bars-{turn}-{sides.index(side)}.parquet"
            found = run_task({**base, "part": "file", "side": side, "source": str(source), "out": str(out)})
            spent[side].append(found["seconds"])
            peaks[side].append(found["peak_mb"])
            frame = pl.read_parquet(out)
            if side == "strand":
                # Indices go by first appearance, names say which instrument it is.
                ids = frame["symbol"].str.strip_prefix("id:").cast(pl.UInt32)
                frame = frame.with_columns(instrument_id=ids, window=pl.col("start").cast(pl.Int64) // base["step_ns"])
            table = table_of(frame, base["step_ns"])
            expected = table if expected is None else expected
            assert np.array_equal(table, expected), f"{side} wrote other bars"
            out.unlink()
    medians = {side: median(times) for side, times in spent.items()}
    best = min(sides[1:], key=lambda side: medians[side])
    for side in sides:
        rate = base["trades"] / medians[side] / 1e6
        click.echo(
            f"  {side:<30} {medians[side]:7.3f} s  {rate:7.1f} M trades/s  {median(peaks[side]):6.0f} MB at most"
        )
    ratio = medians[best] / medians["strand"]
    click.echo(f"file, {base['cores']} cores: {ratio:.2f} times polars, {best}")
    return {"part": "file", "cores": base["cores"], "ratio": ratio, "seconds": medians, "peak_mb": peaks}


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(["memory", "file"]))
@click.option("--trades", default=10_000_000, type=click.IntRange(1000))
@click.option("--symbols", default=8172, type=click.IntRange(1))
@click.option("--step", default="1m", help="The time of a bar.")
@click.option("--cores", multiple=True, type=click.IntRange(1), help="Once or several times. [default: all]")
@click.option("--turns", default=5, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
@click.option("--task", hidden=True)
def main(  # noqa: PLR0917
    parts: tuple[str, ...], trades: int, symbols: int, step: str, cores: tuple[int, ...], turns: int, as_json: bool,
    task: str | None,
) -> None:  # fmt: skip
    if task is not None:
        given = json.loads(task)
        click.echo(json.dumps({"memory": in_memory, "file": from_file}[given["part"]](given)))
        return
    from strand.spans import span_ns

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in cores or (len(os.sched_getaffinity(0)),):
            base = {
                "trades": trades,
                "symbols": symbols,
                "step_ns": span_ns("step", step),
                "turns": turns,
                "cores": n,
                "workers": max(1, n - 1),
            }
            for part in parts or ("memory", "file"):
                found.append(memory(base) if part == "memory" else file(base, Path(folder)))
    if as_json:
        click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
