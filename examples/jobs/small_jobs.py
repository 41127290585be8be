"""Small jobs of a second day, each a function of at most six lines. ``python small_jobs.py`` prints what they give."""

from typing import Any

import strand
from strand.feeds.live.mold import MoldFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path


def top_levels(path: Any, symbols: list[str], **options: Any) -> Any:
    """The best five levels of both sides of some symbols, each second, as a frame: price, size and number of orders."""
    result = strand.replay(path, strand.book(top=5), symbols=symbols, snapshot="1s", **options)
    return result.snapshots.to_polars().select("ts", "symbol", "^(bid|ask)_(price|size|count)_[1-5]$")


def changes_of_levels(path: Any, symbols: list[str], to: Any, **options: Any) -> None:
    """Each change of the best five levels of some symbols, in a file of Parquet, Arrow, CSV or numpy."""
    strand.replay(path, strand.book(top=5, changes=True), symbols=symbols, out={"levels": to}, **options)


def quotes_at(path: Any, events: Any, **options: Any) -> Any:
    """One's own events, a table with the columns symbol and time, with the best bid and ask just before each."""
    return strand.asof(path, events, **options).to_polars()


def market_of_orders(path: Any, orders: Any, **options: Any) -> Any:
    """One's own orders (symbol, start, end, price, side) with the market's volume, VWAP and TWAP, and the slippage."""
    return strand.between(path, orders, price="price", side="side", **options).to_polars()


def bars_of_sessions(path: Any, calendar: str, **options: Any) -> tuple[Any, Any]:
    """Hourly bars of an exchange's sessions, half days and breaks included, and the trades outside of them."""
    result = strand.replay(path, strand.bars("1h", sessions=calendar), **options)
    return result.outputs["bars"].to_polars(), result.rows.to_polars().select("symbol", "outside")


def ticks_around(path: Any, symbol: str, start: str, end: str, **options: Any) -> Any:
    """The ticks of a symbol from one time to another, as a frame with exact prices."""
    with strand.feeds.open(path, symbols=[symbol], start=start, end=end, **options) as feed:
        return feed.to_polars(prices="decimal")


def frame_in_memory(trades: Any, **columns: str) -> Any:
    """VWAP of each symbol of a frame of trades. ``columns``: the frame's names, as ``ts_event="time"``."""
    result = strand.replay(trades, "vwap", feed_options={"columns": columns, "constants": {"kind": "trade"}})
    return result.rows.to_polars()


def day_so_far_and_on(recorded: Any, *lines: str, **options: Any) -> tuple[Any, list[tuple[int, int]]]:
    """VWAP of each symbol of a day under way: a recording at full speed, then the lines. And what neither had."""
    feed = strand.feeds.join(recorded, MoldFeed(*lines, **options))
    rows = strand.replay(feed, "vwap").rows
    return rows.to_polars(), feed.gaps()


if __name__ == "__main__":
    print(top_levels(sample_path(), ["AAAHD", "AAADU", "AAAOA"], date=SAMPLE_DATE).tail(3))
