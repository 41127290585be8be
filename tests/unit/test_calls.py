"""Calls take typed, named options: a type checker knows them, and so does the call when it runs."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import strand
from strand.dispatch.options import QueueOptions, RunOptions
from strand.errors import ConfigurationError, UnknownOptionError
from strand.feeds.formats.registry import formats
from strand.feeds.reader_options import FeedOptions, ReaderOptions
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.options import options_of
from strand.reference.loop import SerialLoop
from strand.replaying.options import ReplayOptions
from strand.tasks.scheduler import SchedulerOptions
from strand.testing.list_feed import InfoOptions

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.python

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


def kinds(options: type[Any]) -> dict[str, str]:
    """A TypedDict's options with their types, as they are written."""
    return {name: _text(kind) for name, kind in options.__annotations__.items()}


def _text(kind: Any) -> str:
    return str(getattr(kind, "__forward_arg__", kind))


def parameters(called: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(called).parameters


def named(called: Any) -> dict[str, str]:
    found = parameters(called).values()
    return {one.name: _text(one.annotation) for one in found if one.kind is one.KEYWORD_ONLY}


def test_the_options_of_a_run_are_those_of_the_dispatcher_and_have_its_types() -> None:
    own = {"handlers", "out", "feed", "load", "dtype", "key", "columns", "column_options"}
    assert {n: kind for n, kind in named(strand.Dispatcher).items() if n not in own} == kinds(RunOptions)
    assert named(SerialLoop) == {n: kind for n, kind in named(strand.Dispatcher).items() if n != "load"}
    assert kinds(QueueOptions).items() <= kinds(RunOptions).items()


def test_the_options_of_what_is_called_like_replay_are_those_of_replay() -> None:
    assert {n: kind for n, kind in named(strand.replay).items() if n != "handlers"} == kinds(ReplayOptions)
    for called in (strand.testing.reference, strand.testing.seeded, strand.testing.check_seeds):
        assert kinds(ReplayOptions).items() <= named(called).items()
    own = {name: one.default for name, one in parameters(strand.Dispatcher).items() if name in kinds(RunOptions)}
    assert own.items() <= {name: one.default for name, one in parameters(strand.replay).items()}.items()


def test_the_options_of_opening_are_those_of_all_readers() -> None:
    readers = [form.feed_class() for form in formats()]
    every = {name for reader in readers for name in options_of(reader)} - {"select", "symbols"}
    assert {*kinds(ReaderOptions), "date"} == every
    own = {name: kind for name, kind in kinds(FeedOptions).items() if name not in kinds(ReaderOptions)}
    assert own.items() <= named(strand.feeds.open).items()
    assert named(strand.feeds.open).keys() == kinds(FeedOptions).keys() | {"symbols", "start", "end"}
    for reader in readers:
        for name, kind in named(reader).items():
            if name in kinds(ReaderOptions):
                theirs = {*kind.removesuffix(" | None").replace("Path", "os.PathLike[str]").split(" | ")}
                theirs = {part.replace("os.os.PathLike[str]Like[str]", "os.PathLike[str]") for part in theirs}
                assert theirs <= {*kinds(ReaderOptions)[name].split(" | ")}, (reader, name)


def test_the_options_of_others_are_those_that_they_hand_on() -> None:
    assert kinds(InfoOptions).keys() == strand.feeds.FeedInfo.__dataclass_fields__.keys()
    of_scheduler = {name: _text(one.annotation) for name, one in parameters(strand.Scheduler).items()}
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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pool": strand.Pool(workers=2), "workers": 2}, "^workers: give it in pool, or leave pool out$"),
        ({"pool": strand.Pool(), "cores": "auto"}, "^cores: give it in pool, or leave pool out$"),
        ({"limits": strand.Limits(), "on_full": "block"}, "^on_full: give it in limits, or leave limits out$"),
        ({"min_workers": 1}, r"has no option 'min_workers'; give pool=strand.Pool\(min_workers=...\)$"),
        ({"memory_bytes": 1}, r"has no option 'memory_bytes'; give limits=strand.Limits\(memory_bytes=...\)$"),
        ({"pool": 3}, "^pool: 3 is no strand.Pool$"),
        ({"limits": {"on_full": "raise"}}, "^limits: .* is no strand.Limits$"),
    ],
)
def test_a_group_of_options_is_given_whole_or_not_at_all(options: dict[str, Any], says: str) -> None:
    for call in (strand.replay, strand.Dispatcher):
        source: Any = sample_path() if call is strand.replay else 3
        with pytest.raises(ConfigurationError, match=says):
            call(source, "count", **options)


def test_a_group_of_options_is_the_same_as_they_are_alone() -> None:
    pool = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7, budget_us=50.0, max_publishers=2)
    limits = strand.Limits(capacity_ticks=100, on_full="raise", total_capacity_ticks=1000, output_memory=1 << 20)
    with strand.Dispatcher(3, "count", pool=pool, limits=limits) as dispatcher:
        found = dispatcher._engine.config
    assert (found.n_workers, found.idle, found.budget_ticks, found.budget_ns) == (2, "park", 7, 50_000)
    assert (found.n_publishers, found.capacity_ticks, found.on_full) == (2, 100, "raise")
    assert (found.total_capacity_ticks, found.output_memory) == (1000, 1 << 20)
    alone = strand.Dispatcher(3, "count", workers=2, cores=None, idle="park", budget_ticks=7, capacity_ticks=100)
    group = strand.Pool(workers=2, cores=None, idle="park", budget_ticks=7)
    both = strand.Dispatcher(3, "count", pool=group, limits=strand.Limits(capacity_ticks=100))
    assert alone._engine.config == both._engine.config
    plain_loop = strand.replay(sample_path(), "count", pool=strand.Pool(workers=0), limit=10)
    assert plain_loop.statistics.workers[0].name == "publishers"


def test_a_group_of_options_is_frozen_short_and_checks_what_it_is_given() -> None:
    with pytest.raises(FrozenInstanceError):
        strand.Pool().workers = 3  # type: ignore[misc]
    assert repr(strand.Pool(workers=2, cores=None)) == "Pool(workers=2, cores=None)"
    assert repr(strand.Limits(on_full="raise")) == "Limits(on_full='raise')"
    for make in (lambda: strand.Pool(idle="sleep"), lambda: strand.Limits(on_full="wait")):
        with pytest.raises(ConfigurationError, match="is not one of"):
            make()


def test_an_option_that_another_format_has_is_refused_for_this_one() -> None:
    with pytest.raises(UnknownOptionError, match=r"^feeds.open\(\) of itch files has no option 'time_zone'; "):
        strand.feeds.open(sample_path(), time_zone="UTC")


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
def checked(once: Callable[[str, Callable[[Path], object]], Path]) -> Callable[[Path, str], tuple[int, str]]:
    """Runs mypy --strict over a text of Python, and returns its exit status and what it prints."""
    pytest.importorskip("mypy")

    def links(folder: Path) -> None:
        ignore = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "strand", folder / "strand", copy_function=os.symlink, ignore=ignore)
        shutil.copytree(ROOT / "feeds", folder / "strand" / "feeds", copy_function=os.symlink, ignore=ignore)
        check(folder, "import strand\n", folder / "first.py")  # fills the cache, before others look at it

    def check(tree: Path, text: str, path: Path) -> tuple[int, str]:
        path.write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml",
                   "--cache-dir", tree / "cache", path]  # fmt: skip
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)
        return done.returncode, done.stdout + done.stderr

    tree = once("types", links)
    return lambda folder, text: check(tree, text, folder / "script.py")


def test_mypy_passes_calls_and_fails_those_that_are_misspelt(checked: Any, tmp_path: Path) -> None:
    status, said = checked(tmp_path, GOOD)
    assert status == 0, said
    imports = "import strand\nfrom strand.feeds.sample import sample_path\n"
    more = [
        "strand.Dispatcher(1, 'book').call(0, lambda view: view.bok)",
        "strand.Dispatcher(1, 'count', min_workers=1)",
        "strand.Pool(worker=1)",
    ]
    wrong = [*(call for call, _, _ in MISSPELT), *more]
    status, said = checked(tmp_path, imports + "".join(f"{call}\n" for call in wrong))
    assert status == 1
    lines = {int(line.split(":")[1]) for line in said.splitlines() if ": error: " in line}
    assert lines == {*range(3, 3 + len(wrong))}, said
    assert 'Unexpected keyword argument "worker" for "replay"; did you mean "workers"?' in said
