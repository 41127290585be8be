"""Small jobs of a second day, each a function of at most six lines. ``python small_jobs.py`` prints what they give."""

from typing import Any

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path


def top_levels(path: Any, symbols: list[str], **options: Any) -> Any:
    """The best five levels of both sides of some symbols, each second, as a frame: price, size and number of orders."""
    result = strand.replay(path, strand.book(top=5), symbols=symbols, snapshot="1s", **options)
    return result.snapshots.to_polars().select("ts", "symbol", "^(bid|ask)_(price|size|count)_[1-5]$")


def changes_of_levels(path: Any, symbols: list[str], to: Any, **options: Any) -> None:
    """Each change of the best five levels of some symbols, in a file of Parquet, Arrow, CSV or numpy."""
    strand.replay(path, strand.book(top=5, changes=True), symbols=symbols, out={"levels": to}, **options)


if __name__ == "__main__":
    print(top_levels(sample_path(), ["AAAHD", "AAADU", "AAAOA"], date=SAMPLE_DATE).tail(3))
