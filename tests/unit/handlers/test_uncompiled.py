"""Handlers written for numba, run as plain Python: in a process of its own, as numba asks its environment once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from written_for_numba import fingerprints

import strand
from strand.errors import HandlerError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import ObjectHandler
from strand.handlers.loading import is_jit_disabled, resolve
from strand.testing import assert_same, feed, reference

pytestmark = pytest.mark.python


SUPPORT = Path(__file__).resolve().parents[2] / "support"


@pytest.mark.python
def test_without_the_compiler_rows_and_outputs_are_the_same_bits() -> None:
    pytest.importorskip("numba")
    code = (
        f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\nimport written_for_numba\n"
        "for workers in (0, 2):\n    print(*written_for_numba.fingerprints(workers))\n"
        "print('numba' in sys.modules)\n"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == lines[1].split() == fingerprints(2)
    assert lines[2] == "False"


@pytest.mark.python
def test_a_failure_names_the_line_of_the_function_and_none_of_strand(monkeypatch: pytest.MonkeyPatch) -> None:
    @strand.handler(state={"n": "u8"})
    def fails(row: Any, tick: Any) -> None:
        1 // (tick.size - 9)  # its line

    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(HandlerError, match="division") as caught:
        reference(feed([("A", 1, 1.5, 7), ("A", 2, 2.5, 9)]), fails)
    assert caught.value.line is not None
    assert caught.value.line.text.endswith("# its line")


@pytest.mark.python
def test_python_runs_the_function_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @strand.handler(state={"n": "u8"}, outputs={"all": {"n": "u8", "price": "i8"}})
    def keeps(row: Any, tick: Any, emit: Any) -> None:
        seen.append((row.n, tick.size))
        row["n"] += 1
        emit.all(row.n, price=tick.price)

    ticks = feed([("A", 1, 1.5, 7), ("A", 2, 2.5, 9)])
    assert not is_jit_disabled()
    assert resolve(keeps) is keeps
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    result = reference(ticks, keeps)
    assert seen == [(0, 7), (1, 9)]
    assert result.rows["A"]["n"] == 2
    assert result.outputs["all"]["price"].tolist() == [1_500_000_000, 2_500_000_000]


@pytest.mark.python
def test_what_numba_would_refuse_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")

    @strand.handler(state={"n": "u8"})
    def misspelt(row: Any, tick: Any) -> None:
        row.m = 1

    @strand.handler(state={"n": "u8"}, outputs={"all": {"n": "u8", "price": "i8"}})
    def too_few(row: Any, tick: Any, emit: Any) -> None:
        emit.all(1)

    for handler, said in ((misspelt, "there is no field 'm'; there are n"), (too_few, "emit.all takes n, price")):
        with pytest.raises(strand.errors.HandlerError, match=said):
            reference(feed([("A", 1, 1.5, 7)]), handler)


# ---- Basket handlers written for numba, run as plain Python: the same rows, baskets and outputs


#: One symbol is of two baskets.
BASKETS = {"pair": ["AAAHD", "AAADU"], "more": ["AAADU", "AAAOA", "AAAEJ"]}


@strand.basket_handler(
    baskets=BASKETS,
    basket_state=[("volume", "i8"), ("sizes", "i8", 3), ("last", ("i8", 2))],
    params={"factor": "i8"},
    outputs={"large": {"index": "i8", "size": "i8"}},
    on="trade",
)
def traded(trade: Any, basket: Any, member: Any, index: Any, params: Any, emit: Any) -> None:  # noqa: PLR0917
    basket.volume += trade.size * params.factor
    basket.sizes[member] += trade.size
    basket.last[0] = trade.price
    if trade.size > 100:
        emit.large(index, size=trade.size)


@strand.basket_handler(
    baskets=BASKETS, state=[("best", "i8"), ("n", "i8")], basket_state=[("middle", "f8"), ("same", "i8")]
)
def middles(row: Any, tick: Any, basket: Any) -> None:
    row.n += 1
    if row.book.bid_orders > 0 and row.book.ask_orders > 0:
        middle = (row.book.bid_price + row.book.ask_price) / 2.0
        if middle == basket.middle:
            basket.same += tick.size
        basket.middle = middle
    row["best"] = max(row.best, row.book.bid_price)


@pytest.mark.cells(1)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "handler", [traded.with_params({"*": {"factor": 2}, "AAADU": {"factor": 3}}), strand.chain("book", middles)]
)
def test_without_the_compiler_rows_and_baskets_are_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, handler: Any, workers: int
) -> None:
    pytest.importorskip("numba")

    def replayed() -> Any:
        # A chain resolves its parts as it is made.
        made = strand.chain("book", middles) if "+" in handler.name else handler
        return strand.replay(sample_path(), made, date=SAMPLE_DATE, workers=workers, limit=20_000)

    compiled = replayed()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    plain = replayed()
    assert plain.objects.keys() == BASKETS.keys()
    assert not compiled.objects
    assert_same(plain, compiled)
    assert plain.fingerprint == compiled.fingerprint


@pytest.mark.python
def test_python_runs_the_function_itself_uncompiled_baskets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @strand.basket_handler(baskets={"ab": ["B", "A"]}, basket_state={"n": "u8"})
    def keeps(member: Any, basket: Any) -> None:
        seen.append((basket.n, member))
        basket.n += 1
        1 // (3 - basket.n)  # its line

    assert resolve(keeps) is keeps
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    handler = resolve(keeps)
    assert isinstance(handler, ObjectHandler)
    assert handler.written == keeps.written
    with pytest.raises(HandlerError, match="division") as caught:
        reference(feed([("A", 1, 1.5, 7), ("B", 2, 2.5, 9), ("A", 3, 1.5, 7)]), keeps)
    assert seen == [(0, 1), (1, 0), (2, 1)]
    assert caught.value.line is not None
    assert caught.value.line.text.endswith("# its line")
