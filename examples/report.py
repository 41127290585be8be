"""Views of a run: a page for everybody, a picture for a notebook, the numbers for oneself.

python examples/report.py [FOLDER [ITCH-FILE DATE]]; the page and the picture go into the folder, by default this one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path


def main(folder: Path, path: str, date: str) -> None:
    """Replays with the four busiest symbols watched."""
    result = strand.replay(path, "book", watch=4, date=date)
    result.report(folder / "report.html", handler="book")
    result.plot("prices").savefig(folder / "prices.png", dpi=150)
    timeline = result.timeline
    assert timeline is not None
    _, rates = timeline.rate(bins=20)
    print(
        f"{len(timeline)} moments; at most {np.max(rates) / 1e6:.1f} M ticks/s and {timeline.pending.max():,} pending"
    )
    for name, symbol in timeline.symbols.items():
        bid, ask = (symbol.rows[field] for field in ("bid_price", "ask_price"))
        both = (bid > 0) & (ask < strand.UNDEF_PRICE) & (bid < strand.UNDEF_PRICE)
        spread = np.median(ask[both] - bid[both]) / strand.PRICE_SCALE
        print(f"{name}: {len(symbol.rows)} moments of its book, median spread {spread:.2f}")
    print(f"written: {folder / 'report.html'}, {folder / 'prices.png'}")


if __name__ == "__main__":
    main(Path((sys.argv[1:] or ["."])[0]), *(sys.argv[2:] or [str(sample_path()), SAMPLE_DATE]))
