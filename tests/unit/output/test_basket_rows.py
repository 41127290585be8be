"""The rows of baskets, by name and as tables."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import strand
from strand import testing
from strand.errors import ConfigurationError
from strand.output.rows import BasketRows
from strand.replaying.result import ReplayResult


class Kept:
    price: Annotated[np.int64, "price"]
    n: np.int64


def handler(name: str, baskets: Any) -> Any:
    @strand.basket_handler(baskets=baskets, basket_state=Kept, kind="batch", name=name)
    def keeps(ticks: Any, basket: Any) -> None:
        basket["price"] = ticks["price"][-1]
        basket["n"] += len(ticks)

    return keeps


def run(**handlers: Any) -> ReplayResult:
    ticks = [("A", 1, 2.5, 1), ("B", 2, 3.5, 1), ("C", 3, 4.5, 1), ("D", 4, 5.5, 1)]
    return strand.replay(testing.feed(ticks), workers=1, cores=None, **handlers)


def test_rows_are_had_by_the_name_of_the_basket() -> None:
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    assert baskets.names == ("x", "y") == tuple(baskets)
    assert (len(baskets), baskets["x"]["n"], baskets["y"]["price"]) == (2, 2, 5_500_000_000)
    assert baskets.keys() == ["x", "y"]
    assert [(name, row["n"]) for name, row in baskets.items()] == [("x", 2), ("y", 1)]
    assert [row["n"] for row in baskets.values()] == [2, 1]
    assert "x" in baskets
    assert "A" not in baskets
    assert baskets.members("x") == (0, 1)
    assert baskets.array["n"].tolist() == [2, 1]
    with pytest.raises(KeyError, match="no basket is named 'z': there are x, y"):
        baskets["z"]


def test_tables_have_natural_units_and_the_baskets_names() -> None:
    pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    assert baskets.to_arrow().to_pydict() == {"basket": ["x", "y"], "price": [3.5, 5.5], "n": [2, 1]}
    assert polars.DataFrame(baskets).equals(baskets.to_polars())
    assert baskets.to_numpy().tolist() == [("x", 3_500_000_000, 2), ("y", 5_500_000_000, 1)]
    pytest.importorskip("pandas")
    assert baskets.to_pandas().loc["y", "price"] == 5.5


def test_of_several_handlers_a_table_is_of_one() -> None:
    one, two = handler("one", {"x": ["A", "B"]}), handler("two", {"y": ["D"]})
    baskets = run(handlers={"A": one, "B": one, "*": two}).baskets
    assert (baskets["x"]["n"], baskets["y"]["n"]) == (2, 1)
    assert baskets.to_numpy("two").tolist() == [("y", 5_500_000_000, 1)]
    with pytest.raises(ConfigurationError, match="give the name of a handler with baskets; there are one, two"):
        baskets.to_numpy()
    with pytest.raises(KeyError, match="'three'"):
        baskets.to_numpy("three")


def test_without_baskets_there_are_none() -> None:
    baskets = run(handler="count").baskets
    assert (len(baskets), baskets.records()) == (0, {})
    assert isinstance(baskets, BasketRows)
    with pytest.raises(ConfigurationError, match="give the name of a handler with baskets; there are none"):
        baskets.array  # noqa: B018


def test_some_of_them_are_copies_and_none_of_them_is_the_busiest_of_none() -> None:
    baskets = run(handler=handler("h", {"x": ["A", "B"], "y": ["D"]})).baskets
    some = baskets.of(["y"])
    assert (some.names, some["y"]["n"], some.members("y")) == (("y",), 1, (3,))
    some["y"]["n"] = 7
    assert baskets["y"]["n"] == 1
    ticks = np.array([1, 1, 1, 5])
    busiest = some.busiest(ticks)
    assert busiest is not None
    assert (busiest.names, busiest.ticks) == (("y",), 5)
    assert baskets.of([]).busiest(ticks) is None
