"""One value at a time as a field of a tick: exactly, or refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from websocket_server import TRADES, trade

from strand.feeds.formats.json.profile import BadRecord, Record, read_profile

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"p": "1.0000000001"}, "price: '1.0000000001' is not a whole number of units of 1e-9: inexact='round'"),
        ({"p": "1." + "0" * 90 + "1"}, "is not a whole number of units of 1e-9"),
        ({"p": "1e400"}, "not a number that a tick can hold"),
        ({"p": "NaN"}, "not a number that a tick can hold"),
        ({"p": None}, "price: p is null: if that means no value, give optional = true"),
        ({"p": True}, "is not a number"),
        ({"q": "0.0001"}, "not a whole number of units of 1e-3"),
        ({"q": -1}, "size: -1"),
        ({"q": 1 << 62}, "size: give a larger size_unit: 4611686018427387904 is more than 2^63 - 1 units of 1e-3"),
        ({"n": 1.5}, "sequence"),
        ({"T": "yesterday"}, "ts_event"),
        ({"T": -1}, "is not a time"),
        ({"m": "maybe"}, "side: 'maybe' is not one of true, false"),
        ({"s": ""}, "symbol: '' is not a name"),
        ({"s": 7}, "symbol: 7 is not a name"),
    ],
)
def test_a_value_that_a_tick_cannot_hold_exactly_is_refused(changes: dict[str, Any], words: str) -> None:
    (found,) = read_profile(TRADES).records({"type": "trade", "data": [trade(1) | changes]}) or ()
    assert isinstance(found, BadRecord)
    assert words in str(found)


def test_times_are_read_in_every_unit() -> None:
    for unit, value in (
        ("s", "1700000000.123456789"), ("ms", "1700000000123.456789"), ("us", "1700000000123456.789"),
        ("ns", 1_700_000_000_123_456_789), ("stamp", "2023-11-14T22:13:20.123456789Z"),
        ("stamp", "2023-11-14 23:13:20.123456789+01:00"),
    ):  # fmt: skip
        fields = {"ts_event": {"column": "t", "unit": unit}}
        profile = read_profile({"message": [{"symbol": {"constant": "X"}, "fields": fields}]})
        (found,) = profile.records({"t": value}) or ()
        assert isinstance(found, Record), found
        assert found.values["ts_event"] == 1_700_000_000_123_456_789
