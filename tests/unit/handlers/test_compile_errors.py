"""What does not compile, said in one line."""

from __future__ import annotations

from typing import Any

import pytest

from strand import Dispatcher, handler
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python


def plain(x: Any) -> Any:
    return x + 1


def no_field(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    row.volume += tick.size


def no_field_of_a_tick(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    row.n += tick.pirce


def no_field_by_index(row, tick):  # type: ignore[no-untyped-def]
    row["volume"] += 1


def no_name(row, tick):  # type: ignore[no-untyped-def]
    row.n += undefined  # type: ignore[name-defined]  # noqa: F821


def not_compiled(row, tick):  # type: ignore[no-untyped-def]
    row.n += plain(tick.size)


def two_types(row, tick):  # type: ignore[no-untyped-def]
    if tick.size > 1:
        x = 1
    else:
        x = "one"  # type: ignore[assignment]
    row.n += len(str(x))


def wrong_type(row, tick):  # type: ignore[no-untyped-def]
    row.n = "one"


def empty_list(row, tick):  # type: ignore[no-untyped-def]
    seen: list[int] = []
    row.n += len(seen)


def opens_a_file(row, tick):  # type: ignore[no-untyped-def]
    with open("x") as file:  # noqa: PTH123
        row.n += len(file.read())


def bytes_and_text(row, tick):  # type: ignore[no-untyped-def]
    if tick.size > 0 and tick["action"] != "A":
        row.n += 1


def bytes_among_text(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1
    if tick.side in ("A", "B"):
        row.n += 1


@pytest.mark.parametrize(
    ("function", "line", "said"),
    [
        (bytes_and_text, 1, r"bytes are compared with text, which they never equal \(write b\"A\" in place of \"A\"\)"),
        (bytes_among_text, 2, r"bytes are compared with text"),
        (no_field, 2, r"row has no field 'volume'; row has n, last$"),
        (no_field_of_a_tick, 2, r"tick has no field 'pirce'; tick has ts_event, .*, price, "),
        (no_field_by_index, 1, r"row has no field 'volume'; row has n, last$"),
        (no_name, 0, r"name 'undefined' is not defined \(define it at the top of the module"),
        (not_compiled, 1, r"Untyped global name 'plain'.*decorate plain with @numba.njit"),
        (two_types, None, r"Cannot unify .* \(a variable has one type throughout"),
        (wrong_type, 1, r"Cannot cast .* to uint64 \(the field has another type"),
        (empty_list, None, r"keep a fixed-size array in the row instead"),
        (opens_a_file, None, r"for the rest of Python use @strand.batch_handler"),
    ],
)
def test_what_does_not_compile_is_said_in_one_line_with_its_place(function: Any, line: int | None, said: str) -> None:
    wrong = handler(state=[("n", "u8"), ("last", "i8")], name="mine")(function)
    with pytest.raises(ConfigurationError, match=said) as caught:
        Dispatcher(1, wrong)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"handler 'mine' does not compile: {__file__}:")
    if line:
        assert f"{__file__}:{function.__code__.co_firstlineno + line}:" in text
    assert caught.value.__suppress_context__  # a traceback has none of numba's own text
    assert caught.value.__context__ is not None


def no_output(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.ticks(1, 2.0)


def too_few(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen(tick.size)


def other_names(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen(n=1, x=2.0)


def other_types(row, tick, emit):  # type: ignore[no-untyped-def]
    emit.seen("one", 2.0)


def no_name_of_an_output(row, tick, emit):  # type: ignore[no-untyped-def]
    emit(1, 2.0)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_output, r"emit has no output 'ticks'; write emit\.seen\(n, share\)$"),
        (too_few, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\), of types uint64, float64$"),
        (other_names, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\)"),
        (other_types, r"what emit\.seen is given does not fit; write emit\.seen\(n, share\)"),
        (no_name_of_an_output, r"emit is called by the name of an output; write emit\.seen\(n, share\)$"),
    ],
)
def test_what_cannot_be_emitted_is_said_in_the_words_of_the_outputs(function: Any, said: str) -> None:
    wrong = handler(state=[("n", "u8")], outputs={"seen": [("n", "u8"), ("share", "f8")]}, name="mine")(function)
    with pytest.raises(ConfigurationError, match=said) as caught:
        Dispatcher(1, wrong)
    assert f"{__file__}:{function.__code__.co_firstlineno + 1}: " in str(caught.value)


def test_a_generator_is_no_handler() -> None:
    def lazy(row, tick):  # type: ignore[no-untyped-def]
        row.n += 1
        yield

    with pytest.raises(ConfigurationError, match="handler 'lazy': lazy is async or a generator, and would not run"):
        handler(state=[("n", "u8")])(lazy)
