"""The files that the jobs begin with: a made-up day, three days, and small files of other formats."""

import csv
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from strand.feeds.synthetic import SyntheticFeed, write_lobster
from strand.feeds.write.conversion import convert

DATES = ("2026-01-05", "2026-01-06", "2026-01-07")
PAIR = ("AAAAL", "AAAAJ")
FUND = "AAAAL"
WEIGHTS = {"AAAAA": 0.5, "AAAAI": 1.0, "AAAAE": 0.75}  # of the fund's constituents


class Lots:
    """A class that somebody has: what sellers realise against the buys before them, the oldest first."""

    def __init__(self) -> None:
        self.lots: deque[list[float]] = deque()
        self.profit = 0.0

    def trade(self, aggressor: str, price: float, size: int) -> None:
        """Takes one trade; ``aggressor``: B the buyer, A the seller."""
        if aggressor == "B":
            self.lots.append([price, size])
        left = float(size) if aggressor == "A" else 0.0
        while left and self.lots:
            taken = min(left, self.lots[0][1])
            self.profit += taken * (price - self.lots[0][0])
            self.lots[0][1] -= taken
            left -= taken
            if self.lots[0][1] == 0:
                self.lots.popleft()


@dataclass(frozen=True)
class JobData:
    """Paths of the files of the jobs.

    ``day``: ITCH 5.0 of 20 symbols. ``days``: a folder of three such days. ``lobster``: LOBSTER messages of one symbol.
    ``dbn``: the same as DBN MBO. ``coins``: trades of a coin as Binance publishes them. ``out``: an empty folder.
    """

    day: Path
    days: Path
    lobster: Path
    dbn: Path
    coins: Path
    out: Path


def make_data(folder: Path) -> JobData:
    """Writes all files into an empty folder. Takes half a second."""
    days, lobster, out = folder / "days", folder / "lobster", folder / "out"
    for made in (days, lobster, out):
        made.mkdir()
    for seed, date in enumerate(DATES):
        year, month, day = date.split("-")
        market = SyntheticFeed(20, 30_000, seed=7 + seed, date=date)
        market.write_itch(days / f"{month}{day}{year}.NASDAQ_ITCH50.gz")
    messages, _ = write_lobster(SyntheticFeed(5, 20_000, seed=7), lobster)
    convert(messages.path, folder / "day.dbn.zst")
    _write_coins(folder / "BTCUSDT-trades-2026-01-05.csv")
    return JobData(
        day=days / "01052026.NASDAQ_ITCH50.gz",
        days=days,
        lobster=Path(messages.path),
        dbn=folder / "day.dbn.zst",
        coins=folder / "BTCUSDT-trades-2026-01-05.csv",
        out=out,
    )


def _write_coins(path: Path) -> None:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "price", "qty", "quote_qty", "time", "is_buyer_maker", "is_best_match"])
        for n in range(1, 5001):
            price, quantity = f"{64_000 + n * 37 % 1009 / 10:.2f}", f"{(n * n % 997 + 1) / 2**10:.8f}"
            lines.writerow([n, price, quantity, "0", 1_767_571_200_000 + n * 700, "true" if n % 3 else "false", "true"])
