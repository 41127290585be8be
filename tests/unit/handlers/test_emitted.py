"""Outputs as handlers declare them."""

from __future__ import annotations

from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers.state import LARGEST, output_dtypes

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"no name": [("x", "i8")]}, "'no name' cannot be an output's name"),
        ({"class": [("x", "i8")]}, "'class' cannot be an output's name"),
        ({3: [("x", "i8")]}, "3 cannot be an output's name"),
        ({"bars": [("x", "O")]}, "outputs.bars: "),
        ({"bars": [("x", "i8"), ("ts", "i8")]}, "every record has a column 'ts' already"),
        ({"bars": [("x", "u1", (LARGEST + 1,))]}, "a record has 16385 bytes, and at most 16384"),
    ],
)
def test_what_cannot_be_an_output_is_refused_by_name(outputs: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        output_dtypes(outputs)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"state": {"a b": "i8"}}, "handler 'one': state: compiled code cannot use a field named 'a b'"),
        ({"params": {"class": "i8"}}, "handler 'one': params: compiled code cannot use a field named 'class'"),
        (
            {"outputs": {"bars": {"1st": "i8"}}},
            "handler 'one': outputs.bars: compiled code cannot use a field named '1st'",
        ),
        ({"params": {"": "i8"}}, "params: a field's name is ''"),
        ({"outputs": {"bars": [("", "i8")]}}, "outputs.bars: a field's name is ''"),
    ],
)
def test_a_compiled_handler_is_refused_with_the_field_that_its_code_cannot_name(declared: Any, said: str) -> None:
    given: dict[str, Any] = {"state": {"n": "i8"}, **declared}
    arguments = [word for word, option in (("params", "params"), ("emit", "outputs")) if option in given]
    space: dict[str, Any] = {}
    exec(f"def one({', '.join(['row', 'tick', *arguments])}): pass", space)
    with pytest.raises(ConfigurationError) as caught:
        strand.handler(**given)(space["one"])
    assert str(caught.value).startswith(said)


def test_a_compiled_basket_handler_is_refused_likewise_and_a_batch_handler_reads_fields_by_text() -> None:
    def one(row: Any, basket: Any) -> None: ...

    named = {"a b": "i8"}
    for records in ({"basket_state": named}, {"basket_state": {"n": "i8"}, "state": named}):
        with pytest.raises(ConfigurationError, match="compiled code cannot use a field named 'a b'"):
            strand.basket_handler(baskets={"pair": ["A", "B"]}, **records)(one)
    assert strand.batch_handler(state=named)(lambda symbol, ticks, row: None).state.names == ("a b",)


def test_fields_of_an_output_may_have_names_that_emitting_uses() -> None:
    pytest.importorskip("numba")
    fields = ("emit", "record", "reserve", "set_in")

    @strand.handler(state={"n": "i8"}, outputs={"seen": dict.fromkeys(fields, "i8")})
    def seen(row: Any, tick: Any, emit: Any) -> None:
        row.n += 1
        emit.seen(row.n, row.n, row.n, row.n)

    result = strand.replay(sample_path(), seen, symbols=["AAAHD"], date=SAMPLE_DATE, workers=1)
    for field in fields:
        assert result.outputs["seen"][field].tolist() == list(range(1, result.ticks + 1))
