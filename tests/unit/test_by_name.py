"""Things by name: what a name that is none of them is answered with."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import strand
from strand.by_name import ByName, unknown_name
from strand.errors import StrandError, UnknownNameError
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python
ONE: dict[str, Any] = {"date": SAMPLE_DATE, "symbols": ["AAAHD"], "workers": 1}


def test_a_wrong_name_is_answered_with_the_near_one_and_those_there_are() -> None:
    assert str(unknown_name("output", "bar", ["bars", "quotes"])) == (
        "no output is named 'bar': did you mean 'bars'? there are bars, quotes"
    )
    assert str(unknown_name("output", 3, ["bars"])) == "no output is named 3: there are bars"
    assert str(unknown_name("output", "x", [])) == "no output is named 'x': there are none"
    assert len(str(unknown_name("object", "x", [f"S{i}" for i in range(10_000)]))) < 200
    assert issubclass(UnknownNameError, StrandError)
    assert issubclass(UnknownNameError, KeyError)


def test_things_by_name_are_a_dict() -> None:
    found = ByName("output", {"bars": 1}, {"quotes": "it was written to q.parquet"})
    assert found == {"bars": 1}
    assert found["bars"] == 1
    assert found.get("x") is None
    assert "x" not in found
    for one in (found, pickle.loads(pickle.dumps(found))):
        with pytest.raises(UnknownNameError, match="no output is named 'bras': did you mean 'bars'"):
            one["bras"]
        with pytest.raises(UnknownNameError, match=r"output 'quotes' is not here: it was written to q\.parquet"):
            one["quotes"]


def test_outputs_of_a_result_say_which_there_are_and_where_the_others_went(tmp_path: Path) -> None:
    class Sink(strand.Sink):
        def write(self, batch: Any) -> None: ...
        def close(self) -> None: ...
        def abort(self) -> None: ...

    handler = strand.chain(strand.trades(), strand.bbo(), strand.bars("1s"))
    out = {"bbo": tmp_path / "bbo.csv", "bars": Sink()}
    result = strand.replay(sample_path(), handler, out=out, watch=["AAAHD"], **ONE)
    with pytest.raises(UnknownNameError, match="no output is named 'trade': did you mean 'trades'"):
        result.outputs["trade"]
    with pytest.raises(UnknownNameError, match=r"output 'bbo' is not here: it was written to .*bbo\.csv"):
        result.outputs["bbo"]
    with pytest.raises(UnknownNameError, match="output 'bars' is not here: it went to a sink"):
        result.outputs["bars"]
    with pytest.raises(UnknownNameError, match="no file of an output is named 'trades': there are bbo"):
        result.written["trades"]
    with pytest.raises(UnknownNameError, match="no handler is named 'bar'"):
        result.rows.of_handler("bar")
    assert result.timeline is not None
    with pytest.raises(UnknownNameError, match="no watched symbol is named 'AAAHC': did you mean 'AAAHD'"):
        result.timeline.symbols["AAAHC"]
    with pytest.raises(UnknownNameError, match="no basket is named 'x': there are none"):
        result.baskets["x"]


def test_objects_snapshots_and_days_do_so_too() -> None:
    class Seen:
        def on_tick(self, tick: Any) -> None: ...

    result = strand.replay(sample_path(), Seen, **ONE)
    with pytest.raises(UnknownNameError, match="no object is named 'AAAHX': did you mean 'AAAHD'"):
        result.objects["AAAHX"]
    result = strand.replay(sample_path(), "count", snapshot=strand.snapshot(every="1h", fields=["ticks"]), **ONE)
    with pytest.raises(UnknownNameError, match="no field that was taken is named 'tick': did you mean 'ticks'"):
        result.snapshots["tick"]
    (day,) = strand.replay(sample_path(), "count", per_day=True, **ONE).days
    with pytest.raises(UnknownNameError, match="no handler is named 'x': there are count"):
        day.rows.to_numpy("x")
    with pytest.raises(UnknownNameError, match="no basket is named 'x'"):
        day.baskets["x"]


def test_outputs_of_a_dispatcher_do_so_too() -> None:
    with (
        strand.Dispatcher(1, strand.bbo(), workers=1) as dispatcher,
        pytest.raises(UnknownNameError, match="no output is named 'bob': did you mean 'bbo'"),
    ):
        dispatcher.outputs["bob"]
