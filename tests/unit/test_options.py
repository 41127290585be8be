"""Options by keyword: their names, names that are none, and their types for a checker."""

from __future__ import annotations

import inspect
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
import pytest
from typed_calls import as_text, kinds, named, parameters

import strand
from strand.errors import ConfigurationError, UnknownOptionError
from strand.feeds.live.mold import MoldFeed
from strand.feeds.live.websocket import WebSocketFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.options import (
    Option,
    Text,
    Whole,
    check_apart,
    named_fields,
    named_options,
    options_in,
    options_of,
    refuse_unknown,
)
from strand.tasks.scheduler import SchedulerOptions
from strand.testing import InfoOptions

pytestmark = pytest.mark.python


def takes(path: str, *, date: str = "", size_unit: float = 1.0, _own: int = 0) -> None: ...


class Taker:
    def __init__(self, path: str, *, columns: str = "") -> None: ...


def test_options_are_what_is_given_by_keyword_alone() -> None:
    assert options_of(takes) == {"date", "size_unit"}
    assert options_of(Taker) == {"columns"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["dat"], "reader() has no option 'dat'; did you mean 'date'?"),
        (["zzz", "aaa"], "reader() has no option 'aaa'; it has date, size_unit"),
    ],
)
def test_an_option_that_is_none_is_answered_with_those_there_are(given: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_unknown(given, options_of(takes), "reader()")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("options", "said"), [({"date": 1}, "date: give it"), ({3: 1}, "feed_options: 3 is not the name of an option")]
)
def test_an_option_with_an_argument_of_its_own_is_refused_among_others(options: Any, said: str) -> None:
    check_apart("feed_options", {"profile": 1}, ["date"])
    with pytest.raises(ConfigurationError, match=said):
        check_apart("feed_options", options, ["date"])


@pytest.mark.parametrize("make", [strand.Scheduler, strand.Dispatcher])
def test_the_options_of_a_class_are_listed_without_its_object(make: Any) -> None:
    with pytest.raises(UnknownOptionError, match="it has ") as caught:
        make(zzz=1)
    assert "self" not in str(caught.value).replace(",", "").split()


def test_an_object_of_options_is_made_as_ever() -> None:
    @named_fields
    @dataclass(frozen=True, slots=True)
    class Given:
        a: int
        b: int = 2
        c: int = field(default=3, init=False)

    assert [Given(1), Given(1, 2), Given(b=2, a=1)] == [Given(1)] * 3
    assert replace(Given(1), b=5).b == 5
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Given(b=1)  # type: ignore[call-arg]
    with pytest.raises(UnknownOptionError, match="no option 'c'; it has a, b"):
        Given(1, c=4)  # type: ignore[call-arg]
    pool = strand.Pool(workers=2, cores=None)
    assert pickle.loads(pickle.dumps(pool)) == pool
    assert replace(pool, workers=3).cores is None


DECLARED = [strand.Pool, strand.Limits, strand.Levels, strand.Aging, strand.Fair, strand.Guard, strand.RetryPolicy]
BAD: dict[str, Any] = {"Whole": 0.5, "Number": float("nan"), "Choice": "no such", "Span": 30, "ByName": []}


def checked(kind: type[Any]) -> dict[str, Option]:
    """The options of a class that are checked as it is made."""
    return {name: one for name, one in options_in(kind).items() if type(one.kind).__name__ in BAD}


@pytest.mark.parametrize("kind", [*DECLARED, strand.Scheduler])
def test_every_bad_value_of_a_class_of_options_is_told_at_once_by_its_field(kind: Any) -> None:
    bad = {name: BAD[type(one.kind).__name__] for name, one in checked(kind).items()}
    assert bad
    for name, value in bad.items():
        with pytest.raises(ConfigurationError, match=f"^{name}: ") as caught:
            kind(**{name: value})
        assert [(error.field, f"{name}: {error.reason}") for error in caught.value.each()] == [
            (name, str(caught.value))
        ]
    with pytest.raises(ConfigurationError) as caught:
        kind(**bad)
    assert [error.field for error in caught.value.each()] == list(bad)
    again = pickle.loads(pickle.dumps(caught.value))
    assert [(error.field, error.reason) for error in again.each()] == [
        (error.field, error.reason) for error in caught.value.each()
    ]


@pytest.mark.parametrize("kind", DECLARED)
def test_none_is_taken_where_it_has_a_meaning(kind: Any) -> None:
    for name, one in checked(kind).items():
        if one.unset and name != "coefficient":
            assert getattr(kind(**{name: None}), name) is None
        elif not one.unset:
            with pytest.raises(ConfigurationError, match=f"^{name}: None is not|^{name}: NoneType is not"):
                kind(**{name: None})


@pytest.mark.parametrize("kind", [*DECLARED, strand.Scheduler])
def test_the_documentation_of_a_class_has_each_declaration(kind: Any) -> None:
    text = " ".join((kind.__doc__ or "").split())
    for name, one in options_in(kind).items():
        assert f" {name}: {one.text}" in text
        assert one.kind.range in text.replace(one.kind.range.capitalize(), one.kind.range) or one.kind.range == ""
        assert one.unset in text


@pytest.mark.parametrize("feed", [MoldFeed, WebSocketFeed])
def test_arguments_with_a_kind_are_options_with_the_texts_of_the_docstring(feed: type[Any]) -> None:
    options = options_in(feed)
    assert {"max_messages", "record", "on_bad_record"} <= options.keys()
    signature = inspect.signature(feed)
    for name, option in options.items():
        assert (option.flag, option.default) == (f"--{name.replace('_', '-')}", signature.parameters[name].default)
        assert f"{name}: {option.text[:-1][:20]}" in inspect.getdoc(feed)
        assert len(option.text) > 10
    assert options["max_messages"].help == "The feed ends after so many messages. [default: no bound; x>=1]"
    assert options["max_messages"].unset == "no bound"
    with pytest.raises(ConfigurationError) as raised:
        options["max_seconds"].read(0)
    assert raised.value.field == "max_seconds"


KEYWORDS = TypedDict(  # noqa: UP013 - in a class types would be text here
    "KEYWORDS",
    {
        "most": Annotated[int | None, None, Whole(1, 9), "The most of them. None: any number.\nIt may be less."],
        "name": Annotated[str, "x", Text(), "A name."],
    },
    total=False,
)


@named_options("taker()", declares=KEYWORDS)
def taker(path: str, **options: Any) -> dict[str, Any]:
    """Takes options.

    Args:
        path: A path.

    Returns:
        The options.
    """
    return {"path": path, **options}


def test_keywords_that_a_typed_dict_declares_are_read_and_shown_and_documented() -> None:
    assert taker("p") == {"path": "p", "most": None, "name": "x"}
    assert taker(path="p", most=np.int64(3)) == {"path": "p", "most": 3, "name": "x"}
    assert inspect.getdoc(taker) == (
        "Takes options.\n\nArgs:\n    path: A path.\n"
        "    most: The most of them. 1 to 9. None: any number. It may be less.\n    name: A name.\n\n"
        "Returns:\n    The options."
    )
    shown = {name: (one.default, one.kind.name) for name, one in inspect.signature(taker).parameters.items()}
    assert shown == {
        "path": (inspect.Parameter.empty, "POSITIONAL_OR_KEYWORD"),
        "most": (None, "KEYWORD_ONLY"),
        "name": ("x", "KEYWORD_ONLY"),
    }
    assert options_in(taker)["most"].help == "The most of them. [default: any number; 1<=x<=9]"
    assert options_in(taker)["most"].flag == "--most"
    with pytest.raises(ConfigurationError, match=r"^most: 0 is not a whole number from 1 to 9; None: any number$"):
        taker("p", most=0)
    with pytest.raises(UnknownOptionError, match=r"^taker\(\) has no option 'mst'; did you mean 'most'\?$"):
        taker("p", mst=1)
    with pytest.raises(TypeError, match="'path'"):
        taker(most=1)  # type: ignore[call-arg]


def test_all_wrong_options_of_a_call_are_told_at_once_in_the_order_of_their_declaration() -> None:
    with strand.Scheduler(1) as scheduler:
        calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
            (scheduler.options, {"deadline": "soon", "key": [], "delay": 3, "retry": 1, "group": "g", "expire_if": 1}),
            (strand.feeds.open, {"reorder_ns": 0.5, "venue_in_name": 1, "carry_over": "yes", "on_disorder": "no"}),
            (MoldFeed, {"max_messages": 0, "jump_window": 0, "on_gap": "no"}),
        ]
        for call, wrong in calls:
            with pytest.raises(ConfigurationError) as caught:
                call(*(["x"] if call is not scheduler.options else []), **dict(reversed(wrong.items())))
            assert [error.field for error in caught.value.each()] == list(wrong)


def test_an_option_that_is_given_by_place_and_by_name_is_refused() -> None:
    assert strand.Scheduler(2).workers == 2
    with pytest.raises(TypeError, match="multiple values for argument 'workers'"):
        strand.Scheduler(2, workers=2)  # type: ignore[misc]
    with pytest.raises(ConfigurationError, match=r"^workers: "):
        strand.Scheduler(-1)


def test_an_unknown_option_of_any_entry_point_has_the_nearest_name() -> None:
    with strand.Scheduler(1) as scheduler:
        calls: list[tuple[Callable[..., Any], str, str]] = [
            (strand.TaskGroup, "nme", "name"),
            (strand.Inverse, "fce", "face"),
            (scheduler.options, "priorty", "priority"),
            (merge_feeds, "reorder", "reorder_ns"),
            (partial(strand.sweep, "x.npy", "count"), "wrkers", "workers"),
        ]
        for call, unknown, near in calls:
            with pytest.raises(UnknownOptionError, match=rf"has no option '{unknown}'; did you mean '{near}'\?"):
                call(**{unknown: 1})
    with pytest.raises(ConfigurationError, match=r"params: give a dict for each set; .* is run by strand.replay"):
        strand.sweep("x.npy", "count", out="folder", symbols=["A"])


def test_a_misspelt_keyword_of_a_method_of_a_dispatcher_or_scheduler_has_the_nearest_name() -> None:
    with strand.Scheduler(1) as scheduler, strand.Dispatcher(2, "count", workers=1, cores=None) as dispatcher:
        misspelt: dict[Callable[..., Any], tuple[str, str]] = {
            dispatcher.publish: ("timeout", "timeout_s"),
            dispatcher.drain: ("timout_s", "timeout_s"),
            dispatcher.call: ("timeout", "timeout_s"),
            dispatcher.stop: ("drian", "drain"),
            dispatcher.save: ("pth", "path"),
            dispatcher.prioritise: ("for_backlogs", "for_backlog"),
            dispatcher.tasks.options: ("simbol", "symbol"),
            dispatcher.tasks.options(key=1).shutdown: ("cancel", "cancel_futures"),
            scheduler.submit_native: ("deadlin", "deadline"),
            scheduler.map: ("timout", "timeout"),
            scheduler.unended: ("limt", "limit"),
            scheduler.shutdown: ("cancel_future", "cancel_futures"),
        }
        for call, (wrong, near) in misspelt.items():
            with pytest.raises(UnknownOptionError) as caught:
                call(None, **{wrong: 1})
            assert str(caught.value) == f"{call.__name__}() has no option {wrong!r}; did you mean {near!r}?"
            assert isinstance(caught.value, TypeError)
        assert scheduler.submit(dict, timeout=3).result() == {"timeout": 3}  # all keywords are the function's


# ---- Calls take typed, named options: a type checker knows them, and so does the call when it runs


ROOT = Path(__file__).resolve().parents[2]


#: Misspelt, by what is called, with the name that it has.
MISSPELT: list[tuple[str, str, str]] = [
    ("strand.replay(sample_path(), 'count', worker=2)", "replay()", "workers"),
    ("strand.Dispatcher(2, 'count', worker=2)", "Dispatcher()", "workers"),
    ("strand.feeds.open(sample_path(), on_bad_recrod='skip')", "feeds.open() of itch files", "on_bad_record"),
    ("strand.feeds.open(sample_path(), symbol=['A'], dat='2026-01-05')", "feeds.open() of itch files", "date"),
    ("strand.replay(sample_path(), 'count', feed_options={'dat': '2026-01-05'})", "feeds.open() of itch files", "date"),
    ("strand.testing.reference(sample_path(), 'count', limt=5)", "reference()", "limit"),
    ("strand.testing.seeded(sample_path(), 'count', seed=1, strand=1)", "seeded()", "strands"),
    ("strand.testing.check_seeds(sample_path(), 'count', seedss=range(3))", "check_seeds()", "seeds"),
    ("strand.testing.feed([], venu='X')", "feed()", "venue"),
    ("strand.native('libmine.so', 'f', stat=[])", "native()", "state"),
    ("strand.sweep('day.gz', 'count', [], worker=1)", "sweep()", "workers"),
    ("strand.Scheduler(worker=1)", "Scheduler()", "workers"),
    ("strand.napoleon(worker=1)", "napoleon()", "workers"),
]  # fmt: skip

#: What mypy has to pass under --strict.
GOOD = """
from typing import Any

import polars as pl
import strand
from strand.dispatch.calls import SymbolView
from strand.feeds.sample import SAMPLE_DATE, sample_path

result = strand.replay(sample_path(), "vwap", workers=2, cores=None, date=SAMPLE_DATE, symbols=["AAA*"])
again = strand.replay(sample_path(), "vwap", workers=0, feed_options={"date": SAMPLE_DATE, "on_bad_record": "skip"})
run = strand.replay(sample_path(), "count", pool=strand.Pool(min_workers=1), limits=strand.Limits(memory_bytes=1 << 30))
with strand.Dispatcher(["A"], "count", workers=1, policy=strand.Levels(), priorities={"A": "high"}) as dispatcher:
    dispatcher.publish(strand.ticks.zeros(1))
feed = strand.feeds.open(sample_path(), symbols=["AAA*"], date=SAMPLE_DATE, batch_ticks=4096)
row = result.rows["AAAHD"]
trades: int = int(row["trades"])
frame: pl.DataFrame = result.rows.to_polars()
levels: pl.DataFrame = result.books.levels(5).to_polars()
times: pl.DataFrame = result.snapshots["bid"].to_polars()
first: pl.DataFrame = result.outputs["bars"].to_polars()
ticks: pl.DataFrame = strand.feeds.open(sample_path()).to_polars()


@strand.handler(state={"n": "i8"}, params={"least": "i8"}, outputs={"seen": {"n": "i8"}})
def counts(row: Any, tick: Any, params: Any, emit: Any) -> None:
    row.n += 1


class Spreads:
    def on_tick(self, tick: strand.Tick) -> None:
        self.price = tick.price

    def on_book(self, top: strand.Top) -> None:
        self.spread = top.ask_price - top.bid_price

    def on_bar(self, bar: strand.Bar) -> None:
        self.high = bar.high


def size_before(view: SymbolView, order: int) -> int:
    found = view.book.order(order)
    return 0 if found is None else int(found["ahead_size"])


with strand.Dispatcher(["A"], strand.chain("book", Spreads), workers=1, cores=None) as kept:
    count: int = kept.call("A", lambda view: len(view.book.bids(5)))
    before: int = kept.call("A", size_before, 7, timeout_s=5.0)
    later: int = kept.submit_call("A", size_before, 7).result()
strand.testing.assert_same(strand.testing.seeded(feed, "count", seed=3, workers=3, strands=1, limit=10),
                           strand.testing.reference(feed, "count", limit=10))
"""


def test_the_options_of_others_are_those_that_they_hand_on() -> None:
    assert kinds(InfoOptions).keys() == strand.feeds.FeedInfo.__dataclass_fields__.keys()
    of_scheduler = {name: as_text(one.annotation) for name, one in parameters(strand.Scheduler).items()}
    of_scheduler.pop("config")
    assert kinds(SchedulerOptions) == of_scheduler
    assert kinds(SchedulerOptions).items() <= named(strand.napoleon).items()


@pytest.mark.parametrize(("call", "called", "near"), MISSPELT)
def test_a_misspelt_option_is_refused_with_the_near_name_of_what_was_called(call: str, called: str, near: str) -> None:
    with pytest.raises(UnknownOptionError, match="has no option") as caught:
        eval(call, {"strand": strand, "sample_path": sample_path})
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ConfigurationError)
    assert str(caught.value).startswith(f"{called} has no option '")
    assert str(caught.value).endswith(f"; did you mean {near!r}?")


def test_an_option_that_another_format_has_is_refused_for_this_one() -> None:
    with pytest.raises(UnknownOptionError, match=r"^feeds.open\(\) of itch files has no option 'time_unit'; "):
        strand.feeds.open(sample_path(), time_unit="s")


def test_the_date_stands_beside_the_options_of_the_feed() -> None:
    dated = strand.replay(sample_path(), "count", workers=0, date=SAMPLE_DATE)
    other = strand.replay(sample_path(), "count", workers=0, feed_options={"date": SAMPLE_DATE})
    assert dated.info == other.info
    assert dated.info.date == SAMPLE_DATE
    with pytest.raises(ConfigurationError, match="date: give it as an argument of its own, and not in feed_options"):
        strand.replay(sample_path(), "count", date=SAMPLE_DATE, feed_options={"date": SAMPLE_DATE})
    with pytest.raises(ConfigurationError, match="date are for files; this feed is open already"):
        strand.replay(strand.testing.feed([("A", 1, 1.0, 1)]), "count", date=SAMPLE_DATE)


def test_what_on_book_and_on_bar_are_called_with_has_the_fields_that_are_declared() -> None:
    def declared(kind: type[Any]) -> set[str]:
        return {name for name, value in vars(kind).items() if isinstance(value, property)}

    assert declared(strand.Bar) == set(strand.handlers.BAR.names or ())
    for dtype in (strand.handlers.BOOK_ROW, strand.handlers.depth_row(1)):
        assert declared(strand.Top) <= set(dtype.names or ())


@pytest.fixture(scope="session")
def mypy_of(once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[[Path, str], tuple[int, str]]:
    """Runs mypy --strict over a text of Python, and returns its exit status and what it prints.

    The tree of links and the cache are those of ``make types``: whichever comes first does the work of both.
    """
    pytest.importorskip("mypy")

    tree = ROOT / "build" / "types"

    def links(made: Path) -> None:
        ignore = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(ROOT / "strand", tree / "strand", copy_function=os.symlink, ignore=ignore)
        shutil.copytree(ROOT / "feeds", tree / "strand" / "feeds", copy_function=os.symlink, ignore=ignore)
        check("import strand\n", made)  # fills the cache, before others look at it

    def check(text: str, path: Path) -> tuple[int, str]:
        path.write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml",
                   "--cache-dir", ROOT / ".mypy_cache", path]  # fmt: skip
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)
        return done.returncode, done.stdout + done.stderr

    once("first_typed.py", links)
    return lambda folder, text: check(text, folder / "script.py")


@pytest.mark.types
def test_mypy_passes_calls_and_fails_those_that_are_misspelt(mypy_of: Any, tmp_path: Path) -> None:
    status, said = mypy_of(tmp_path, GOOD)
    assert status == 0, said
    imports = "import strand\nfrom strand.feeds.sample import sample_path\n"
    more = [
        "strand.Dispatcher(1, 'book').call(0, lambda view: view.bok)",
        "strand.Dispatcher(1, 'count', min_workers=1)",
        "strand.Pool(worker=1)",
    ]
    wrong = [*(call for call, _, _ in MISSPELT), *more]
    status, said = mypy_of(tmp_path, imports + "".join(f"{call}\n" for call in wrong))
    assert status == 1
    lines = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    assert lines == {*range(3, 3 + len(wrong))}, said
    assert 'Unexpected keyword argument "worker" for "replay"; did you mean "workers"?' in said


#: What is written into the scripts of jobs, once each, and what it is there for.
MISSPELT_IN_JOBS = [
    ("per_day=True", "perday=True"),
    ("snapshot=tops)", "snapshots=tops)"),
    ("feeds.open(data.dbn)", "feeds.open(data.dbn, levls=5)"),
    ('bars("1m", sessions=SESSION)', 'bars("1m", session=SESSION)'),
    ("strand.sweep(data.day, band, [", "strand.sweep(data.day, band, worker=1, params=["),
    ('snapshot(every="30m",', 'snapshot(evry="30m",'),
    ('handler(on="trade", state={"extreme"', 'handler(on="trade", stat={"extreme"'),
]


@pytest.mark.types
def test_mypy_passes_the_scripts_of_jobs_and_fails_each_option_that_is_misspelt(mypy_of: Any, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    jobs = ROOT / "examples/jobs"
    for path in jobs.glob("*.py"):
        shutil.copy(path, tmp_path)
    names = ", ".join(sorted(path.stem for path in jobs.glob("*.py")))
    status, said = mypy_of(tmp_path, f"import {names}\n__all__ = {names.split(', ')}\n")
    assert status == 0, said
    text = (jobs / "strand_jobs.py").read_text("utf-8")
    for right, wrong in MISSPELT_IN_JOBS:
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    text += "strand.Dispatcher(1, 'count', worker=2)\n"
    status, said = mypy_of(tmp_path, text)
    assert status == 1
    found = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    lines = text.splitlines()
    expected = [wrong for _, wrong in MISSPELT_IN_JOBS] + ["Dispatcher(1"]
    for wrong in expected:
        (at,) = (number for number, line in enumerate(lines, 1) if wrong in line)
        assert at in found, said
