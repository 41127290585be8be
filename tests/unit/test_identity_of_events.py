"""A market with ends of events, snapshots, trades of size 0, rolls and sessions gives one result, however it is run."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dbn_reference as ref
import numpy as np
import pytest
from databento_tables import DIALECTS, written

import strand
from strand import UNDEF_PRICE

pytestmark = pytest.mark.python

dbn = pytest.importorskip("databento_dbn")

MONDAY = np.datetime64(ref.NOON // ref.DAY, "D").astype(object)
DAYS = [MONDAY + np.timedelta64(at, "D").astype(object) for at in range(3)]
NAMES = {
    "ES.c.0": [(DAYS[0], DAYS[1], "10"), (DAYS[1], DAYS[2], "20")],
    "CL": [(DAYS[0], DAYS[2], "30")],
    "NQ": [(DAYS[0], DAYS[2], "40")],
}
SYMBOLS = {10: "ES.c.0", 20: "ES.c.0", 30: "CL", 40: "NQ"}
TICKS = 6_000
#: Each handler that takes orders, and a chain and a class of the user's own below.
SESSIONS = "11:55-12:10 UTC"
HANDLERS: dict[str, Any] = {
    "book": strand.book,
    "bars": lambda: strand.bars("10s", sessions=SESSIONS),
    "bars of zero sizes": lambda: strand.bars(ticks=7, zero_sizes="price"),
    "bars of volume": lambda: strand.bars(volume=50),
    "bars of quotes": lambda: strand.quote_bars("10s", sessions=SESSIONS),
    "bars of imbalance": lambda: strand.imbalance_bars("notional", expected_ticks=9, sessions=SESSIONS),
    "vwap": lambda: strand.vwap("30s", sessions=SESSIONS),
    "spread": lambda: strand.spread("10s", sessions=SESSIONS),
    "imbalance": lambda: strand.imbalance("10s", sessions=SESSIONS),
    "volatility": lambda: strand.volatility("5s", price="mid", every="1m"),
    "trade_stats": lambda: strand.trade_stats("1m"),
    "bbo": strand.bbo,
    "trades": strand.trades,
    "depth": strand.depth,
}


def orders(seed: int) -> list[bytes]:
    """Two days of three instruments: adds, changes, cancels and trades, some of size 0; events of one to five records,
    snapshots in the middle, and a clear now and then."""
    rng = random.Random(seed)
    found: list[bytes] = []
    number = 0
    for day in range(2):
        live: dict[int, list[int]] = {(20 if day else 10): [], 30: [], 40: []}
        time = ref.NOON + day * ref.DAY
        for at in range(TICKS // 2):
            instrument = rng.choice(list(live))
            time += rng.choice([0, 1, 10**6, 10**9])
            header = {"instrument": instrument, "event": time - 5, "received": time, "sequence": at}
            flags = rng.choice([0, 128, 128])
            side, price = rng.choice([(b"B", 100), (b"A", 105)])
            price = (price + rng.randrange(4)) * 10**9
            if rng.random() < 0.01:  # a snapshot of the book that there is
                found.append(ref.mbo(**header, action=b"R", side=b"N", price=UNDEF_PRICE, size=0, order=0, flags=32))
                live[instrument] = []
                for last in (0, 0, 128):
                    number += 1
                    live[instrument].append(number)
                    found.append(ref.mbo(**header, action=b"A", side=side, price=price, order=number, flags=32 | last))
                continue
            action = rng.choice([b"A", b"A", b"C", b"M", b"T", b"F"])
            if action in (b"C", b"M", b"F") and not live[instrument]:
                action = b"A"
            order, size = 0, rng.choice([0, 1, 5]) if action == b"T" else 5
            if action == b"A":
                number += 1
                order = number
                live[instrument].append(order)
            elif action in (b"C", b"F", b"M"):
                order = rng.choice(live[instrument])
                if action == b"C":
                    live[instrument].remove(order)
            found.append(ref.mbo(**header, action=action, side=side, price=price, size=size, order=order, flags=flags))
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("events")
    data = ref.metadata(3, NAMES, schema=dbn.Schema.MBO) + b"".join(orders(3))
    found = {}
    for dialect in DIALECTS:
        (folder / dialect).mkdir()
        found[dialect] = written(folder / dialect, dialect, data, SYMBOLS)
    yield found
    shutil.rmtree(folder)


def named_rows(result: strand.ReplayResult) -> dict[str, Any]:
    return {name: result.rows[name].tobytes() for name in SYMBOLS.values()}


@pytest.mark.parametrize("name", HANDLERS)
def test_every_number_of_workers_and_every_form_gives_one_result(name: str, files: dict[str, Path]) -> None:
    whole = strand.replay(files["dbn"], HANDLERS[name](), workers=0)
    assert whole.ticks > TICKS
    assert any(warning.kind == "rolled instruments" for warning in whole.warnings)
    for workers in (1, 2, 4):
        ran = strand.replay(files["dbn"], HANDLERS[name](), workers=workers, cores=None)
        assert ran.fingerprint == whole.fingerprint
    for dialect, path in files.items():
        ran = strand.replay(path, HANDLERS[name](), workers=2 if dialect != "csv" else 0, cores=None)
        assert named_rows(ran) == named_rows(whole), dialect
        if dialect.startswith("own"):  # whose symbols have the same numbers
            assert ran.fingerprint == whole.fingerprint
        for output, records in whole.outputs.items():
            assert len(ran.outputs[output]) == len(records), dialect


@pytest.mark.parametrize("name", HANDLERS)
def test_a_run_that_is_saved_and_goes_on_ends_as_one_that_was_not(
    name: str, files: dict[str, Path], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"workers": 2, "cores": None}
    whole = strand.replay(files["dbn"], HANDLERS[name](), **options)
    with strand.feeds.open(files["dbn"]) as feed:
        ticks = feed.to_numpy()
    roll = int(np.flatnonzero((ticks["kind"] == 4) & (ticks["action"] == b"R"))[0])
    snapshot = int(np.flatnonzero(ticks["flags"] & 32)[1])
    for cut in (snapshot, roll, roll + 1):
        first = strand.replay(files["dbn"], HANDLERS[name](), limit=cut, save=tmp_path / "state", **options)
        second = strand.replay(files["dbn"], HANDLERS[name](), load=tmp_path / "state", **options)
        assert first.ticks == cut
        assert named_rows(second) == named_rows(whole)
        for output, records in whole.outputs.items():
            parts = [np.asarray(part.outputs[output]) for part in (first, second)]
            assert np.concatenate(parts).tobytes() == np.asarray(records).tobytes()  # NaN too
    stopped = [
        strand.replay(files["dbn"], HANDLERS[name](), workers=workers, cores=None, until=("CL", 700)).fingerprint
        for workers in (0, 1, 2)
    ]
    assert len(set(stopped)) == 1
