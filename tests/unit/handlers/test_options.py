"""Options and parameters of handlers: read, refused, written into what a run leaves, and shown in help."""

from __future__ import annotations

import ctypes
import datetime as dt
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from engine_support import PAIR_ROW, ticks_for
from warm_python import run_warm

import strand
from strand import Dispatcher, batch_handler, handler, native
from strand.binding.books import Tapes
from strand.binding.memory import Space
from strand.command.cli import cli
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BUILTIN, Handler, NativeHandler
from strand.handlers.loading import find, load_handler, options_of
from strand.replaying.recorder import describe_handlers

pytestmark = pytest.mark.python


PAGE = Path(__file__).resolve().parents[3] / "docs" / "handlers" / "options.md"


def params_of(handler: Handler) -> bytes:
    """The parameters that the C function of a built-in handler gets."""
    assert isinstance(handler, NativeHandler)
    if not callable(handler.function):
        return handler.function.params
    params: bytes = handler.function(Tapes(Space(), 1)).function.params
    return params[32:]  # behind the addresses of its books


@pytest.mark.parametrize(
    ("name", "options", "same"),
    [
        ("bars", {}, lambda: strand.bars("1m")),
        ("bars", {"every": "60s", "fill": "yes", "partial": "no"}, lambda: strand.bars("1m", fill=True, partial=False)),
        ("bars", {"ticks": "50"}, lambda: strand.bars(ticks=50)),
        ("bars", {"notional": "1e6", "zero_sizes": "price"}, lambda: strand.bars(notional="1e6", zero_sizes="price")),
        (
            "bars",
            {"sessions": "09:30-16:00 America/New_York", "outside": "bars"},
            lambda: strand.bars("1m", sessions="09:30-16:00 America/New_York", outside="bars"),
        ),
        ("spread", {"every": "5s", "book": "no"}, lambda: strand.spread("5s", book=False)),
        ("trade_stats", {"sign": "resting"}, lambda: strand.trade_stats(sign="resting")),
        ("vwap", {"every": "1h"}, lambda: strand.vwap("1h")),
        ("imbalance", {"every": "10s"}, lambda: strand.imbalance("10s")),
        ("volatility", {"ticks": "9", "price": "mid"}, lambda: strand.volatility(ticks=9, price="mid")),
        ("spin", {"work": "40"}, lambda: strand.handlers.spin(40)),
    ],
)
def test_options_as_text_make_the_handler_that_the_function_makes(name: str, options: Any, same: Any) -> None:
    found, wanted = load_handler(name, options), same()
    assert params_of(found) == params_of(wanted)
    assert (found.state, found.outputs, found.name) == (wanted.state, wanted.outputs, wanted.name)
    assert (callable(found.function), found.for_feed is None) == (callable(wanted.function), wanted.for_feed is None)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_option_says_what_it_is_about_and_stands_on_its_page(name: str) -> None:
    (section,) = (part for part in PAGE.read_text("utf-8").split("\n## ") if part.startswith("Built-in"))
    (row,) = (line for line in section.splitlines() if line.startswith(f"| [`{name}`]"))
    for option in options_of(BUILTIN[name]).values():
        assert option.about
        assert f"`{option.name}" in row, option.name


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "bars",
            {"interval": "60s"},
            "it has no option 'interval'; its options: every, a span of time, such as 1m or 500ms; ",
        ),
        ("bars", {"fill": "perhaps"}, "fill: give yes or no, not 'perhaps'; its options: every"),
        ("bars", {"ticks": "1.5"}, "ticks: give a whole number, not '1.5'"),
        ("bars", {"every": "soon"}, "'soon' is not a span of time.*; its options: every"),
        ("bars", {"outside": "drop"}, "outside: give one of skip, bars, not 'drop'"),
        ("bars", {"every": "1m", "ticks": "5"}, "give exactly one of every, ticks, volume and notional"),
        ("bars", {"sessions": "9-16 Nowhere"}, "sessions: .*; its options"),
        ("depth", {"top": "65"}, "'?65'? is not a whole number from 1 to 64; its options: top"),
        ("bars", {"evry": "1m"}, "it has no option 'evry'; did you mean 'every'\\? its options: every, "),
        ("count", {"every": "1m"}, "it has no option 'every'; it has no options"),
    ],
)
def test_what_is_no_option_or_none_of_its_values_is_answered_with_those_there_are(
    name: str, options: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"handler {name}: .*{words}"):
        load_handler(name, options)


@pytest.mark.parametrize(
    "like",
    [
        strand.bars("5m", fill=True),
        strand.bars(notional=Decimal("2.5")),
        strand.bars(dt.timedelta(milliseconds=1500)),
        strand.bars("60000000000ns", sessions="09:30-16:00 America/New_York"),
        strand.spread("7ns", partial=False),
        strand.volatility("1m", every="1h", price="mid"),
        strand.handlers.spin(9, dear_every=2),
    ],
)
def test_a_built_in_handler_knows_what_makes_it_again(like: Handler) -> None:
    assert like.origin is not None
    assert like.origin.load is not None
    assert params_of(load_handler(like.origin.load, like.origin.options)) == params_of(like)


@pytest.mark.parametrize(
    ("numpy_s", "python_s"),
    [
        (lambda n: strand.bars(ticks=n(50)), "50"),
        (lambda n: strand.bars(notional=n(5)), "5"),
        (lambda n: strand.volatility(ticks=n(50)), "50"),
        (lambda n: strand.depth(top=n(3), max_levels=n(9)), "3"),
        (lambda n: strand.handlers.spin(n(9), dear_every=n(2)), "9"),
    ],
)
def test_numpy_s_whole_numbers_are_whole_numbers(numpy_s: Any, python_s: str) -> None:
    given, same = numpy_s(np.int64), numpy_s(int)
    assert (given.state, given.origin) == (same.state, same.origin)
    assert getattr(given.function, "params", None) == getattr(same.function, "params", None)
    assert next(iter(given.origin.options.values())) == python_s
    with pytest.raises(ConfigurationError, match=r"True.* is no"):
        numpy_s(np.bool_)


def test_what_text_cannot_say_is_told_apart_and_not_loaded() -> None:
    origins = [strand.bars("1m", sessions=strand.Sessions(np.array([[0, end]]))).origin for end in (10, 20)]
    assert origins[0] != origins[1]
    assert [origin.load for origin in origins if origin is not None] == [None, None]


def test_parameters_of_ones_own_are_read_by_their_fields(mine: str) -> None:
    texts = {"least": "7", "share": "0.25", "loud": "yes", "name": "xyz", "steps": "1,-2,3"}
    handler = load_handler(f"{mine}:large", texts)
    given = handler.params.values["*"]
    assert (given["least"], given["share"], given["loud"], given["name"]) == (7, 0.25, True, b"xyz")
    assert given["steps"].tolist() == [1, -2, 3]
    assert handler.origin is not None
    assert (handler.origin.load, handler.origin.options) == (f"{mine}:large", texts)
    assert {option.name: option.default for option in options_of(find(f"{mine}:large")).values()} == {
        "least": "100", "share": "0.5", "loud": "no", "name": "ab", "steps": "0,0,0",
    }  # fmt: skip
    found = strand.replay(sample_path(), handler, feed_options={"date": SAMPLE_DATE}, workers=1, cores=None)
    assert found.rows.array["n"].sum() > 0


def test_text_that_is_longer_than_its_field_is_refused(mine: str) -> None:
    assert options_of(find(f"{mine}:large"))["name"].kind.words == "text of at most 4 bytes"
    with pytest.raises(ConfigurationError, match="large: name: give text of at most 4 bytes, not 'abcde'; its options"):
        load_handler(f"{mine}:large", {"name": "abcde"})
    with pytest.raises(ConfigurationError, match="at most 4 bytes"):
        load_handler(f"{mine}:large", {"name": "ééé"})
    like: Any = find(f"{mine}:large")
    for name in (b"abcde", "abcde"):
        with pytest.raises(ConfigurationError, match=r"name: .* cannot hold b?'abcde': it is too long"):
            strand.Dispatcher(1, like.with_params({"*": {"name": name}}))


def test_what_a_symbol_was_given_stays(mine: str) -> None:
    from strand.handlers.loading import configured

    handler: Any = find(f"{mine}:large")
    given = handler.with_params({"A": {"least": 1}, "*": {"least": 2, "share": 1.0}})
    found = configured(given, {"least": "3"}, "large")
    assert found.params.values == {"A": {"least": 1}, "*": {"least": 3, "share": 1.0}}


def test_parameters_given_in_python_stand_in_the_file_of_a_run(mine: str) -> None:
    large: Any = find(f"{mine}:large")

    def said(like: Any) -> Any:
        return describe_handlers({"*": like})["*"]["options"]

    assert said(large.with_params({"*": {"least": 7}})) == {"least": "7"}
    two = [said(large.with_params({"A": {"least": n}})) for n in (1, 2)]
    assert two[0]["by symbol"].startswith("1 symbols, ")
    assert two[0] != two[1]
    assert said(strand.chain(strand.book(), large.with_params({"*": {"least": 7}}))) == {"large.least": "7"}


def test_parts_of_a_chain_are_named_before_their_options(mine: str) -> None:
    handler = load_handler(f"{mine}:after_book", {"large.least": "9"})
    assert handler.parts[1][1].params.values == {"*": {"least": 9}}
    with pytest.raises(
        ConfigurationError, match=r"no option 'least'; did you mean 'large\.least'\? its options: large"
    ):
        load_handler(f"{mine}:after_book", {"least": "9"})


# ---- Parameters a symbol: from dicts and frames to compiled, native and Python handlers


TABLE = {"AA": {"least": 3, "factor": 2.0}, "BB": {"least": 0, "factor": 0.5}, "*": {"least": 5, "factor": 1.0}}
SYMBOLS = ["AA", "BB", "CC", ""]


class Params:
    least: np.uint32
    factor: np.float64 = 1.0  # type: ignore[assignment]


@batch_handler(state=[("n", "u8"), ("sum", "f8")], params=Params)
def sums(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
    chosen = ticks["size"][ticks["size"] >= ctx.params["least"]]
    row["n"] += len(chosen)
    row["sum"] += ctx.params["factor"] * chosen.sum()


def run(like: Handler) -> Any:
    ticks = ticks_for(np.repeat(np.arange(4), 10))
    ticks["size"] = np.tile(np.arange(10), 4)
    with Dispatcher(SYMBOLS, like, workers=1, cores=None) as d:
        d.publish(ticks)
    return d.rows.array


EXPECTED = [(7, 2.0 * 42), (10, 0.5 * 45), (5, 35.0), (5, 35.0)]


def test_parameters_reach_a_python_handler() -> None:
    assert run(sums.with_params(TABLE)).tolist() == EXPECTED


def test_parameters_reach_a_compiled_handler() -> None:
    pytest.importorskip("numba")

    @handler(state=[("n", "u8"), ("sum", "f8")], params=Params)
    def compiled(row, tick, params):  # type: ignore[no-untyped-def]
        if tick.size >= params.least:
            row.n += 1
            row.sum += params.factor * tick.size

    assert run(compiled.with_params(TABLE)).tolist() == EXPECTED
    other = {"*": {"least": 9, "factor": 3}}
    assert run(compiled.with_params(other)).tolist() == [(1, 27.0)] * 4
    assert run(compiled.with_params(TABLE)).tolist() == EXPECTED


def test_parameters_reach_a_handler_in_c_as_an_array_by_key(c_handlers: Path) -> None:
    """on_raw reads two offsets from the first record; with all the same it does not matter which."""
    library = ctypes.CDLL(str(c_handlers))
    address = ctypes.cast(library.on_raw, ctypes.c_void_p).value
    assert address is not None
    like = native(address, state=PAIR_ROW, params=[("key", "<u4"), ("fails", "<u4")])
    offsets = {"*": {"key": 40, "fails": 60}}  # instrument_id, and flags to sequence_high, all 0 here
    assert run(like.with_params(offsets))["ticks"].tolist() == [10] * 4


def test_frames_of_pandas_and_polars_are_taken() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    symbols = list(TABLE)
    columns = {"least": [TABLE[s]["least"] for s in symbols], "factor": [TABLE[s]["factor"] for s in symbols]}
    for frame in (
        pandas.DataFrame(columns, index=symbols),
        pandas.DataFrame({"symbol": symbols, **columns}),
        polars.DataFrame({"symbol": symbols, **columns}),
    ):
        assert run(sums.with_params(frame)).tolist() == EXPECTED
    with pytest.raises(ConfigurationError, match="no column 'symbol'"):
        sums.with_params(polars.DataFrame(columns))
    with pytest.raises(ConfigurationError, match="'AA' is in the frame twice"):
        sums.with_params(pandas.DataFrame({"symbol": ["AA", "AA"], "least": [1, 2]}))


def test_what_a_symbol_is_not_given_it_has_from_the_others_and_then_from_the_class() -> None:
    rows = run(sums.with_params({"AA": {"factor": 4.0}, "*": {"least": 8}}))
    assert rows.tolist() == [(2, 68.0), (2, 17.0), (2, 17.0), (2, 17.0)]


def test_parameters_that_are_declared_have_to_be_given() -> None:
    with pytest.raises(ConfigurationError, match="handler 'sums': params: 'AA' has none; give some for it"):
        run(sums)


def test_a_handler_without_parameters_takes_none() -> None:
    with pytest.raises(ConfigurationError, match="params: handler 'mine' has none: declare them"):
        batch_handler(state=[("n", "u8")], name="mine")(lambda symbol, ticks, row: None).with_params({})


def test_parameters_are_read_only() -> None:
    @batch_handler(state=[("n", "u8")], params=Params)
    def writes(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
        with pytest.raises(ValueError, match="read-only"):
            ctx.params["least"] = 1
        row["n"] += 1

    assert run(writes.with_params(TABLE))["n"].all()


# ---- The pages about handlers have an example of each kind; test_pages.py runs them. The example in C builds


DOCS = Path(__file__).resolve().parents[3] / "docs" / "handlers"


def test_the_example_in_c_builds_with_one_command_and_runs(tmp_path: Path) -> None:
    example = DOCS.parents[1] / "examples" / "c_handler"
    for file in ("Makefile", "quotes.c", "run.py"):
        (tmp_path / file).write_bytes((example / file).read_bytes())
    strand = Path(sys.executable).parent / "strand"
    subprocess.run(["make", "--silent", f"STRAND={strand}"], cwd=tmp_path, check=True)
    done = run_warm("run.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    spreads = [float(line.split()[1]) for line in found]
    assert len(spreads) == 5
    assert spreads == sorted(spreads)
    assert spreads[0] >= 0.01


# ---- Handlers by name, and by module and attribute


def test_a_function_that_returns_a_handler_has_its_arguments_as_options(mine: str) -> None:
    handler = load_handler(f"{mine}:every_nth", {"n": "5", "kind": "quote"})
    assert handler.state.names == ("n", "quote")
    with pytest.raises(ConfigurationError, match="it needs n; its options: n, a whole number; kind, text"):
        load_handler(f"{mine}:every_nth")


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        (
            "raises",
            r"raises: it raised ValueError: nothing is small enough \(options_.*\.py, line \d+\); its options: n",
        ),
        ("muddles", "muddles: it raised TypeError: unsupported operand"),
        ("by_place", "by_place: it needs n, and n cannot be given as an option"),
        ("makes_nothing", "makes_nothing: it returned None, which is not a handler"),
        ("makes_a_number", "makes_a_number: it returned 5, which is not a handler"),
        ("of_a_list", "of_a_list: it needs values, and values cannot be given"),
        ("of_what", "an annotation of of_what cannot be evaluated: name 'Nothing' is not defined"),
    ],
)
@pytest.mark.parametrize("command", [["replay", "no-file", "--handler"], ["handlers"]])
def test_a_function_that_makes_no_handler_is_an_error_in_one_line(
    mine: str, command: list[str], attribute: str, words: str
) -> None:
    done = CliRunner().invoke(cli, [*command, f"{mine}:{attribute}"])
    assert isinstance(done.exception, ConfigurationError)
    assert re.search(words, str(done.exception))
    assert "\n" not in str(done.exception)
    assert done.output == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", r"ZeroDivisionError: division by zero \(broken_.*\.py, line 1\)"),
        ("def (", "SyntaxError: .*line 1"),
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        (
            "import strand\n@strand.batch_handler(state=[('n', 'i8')])\ndef f(rows): ...",
            r"ConfigurationError: handler 'f': its arguments are .* \(broken_.*\.py, line 2\)",
        ),
    ],
)
def test_a_module_that_fails_when_it_is_imported_is_named(mine: str, text: str, words: str) -> None:
    name = f"broken_{len(text)}_{mine}"
    Path(f"{name}.py").write_text(text)
    with pytest.raises(ConfigurationError, match=f"handler: cannot import '{name}': {words}"):
        load_handler(f"{name}:f")


def test_a_name_that_a_module_lacks_is_said_to_be_missing(mine: str) -> None:
    there = "it has Object, after_book, by_place, every_nth, large, .*raises$"
    for missing, said in (
        ("nothing_like_it", "has no 'nothing_like_it'"),
        ("", "is given without the name of a handler"),
    ):
        with pytest.raises(ConfigurationError, match=rf"handler: module '{mine}' \(/.*{mine}\.py\) {said}; {there}"):
            load_handler(f"{mine}:{missing}")
    with pytest.raises(ConfigurationError, match=r"handler: module 'colorsys' \(.*\) has no 'x'; it has none$"):
        load_handler("colorsys:x")


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("sys.path.insert(0, 'front')", lambda path: ["front", *path]),
        ("sys.path.append('back')", lambda path: [*path, "back"]),
        ("sys.path.insert(0, os.getcwd())", lambda path: [str(Path.cwd()), *path]),
        ("sys.path.remove(os.getcwd())", lambda path: path),
        ("sys.path = ['new', *sys.path]", lambda path: ["new", *path]),
        ("sys.path.insert(0, 'front'); 1 / 0", lambda path: ["front", *path]),
    ],
)
def test_looking_for_a_module_leaves_sys_path_as_the_module_left_it(
    mine: str, text: str, changes: Callable[[list[str]], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"paths_{mine}"
    Path(f"{name}.py").write_text(f"import os, sys\n{text}")
    before = [*sys.path, str(Path.cwd())]
    monkeypatch.setattr(sys, "path", before.copy())
    with pytest.raises(ConfigurationError):
        load_handler(f"{name}:missing")
    assert sys.path == changes(before)


@pytest.mark.parametrize(
    ("attribute", "words"), [("Object", "it has no options"), ("no_handler", "annotate a function")]
)
def test_what_takes_no_options_says_so(mine: str, attribute: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_handler(f"{mine}:{attribute}", {"least": "9"})


def test_a_file_in_the_place_of_a_module_is_answered_with_its_module(mine: str) -> None:
    for name in (f"{mine}.py:large", f"./some/{mine}.py:large"):
        with pytest.raises(ConfigurationError, match=f"names a file: name its module, as {mine}:large, in the folder"):
            load_handler(name)
    with pytest.raises(ConfigurationError, match=f"name its module, as {mine}:FUNCTION"):
        load_handler(f"{mine}.py")
    with pytest.raises(ConfigurationError, match=f"; of {mine}.py name a function, as {mine}:FUNCTION$"):
        load_handler(mine)
