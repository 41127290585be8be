"""Full order books of every symbol: the top, levels below it, and who waits in front of an order.

python examples/books_top.py [ITCH-FILE DATE]; without them it runs on the sample that comes with the package.
"""

from __future__ import annotations

import sys

import numpy as np

import strand
from strand import PRICE_SCALE
from strand.feeds.sample import SAMPLE_DATE, sample_path


def main(path: str, date: str) -> None:
    """Stops at 15:00, while the books are full, and prints the one with the most orders."""
    result = strand.replay(path, "book", end="15:00", date=date)
    books = result.books
    assert books is not None
    print(f"{books.live_orders:,} orders rest in {np.count_nonzero(result.rows.array['orders']):,} books")

    fullest = int(np.argmax(result.rows.array["orders"]))
    name, book = result.symbols[fullest], books[fullest]
    print(f"\n{name}: {len(book):,} orders")
    print(f"{'bid size':>10} {'orders':>7} {'price':>10}   {'price':<10} {'ask size':>9} {'orders':>7}")
    for bid, ask in zip(book.bids(5), book.asks(5), strict=False):
        left = f"{bid['size']:>10,} {bid['orders']:>7} {bid['price'] / PRICE_SCALE:>10.2f}"
        print(f"{left}   {ask['price'] / PRICE_SCALE:<10.2f} {ask['size']:>9,} {ask['orders']:>7}")

    last = [order for order in book.orders("bid") if order["price"] == book.bids(1)[0]["price"]][-1]
    print(f"\nthe last order at the best bid, {last['order_id']}, has {last['ahead_orders']} orders before it")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [str(sample_path()), SAMPLE_DATE]))
