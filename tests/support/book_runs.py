"""Orders one at a time, and runs of books over them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from engine_support import balanced, ticks_for
from hypothesis import strategies as st

from strand import UNDEF_PRICE, Dispatcher, book
from strand.ticks import zeros


def tick(action: str, order_id: int = 0, price: int = UNDEF_PRICE, size: int = 0, **more: Any) -> npt.NDArray[Any]:
    made = ticks_for([more.pop("key", 0)], kind=1)
    made["action"], made["order_id"], made["price"], made["size"] = action.encode(), order_id, price, size
    made["side"] = more.pop("side", "N").encode()
    for name, value in more.items():
        made[name] = value
    return made


def run(*parts: npt.NDArray[Any], symbols: int = 1) -> Dispatcher:
    with Dispatcher(symbols, book(), workers=2, cores=None) as d:
        for part in parts:
            d.publish(part)
        d.drain()
        balanced(d)
    return d


#: Around what 32 bits hold; with a lower half of 0; the largest sum of some that 63 bits hold.
_HALF = 2**32 - 1
_SIZES = [_HALF - 1, _HALF, 2**32, _HALF + 2, 2**33, 2**40, 3 * 2**32, 10**14, 10**14 + 1, 2**52]
#: Few ids and prices, so that everything meets everything.
_CHANGE = st.tuples(
    st.sampled_from("AAAACCFFMMRTN"),
    st.integers(0, 12),
    st.one_of(st.integers(1, 6), st.just(UNDEF_PRICE)),
    st.one_of(st.integers(0, 4), st.sampled_from(_SIZES)),
    st.sampled_from("ABABN"),
    st.sampled_from([0, 0, 1, 3, 7, 12]),
    st.sampled_from([0, 0, 0, 1, ord("H"), ord("T")]),
    st.integers(0, 1),
)
#: Lists without a least length have five elements in the mean.
ORDER_CHANGES = st.lists(_CHANGE, max_size=200) | st.lists(_CHANGE, min_size=60, max_size=200)


def order_stream(changes: list[Any]) -> npt.NDArray[Any]:
    """The ticks of ORDER_CHANGES, of two symbols."""
    ticks = zeros(len(changes))
    for t, (action, order_id, price, size, side, ref, flags, key) in zip(ticks, changes, strict=True):
        t["action"], t["order_id"], t["price"], t["size"] = action.encode(), order_id, price, size
        t["side"], t["ref_id"], t["flags"], t["instrument_id"] = side.encode(), ref, flags, key
        t["kind"] = 4 if action == "N" else 1
    return ticks
