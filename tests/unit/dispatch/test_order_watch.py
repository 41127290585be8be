"""A dispatcher is told what its ticks mean, or says that single orders come to who takes them for plain ticks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_feed import synthetic_day

import strand
from strand import Dispatcher
from strand.caller.run import CallerRun
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.ticks import KIND_ORDER

MAKES: list[Any] = [CallerRun, Dispatcher]


class Own:
    def on_trade(self, trade: strand.Trade) -> None: ...


@pytest.mark.parametrize("make", MAKES)
def test_a_dispatcher_that_is_told_its_feed_counts_what_a_replay_counts(make: Any) -> None:
    day = {"date": SAMPLE_DATE}
    with strand.feeds.open(sample_path(), **day) as feed:
        ticks = np.concatenate([batch.copy() for batch in feed])
        names = list(feed.symbols)
        with make(names, "vwap", feed=feed.info.ticks) as told:
            told.publish(ticks)
    replayed = strand.replay(sample_path(), "vwap", feed_options=day).rows
    assert told.rows.array.tolist() == replayed.array[: len(names)].tolist()
    assert told.statistics().orders_as_plain == 0


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("like", ["vwap", "bars", "trade_stats", Own, strand.chain("count", "vwap")])
def test_single_orders_that_are_taken_for_plain_ticks_are_one_warning_and_counted(make: Any, like: Any) -> None:
    ticks, names = synthetic_day()
    orders = int(np.count_nonzero(ticks["kind"] == KIND_ORDER))
    with make(names, like) as d:
        with pytest.warns(RuntimeWarning, match=r"single orders reach .* give feed='orders'") as told:
            d.publish(ticks[:2000])
        d.publish(ticks[2000:])
        d.drain()
        assert len(told) == 1
        assert told[0].filename == __file__
        assert d.statistics().orders_as_plain == d.statistics().as_dict()["orders_as_plain"] == orders
        if like is Own:
            with pytest.warns(RuntimeWarning, match="have no price"):
                d.__exit__(None, None, None)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize(
    ("like", "feed"), [("vwap", "plain"), ("book", None), ("count", None), (strand.vwap(book=False), None)]
)
def test_who_was_told_or_does_not_go_by_the_feed_is_left_alone(make: Any, like: Any, feed: Any) -> None:
    ticks, names = synthetic_day()
    with make(names, like, feed=feed) as d:
        d.publish(ticks)
    assert d.statistics().orders_as_plain == 0


def test_only_symbols_whose_handler_goes_by_the_feed_are_counted() -> None:
    ticks, names = synthetic_day()
    mine = (ticks["kind"] == KIND_ORDER) & (ticks["instrument_id"] == 1)
    with Dispatcher(names, handlers={names[1]: "vwap", "*": "book"}, workers=1) as d:
        with pytest.warns(RuntimeWarning, match=r"reach .*vwap"):
            d.publish(ticks)
        assert d.statistics().orders_as_plain == np.count_nonzero(mine) > 0


def test_a_feed_that_means_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="feed: 'itch' is not one of plain, orders, dbn, dbn-orders"):
        Dispatcher(1, "vwap", feed="itch")  # type: ignore[arg-type]
