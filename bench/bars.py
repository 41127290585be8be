"""Bars of trades beside polars' group_by, on the same cores, with the same numbers; ratios are of medians.

    python bench/bars.py [memory] [collect] [file] [--trades 10000000] [--symbols 8172] [--step 1m] [--cores 1]

``memory``: the trades are in memory for both, as an array of ticks and as columns. Of polars the faster of its two
engines counts (in memory or streaming), for its group_by(symbol, window), and for one key that holds both, which it is
faster with and who knows may write. ``collect``: from an Arrow and from a Parquet file to bars in memory, ``file``:
from a Parquet file to a Parquet file, in one pass; each turn in a process of its own, with the most memory it took.
Results are compared bar by bar. Polars comes with the extra ``bench``.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from turns import alone, in_turns, peak_mb

NEEDED = 1.5
COLUMNS = ("instrument_id", "start", "open", "high", "low", "close", "vwap", "volume", "trades")
WAYS = ("two keys", "packed key", "two keys, streaming", "packed key, streaming")
SIDES = ("strand", WAYS[2], WAYS[3])


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

    with strand.Dispatcher(symbols, strand.bars(step_ns), workers=workers, feed="plain") as dispatcher:
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
    expected: list[npt.NDArray[np.int64]] = []

    def timed(name: str) -> float:
        begun = time.perf_counter()
        found = sides[name]()
        spent = time.perf_counter() - begun
        table = table_of(found, task["step_ns"])
        expected[:] = expected or [table]
        assert np.array_equal(table, expected[0]), f"{name} found other bars"
        return spent

    seconds = in_turns({name: partial(timed, name) for name in sides}, task["turns"])
    return {"seconds": seconds, "bars": len(expected[0])}


def from_file(task: dict[str, Any]) -> dict[str, Any]:
    """One side, once: from a file to a file, or to bars in memory, where ``out`` is None."""
    begun = time.perf_counter()
    source, out = Path(task["source"]), task["out"]
    found: Any
    if task["side"] == "strand":
        from strand import bars, replay  # by name: the package loads what it has on its first use

        imported = time.perf_counter()
        result = replay(
            source,
            bars(task["step_ns"]),
            out={} if out is None else {"bars": out},
            workers=task["workers"],
            feed_options={"price_unit": "1e-9", "constants": {"kind": 2, "action": b"T"}},
        )
        found = None if out is not None else result.outputs["bars"]
    else:
        import polars as pl

        imported = time.perf_counter()
        scan = pl.scan_parquet if source.suffix == ".parquet" else pl.scan_ipc
        found = by_polars(scan(source), task["step_ns"], task["side"], None if out is None else Path(out))
    ended = time.perf_counter()
    told = {"seconds": ended - begun, "imports_s": imported - begun, "peak_mb": peak_mb()}
    if out is None:
        if task["side"] == "strand":
            # Indices go by first appearance, names say which instrument it is.
            names = [name for name in result.symbols if name.startswith("id:")]
            ids = np.array([int(name.removeprefix("id:")) for name in names], np.uint32)
            found = np.array(found)
            found["instrument_id"] = ids[found["instrument_id"]]
            found = [found]
        told["digest"] = hashlib.blake2b(table_of(found, task["step_ns"]).tobytes()).hexdigest()
    return told


def run_task(turn: Callable[[dict[str, Any]], dict[str, Any]], task: dict[str, Any]) -> dict[str, Any]:
    """In a fresh process on so many cores."""
    os.environ["POLARS_MAX_THREADS"] = str(task["cores"])
    return alone(turn, task, cores=sorted(os.sched_getaffinity(0))[-task["cores"] :])


# ---- the parts


def memory(base: dict[str, Any]) -> dict[str, Any]:
    found = run_task(in_memory, base)
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


def source_of(base: dict[str, Any], folder: Path, ending: str) -> Path:
    """The trades as a file, as polars writes it."""
    source = folder / f"trades{ending}"
    if not source.exists():
        frame = columns_of(made_ticks(base["trades"], base["symbols"]))
        if ending == ".parquet":
            frame.write_parquet(source, row_group_size=1 << 18)
        else:
            frame.write_ipc(source, record_batch_size=1 << 18)
    return source


def collect(base: dict[str, Any], folder: Path, ending: str) -> dict[str, Any]:
    source = source_of(base, folder, ending)
    tasks = {side: {**base, "side": side, "source": str(source), "out": None} for side in SIDES}
    turns = in_turns({side: partial(run_task, from_file, task) for side, task in tasks.items()}, base["turns"], warm=0)
    assert len({told["digest"] for side in SIDES for told in turns[side]}) == 1, "they found other bars"
    return {"part": "collect", "from": ending, **told_of(base, f"from {ending} to memory", turns)}


def file(base: dict[str, Any], folder: Path) -> dict[str, Any]:
    import polars as pl

    source = source_of(base, folder, ".parquet")
    expected: list[npt.NDArray[np.int64]] = []

    def written(side: str) -> dict[str, Any]:
        out = folder / "bars.parquet"
        told = run_task(from_file, {**base, "side": side, "source": str(source), "out": str(out)})
        frame = pl.read_parquet(out)
        if side == "strand":
            ids = frame["symbol"].str.strip_prefix("id:").cast(pl.UInt32)
            frame = frame.with_columns(instrument_id=ids, window=pl.col("start").cast(pl.Int64) // base["step_ns"])
            # It writes prices in currency: floats that hold these prices to far less than 1e-9.
            prices = pl.col("open", "high", "low", "close", "vwap")
            frame = frame.with_columns((prices * 1e9).round().cast(pl.Int64))
        table = table_of(frame, base["step_ns"])
        expected[:] = expected or [table]
        assert np.array_equal(table, expected[0]), f"{side} wrote other bars"
        out.unlink()
        return told

    turns = in_turns({side: partial(written, side) for side in SIDES}, base["turns"], warm=0)
    return {"part": "file", **told_of(base, "file to file", turns)}


def told_of(base: dict[str, Any], what: str, turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    seconds, imports, peaks = (
        {side: median(told[name] for told in turns[side]) for side in SIDES}
        for name in ("seconds", "imports_s", "peak_mb")
    )
    for side in SIDES:
        rate = base["trades"] / seconds[side] / 1e6
        click.echo(
            f"  {side:<30} {seconds[side]:7.3f} s, of which imports {imports[side]:.3f}  {rate:7.1f} M trades/s  "
            f"{peaks[side]:6.0f} MB at most"
        )
    ratios = {side: seconds[side] / seconds["strand"] for side in SIDES[1:]}
    said = ", ".join(f"{ratio:.2f} times {side}" for side, ratio in ratios.items())
    click.echo(f"{what}, {base['cores']} cores: {said}")
    return {"cores": base["cores"], "ratios": ratios, "seconds": seconds, "imports_s": imports, "peak_mb": peaks}


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(["memory", "collect", "file"]))
@click.option("--trades", default=10_000_000, type=click.IntRange(1000))
@click.option("--symbols", default=8172, type=click.IntRange(1))
@click.option("--step", default="1m", help="The time of a bar.")
@click.option("--cores", multiple=True, type=click.IntRange(1), help="Once or several times. [default: all]")
@click.option("--turns", default=5, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
def main(  # noqa: PLR0917
    parts: tuple[str, ...], trades: int, symbols: int, step: str, cores: tuple[int, ...], turns: int, as_json: bool
) -> None:
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
            for part in parts or ("memory", "collect", "file"):
                if part == "memory":
                    found.append(memory(base))
                elif part == "collect":
                    found += [collect(base, Path(folder), ending) for ending in (".arrow", ".parquet")]
                else:
                    found.append(file(base, Path(folder)))
    if as_json:
        click.echo(json.dumps(found))


if __name__ == "__main__":
    main()
