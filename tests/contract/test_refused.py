"""Values of options that are refused for what they hold, or beside another option, and the word that the error names.

refusals.json has the values that are refused by their kind. Calls are those of tests/support/bad_values.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bad_values
import numpy as np
import pytest

import strand
from strand.errors import ConfigurationError, UnknownSymbolError

pytestmark = pytest.mark.python
pytest.importorskip("pyarrow")
pytest.importorskip("databento_dbn")

NAN, INF = float("nan"), float("inf")
RATES = {"urgent": 4.0, "high": 2.0, "normal": 1.0}
LEVELS, AGING, FAIR, GUARD = strand.Levels(), strand.Aging(classes=RATES), strand.Fair(), strand.Guard()
HELD = {"policy": LEVELS, "guard": GUARD}
LIMITED = {"policy": LEVELS, "limits": strand.Limits(level_capacity_ticks={"low": 5}, on_full="drop_oldest")}


class Half:
    """No sink: it has one of three methods."""

    def write(self, batch: Any) -> None:
        """Do nothing."""


class Sink(Half):
    """Takes records, and leaves them."""

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


@strand.batch_handler(state=[("n", "i8")], outputs={"out": [("n", "i8")], "other": [("n", "i8")]})
def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    """Do nothing."""


SHARED = Sink()
EMITS = {"handler": emits, "workers": 1}

REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "strand.Levels": [
        ({"timeouts": {"hgih": "1s"}}, "did you mean 'high'"),
        ({"timeouts": {0: "1s"}}, "timeouts.0"),
        ({"timeouts": {"immediate": "1s"}}, "immediate"),
        ({"timeouts": {"low": "0s"}}, "timeouts.low"),
        ({"timeouts": {"low": "1 fortnight"}}, "timeouts.low"),
        ({"timeouts": {"high": "10m", "low": "1s"}}, "high"),
        ({"since": "listed"}, "since"),
        ({"hold": {"lo": "1s"}}, "did you mean 'low'"),
        ({"hold": {"low": 15}}, "hold.low"),
    ],
    "strand.Aging": [
        ({"coefficient": 0}, "coefficient"),
        ({"coefficient": INF}, "coefficient"),
        ({"coefficient": 10**400}, "coefficient"),
        ({"coefficient": np.float16("inf")}, "coefficient"),
        ({"coefficient": 1, "classes": RATES}, "classes"),
        ({"classes": {"urgent": 4, "high": 2}}, "normal"),
        ({"classes": RATES | {"low": 1}}, "classes.low"),
        ({"classes": RATES | {"high": 5}}, "urgent"),
        ({"classes": RATES | {"high": "2"}}, "classes.high"),
        ({"low_every": 4}, "classes"),
        *(({"classes": RATES, "low_every": wrong}, "low_every") for wrong in ("often", True, 0, 2.0)),
    ],
    "strand.Fair": [
        ({"cpu_share": 1.5}, "cpu_share"),
        ({"slice_ms": 10**400}, "slice_ms"),
        ({"weights": {"x": 0}}, "weights.x"),
        ({"weights": {"x": "3"}}, "weights.x"),
        ({"weights": {3: 1}}, "weights.3"),
        ({"weights": {"*": 2}}, "weights"),
    ],
    "strand.Guard": [
        ({"cpu": 80}, "cpu"),
        ({"memory": "75 %"}, "memory"),
        ({"release": 1.01}, "release"),
        ({"every": "6min"}, "max_hold"),
        ({"cpu": None, "memory": None, "io_pressure": None}, "guard"),
    ],
    "strand.Limits": [({"level_capacity_ticks": {"lo": 1}}, "low"), ({"level_capacity_ticks": {"low": 0}}, "low")],
    "strand.RetryPolicy": [
        ({"base_delay": "0s"}, "base_delay"),
        ({"base_delay": 15}, "unit"),
        ({"max_delay": "1ms"}, "max_delay"),
        ({"multiplier": 0.5}, "multiplier"),
        ({"jitter": 1.1}, "jitter"),
        ({"transient": "ValueError"}, "transient"),
        ({"system": (int,)}, "system"),
        ({"transient": ValueError, "business": ValueError}, "twice"),
    ],
    "strand.Dispatcher": [
        ({"policy": "levels"}, "policy"),
        ({"policy": strand.Levels}, "policy"),
        ({"priorities": {"A": "high"}}, "policy"),
        ({"policy": LEVELS, "priorities": {"A": "hgih"}}, "did you mean 'high'"),
        ({"policy": LEVELS, "priorities": {"A": 1}}, "A"),
        ({"policy": LEVELS, "priorities": {"Z": "high"}}, "Z"),
        ({"policy": FAIR, "priorities": {"A": "high"}}, "priorities"),
        *(
            ({"policy": AGING, "priorities": {"A": wrong}}, "priorities.A")
            for wrong in (True, 2.0, "low", "10", ("urgent", 1.0), (10, "urgent"), ("urgent", 1, 2), 500_000_001,
                          ("high", -500_000_001))
        ),
        ({"policy": AGING, "priorities": {"A": "urgnt"}}, "did you mean 'urgent'"),
        ({"groups": {"A": "x"}}, "groups"),
        ({"policy": FAIR, "groups": {"A": 3}}, "groups.A"),
        ({"policy": FAIR, "groups": {"A": "*"}}, "groups.A"),
        ({"policy": FAIR, "groups": {"Z": "x"}}, "Z"),
        ({"guard": GUARD, "policy": strand.Fifo()}, "guard"),
        ({"marks": {"A": "io"}}, "guard"),
        (HELD | {"marks": {"A": "frees_memry"}}, "did you mean 'frees_memory'"),
        (HELD | {"marks": {"*": {"io", "disk"}}}, "disk"),
        (HELD | {"marks": {"A": 1}}, "marks.A"),
        (HELD | {"marks": {"Z": "io"}}, "Z"),
        ({"limits": strand.Limits(level_capacity_ticks={"low": 1})}, "policy"),
        (LIMITED, "on_full"),
        ({"counts": [1, -3]}, "counts"),
        ({"counts": [1.0, INF]}, "counts"),
        ({"counts": ["a", "b"]}, "counts"),
        ({"capacity": 64}, "did you mean 'capacity_ticks'"),
        *(
            ({"handler": bad_values.SETS["handler"].with_params({"*": {"least": wrong}})}, "least")
            for wrong in (2**70, 2.5, "3", None, NAN)
        ),
        ({"handler": emits, "out": {"none": "a.npy"}}, "none"),
        ({"handler": emits, "out": {"out": Half()}}, "abort"),
        ({"handler": emits, "out": {"out": Sink}}, "class"),
        ({"handler": emits, "out": {"out": SHARED, "other": SHARED}}, "sink"),
    ],
    "strand.replay": [
        ({"handler": "vwpa"}, "did you mean 'vwap'"),
        ({"handler": Half()}, "decorate"),
        ({"source": b"day.itch50"}, "source"),
        ({"source": [3]}, "source"),
        ({"symbols": [""]}, "symbols"),
        ({"start": 2 * 10**18, "end": 10**18}, "end"),
        ({"start": "half past nine"}, "start"),
        ({"end": "25:00"}, "end"),
        ({"start": "2020-01-30T09:30:00"}, "zone"),
        ({"start": "2020-02-30T09:30:00Z"}, "start"),
        ({"start": 1 << 63}, "start"),
        ({"speed": NAN}, "speed"),
        ({"speed": INF}, "speed"),
        ({"watch": [1, 2]}, "watch"),
        (EMITS | {"out": {"out": Half()}}, "abort"),
        (EMITS | {"out": {"out": SHARED, "other": SHARED}}, "sink"),
        *((EMITS | {"workers": 0, "out": out}, "out") for out in ({"out": 3}, {"out": Sink}, {"none": Sink()})),
    ],
    "strand.snapshot": [({"every": 5}, "unit"), ({"fields": ["a", "a"]}, "twice"), ({"symbols": []}, "symbols")],
    "strand.bars": [
        ({"every": None}, "every"),
        ({"every": "1m", "ticks": 3}, "every"),
        ({"every": "1 fortnight"}, "every"),
        ({"notional": "inf"}, "notional"),
        ({"every": None, "ticks": 5, "fill": True}, "fill"),
        *(({"every": "1m", name: "maybe"}, name) for name in ("outside", "fills", "zero_sizes")),
    ],
    "strand.volatility": [
        ({"step": None}, "step"),
        ({"step": "1m", "ticks": 5}, "step"),
        ({"step": "7s", "every": "1m"}, "multiple"),
        ({"step": "1m", "price": "bid"}, "price"),
    ],
    "strand.trade_stats": [({"sign": "guess"}, "sign"), ({"sign": "resting", "book": True}, "aggressor")],
    "strand.sweep": [
        ({"handler": strand.book()}, "sets"),
        ({"handler": strand.bars("1m")}, "sets"),
        ({"params": []}, "set"),
        ({"days": ["2026-01-05"]}, "days"),
        ({"feed_options": {"start": 1}}, "start"),
        ({"params": {"a": 1}}, "dict"),
        ({"params": [{1: 1}]}, "set 0"),
        ({"params": [{"a": object()}]}, "parameter"),
    ],
    "Handler.with_params": [
        ({"values": {"AA": {"last": 3}}}, "last"),
        ({"values": {"AA": 3}}, "AA"),
    ],
    "Scheduler.options": [
        ({"priority": "hihg"}, "did you mean 'high'"),
        ({"priority": 1}, "priority"),
        ({"key": []}, "key"),
        ({"symbol": "AAPL"}, "key"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": 5}, "unit"),
        ({"delay": "5s", "deadline": "5s"}, "deadline"),
        ({"marks": "free_memory"}, "did you mean 'frees_memory'"),
        ({"marks": ["io", 3]}, "marks"),
    ],
    "strand.napoleon": [
        ({"config": strand.Config(policy=AGING)}, "policy"),
        ({"policy": strand.Fifo()}, "policy"),
    ],
    "strand.testing.feed": [
        ({"records": [{"price": 1}]}, "symbol"),
        ({"records": [{"symbol": "A", "size": -1}]}, "ticks: 0: size"),
        ({"records": [{"symbol": "A"}, {"symbol": "A", "price": "x"}]}, "ticks: 1: price"),
        ({"records": [{"symbol": "A", "sise": 1}]}, "did you mean 'size'"),
        ({"symbols": ["X"]}, "symbol"),
        ({"records": strand.ticks.zeros(3)}, "symbols"),
        ({"batches": [2, 1]}, "batches"),
        ({"error": ValueError(), "error_at": 4}, "error_at"),
        ({"known_from": 4}, "known_from"),
    ],
    "strand.feeds.open of npy of one's own": [
        ({"columns": {"prize": "px"}}, "prize"),
        ({"columns": {"size": 3}}, "columns.size"),
        ({"constants": {"kind": 70_000}}, "constants.kind"),
        ({"constants": {"side": "buyer"}}, "buyer"),
        ({"price_unit": "0.25"}, "price_unit"),
        ({"time_unit": "h"}, "time_unit"),
    ],
    "strand.feeds.open of parquet": [
        ({"constants": {"side": b"AB"}}, "side"),
        ({"price_unit": "0.3"}, "price_unit"),
        ({"size_unit": "0"}, "size_unit"),
    ],
    "strand.feeds.open of itch": [({"date": wrong}, "date") for wrong in ("30.1.2019", "2019-02-30", "1960-01-01")],
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bad_values.Call]:
    return bad_values.calls(tmp_path_factory.mktemp("calls"))


CASES = [(name, options, word) for name, cases in REFUSED.items() for options, word in cases]


@pytest.mark.parametrize(("name", "options", "word"), CASES, ids=[f"{name}-{word}" for name, _, word in CASES])
def test_the_error_names_what_is_wrong(
    name: str, options: dict[str, Any], word: str, calls: dict[str, bad_values.Call], here: Path
) -> None:
    with pytest.raises((ConfigurationError, UnknownSymbolError)) as raised:
        calls[name].call(**{**calls[name].base, **options})
    assert word in str(raised.value)
    assert list(here.iterdir()) == []
