"""A handler that fails in a replay: its error says which tick of its symbol it was, and what there is so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import HandlerError
from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python


class Fails:
    """Fails on its seventh tick."""

    def __init__(self) -> None:
        self.n = 0

    def on_tick(self, tick: Any) -> None:
        self.n += 1
        if self.n >= 7:
            raise ValueError("seven")


def compiled() -> Any:
    pytest.importorskip("numba")

    @strand.handler(state=[("n", "u8")])
    def divides(row: Any, tick: Any) -> None:
        left = 6 - row.n
        row.n += np.uint64(tick.size // left * 0 + 1)

    return divides


def failure(handler: Any, **options: Any) -> HandlerError:
    with pytest.raises(HandlerError) as caught:
        strand.replay(sample_path(), handler, **options)
    return caught.value


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("kind", ["object", "compiled", "compiled in shared strands"])
def test_the_error_says_which_tick_it_was_and_what_there_is(workers: int, kind: str) -> None:
    handler = Fails if kind == "object" else compiled()
    options = {"strands": 2} if "shared" in kind and workers else {}
    error = failure(handler, workers=workers, **options)
    assert error.number == 7
    with strand.feeds.open(sample_path()) as feed:
        ticks = np.concatenate([np.array(batch) for batch in feed])
        key = list(feed.symbols).index(error.symbol)
    assert error.tick == ticks[ticks["instrument_id"] == key][6]
    assert error.partial.rows[error.symbol].dtype == error.row.dtype
    assert error.partial.rows[error.symbol] == error.row
    assert error.partial.symbols.index(error.symbol) == key


def test_the_number_is_that_of_the_replay_s_own_ticks() -> None:
    whole = failure(compiled(), workers=2, strands=2, symbols=["AAAHD"])
    later = failure(compiled(), workers=2, strands=2, symbols=["AAAHD"], position=10)
    assert (whole.number, later.number) == (7, 7)
    assert later.sequence > whole.sequence


def test_a_feed_that_cannot_be_read_again_leaves_the_number_out() -> None:
    with strand.feeds.open(sample_path()) as feed, pytest.raises(HandlerError) as caught:
        strand.replay(feed, compiled(), workers=1, strands=2)
    assert caught.value.number is None
    assert caught.value.tick is not None
