"""Runs the handler of quotes.c after the order book, over the sample that comes with strand. Build it first: make."""

from __future__ import annotations

from pathlib import Path

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path

ROW = [("last", "i8"), ("time", "i8"), ("weighted", "f8"), ("spread", "i8")]


def main() -> None:
    """Prints the symbols with the narrowest spreads."""
    quotes = strand.native(Path(__file__).with_name("quotes.so"), "on_ticks", state=ROW, never_publishes=True)
    result = strand.replay(sample_path(), strand.chain(strand.book(), quotes=quotes), date=SAMPLE_DATE)
    rows = result.rows.to_numpy()
    quoted = rows[rows["quotes"]["time"] > 0]
    spread = quoted["quotes"]["weighted"] / quoted["quotes"]["time"]
    for i in spread.argsort()[:5]:
        print(f"{quoted['symbol'][i]:8} {spread[i]:.4f}")


if __name__ == "__main__":
    main()
