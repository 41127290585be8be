"""Records as users declare them: annotated classes, lists, dtypes."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest

from strand import Dispatcher, batch_handler, handler, testing
from strand.errors import ConfigurationError
from strand.handlers.state import check_attributes, defaults_of, row_dtype
from strand.units import PRICE, unit_of

pytestmark = pytest.mark.python


class Level:
    price: np.int64
    size: np.uint32


class State:
    count: np.uint64
    last: np.int64 = 7  # type: ignore[assignment]
    flag: bool
    ratio: float
    number: int
    name: Annotated[bytes, 6]
    histogram: Annotated[npt.NDArray[np.uint32], 4]
    grid: Annotated[npt.NDArray[np.float64], (2, 3)]
    shares: Annotated[np.uint16, 2]
    best: Level
    levels: Annotated[Level, 3]


def test_a_class_s_annotations_are_the_fields_in_their_order() -> None:
    dtype = row_dtype(State)
    assert dtype.names == tuple(State.__annotations__)
    assert dtype["count"] == np.dtype("<u8")
    assert (dtype["flag"], dtype["ratio"], dtype["number"]) == (np.dtype("?"), np.dtype("<f8"), np.dtype("<i8"))
    assert dtype["name"] == np.dtype("S6")
    assert (dtype["histogram"].base, dtype["histogram"].shape) == (np.dtype("<u4"), (4,))
    assert dtype["grid"].shape == (2, 3)
    assert dtype["shares"].base == np.dtype("<u2")
    assert dtype["best"] == np.dtype([("price", "<i8"), ("size", "<u4")], align=True)
    assert dtype["levels"].shape == (3,)
    assert dtype.isalignedstruct


def test_a_dict_has_dtypes_by_name_and_lays_them_out_as_c_does() -> None:
    dtype = row_dtype({"flag": "?", "n": "u8", "seen": ("?", 4), "price": PRICE, "level": Level, "ratio": float})
    assert dtype.names == ("flag", "n", "seen", "price", "level", "ratio")
    assert (dtype["n"], dtype["seen"].base, dtype["seen"].shape) == (np.dtype("<u8"), np.dtype("?"), (4,))
    assert unit_of(dtype["price"], None).quantity == "price"
    assert (dtype["level"], dtype["ratio"]) == (row_dtype(Level), np.dtype("<f8"))
    assert dtype.isalignedstruct
    assert dtype.fields is not None
    assert dtype.fields["n"][1] == 8
    plain = {"names": ["a"], "formats": ["u8"], "offsets": [8]}
    assert row_dtype(plain) == np.dtype(plain)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match=r"state: .* is not a dtype"):
        row_dtype({"n": "u7"})


def test_truth_values_may_be_in_arrays_of_rows_and_records() -> None:
    names = {"n": "u8", "seen": ("?", 4)}

    @batch_handler(state=names, outputs={"first": {"kind": "u1", "flags": ("?", 3)}})
    def in_python(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        for at, tick in enumerate(ticks):
            row["n"] += 1
            row["seen"][int(tick["size"]) & 3] = True
            if row["n"] == 3:
                ctx.emit((7, row["seen"][:3]), at=at)

    pytest.importorskip("numba")

    @handler(state=names, outputs={"first": {"kind": "u1", "flags": ("?", 3)}})
    def compiled(row: Any, tick: Any, emit: Any) -> None:
        row.n += 1
        row.seen[tick.size & 3] = True
        if row.n == 3 and row.seen[1] and not row.seen[0]:
            emit.first(7, row.seen[:3])

    feed = testing.feed([("A", i, 1.0, size) for i, size in enumerate((1, 3, 3, 2, 7))])
    runs = [testing.reference(feed, each) for each in (in_python, compiled)]
    for run in runs:
        assert run.rows["A"]["seen"].tolist() == [False, True, True, True]
        assert run.outputs["first"]["flags"].tolist() == [[False, True, False]]
    testing.assert_same(*runs)
    seen = runs[0].rows.to_arrow()["seen"]
    assert (str(seen.type), seen.to_pylist()) == ("fixed_size_list<item: bool>[4]", [[False, True, True, True]])


def test_what_a_class_sets_are_defaults() -> None:
    assert defaults_of(State) == {"last": 7}
    assert defaults_of([("x", "u8")]) == {}


class Loose:
    histogram: npt.NDArray[np.float64]


class Text:
    name: np.bytes_


class Objects:
    things: list[int]


class Sizes:
    things: Annotated[np.float64, "many"]


class Empty:
    pass


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Loose, "state.histogram: say how large it is"),
        (Text, "state.name: bytes_ has no size of its own"),
        (Objects, r"state.things: list\[int\] is not a type of a field"),
        (Sizes, "state.things: 'many' is not the size"),
        (Empty, "Empty has no annotated fields"),
        ("no such", "is not a dtype"),
        ("u8", "give a structured dtype"),
        ([("x", "O")], "cannot hold Python objects"),
    ],
)
def test_a_record_that_cannot_be_one_is_refused_by_its_field(state: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        batch_handler(state=state)


def test_a_compiled_handler_reads_and_writes_all_kinds_of_fields() -> None:
    pytest.importorskip("numba")
    import strand

    @handler(state=State)
    def fills(row, tick):  # type: ignore[no-untyped-def]
        row.count += 1
        row.flag = True
        row.ratio = 0.5
        row.histogram[tick.size % 4] += 1
        row.grid[1, 2] = tick.size
        row.best.price = tick.price
        row.levels[1].size += 3

    ticks = strand.ticks.zeros(6)
    ticks["size"] = np.arange(6)
    ticks["price"] = 11
    with Dispatcher(1, fills, workers=1, cores=None) as d:
        d.publish(ticks)
    row = d.rows[0]
    assert (row["count"], row["flag"], row["ratio"]) == (6, True, 0.5)
    assert row["histogram"].tolist() == [2, 2, 1, 1]
    assert row["grid"].tolist() == [[0, 0, 0], [0, 0, 5]]
    assert row["best"]["price"] == 11
    assert row["levels"]["size"].tolist() == [0, 18, 0]


@pytest.mark.parametrize("state", [[("", "i8")], {"": "i8"}, [("a", "i8"), ("", "u8", 3)]])
def test_a_field_without_a_name_is_refused(state: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^state: a field's name is ''"):
        row_dtype(state)


@pytest.mark.parametrize("name", ["a b", "class", "1st", "bid-price"])
def test_fields_that_are_no_attributes_are_for_python_alone(name: str) -> None:
    check_attributes("state", row_dtype({"volume": "i8", "level": Level}))
    for state in ({name: "i8"}, {"level": np.dtype([(name, "i8")])}, {"levels": np.dtype(([(name, "i8")], 3))}):
        with pytest.raises(ConfigurationError, match=f"compiled code cannot use a field named '{name}'"):
            check_attributes("state", row_dtype(state))
