"""Tables in notebooks: well-formed, bounded and escaped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_support import ticks_for
from page_reader import Named, Reader

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.output.notebook import MAX_COLUMNS, MAX_ROWS, facts_html, table_html
from strand.symbols import MAX_COMPLETIONS, SymbolTable
from strand.units import PRICE

DAY = {"date": SAMPLE_DATE}
HOSTILE = '<script>alert("x")</script>'


@strand.batch_handler(state=[("last", PRICE), ("n", "i8")], outputs={"quotes": [("price", PRICE), ("parts", "i8", 9)]})
def seen(symbol: str, ticks: Any, row: Any, ctx: strand.Context) -> None:
    row["last"], row["n"] = 1_250_000_000, row["n"] + len(ticks)
    ctx.emit((1_250_000_000, range(9)), at=0)


def rows_in(html: str) -> int:
    return html.count("<tr>")


def test_rows_are_shown_in_natural_units_with_their_units() -> None:
    result = strand.replay(sample_path(), "book", feed_options=DAY, workers=1)
    html = result.rows._repr_html_()
    text = Reader(html).text
    for words in ("book: 500 symbols of 500", "AAAAA", "bid_price", "currency", f"{MAX_COLUMNS} of "):
        assert words in text, words
    row = result.rows["AAAAA"]
    if abs(int(row["bid_price"])) < 2**62:
        assert f"{row['bid_price'] / strand.PRICE_SCALE:,.9g}" in text
    assert "9223372036854775807" not in html.replace(",", "")


def test_eight_thousand_symbols_make_a_small_table() -> None:
    names = [f"S{i:04}" for i in range(8000)]
    with strand.Dispatcher(names, seen, workers=1) as dispatcher:
        dispatcher.publish(ticks_for(np.arange(8000)))
        dispatcher.drain()
        live = dispatcher.rows._repr_html_()
        records = dispatcher.outputs["quotes"].array()  # merges what is final: then it is counted
        outputs = dispatcher.outputs._repr_html_()
        assert "8,000 symbols of 8,000" in Reader(live).text
        assert "1.25" in Reader(live).text
        assert Reader(outputs).text.startswith("quotes, 8,000 records, collected field dtype unit")
    table = records._repr_html_()
    assert "8,000 records" in Reader(table).text
    assert "S0000 0" in Reader(table).text
    assert "0, 1, 2, 3, ..." in Reader(table).text
    for html in (live, table, dispatcher.rows._repr_html_()):
        assert rows_in(html) == MAX_ROWS + 2
        assert len(html) < 5000


def test_symbols_without_ticks_are_left_out_and_rows_of_several_handlers_have_a_table_each() -> None:
    with strand.Dispatcher(["A", "B", "C"], handlers={"A": seen, "*": "count"}, workers=1) as dispatcher:
        dispatcher.publish(ticks_for([0, 2, 2]))
        dispatcher.drain()
        first, second = dispatcher.rows._repr_html_().split("</table><table>")
        assert "seen: 1 symbol of 3" in Reader(f"{first}</table>").text
        assert "C 2" in Reader(f"<table>{second}").text
        assert ">B<" not in second
    with strand.Dispatcher(["A"], "count", workers=1) as dispatcher:
        assert "0 symbols of 1" in Reader(dispatcher.rows._repr_html_()).text


def test_names_are_escaped() -> None:
    result = strand.replay(Named([HOSTILE, "B"], path=HOSTILE), seen, workers=1)
    for html in (result._repr_html_(), result.rows._repr_html_(), result.outputs["quotes"]._repr_html_()):
        assert html is not None
        assert "<script" not in html
        assert "script" not in Reader(html).tags
        assert "&lt;script&gt;" in html
    assert "<script" not in table_html({HOSTILE: np.array([HOSTILE])}, {HOSTILE: HOSTILE}, note=HOSTILE)
    assert "<script" not in facts_html({HOSTILE: HOSTILE})


def test_sizes_whose_unit_nobody_knows_are_shown_as_they_are() -> None:
    handler = strand.vwap()
    rows = strand.replay(Named(["A"]), handler, workers=1).rows
    rows._tables[0].size_unit = None
    with pytest.raises(strand.StrandError):
        rows.table()
    assert "volume" in Reader(rows._repr_html_()).text


@pytest.mark.python
def test_cells_of_what_is_undefined_are_empty_and_what_is_long_is_cut() -> None:
    columns = {
        "masked": np.ma.MaskedArray([1, 2000], [True, False]),
        "float": np.array([np.nan, 1240923.2000000002]),
        "time": np.array(["NaT", "2026-01-05T14:30:00.123456789"], "M8[ns]"),
        "text": np.array(["a\nb", "x" * 500]),
    }
    html = table_html(columns, {"time": "UTC"}, note="two")
    text = Reader(html).text
    assert text.startswith("two masked float time text UTC a\\nb 2,000 1,240,923.2 2026-01-05 14:30:00.123 xxx")
    assert html.count("<td></td>") == 3
    assert len(html) < 700
    wide = table_html({f"c{i}": np.arange(50) for i in range(500)}, {}, note="wide")
    assert f"wide; {MAX_COLUMNS} of 500 columns" in Reader(wide).text
    assert rows_in(wide) == MAX_ROWS + 1


def test_keys_are_completed() -> None:
    with strand.Dispatcher(["AAPL", "MSFT"], strand.chain("book", seen), workers=1) as dispatcher:
        assert dispatcher.rows._ipython_key_completions_() == ["AAPL", "MSFT"]
        assert dispatcher.books._ipython_key_completions_() == ["AAPL", "MSFT"]
        assert dispatcher.outputs._ipython_key_completions_() == ["quotes"]


@pytest.mark.python
def test_names_to_complete_are_bounded_and_those_that_were_given() -> None:
    assert len(SymbolTable([f"S{i}" for i in range(20_000)]).offered(MAX_COMPLETIONS)) == MAX_COMPLETIONS
    table = SymbolTable.with_capacity(["", "A", "", "B"], 1_000_000)
    assert table.offered(MAX_COMPLETIONS) == ["A", "B"]
    assert (table.n_shown, SymbolTable(1_000_000).n_shown) == (2, 1_000_000)
    assert repr(table) == "<SymbolTable: 2 symbols, A, B>"
    assert SymbolTable(1_000_000).offered(3) == ["#0", "#1", "#2"]
