"""A row and two outputs of handlers that emit, and all that a run of one emits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from strand import Dispatcher

ROW = [("ticks", "<u8"), ("volume", "<u8")]
OUTPUTS = {
    "seen": np.dtype([("volume", "<u8"), ("place", "<u2")]),
    "even": np.dtype([("size", "<u4"), ("halves", "<f4", (2,))]),
}


def run(like: Any, ticks: npt.NDArray[Any], **options: Any) -> dict[str, list[Any]]:
    with Dispatcher(6, like, cores=None, **options) as d:
        for part in np.array_split(ticks, 7):
            d.publish(part)
    found = {}
    for name, output in d.outputs.items():
        array = output.array()
        columns = [array[field].tolist() for field in array.dtype.names or ()]
        found[name] = list(zip(*columns, strict=True))
    return found
