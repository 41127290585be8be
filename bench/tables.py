"""Files of tables beside what users of dataframes would take: polars and duckdb.

    python bench/tables.py                      all parts, 9 turns, files of 10,000,000 trades of 8,172 symbols
    python bench/tables.py parquet --turns 5 --rows 2000000
    pip install polars duckdb                   the others, of which those that are missing are named

``parquet``: the volume-weighted average price of each symbol of a Parquet file (zstd, as polars writes it), by
`strand.replay(file, "vwap")`, by polars' streaming engine, and by duckdb. ``frame``: a CSV file as a DataFrame, by
`strand.feeds.open(file).to_polars()`, which has 20 columns in natural units, and by `polars.read_csv`, which has the
file's 8. ``csv``: the same file through `strand.replay(file, "count")`, and `polars.read_csv`. ``nothing``: what the
programs take for files of 1,000 rows: their start.

Each is a process of its own on the same cores, and all take turns. A speed is the rival's time over Strand's, turn by
turn: above 1, Strand is faster.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
from turns import in_turns, is_there, lines, run

SYMBOLS = 8_172
BEGUN_US = 1_767_571_200_000_000
#: Programs by part and by name. ``{}`` is the file.
PARTS = {
    "parquet": {
        "strand": "import strand; strand.replay('{}', 'vwap').rows.to_numpy()",
        "polars": "import polars as pl; paid = pl.col('price') * pl.col('size'); pl.scan_parquet('{}')"
        ".group_by('symbol').agg((paid.sum() / pl.col('size').sum()).alias('vwap'), pl.col('size').sum().alias('sum'),"
        " pl.len()).collect(engine='streaming')",
        "duckdb": 'import duckdb; duckdb.sql("select symbol, sum(price * size) / sum(size), sum(size), count(*) '
        "from read_parquet('{}') group by symbol\").fetchnumpy()",
    },
    "frame": {
        "strand": "from strand import feeds; feeds.open('{}').to_polars()",
        "polars": "import polars as pl; pl.read_csv('{}')",
    },
    "csv": {
        "strand": "import strand; strand.replay('{}', 'count')",
        "polars": "import polars as pl; pl.read_csv('{}')",
    },
}


def trades(path: Path, rows: int) -> Path:
    """A file of trades: Parquet as a user's own, CSV as Tardis has it. It stays in the build folder."""
    if path.exists():
        return path
    import polars as pl

    from strand.feeds.io.atomic_write import atomic_write

    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    letters = rng.integers(65, 91, (SYMBOLS, 5)).astype(np.uint8).tobytes().decode()
    names = np.array([f"{letters[5 * i : 5 * i + 2 + i % 4]}{i}" for i in range(SYMBOLS)])
    weights = 1 / np.arange(1, SYMBOLS + 1) ** 0.9
    keys = rng.choice(SYMBOLS, rows, p=weights / weights.sum())
    at = BEGUN_US + np.sort(rng.integers(0, 86_400 * 10**6, rows))
    prices = np.round(rng.lognormal(3.5, 1, SYMBOLS)[keys] * (1 + rng.normal(0, 0.003, rows)), 2).clip(0.01)
    sizes, ids = np.minimum(rng.geometric(0.01, rows), 5000), np.arange(1_000_000_001, 1_000_000_001 + rows)
    sides = np.array(["buy", "sell"])[rng.integers(0, 2, rows)]
    if path.suffix == ".csv":
        table = {
            "exchange": "binance", "symbol": names[keys], "timestamp": at,
            "local_timestamp": at + rng.integers(100, 5000, rows), "id": ids, "side": sides, "price": prices,
            "amount": sizes,
        }  # fmt: skip
    else:
        table = {
            "ts_event": pl.from_epoch(pl.Series(at), "us").cast(pl.Datetime("ns", "UTC")), "symbol": names[keys],
            "price": prices, "size": sizes, "trade_id": ids, "side": sides,
            "exchange": np.array(["Q", "N", "P", "Z", "D"])[rng.integers(0, 5, rows)],
        }  # fmt: skip
    with atomic_write(path) as file:
        (pl.DataFrame.write_csv if path.suffix == ".csv" else pl.DataFrame.write_parquet)(pl.DataFrame(table), file)
    return path


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, "nothing"]))
@click.option("--turns", default=9, show_default=True, type=click.IntRange(min=1))
@click.option("--rows", default=10_000_000, show_default=True, type=click.IntRange(min=1))
def main(parts: tuple[str, ...], turns: int, rows: int) -> None:
    folder = Path(__file__).parent.parent / "build"
    click.echo(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for part in parts or (*PARTS, "nothing"):
        for name in PARTS if part == "nothing" else (part,):
            count = 1_000 if part == "nothing" else rows
            file = trades(folder / f"tables-{count}.{'parquet' if name == 'parquet' else 'csv'}", count)
            sides = {
                side: partial(run, [sys.executable, "-c", text.format(file)])
                for side, text in PARTS[name].items()
                if is_there(side)
            }
            click.echo(f"{name}, {count:,} rows")
            click.echo("\n".join(lines(in_turns(sides, turns), [side for side in sides if side != "strand"])))


if __name__ == "__main__":
    main()
