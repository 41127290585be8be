"""Profiles of JSON messages: where they come from, what they make of messages, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.feeds.formats.json.profile import Record, read_profile
from strand.ticks import KIND_QUOTE, KIND_TRADE, UNDEF_PRICE

pytestmark = pytest.mark.python


def test_what_is_optional_empty_or_zero_is_no_value_and_maps_say_what_texts_mean() -> None:
    fields = {
        "price": {"column": ["p", "price"], "zero": "none", "empty": "none"},
        "ref_id": {"column": "id", "optional": True},
        "kind": {"column": "k", "map": {"t": "trade"}, "otherwise": "quote"}, "side": "s",
    }  # fmt: skip
    profile = read_profile({"message": [{"symbol": {"constant": "X"}, "fields": fields}]})
    items = ({"p": 0, "k": "t", "s": "A", "id": 7}, {"price": "1.5", "k": "t", "s": "B"}, {"p": "", "k": "x", "s": "N"})
    found = [record.values for item in items for record in profile.records(item) or () if isinstance(record, Record)]
    assert found == [
        {"price": UNDEF_PRICE, "ref_id": 7, "kind": KIND_TRADE, "side": b"A", "action": b"T"},
        {"price": 1_500_000_000, "kind": KIND_TRADE, "side": b"B", "action": b"T"},
        {"price": UNDEF_PRICE, "kind": KIND_QUOTE, "side": b"N", "action": b"N"},
    ]


def test_a_profile_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[[message]]\nwhere = { "a.b" = 7 }\nkind = "trade"\nsymbol = "d.0"\n'
        '[message.fields]\nprice = "d.1"\nside = { constant = "A" }\n'
    )
    profile = read_profile(path)
    (found,) = profile.records({"a": {"b": 7}, "d": ["X", 3]}) or ()
    assert isinstance(found, Record)
    assert (found.symbol, found.values["price"], found.values["side"]) == ("X", 3_000_000_000, b"A")
    assert profile.records({"a": {"b": 8}}) is None
    path.write_text("not = [toml")
    with pytest.raises(ConfigurationError, match="cannot be read as a profile"):
        read_profile(path)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({}, "at least one"),
        ({"messages": []}, "messages: is not a key here"),
        ({"size_unit": 3, "message": [{}]}, "size_unit: give a power of ten"),
        (
            {"message": [{"symbol": "s", "kind": "tick"}]},
            "kind: give 'none' or 'order' or 'trade' or 'quote' or 'status', not 'tick'",
        ),
        ({"message": [{}]}, "symbol: give"),
        ({"message": [{"symbol": "s", "fields": {"cost": "p"}}]}, "fields.cost: is not a field of a tick"),
        ({"message": [{"symbol": "s", "fields": {"ts_event": "t"}}]}, "fields.ts_event.unit: is needed"),
        ({"message": [{"symbol": "s", "gapless": True}]}, "gapless: give the column"),
        ({"message": [{"symbol": "s..t"}]}, "is not a path"),
        (
            {"message": [{"symbol": "s", "fields": {"ts_event": {"column": "t", "unit": "clock"}}}]},
            "give date_column under",
        ),
        ({"message": [{"symbol": "s", "fields": {"ts_recv": {"column": "t", "unit": "s"}}}]}, "ts_recv: leave it out"),
        (
            {"message": [{"symbol": "s", "fields": {"order_id": {"later_of": ["a", "b"]}}}]},
            "later_of: is not a key here",
        ),
        ({"message": [{"symbol": "s", "fields": {"side": {"constant": "X"}}}]}, "'X' is not one of A, B, N"),
        ({"message": [{"symbol": "s", "fields": {"side": {"column": "m", "map": {"1": "b"}}}}]}, "'b' is not one of"),
    ],
)
def test_a_profile_that_cannot_work_is_refused_with_the_key(profile: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match="profile") as caught:
        read_profile(profile)
    assert words in str(caught.value)


def test_a_profile_written_down_is_the_same_read_again() -> None:
    where = {"a": True, "b": 1.5, "c": dt.date(2026, 1, 5), "d": None, "e": {"f": 2.5}, "g": float("nan")}
    given = {
        "name": "seven",
        "size_unit": 0.001,
        "message": [
            {
                "where": where, "symbol": {"constant": "1.5"}, "gapless": False, "more": False, "kind": "trade",
                "fields": {
                    "side": {"column": "m", "map": {True: "A", None: "B"}}, "price": {"constant": Decimal("1.5")},
                    "ts_event": {"column": "T", "unit": "stamp"},
                },
            }
        ],
    }  # fmt: skip
    profile = read_profile(given)
    again = read_profile(json.loads(json.dumps(profile.source, allow_nan=False)))
    assert again.source == profile.source
    assert again.name == profile.name
    (rule,), (same,) = profile.rules, again.rules
    assert (rule.where, rule.symbol, rule.numbering, rule.more) == (same.where, same.symbol, same.numbering, same.more)
    assert [(field.rule, field.paths) for field in rule.fields] == [(field.rule, field.paths) for field in same.fields]
    item = {"m": None}
    record = {**item, "m": True, "T": "2026-01-05T00:00:00Z"}
    assert [field.of(record, {}) for field in rule.fields] == [field.of(record, {}) for field in same.fields]
