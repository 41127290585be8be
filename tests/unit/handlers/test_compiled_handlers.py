"""Handlers compiled by numba: what is kept on disk, and what is said of those that do not compile."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from engine_support import run_python, ticks_for

from strand import Dispatcher, handler
from strand.errors import ConfigurationError, HandlerError

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


def test_code_is_compiled_anew_when_a_constant_the_row_or_the_function_is_another(tmp_path: Path) -> None:
    assert run_file(tmp_path, factor=3) == "1 60"
    assert run_file(tmp_path, factor=4) == "1 80"
    assert run_file(tmp_path, factor=4, more=', ("more", "u8")') == "1 80"
    assert run_file(tmp_path, factor=4, more=', ("more", "u8")', expression="scaled(tick.size) + 1") == "1 90"


ALIKE = textwrap.dedent("""
    import math
    import limits
    import numpy as np
    import strand
    from numba.core.ccallback import CFunc

    size = object()  # as a field of a tick; its text is another one in each process

    @strand.handler(state=[("volume", "u8")], outputs={"bars": [("volume", "u8")]})
    def bars(row, tick, emit):
        row.volume += tick.size + np.uint64(limits.MORE * math.pi)
        emit.bars(volume=row.volume)

    compiled = 0
    real = CFunc._compile_uncached

    def counts(self):
        global compiled
        compiled += 1
        return real(self)

    CFunc._compile_uncached = counts
    ticks = strand.ticks.zeros(10)
    ticks["size"] = 2
    with strand.Dispatcher(1, bars, workers=1, cores=None) as d:
        d.publish(ticks)
    print(compiled, d.rows[0]["volume"])
""")


def kept_files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (folder / "__pycache__").iterdir() if "bars" in path.name}


def test_names_of_attributes_are_no_globals_to_the_cache(tmp_path: Path) -> None:
    """A handler named like its output, a global named like a field: both have another text in each process."""

    (tmp_path / "mine.py").write_text(ALIKE)

    def run(more: int) -> str:
        (tmp_path / "limits.py").write_text(f"MORE = {more}\n")
        os.utime(tmp_path / "limits.py", (more, more))
        result = run_python(
            f"import sys, runpy\nsys.path.insert(0, {str(tmp_path)!r})\nrunpy.run_path({str(tmp_path / 'mine.py')!r})",
            imported=("numba",),
        )
        assert result.stderr == ""
        return result.stdout.strip()

    assert run(1) == "1 50"
    once = kept_files(tmp_path)
    assert run(1) == "0 50"
    assert kept_files(tmp_path) == once
    assert run(2) == "1 80", "what a module that it asks has is part of what the code depends on"


def test_code_that_names_types_of_another_release_is_compiled_anew(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(HANDLER.format(factor=3, more="", expression="scaled(tick.size)"))
    )
    of_before = """
        import sys, strand.handlers.compiled.context as types
        for name, value in vars(types).items():
            if isinstance(value, type) and value.__module__ == types.__name__:
                value.__module__ = "strand.handlers.elsewhere"
        sys.modules["strand.handlers.elsewhere"] = types
    """
    run = f"\nimport runpy\nrunpy.run_path({str(tmp_path / 'mine.py')!r}, run_name='mine')"
    for before, said in ((textwrap.dedent(of_before), "1 60"), ("", "1 60"), ("", "0 60")):
        result = run_python(before + run, imported=("numba",))
        assert result.stderr == ""
        assert result.stdout.strip() == said


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


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (lambda row: None, {}, r"its arguments are \(row\); write on_tick\(row, tick\)"),
        (lambda row, tick, other: None, {}, r"its arguments are \(row, tick, other\)"),
        (lambda row, tick, params: None, {}, "give params= to declare"),
        (
            lambda row, tick: None,
            {"params": [("x", "f8")]},
            "params= is for its argument params, which it does not have",
        ),
    ],
)
def test_arguments_that_cannot_be_given_are_refused_at_once(function: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        handler(state=[("n", "u8")], **options)(function)


def test_numba_is_not_needed_to_import_the_package() -> None:
    result = run_python("import sys, strand; print([m for m in sys.modules if m.startswith('numba')])")
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_an_index_outside_an_array_fails_the_tick_and_writes_nowhere() -> None:
    @handler(state=[("n", "i8"), ("last", "i8", 4), ("behind", "i8")], cache=False)
    def writes(row, tick):  # type: ignore[no-untyped-def]
        row.n += 1
        row.last[row.n] = 7

    with (
        pytest.raises(HandlerError, match=r"its tick 4\): IndexError, at .*: row.last\[row.n\] = 7$"),
        Dispatcher(["A", "B"], writes, workers=1, cores=None) as d,
    ):
        d.publish(ticks_for([0] * 9))
        d.drain()
    assert (d.rows["A"]["n"], d.rows["A"]["last"].tolist(), d.rows["A"]["behind"]) == (4, [0, 7, 7, 7], 0)
