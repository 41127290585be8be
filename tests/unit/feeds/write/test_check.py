"""A file that was written is held against its ticks: the first that differs is named, with its field."""

from __future__ import annotations

import numpy as np
import pytest
from feed_samples import some_ticks

from strand.errors import ConfigurationError
from strand.feeds.write.check import check_read_back
from strand.ticks import FIELDS

pytestmark = pytest.mark.python


def said(written: np.ndarray, read: np.ndarray, *, sound: bool = True, ignore: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigurationError) as raised:
        check_read_back(written, read, sound=sound, before=100, target="itch", ignore=ignore)
    return str(raised.value)


@pytest.mark.parametrize("field", FIELDS)
def test_any_field_that_reads_back_otherwise_is_named(field: str) -> None:
    ticks = some_ticks()
    check_read_back(ticks, ticks.copy(), sound=True, before=0, target="itch")
    read, values = ticks.copy(), ticks[field].copy()
    values[7:] = b"?" if values.dtype.kind == "S" else values[7:] ^ 1
    read[field] = values
    value = ticks[field][7].item()
    assert said(ticks, read).startswith(f"{field}: itch cannot hold {value!r} in tick 108 (kind ")
    check_read_back(ticks, read, sound=True, before=0, target="itch", ignore=(field,))


def test_of_several_the_first_tick_counts_and_in_it_the_field_that_says_most() -> None:
    ticks, read = some_ticks(), some_ticks()
    read["kind"][9] ^= 1
    read["ts_event"][3] ^= 1
    assert said(ticks, read).startswith("ts_event: itch cannot hold")
    read["price"][3] ^= 1
    assert said(ticks, read).startswith("price: itch cannot hold")
    assert "in tick 110 " in said(ticks, read, ignore=("price", "ts_event"))


def test_ticks_that_are_missing_or_too_many_are_noticed() -> None:
    ticks = some_ticks()
    count = len(ticks)
    assert f"in tick {100 + count} " in said(ticks, ticks[:-1])
    assert f"in tick {99 + count} " in said(ticks[:-1], ticks)
    assert f"in tick {100 + count} " in said(ticks, ticks, sound=False)
