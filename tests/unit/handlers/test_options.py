"""Options of handlers as text: read, refused, written into what a run leaves, and given on the command line."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from command_here import run_here

import strand
from strand.command.cli import cli
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BUILTIN, Handler, NativeHandler
from strand.handlers.loading import find, load_handler, options_of
from strand.replaying.header import describe_handlers

pytestmark = pytest.mark.python

PAGE = Path(__file__).resolve().parents[3] / "docs" / "handlers" / "options.md"

MODULE = '''
from typing import Annotated

import numpy as np

import strand


class Params:
    least: np.uint32 = 100
    share: float = 0.5
    loud: bool = False
    name: Annotated[bytes, 4] = b"ab"
    steps: Annotated[np.int64, 3] = 0


@strand.batch_handler(state=[("n", "u8")], params=Params)
def large(symbol, ticks, row, ctx):
    """Counts orders of a size."""
    row["n"] += np.count_nonzero(ticks["size"] >= ctx.params["least"])


def every_nth(n: int, *, kind: str = "trade") -> strand.Handler:
    """Counts some of the ticks."""

    @strand.batch_handler(state=[("n", "u8"), (kind, "u1")])
    def nth(symbol, ticks, row):
        row["n"] += len(ticks) // n

    return nth


after_book = strand.chain(strand.book(), large)


class Object:
    def on_trade(self, tick):
        pass


def no_handler(n):
    return n


def raises(n: int = 0) -> strand.Handler:
    raise ValueError("nothing is\\nsmall enough")


def muddles(n: int = 1) -> strand.Handler:
    return n + "1"


def by_place(n: int, /) -> strand.Handler:
    return strand.bars(n)


def makes_nothing() -> strand.Handler:
    return None


def makes_a_number() -> "strand.Handler":
    return 5


def of_a_list(values: list) -> strand.Handler:
    return strand.bars(values[0])


def of_what(n: "Nothing" = 1) -> strand.Handler:
    return strand.bars(n)
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"options_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def params_of(handler: Handler) -> bytes:
    """What the C function of a built-in handler is given."""
    assert isinstance(handler, NativeHandler)
    return handler.function(1).function.params if callable(handler.function) else handler.function.params


# ---- built-in handlers


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


def test_books_and_levels_have_options_too() -> None:
    assert load_handler("depth", {"top": "3"}).state == strand.handlers.depth_row(3)
    assert load_handler("book").for_feed is not None
    assert load_handler("book", {"fills": "report"}).for_feed is None


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
            "it has no option 'interval'; its options: every, a span of time, as 1m or 500ms; ",
        ),
        ("bars", {"fill": "perhaps"}, "fill takes yes or no, not 'perhaps'; its options: every"),
        ("bars", {"ticks": "1.5"}, "ticks takes a whole number, not '1.5'"),
        ("bars", {"every": "soon"}, "'soon' is no span of time.*; its options: every"),
        ("bars", {"outside": "drop"}, "outside takes one of skip, bars, not 'drop'"),
        ("bars", {"every": "1m", "ticks": "5"}, "give one of every, ticks, volume and notional"),
        ("bars", {"sessions": "9-16 Nowhere"}, "sessions: .*; its options"),
        ("depth", {"top": "65"}, "'?65'? is not a whole number from 1 to 64; its options: top"),
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
        strand.bars(60_000_000_000, sessions="09:30-16:00 America/New_York"),
        strand.spread(7, partial=False),
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
        (lambda n: strand.bars(n(60_000_000_000)), "60000000000ns"),
        (lambda n: strand.bars(ticks=n(50)), "50"),
        (lambda n: strand.bars(notional=n(5)), "5"),
        (lambda n: strand.vwap(n(7)), "7ns"),
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


def test_a_handler_that_goes_by_its_feed_keeps_its_origin() -> None:
    from strand.feeds import FeedInfo

    like = strand.bars("5m")
    assert like.known(FeedInfo("itch50", "somewhere")).origin == like.origin
    assert describe_handlers({"*": like.known(FeedInfo("itch50", "somewhere"))})["*"]["options"] == {"every": "5m"}


# ---- handlers of one's own


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
    with pytest.raises(ConfigurationError, match="large: name takes text of at most 4 bytes, not 'abcde'; its options"):
        load_handler(f"{mine}:large", {"name": "abcde"})
    with pytest.raises(ConfigurationError, match="at most 4 bytes"):
        load_handler(f"{mine}:large", {"name": "ééé"})
    like: Any = find(f"{mine}:large")
    for name in (b"abcde", "abcde"):
        with pytest.raises(ConfigurationError, match=r"name is b?'abcde', which .* cannot hold: it is too long"):
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
        ("makes_nothing", "makes_nothing: it returned None, which is no handler"),
        ("makes_a_number", "makes_a_number: it returned 5, which is no handler"),
        ("of_a_list", "of_a_list: it needs values, and values cannot be given"),
        ("of_what", "an annotation of of_what says nothing: name 'Nothing' is not defined"),
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
    ],
)
def test_a_module_that_fails_when_it_is_imported_is_named(mine: str, text: str, words: str) -> None:
    name = f"broken_{len(text)}_{mine}"
    Path(f"{name}.py").write_text(text)
    with pytest.raises(ConfigurationError, match=f"handler: cannot import '{name}': {words}"):
        load_handler(f"{name}:f")


def test_a_name_that_a_module_lacks_is_said_to_be_missing(mine: str) -> None:
    there = "it has Object, after_book, by_place, every_nth, large, .*raises$"
    for missing, said in (("nothing_like_it", "has no 'nothing_like_it'"), ("", "is said, and none of its handlers")):
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


def test_a_failing_function_ends_the_command_with_status_2(mine: str) -> None:
    done = run_here("handlers", f"{mine}:raises")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"strand: handler {mine}:raises: it raised ValueError")
    assert len(done.stderr.splitlines()) == 1


def test_parts_of_a_chain_are_named_before_their_options(mine: str) -> None:
    handler = load_handler(f"{mine}:after_book", {"large.least": "9"})
    assert handler.parts[1][1].params.values == {"*": {"least": 9}}
    with pytest.raises(ConfigurationError, match=r"no option 'least'; its options: large\.least"):
        load_handler(f"{mine}:after_book", {"least": "9"})


@pytest.mark.parametrize(
    ("attribute", "words"), [("Object", "it has no options"), ("no_handler", "annotate a function")]
)
def test_what_takes_no_options_says_so(mine: str, attribute: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_handler(f"{mine}:{attribute}", {"least": "9"})


# ---- the command


def test_replay_sets_options_and_writes_what_they_make(tmp_path: Path) -> None:
    day = ["--date", SAMPLE_DATE, "--workers", "1", "--json"]
    args = ["--handler", "bars", "--set", "every=30m", "--set", "partial=no", "--out", f"bars={tmp_path / 'bars.npy'}"]
    done = run_here("replay", sample_path(), *args, *day, "--fingerprints", tmp_path / "run.jsonl")
    assert done.returncode == 0, done.stderr
    bars = np.load(tmp_path / "bars.npy")
    wanted = strand.replay(
        sample_path(), strand.bars("30m", partial=False), feed_options={"date": SAMPLE_DATE}, workers=1, cores=None
    )
    assert json.loads(done.stdout)["fingerprint"] == wanted.fingerprint
    assert len(bars) == len(wanted.outputs["bars"]) > 0
    header = json.loads((tmp_path / "run.jsonl").read_text().partition("\n")[0])
    assert header["handlers"]["*"] == {
        "name": "bars", "load": "bars", "options": {"every": "30m", "partial": "no"}, "code": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "every"], "'every' is not OPTION=VALUE"),
        (["--set", "every=1m", "--set", "every=2m"], "'every' is given twice"),
        (["--set", "interval=1m"], "no option 'interval'; its options: every"),
        (["--set", "fill=1m"], "fill takes yes or no"),
    ],
)
@pytest.mark.parametrize("command", [["replay", "no-file"], ["listen", "--line", "127.0.0.1:0"]])
def test_options_that_cannot_work_end_the_command_before_it_begins(
    command: list[str], args: list[str], words: str
) -> None:
    done = CliRunner().invoke(cli, [*command, "--handler", "bars", *args])
    assert done.exit_code != 0
    assert words in f"{done.exception} {done.output}"


def shown(*args: str) -> Any:
    return CliRunner().invoke(cli, ["handlers", *args])


def test_strand_handlers_lists_them_and_their_options(mine: str) -> None:
    found = json.loads(shown("--json").output)
    assert found.keys() == BUILTIN.keys()
    assert all(found.values())
    spread = json.loads(shown("spread", "--set", "every=1m", "--json").output)
    assert spread["options"]["fill"] == {
        "takes": "yes or no", "default": "no", "about": "emit also the stretches in which nothing came",
    }  # fmt: skip
    assert spread["outputs"]["spread"] == list(strand.handlers.SPREAD.names or ())
    bars = shown("bars").output
    assert "zero_sizes" in bars
    assert "output bars: start, end, open" in bars
    own = json.loads(shown(f"{mine}:every_nth", "--json").output)
    assert (own["about"], own["options"]["n"]["takes"], own["row"]) == (
        "Counts some of the ticks.",
        "a whole number",
        None,
    )
    assert "is not one of bars, bbo, book" in str(shown("nothing").exception)
