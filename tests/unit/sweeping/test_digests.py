"""Digests of files and of code, which tell when a result has to be made again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import FeedError
from strand.sweeping.digests import code_digest, file_digest, stamp_of

pytest.importorskip("numba")

pytestmark = pytest.mark.python

LEAST = 5


def _handler(constant: int = 1, **options: Any) -> Any:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")], cache=False, **options)
    def large(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += constant * (tick.size >= params.least + LEAST)

    return large


def test_the_same_code_has_the_same_digest() -> None:
    assert code_digest(_handler(), {"start": None}) == code_digest(_handler(), {"start": None})


def test_the_digest_covers_code_constants_options_and_the_handlers_before(monkeypatch: pytest.MonkeyPatch) -> None:
    one = _handler()
    found = {
        code_digest(one, {}),
        code_digest(one, {"start": "09:30"}),
        code_digest(_handler(2), {}),
        code_digest(one.with_params({"*": {"least": 7}}), {}),
        code_digest(strand.chain(strand.book(), one), {}),
        code_digest(strand.chain(strand.bars("1m"), one), {}),
        code_digest(strand.chain(strand.bars("5m"), one), {}),
    }
    monkeypatch.setitem(globals(), "LEAST", 6)
    found.add(code_digest(one, {}))
    assert len(found) == 8


def test_the_digest_covers_what_calls_a_handler_in_python_and_when() -> None:
    def on_ticks(symbol, ticks, row):  # type: ignore[no-untyped-def]
        row["n"] += len(ticks)

    def other(symbol, ticks, row):  # type: ignore[no-untyped-def]
        row["n"] -= len(ticks)

    def digest(function: Any = on_ticks, **options: Any) -> str:
        made = strand.batch_handler(state=[("n", "i8")], params=[("least", "u4")], name="n", **options)(function)
        return code_digest(made, {})

    assert digest() == digest()
    assert len({digest(), digest(other), digest(on="trade"), digest(on_finish=lambda symbol, row: None)}) == 4


def test_the_digest_covers_the_timers_of_handlers_in_c_before(c_handlers: Path) -> None:
    """The library is the same, and so is the function for ticks: but one of the handlers is called at its timers."""

    def digest(**options: Any) -> str:
        before = strand.native(c_handlers, "on_bomb", state=[("n", "<u8"), ("size", "<u8")], **options)
        return code_digest(strand.chain(before, _handler()), {})

    assert digest() == digest()
    assert digest() != digest(wake="wake_bomb")


def test_the_digest_covers_the_baskets_of_handlers_before() -> None:
    def digest(baskets: Any, **options: Any) -> str:
        @strand.basket_handler(baskets=baskets, cache=False, **{"basket_state": [("n", "i8")], **options})
        def pair(tick, row, basket):  # type: ignore[no-untyped-def]
            basket.n += 1

        return code_digest(strand.chain(pair, _handler()), {})

    def by_letter(place: int) -> Any:
        return lambda symbol: symbol[place]

    assert digest({"a": ["A", "B"]}) == digest({"a": ["A", "B"]})
    assert digest(by_letter(0)) == digest(by_letter(0))
    found = {
        digest({"a": ["A", "B"]}),
        digest({"a": ["A", "C"]}),
        digest({"a": ["A", "B"]}, basket_state=[("n", "i8"), ("last", "i8")]),
        digest({"a": ["A", "B"]}, state=[("ticks", "i8")]),
        digest(by_letter(0)),
        digest(by_letter(-1)),
    }
    assert len(found) == 6


def test_the_digest_of_a_file_goes_by_its_bytes(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(np.arange(1_000_000).tobytes())
    b.write_bytes(np.arange(1_000_000).tobytes())
    assert file_digest(a) == file_digest(b)
    size, changed = stamp_of(a)
    os.utime(a, ns=(changed + 1, changed + 1))
    assert stamp_of(a) == (size, changed + 1)
    a.write_bytes(b"x")
    assert file_digest(a) != file_digest(b)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for look in (stamp_of, file_digest):
        with pytest.raises(FeedError, match=r"gone\.gz"):
            look(tmp_path / "gone.gz")


def test_an_option_that_names_a_file_goes_by_what_it_holds(tmp_path: Path) -> None:
    profile, symbols = tmp_path / "mine.toml", tmp_path / "symbols"
    profile.write_text("a = 1")
    symbols.write_text("AAPL")
    one, options = _handler(), {"profile": str(profile), "symbols": [f"@{symbols}"]}
    found = {code_digest(one, options)}
    profile.write_text("a = 2")
    found.add(code_digest(one, options))
    symbols.write_text("MSFT")
    found.add(code_digest(one, options))
    assert len(found) == 3
