"""What a record of an output is: the columns before the declared ones.

A record goes out with four columns before the declared ones: ``number`` (i8: the place of its tick in the order of
publishing, from 0; ``AT_TIMER`` for what a timer emitted, ``AT_END`` for what the run's end did), ``sequence`` (i8: the
feed's own, of its tick; ``NO_SEQUENCE`` where there is none: of a timer and of the end, and of all where records have
no such field), ``ts`` (i8: the feed's time there, the greatest ``ts_recv`` up to that tick, or the timer's; ns since
the UNIX epoch) and ``instrument_id`` (u4). What is negative in ``number`` and ``NO_SEQUENCE`` are null in Parquet,
Arrow and CSV.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from strand.units import COUNT, TIME, declare

__all__ = ["AT_END", "AT_TIMER", "NO_SEQUENCE", "merged_dtype"]

#: ``number`` of a record that a timer emitted, and of one that the end of the run did: no place of a tick.
AT_TIMER = -1
AT_END = -2
#: ``sequence`` of a record that has none.
NO_SEQUENCE = -1
HEAD = (
    ("number", declare(COUNT, none=(AT_TIMER, AT_END))),
    ("sequence", declare(COUNT, none=(NO_SEQUENCE,))),
    ("ts", TIME),
    ("instrument_id", np.dtype("<u4")),
)
HEAD_BYTES = 28


def merged_dtype(declared: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of an output's records, from the one its handler declares."""
    assert declared.fields is not None
    assert declared.names is not None
    return np.dtype(
        {
            "names": [*(name for name, _ in HEAD), *declared.names],
            "formats": [*(form for _, form in HEAD), *(declared.fields[n][0] for n in declared.names)],
            "offsets": [0, 8, 16, 24, *(HEAD_BYTES + declared.fields[n][1] for n in declared.names)],
            "itemsize": HEAD_BYTES + declared.itemsize,
        }
    )
