"""Runs compared with the reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seeded_cases import trades

import strand
from strand import testing
from strand.errors import (
    ConfigurationError,
    DifferenceError,
)


def test_a_run_of_a_dispatcher_is_the_same_as_the_reference() -> None:
    feed = testing.feed(trades())
    expected = testing.reference(feed, strand.bars("10s"))
    with strand.Dispatcher(list(feed.symbols), strand.bars("10s"), workers=2) as dispatcher:
        dispatcher.publish(feed.ticks)
    testing.assert_same(dispatcher, expected)
    testing.assert_same(strand.replay(feed, strand.bars("10s"), workers=2), expected)
    assert len(expected.outputs["bars"]) > 10


def test_what_differs_is_said_by_symbol_field_and_record() -> None:
    ticks = trades()
    expected = testing.reference(testing.feed(ticks), strand.bars("10s"))
    ticks[55] |= {"price": 99.5}
    with pytest.raises(DifferenceError) as caught:
        testing.assert_same(testing.reference(testing.feed(ticks), strand.bars("10s")), expected)
    symbol = ticks[55]["symbol"]
    assert caught.value.symbols == (symbol,)
    assert caught.value.outputs == ("bars",)
    assert caught.value.seed is None
    text = str(caught.value)
    assert f"{symbol}: " in text
    assert re.search(r"output 'bars': record \d+ of \d+: .*\bclose is 99500000000, expected 105\d+", text)
    assert isinstance(caught.value, AssertionError)


def test_symbols_outputs_and_lengths_that_only_one_has_are_said() -> None:
    few = testing.reference(testing.feed(trades(10, "AB")), strand.bars("1s"))
    many = testing.reference(testing.feed(trades(12, "ABC")), strand.bars("1s"))
    with pytest.raises(DifferenceError, match="C: only the expected one has this symbol"):
        testing.assert_same(few, many)
    count = testing.reference(testing.feed(trades(10, "AB")), "count")
    with pytest.raises(DifferenceError, match=r"A: has the fields .*; output 'bars': only the expected one"):
        testing.assert_same(count, few)

    @strand.batch_handler(state=[], outputs={"ticks": [("n", "i8")]})
    def emits(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        ctx.emit(np.zeros(len(ticks), [("n", "i8")]), at=np.arange(len(ticks)))

    short, long = (testing.reference(testing.feed(trades(n, "A")), emits) for n in (3, 4))
    with pytest.raises(DifferenceError, match="output 'ticks': 3 records, expected 4, the same up to there"):
        testing.assert_same(short, long)


def test_files_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="out"):
        testing.check_seeds(testing.feed(trades()), strand.bars("1s"), out={"bars": tmp_path / "bars.npy"})
