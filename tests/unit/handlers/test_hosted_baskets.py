"""Basket handlers that Python runs: how batches are cut, what contexts have, and objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError, SavedStateError

OVERLAPPING = {"a": ["A", "B"], "b": ["B", "C"]}


def feed() -> testing.ListFeed:
    return testing.feed([(symbol, i + 1, 1, 1) for i, symbol in enumerate("AABBCACDA")], batches=9)


def test_a_batch_is_cut_where_the_basket_changes_and_at_symbols_of_several() -> None:
    given: list[tuple[str, list[int]]] = []

    @strand.basket_handler(baskets=OVERLAPPING, basket_state=[("n", "i8")], kind="batch")
    def records(ticks: Any, members: Any, ctx: Any) -> None:
        given.append((ctx.name, members.tolist()))

    strand.replay(feed(), records, workers=1, publisher_drains=False)
    b = [("a", [1]), ("b", [0])]
    whole = [("a", [0, 0]), *b, *b, ("b", [1]), ("a", [0]), ("b", [1]), ("a", [0])]
    assert given == whole
    given.clear()
    alone = strand.basket_handler(baskets={"all": ["A", "B", "C"]}, basket_state=[("n", "i8")], kind="batch")
    strand.replay(feed(), alone(records.on_ticks), workers=1, publisher_drains=False)  # type: ignore[attr-defined]
    assert given == [("all", [0, 0, 1, 1, 2, 0, 2, 0])]


def test_the_context_of_a_basket_has_its_names_rows_and_parameters() -> None:
    found = {}

    @strand.basket_handler(
        baskets=OVERLAPPING, basket_state=[("n", "i8")], state=[("n", "i8")], params=[("w", "i8")], kind="batch"
    )
    def looks(ticks: Any, rows: Any, members: Any, ctx: Any) -> None:
        for member in members:
            rows[member]["n"] += 1
        found[ctx.name] = ctx.index, ctx.symbols, [int(p["w"]) for p in ctx.params], repr(ctx)
        with pytest.raises(ConfigurationError, match="declares none"):
            ctx.emit((1,), at=0)
        with pytest.raises(IndexError, match="is not a place in a batch"):
            ctx.emit((1,), at=len(ticks))

    run = strand.replay(feed(), looks.with_params({"*": {"w": 1}, "B": {"w": 5}}), workers=1)
    assert found["b"] == (1, ("B", "C"), [5, 1], "<BasketContext of looks for b>")
    assert run.rows.array["n"].tolist() == [4, 4, 2, 0]


def test_objects_of_baskets_are_shown_by_name_and_not_saved(tmp_path: Path) -> None:
    stopped = []

    @strand.basket_handler(baskets=OVERLAPPING, basket_state=[("n", "i8")])
    class Named:
        def on_start(self, ctx: Any) -> None:
            self.name, self.symbols = ctx.name, ctx.symbols

        def on_tick(self, tick: strand.Tick) -> None:
            pass

        def on_stop(self) -> None:
            stopped.append(self.name)

    run = strand.replay(feed(), Named, workers=2)
    assert {name: list(thing.symbols) for name, thing in run.objects.items()} == OVERLAPPING
    assert sorted(stopped) == sorted(OVERLAPPING)
    with strand.Dispatcher(list("ABCD"), Named, workers=1, cores=None) as dispatcher:
        dispatcher.publish(feed().ticks)
        with pytest.raises(SavedStateError, match="objects of baskets are not saved"):
            dispatcher.save(tmp_path / "state")


def test_timers_before_a_handler_that_python_runs_are_refused() -> None:
    looks = strand.basket_handler(baskets=OVERLAPPING, basket_state=[("n", "i8")], kind="batch", name="looks")(
        lambda basket: None
    )
    chained = strand.chain(strand.bars("1s"), looks)
    with pytest.raises(ConfigurationError, match="has timers or an end"):
        strand.Dispatcher(list("ABC"), chained)
