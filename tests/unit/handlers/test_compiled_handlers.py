"""Handlers compiled by numba: what is kept on disk, and what is said of those that do not compile."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from engine_support import run_python, ticks_for

from strand import Dispatcher, handler
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python

numba = pytest.importorskip("numba")

HANDLER = """
    import sys
    import numba
    import numpy as np
    import strand
    from numba.core.ccallback import CFunc

    FACTOR = {factor}

    @numba.njit
    def scaled(x):
        return x * FACTOR

    @strand.handler(state=[("volume", "u8"){more}])
    def sums(row, tick):
        row.volume += {expression}

    compiled = 0
    real = CFunc._compile_uncached

    def counts(self):
        global compiled
        compiled += 1
        return real(self)

    CFunc._compile_uncached = counts
    ticks = strand.ticks.zeros(10)
    ticks["size"] = 2
    with strand.Dispatcher(1, sums, workers=1, cores=None) as d:
        d.publish(ticks)
    print(compiled, d.rows[0]["volume"])
"""


def run_file(
    folder: Path, *, factor: int = 3, more: str = "", expression: str = "scaled(tick.size)", **environment: str
) -> str:
    source = folder / "mine.py"
    text = textwrap.dedent(HANDLER.format(factor=factor, more=more, expression=expression))
    if not source.exists() or source.read_text() != text:
        source.write_text(text)
    code = f"""
        import os, runpy
        os.environ.update({environment!r})
        runpy.run_path({str(source)!r}, run_name="mine")
    """
    # Numba reads its settings when it is imported.
    result = run_python(code, imported=() if environment else ("numba",))
    assert result.stderr == ""
    return result.stdout.strip()


def test_a_second_process_finds_the_code_and_compiles_nothing(tmp_path: Path) -> None:
    assert run_file(tmp_path) == "1 60"
    assert run_file(tmp_path) == "0 60"


def test_code_is_compiled_anew_when_a_constant_the_row_or_the_function_is_another(tmp_path: Path) -> None:
    assert run_file(tmp_path, factor=3) == "1 60"
    assert run_file(tmp_path, factor=4) == "1 80"
    assert run_file(tmp_path, factor=4, more=', ("more", "u8")') == "1 80"
    assert run_file(tmp_path, factor=4, more=', ("more", "u8")', expression="scaled(tick.size) + 1") == "1 90"


def test_code_lies_in_numba_s_folder_where_one_is_set(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    run_file(tmp_path, NUMBA_CACHE_DIR=str(kept))
    assert list(kept.rglob("*.nbi"))
    assert not (tmp_path / "__pycache__").exists()
    assert run_file(tmp_path, NUMBA_CACHE_DIR=str(kept)) == "0 60"


def test_a_helper_of_another_module_is_part_of_what_the_code_depends_on(tmp_path: Path) -> None:
    """The file of the handler is the same, so numba alone would not notice."""
    (tmp_path / "mine.py").write_text(
        textwrap.dedent("""
            import numpy as np, strand
            from helper import scaled

            @strand.handler(state=[("volume", "u8")])
            def sums(row, tick):
                row.volume += scaled(tick.size)

            ticks = strand.ticks.zeros(10)
            ticks["size"] = 2
            with strand.Dispatcher(1, sums, workers=1, cores=None) as d:
                d.publish(ticks)
            print(d.rows[0]["volume"])
        """)
    )
    volumes = []
    for factor in (2, 5):
        (tmp_path / "helper.py").write_text(f"import numba\n@numba.njit\ndef scaled(x):\n    return x * {factor}\n")
        os.utime(tmp_path / "helper.py", (factor, factor))
        code = (
            f"import sys, runpy\nsys.path.insert(0, {str(tmp_path)!r})\nrunpy.run_path({str(tmp_path / 'mine.py')!r})"
        )
        result = run_python(code, imported=("numba",))
        assert result.stderr == ""
        volumes.append(int(result.stdout))
    assert volumes == [40, 100]


def test_a_handler_typed_at_a_prompt_has_no_file_and_works() -> None:
    result = run_python("""
        import numpy as np, strand

        @strand.handler(state=[("n", "u8")])
        def counts(row, tick):
            row.n += 1

        with strand.Dispatcher(1, counts, workers=1, cores=None) as d:
            d.publish(strand.ticks.zeros(7))
        print(d.rows[0]["n"])
    """, imported=("numba",))  # fmt: skip
    assert (result.stdout, result.stderr) == ("7\n", "")


# ---- what does not compile


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
    assert caught.value.__cause__ is not None


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


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (lambda row: None, {}, r"its arguments are \(row\); write on_tick\(row, tick\)"),
        (lambda row, tick, other: None, {}, r"its arguments are \(row, tick, other\)"),
        (lambda row, tick, params: None, {}, "give params= to declare"),
        (lambda row, tick: None, {"params": [("x", "f8")]}, "it has no argument params"),
    ],
)
def test_arguments_that_cannot_be_given_are_refused_at_once(function: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        handler(state=[("n", "u8")], **options)(function)


def test_letters_are_bytes_in_a_compiled_handler() -> None:
    @handler(state=[("adds", "u8"), ("others", "u8")])
    def letters(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"A":
            row.adds += 1
        else:
            row.others += 1

    ticks = ticks_for([0] * 10)
    ticks["action"][3:5] = b"C"
    with Dispatcher(1, letters, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0].tolist() == (8, 2)


def test_numba_is_not_needed_to_import_the_package() -> None:
    result = run_python("import sys, strand; print([m for m in sys.modules if m.startswith('numba')])")
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_kept_code_goes_by_the_layout_of_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    from strand.handlers import compiled_loop

    def digest() -> str:
        cache = compiled_loop.FunctionCache.of(test_kept_code_goes_by_the_layout_of_contexts, ())
        assert cache is not None
        return cache._digest

    now = digest()
    assert digest() == now
    monkeypatch.setattr(compiled_loop, "HANDLER_LAYOUT", compiled_loop.HANDLER_LAYOUT - 1)
    assert digest() != now
