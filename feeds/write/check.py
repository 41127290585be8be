"""Whether the file that was written reads back as the ticks that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from strand.errors import ConfigurationError
from strand.feeds.base import TickBatch
from strand.ticks import FIELDS

__all__ = ["check_read_back"]

_ORDER: Final = ("kind", "action", "side", "price", "size", "order_id", "ref_id", "ts_recv", "ts_event")


def check_read_back(
    written: TickBatch, read: TickBatch, *, sound: bool, before: int, target: str, ignore: Sequence[str] = ()
) -> None:
    """Raises ConfigurationError, with the field and the tick, where ``read`` differs from what was ``written``.

    ``sound``: whether reading went to its end. ``before``: ticks written before these.
    """
    fields = [*_ORDER, *(name for name in FIELDS if name not in _ORDER)]
    length = min(len(written), len(read))
    worst: tuple[int, str] | None = None
    for field in fields:
        if field in ignore:
            continue
        differs = written[field][:length] != read[field][:length]
        if differs.any():
            index = int(np.argmax(differs))
            if worst is None or index < worst[0]:
                worst = index, field
    if worst is None and len(written) == len(read) and sound:
        return
    index, field = worst if worst is not None else (min(length, len(written) - 1), "side")
    tick = written[index]
    value = tick[field].item() if field in FIELDS else None
    raise ConfigurationError(
        f"{field}: {target} cannot hold {value!r} in tick {before + index + 1} (kind {int(tick['kind'])}, action "
        f"{bytes(tick['action'])!r})"
    )
