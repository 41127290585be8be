"""Bars of imbalance, against an independent computation in plain Python, and their edges by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from plain_run import plain_run

import strand
from strand import UNDEF_PRICE, Sessions, imbalance_bars
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BAR, BAR_BOUNDED, BAR_CUT, BAR_PARTIAL
from strand.ticks import KIND_STATUS, KIND_TRADE, zeros

OF = ("ticks", "volume", "notional")
Row = tuple[int, int, int, str]


def trades(*rows: Row) -> Any:
    """Trades of symbol 0: (ts_recv, price, size, aggressor)."""
    ticks = zeros(len(rows))
    ticks["kind"], ticks["action"] = KIND_TRADE, b"T"
    for tick, (ts, price, size, side) in zip(ticks, rows, strict=True):
        tick["ts_recv"], tick["price"], tick["size"], tick["side"] = ts, price, size, side.encode()
    return ticks


def market(n: int, seed: int) -> list[Row]:
    """Trades whose buyers and sellers take turns for some time; a few without an aggressor."""
    rng = np.random.default_rng(seed)
    ts, price, found, lean = 0, 1_000 * 10**9, [], 0.5
    for _ in range(n):
        ts += int(rng.integers(0, 50))
        if rng.random() < 0.01:
            lean = float(rng.random())
        side = "N" if rng.random() < 0.1 else "B" if rng.random() < lean else "A"
        price += int(rng.integers(-1, 2)) * 10**7
        found.append((ts, price, int(rng.integers(1, 400)), side))
    return found


def signs(rows: list[Row], sign: str) -> list[int]:
    found, direction, last = [], 0, None
    for _, price, _, side in rows:
        if last is not None and price != last:
            direction = 1 if price > last else -1
        last = price
        found.append({"B": 1, "A": -1}.get(side, direction) if sign == "aggressor" else direction)
    return found


def weighted_mean(values: list[float], span: int) -> float:
    """As ``pandas.Series(values).ewm(span=span).mean().iloc[-1]``."""
    total = weight = 0.0
    for value in values:
        total, weight = value + (1 - 2 / (span + 1)) * total, 1 + (1 - 2 / (span + 1)) * weight
    return total / weight


def expected_bars(rows: list[Row], of: str, sign: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Bars whose threshold comes from the trades before them; the last one may be partial."""
    unit = {"ticks": lambda *_: 1, "volume": lambda p, v: v, "notional": lambda p, v: p * v}[of]
    values = [b * unit(price, size) for b, (_, price, size, _) in zip(signs(rows, sign), rows, strict=True)]
    first, span_bars = options["expected_ticks"], options.get("span_bars", 20)
    span_ticks = options.get("span_ticks") or span_bars * first
    least, most = options.get("min_ticks", 1), options.get("max_ticks", math.inf)
    found: list[dict[str, Any]] = []
    at = 0
    while at < len(rows):
        limit = None
        if found:
            mean = weighted_mean([float(bar["trades"]) for bar in found], span_bars)
            limit = mean * abs(weighted_mean([float(value) for value in values[:at]], span_ticks))
        theta = 0
        for n, value in enumerate(values[at:], 1):
            theta += value
            enough = n >= first if limit is None else float(abs(theta)) >= limit
            if n >= least and (enough or n >= most):
                flags = 0 if enough else BAR_BOUNDED
                break
        else:
            flags = BAR_PARTIAL
        scale = 10**9 if of == "notional" else 1
        found.append(
            {"start": rows[at][0], "end": rows[at + n - 1][0], "trades": n, "flags": flags,
             "imbalance": float(theta) / scale if of == "notional" else theta,
             "threshold": None if limit is None else limit / scale}
        )  # fmt: skip
        at += n
    return found


def shown(records: Any) -> list[dict[str, Any]]:
    names = ("start", "end", "trades", "flags", "imbalance", "threshold")
    bars = [{name: bar[name].item() for name in names} for bar in records]
    return [bar | {"threshold": None if math.isnan(bar["threshold"]) else bar["threshold"]} for bar in bars]


BOUNDS: list[dict[str, Any]] = [
    {"expected_ticks": 40},
    {"expected_ticks": 7, "span_bars": 3, "span_ticks": 25},
    {"expected_ticks": 30, "min_ticks": 5, "max_ticks": 60},
    {"expected_ticks": 1, "span_bars": 1, "span_ticks": 1},
]


@pytest.mark.cells(2)
@pytest.mark.parametrize("options", BOUNDS)
@pytest.mark.parametrize("sign", ["aggressor", "tick"])
@pytest.mark.parametrize("of", OF)
def test_bars_of_an_expected_imbalance_are_those_of_plain_python(of: Any, sign: Any, options: dict[str, Any]) -> None:
    rows = market(1_500, 7)
    ran = plain_run(imbalance_bars(of, sign=sign, **options), trades(*rows), 1)
    right = expected_bars(rows, of, sign, options)
    assert shown(ran.records) == right
    assert len(right) > 5
    assert ran.rows[0]["bounded"] == sum(bar["flags"] == BAR_BOUNDED for bar in right)
    by_rule = len(rows) if sign == "tick" else sum(side == "N" for *_, side in rows)
    assert ran.rows[0]["by_rule"] == by_rule


@pytest.mark.parametrize(("of", "threshold"), [("ticks", 12), ("volume", 2_500), ("notional", 2_000_000)])
def test_bars_of_a_fixed_imbalance_are_those_of_plain_python(of: Any, threshold: int) -> None:
    rows = market(2_000, 8)
    ran = plain_run(imbalance_bars(of, threshold=threshold), trades(*rows), 1)
    units = {"ticks": lambda p, v: 1, "volume": lambda p, v: v, "notional": lambda p, v: Fraction(p * v, 10**9)}
    right, theta, n = [], Fraction(0), 0
    for b, (_, price, size, _) in zip(signs(rows, "aggressor"), rows, strict=True):
        theta, n = theta + b * units[of](price, size), n + 1
        if abs(theta) >= threshold:
            right.append((n, float(theta)))
            theta, n = Fraction(0), 0
    full = ran.records[ran.records["flags"] == 0]
    assert [(int(bar["trades"]), float(bar["imbalance"])) for bar in full] == right
    assert len(right) > 10
    assert set(ran.records["threshold"]) == {threshold}


def test_means_are_those_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    values = [float(value) for value in np.random.default_rng(1).integers(-9, 10, 60)]
    assert weighted_mean(values, 12) == pytest.approx(pandas.Series(values).ewm(span=12).mean().iloc[-1], rel=1e-12)


def test_a_threshold_that_falls_to_zero_makes_bars_of_the_least_number_of_trades() -> None:
    """Buyers and sellers in balance: nothing is expected, so each trade is enough."""
    rows = [(i, 100, 5, "AB"[i % 2]) for i in range(40)]
    alone = plain_run(imbalance_bars(expected_ticks=10, span_ticks=10**9), trades(*rows), 1).records
    assert alone["trades"].tolist()[:4] == [10, 1, 1, 1]
    assert abs(alone["threshold"][1]) < 1e-6
    held = plain_run(imbalance_bars(expected_ticks=10, span_ticks=10**9, min_ticks=5), trades(*rows), 1).records
    assert held["trades"].tolist()[:4] == [10, 5, 5, 5]


def test_trades_without_any_sign_expect_nothing() -> None:
    """One price and no aggressor: the tick rule says 0 to all."""
    ran = plain_run(imbalance_bars(expected_ticks=3), trades(*((i, 100, 5, "N") for i in range(6))), 1)
    assert ran.records["trades"].tolist() == [3, 1, 1, 1]
    assert ran.records["threshold"].tolist()[1:] == [0, 0, 0]
    assert ran.rows[0]["unsigned"] == ran.rows[0]["by_rule"] == 6


def test_a_threshold_that_explodes_is_bounded_by_the_greatest_number_of_trades() -> None:
    """A run of buyers makes a threshold that a market in balance never reaches."""
    rows = [(i, 100, 5, "B") for i in range(100)] + [(100 + i, 100, 5, "AB"[i % 2]) for i in range(900)]
    free = plain_run(imbalance_bars(expected_ticks=50, span_ticks=10**6), trades(*rows), 1).records
    assert free["trades"].tolist() == [50, 50, 900]
    assert free["flags"][2] == BAR_PARTIAL
    bound = plain_run(imbalance_bars(expected_ticks=50, span_ticks=10**6, max_ticks=200), trades(*rows), 1)
    assert bound.records["trades"].tolist() == [50, 50, 200, 200, 200, 200, 100]
    assert bound.records["flags"].tolist() == [0, 0, *[BAR_BOUNDED] * 4, BAR_PARTIAL]
    assert bound.rows[0]["bounded"] == 4


def test_a_bar_that_its_session_cuts_is_no_expected_length() -> None:
    sessions = Sessions(np.array([[0, 100], [200, 400]]))
    rows = [(i * 10, 100, 5, "B") for i in range(6)] + [(200 + i * 10, 100, 5, "B") for i in range(20)]
    records = plain_run(imbalance_bars(expected_ticks=10, sessions=sessions), trades(*rows), 1).records
    assert records["trades"].tolist() == [6, 10, 10]
    assert records["flags"].tolist() == [BAR_CUT, 0, 0]
    assert np.isnan(records["threshold"]).tolist() == [True, True, False]


def test_a_new_day_begins_the_tick_rule_again_and_keeps_what_is_expected() -> None:
    ticks = trades((1, 100, 5, "N"), (2, 101, 5, "N"), (3, 0, 0, "N"), (4, 300, 5, "N"), (5, 299, 5, "N"))
    ticks["kind"][2], ticks["action"][2] = KIND_STATUS, b"R"
    ran = plain_run(imbalance_bars(expected_ticks=2), ticks, 1)
    assert ran.records["imbalance"].tolist() == [1, -1]
    assert ran.records["trades"].tolist() == [2, 2]
    assert ran.records["threshold"][1] == pytest.approx(2 * 0.5, rel=0.1)
    assert ran.rows[0]["unsigned"] == 2


def test_trades_without_a_price_are_counted_and_have_no_sign() -> None:
    ran = plain_run(imbalance_bars(threshold=2), trades((1, UNDEF_PRICE, 5, "B"), (2, 8, 1, "B")), 1)
    assert (ran.rows[0]["unpriced"], ran.records["imbalance"].tolist()) == (1, [1])


def test_bars_of_a_file_add_up_to_its_signed_volume() -> None:
    both = strand.chain(
        imbalance_bars("volume", threshold=2_000, crosses=False), strand.trade_stats(sign="aggressor", crosses=False)
    )
    result = strand.replay(sample_path(), both, date=SAMPLE_DATE, cores=None)
    bars = np.asarray(result.outputs["imbalance_bars"])
    assert bars.dtype.names[4 : 4 + len(BAR.names)] == BAR.names
    assert sum(row["imbalance_bars"]["by_rule"] for row in result.rows.values()) > 0
    known = [name for name, row in result.rows.items() if row["imbalance_bars"]["by_rule"] == 0]
    assert len(known) > 50
    for name in known:
        mine = bars[bars["instrument_id"] == result.symbols.index(name)]
        assert mine["imbalance"].sum() == result.rows[name]["trade_stats"]["signed_volume"]


def test_sizes_of_a_fine_unit_are_compared_in_units_of_the_instrument() -> None:
    feed = strand.testing.feed([("A", 1, 10.0, 50), ("A", 2, 10.0, 50), ("A", 3, 11.0, 100)], size_unit=0.01)
    result = strand.replay(feed, imbalance_bars("volume", threshold="0.5", sign="tick"), cores=None)
    assert result.outputs["imbalance_bars"].to_polars()["imbalance"].to_list() == [1.0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "exactly one of threshold and expected_ticks"),
        ({"threshold": 1, "expected_ticks": 1}, "exactly one of threshold and expected_ticks"),
        ({"of": "dollars", "threshold": 1}, "of"),
        ({"threshold": "2.5"}, "threshold"),
        ({"threshold": 0}, "threshold"),
        ({"of": "volume", "threshold": "-1"}, "threshold"),
        ({"expected_ticks": 0}, "expected_ticks"),
        ({"expected_ticks": 5, "span_bars": 0}, "span_bars"),
        ({"expected_ticks": 5, "span_ticks": 0}, "span_ticks"),
        ({"threshold": 2**70}, "threshold: give less"),
        ({"threshold": 2**63, "of": "volume"}, "threshold: give less"),
        ({"expected_ticks": 5, "min_ticks": 0}, "min_ticks"),
        ({"expected_ticks": 5, "min_ticks": 9, "max_ticks": 8}, "max_ticks"),
        ({"expected_ticks": 5, "sign": "guess"}, "sign"),
    ],
)
def test_options_that_cannot_be_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        plain_run(imbalance_bars(**given), trades((1, 1, 1, "B")), 1)


@pytest.mark.parametrize("given", [{"threshold": 5}, {"expected_ticks": 5}])
def test_a_feed_without_sizes_has_no_volume_to_sum(given: Any) -> None:
    feed = strand.testing.feed([("A", at, 10.0, 0) for at in range(1, 4)], has_sizes=False)
    with pytest.raises(ConfigurationError, match="no sizes: give of='ticks'"):
        strand.replay(feed, imbalance_bars("volume", **given), cores=None)
    result = strand.replay(feed, imbalance_bars("ticks", **given), cores=None)
    assert len(result.outputs["imbalance_bars"]) == 1
