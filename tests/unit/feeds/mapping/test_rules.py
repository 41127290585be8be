"""The keys that say where a field comes from: what they may be, and what follows from an action or a kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_tables import own_profile, read, table

import strand
from strand.errors import ConfigurationError
from strand.feeds.formats.csv.reader import CsvFeed
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.formats.parquet.reader import ParquetFeed
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_TRADE

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"price": {"column": "px", "units": "0.01"}},
            r"columns\.price\.units: is not a key here; there are unit, zero, column",
        ),
        ({"price": {"column": "px", "unit": "0.3"}}, r"columns\.price\.unit: give a power of ten"),
        ({"price": {}}, r"columns\.price: give exactly one of column, constant"),
        ({"price": {"column": "no"}}, r"there is no column 'no' for price; there are when"),
        ({"ts_recv": {"column": "when", "unit": "clock"}}, r"columns\.ts_recv\.unit: give one of s, ms, us, ns"),
        ({"ts_recv": {"column": "when", "since": "midnight"}}, r"columns\.ts_recv\.since: is not a key here"),
        ({"side": {"column": "way", "map": {"buy": "long"}}}, r"columns\.side\.map\.buy: 'long' is not one of A, B, N"),
        ({"symbol": {"column": "way"}}, r"columns\.symbol: give the name of a column"),
        ({"price": "px", "ask_price": "qty"}, r"columns\.price: with ask_price, give it as bid_price"),
        ({"bid_price": "px"}, r"columns\.bid_price: name ask_price too"),
        ({"ts_recv": {"column": "when", "empty": "none"}}, r"columns\.ts_recv\.empty: leave it out"),
        ({"side": {"column": "way", "otherwise": "N"}}, r"columns\.side\.otherwise: give map too"),
        ({"bid_price": "px", "ask_price": "qty", "side": "way"}, r"columns\.side: leave it out: a quote has both"),
        ({"prize": {"column": "px"}}, r"there is no field 'prize'"),
        ({"price": 3}, r"columns\.price: .*3"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    path = table(tmp_path / "rows.parquet")
    with pytest.raises(ConfigurationError, match=words):
        ParquetFeed(path, columns=columns, symbol="X")


@pytest.mark.parametrize("said", [{"kind": "trade"}, {"action": "T"}])
def test_an_action_and_a_kind_follow_from_each_other(tmp_path: Path, said: dict[str, str]) -> None:
    """In files of columns, in arrays and in CSV alike."""
    path = table(tmp_path / "a.parquet", {"ts": [1, 2], "price": [10.0, 11.0], "size": [3, 4]})
    rows = np.array([(1, 10.0, 3), (2, 11.0, 4)], [("ts", "i8"), ("price", "f8"), ("size", "i8")])
    np.save(tmp_path / "a.npy", rows)
    (tmp_path / "a.csv").write_text("ts,price,size\n1,10,3\n2,11,4\n")
    ((field, word),) = said.items()
    own = own_profile(
        tmp_path / "own.toml",
        '[symbol]\nconstant = "X"\n[fields.ts_event]\ncolumn = "ts"\nunit = "ns"\n[fields.price]\ncolumn = "price"\n'
        f'[fields.size]\ncolumn = "size"\n[fields.{field}]\nconstant = "{word}"\n',
    )
    made = [
        ParquetFeed(path, constants=said, symbol="X"),
        ParquetFeed(path, columns={field: {"constant": word}}, symbol="X"),
        NpyFeed(
            tmp_path / "a.npy",
            columns={"ts_event": {"column": "ts", "unit": "ns"}, "price": "price", "size": "size"},
            constants=said,
            symbol="X",
        ),
        CsvFeed(tmp_path / "a.csv", profile=own),
    ]
    for feed in made:
        ticks = read(feed)
        assert (ticks["kind"].tolist(), ticks["action"].tolist()) == ([KIND_TRADE] * 2, [b"T"] * 2), feed
    for handler in ("vwap", "trades", "bars"):
        result = strand.replay(path, handler, feed_options={"constants": said, "symbol": "X"}, workers=0)
        assert int(result.rows["X"]["volume"]) == 7, handler
        assert result.warnings == ()


def test_a_column_of_kinds_gives_actions(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"ts": [1, 2, 3], "kind": [KIND_TRADE, KIND_ORDER, KIND_QUOTE]})
    assert read(ParquetFeed(path, symbol="X"))["action"].tolist() == [b"T", b"A", b"N"]
