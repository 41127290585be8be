"""One-minute bars of every symbol, written to a Parquet file in one pass, and read back.

python examples/bars_to_parquet.py [PARQUET-FILE [ITCH-FILE DATE]]; without a file to read it runs on the sample that
comes with the package.
"""

from __future__ import annotations

import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path


def main(out: str, path: str, date: str) -> None:
    """Trades in the file come from full order books: an execution in ITCH has no price of its own."""
    bars = strand.bars("1m", book=True, sessions="09:30-16:00 America/New_York")
    result = strand.replay(path, bars, out={"bars": out}, date=date)
    table = pq.read_table(out)
    names = len(table["symbol"].unique())
    print(f"{table.num_rows:,} bars of {names:,} symbols in {result.wall_s:.2f} s, written to {out}")
    print(f"{pc.sum(table['volume']).as_py():,} shares in {pc.sum(table['trades']).as_py():,} trades")


if __name__ == "__main__":
    main((sys.argv[1:] or ["bars.parquet"])[0], *(sys.argv[2:] or [str(sample_path()), SAMPLE_DATE]))
