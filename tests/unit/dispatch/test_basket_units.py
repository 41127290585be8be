"""Which symbols of a run share a strand because of baskets."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.binding.engine import Engine
from strand.errors import ConfigurationError

NAMES = [f"s{i}" for i in range(200)]


def handler_of(kind: Any, baskets: Any) -> Any:
    def on_ticks(basket: Any) -> None:
        pass

    declare = strand.basket_handler(baskets=baskets, basket_state=[("n", "i8")], kind=kind, name="does nothing")
    return declare(on_ticks)


@pytest.mark.parametrize("kind", ["compiled", "batch"])
@pytest.mark.parametrize("strands", ["auto", "per-symbol", 7])
def test_the_symbols_of_overlapping_baskets_share_a_strand(kind: str, strands: Any) -> None:
    baskets = {"a": ["s0", "s150"], "b": ["s150", "s7", "s9"], "c": ["s20", "s21"]}
    counts = [1000 if i in (0, 20) else 1 for i in range(200)]
    with strand.Dispatcher(
        NAMES, handler_of(kind, baskets), strands=strands, workers=2, cores=None, counts=counts
    ) as d:
        of = [d.strand_of(name) for name in NAMES]
        assert of[0] == of[150] == of[7] == of[9]
        assert of[20] == of[21] != of[0]
        if strands == "per-symbol" or kind == "batch":
            assert len(set(of)) == 200 - 4
        elif strands == "auto":
            assert of.count(of[0]) == 4, "a busy unit has a strand of its own"


def test_the_strand_of_a_basket_has_the_highest_priority_of_its_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    monkeypatch.setattr(
        Engine, "prioritise", lambda _, strand, priority, *, for_backlog: told.update({strand: priority})
    )
    policy, priorities = strand.Levels(), {"s1": "high", "s2": "low"}
    handler = handler_of("compiled", {"a": ["s0", "s1"], "b": ["s1", "s2"]})
    with strand.Dispatcher(NAMES, handler, workers=1, cores=None, policy=policy, priorities=priorities) as dispatcher:
        assert told == {dispatcher.strand_of("s2"): policy.priority_of("priority", "high")}


def test_two_handlers_may_not_have_baskets_of_one_name() -> None:
    one, two = handler_of("compiled", {"pair": ["s0", "s1"]}), handler_of("batch", {"pair": ["s2", "s3"]})
    with pytest.raises(ConfigurationError, match="both have one named 'pair'"):
        strand.Dispatcher(["s0", "s1", "s2", "s3"], handlers={"s0": one, "s1": one, "*": two})
