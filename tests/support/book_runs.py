"""Orders one at a time, and runs of books over them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from engine_support import balanced, ticks_for

from strand import UNDEF_PRICE, Dispatcher, book


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
