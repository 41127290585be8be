"""Fixtures and settings all tests share."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parent.parent

# numpy's BLAS starts a thread for each core in each process, which is half of what importing numpy takes. No test
# multiplies matrices, and hundreds of them start a process.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Shared runners stall for seconds: no deadline anywhere, and nobody judges how slow examples are. `ci` repeats the same
# examples, so that red stays red; `asan` does so with fewer, as each takes several times as long. `proof` has other
# ones each time, and ten times as many.
settings.register_profile("dev", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("asan", settings.get_profile("ci"), max_examples=8)
settings.register_profile("proof", settings.get_profile("dev"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# A shell's background jobs are started with SIGINT ignored, and so would be what tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded market data, where there is one; tests that need it are skipped elsewhere."""
    named = os.environ.get("STRAND_SHARED_DATA")
    path = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no recorded market data at {path} (STRAND_SHARED_DATA names the folder)")
    return path


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """``once(name, make)``: a file of this name, which the first process that asks for it has ``make(path)`` write; all
    others of the run wait for that and have the same."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made(name: str, make: Callable[[Path], object]) -> Path:
        path, part = folder / name, folder / f"part-{name}"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(part)
                part.rename(path)
        return path

    return made


@pytest.fixture(scope="session")
def c_handlers(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """A shared object of handlers as a user would write them in C (tests/support/c_handlers.c)."""
    from engine_support import compile_handlers

    try:
        return once("c_handlers.so", compile_handlers)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")


@pytest.fixture
def c_tasks(once: Callable[[str, Callable[[Path], object]], Path], tmp_path: Path) -> Path:
    """A shared object of tasks as a user would write them in C (tests/support/c_tasks.c), whose counts are this
    test's own."""
    from engine_support import compile_tasks

    try:
        built = once("c_tasks.so", compile_tasks)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    return Path(shutil.copy(built, tmp_path / "c_tasks.so"))


class FromTheEnd:
    """Has a process read the files of tests from the last to the first."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if isinstance(collector, pytest.Session | pytest.Directory):
            report.result.reverse()
        return report


def pytest_configure(config: pytest.Config) -> None:
    """Every second process begins at the end: half of the files, which it takes two thirds of collecting to rewrite and
    compile, have then been compiled by another one."""
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
        config.pluginmanager.register(FromTheEnd())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that ``--exhaustive`` lengthens. All processes have the tests in one order, by file. Slow ones
    begin: the last ones to run are short, and no worker waits for another's at the end."""
    for item in items:
        if any(map(item.get_closest_marker, ("cells", "some"))) or not {"exhaustive", "one_in"}.isdisjoint(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker("bad_input")
        # What numba compiles has no sanitizer in it, and compiling takes long beside one.
        if "compiled" in item.name or "numba" in item.name:
            item.add_marker("python")
    if left_out := cells_left_out(config, items):
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, item.path))


def cells_left_out(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """Those cells of a test's matrix whose values other cells try together: by the mark ``cells`` or ``--cells``.

    By the mark ``some`` one cell in n is kept.
    """
    if config.getoption("--exhaustive"):
        return set()
    from all_pairs import covering

    tests: dict[object, list[tuple[dict[str, object], pytest.Item]]] = {}
    for item in items:
        if len(cell := cell_of(item)) > 1 or item.get_closest_marker("some"):
            # Cells that make asan leaves out cover no others.
            test = item.parent, item.name.partition("[")[0], item.get_closest_marker("python") is None
            tests.setdefault(test, []).append((cell, item))
    left_out = set()
    for cells in tests.values():
        cells.sort(key=lambda pair: pair[1].nodeid)  # every second process has them from the end
        if some := cells[0][1].get_closest_marker("some"):
            left_out |= {item for at, (_, item) in enumerate(cells) if at % some.args[0]}
            continue
        mark = cells[0][1].get_closest_marker("cells")
        size = min([*(mark.args if mark else ()), config.getoption("--cells")])
        if size < len(cells[0][0]):
            kept = {id(cell) for cell in covering([cell for cell, _ in cells], size)}
            left_out |= {item for cell, item in cells if id(cell) not in kept}
    return left_out


def cell_of(item: pytest.Item) -> dict[str, object]:
    """Values that tell an item from others of its test, by ``parametrize`` and by each fixture's parameter."""
    params = dict(callspec.params) if (callspec := getattr(item, "callspec", None)) else {}
    cell: dict[str, object] = {}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(",", " ").split() if isinstance(mark.args[0], str) else mark.args[0]
        cell[" ".join(names)] = [id(params.pop(name)) for name in names]
    return cell | {name: id(value) for name, value in params.items()}


def pytest_collection_finish() -> None:
    """Takes what is loaded by now out of every later garbage collection: those took a fifth of the tests' time. What
    tests make is collected less often than by default, and what is old only between tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 1_000)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Ends what a test leaves as garbage within that test: a finaliser that fails is its fault, and not that of a later
    test, deep in whose recursion no finaliser has the stack that it needs. What is older ends with each 256th test."""
    item.config.stash[ENDED] = n = item.config.stash.get(ENDED, 0) + 1
    gc.collect(1 if n % 256 else 2)


#: The number of tests that have ended in this process.
ENDED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="try every damaged input where one in a few is tried")
    parser.addoption(
        "--cells", type=int, default=99, metavar="N", help="of a test's matrix try only so much that all N values meet"
    )


@pytest.fixture
def exhaustive(request: pytest.FixtureRequest) -> None:
    """Skips a test that takes minutes, unless ``--exhaustive`` asks for it."""
    if not request.config.getoption("--exhaustive"):
        pytest.skip("tries every input: --exhaustive")


@pytest.fixture
def one_in(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """The step between the damaged inputs that are tried: one in so many of them, and each with ``--exhaustive``."""
    from bad_input import STEP

    exhaustive = request.config.getoption("--exhaustive")
    return lambda usual: 1 if exhaustive else max(usual, STEP)


#: Damaged files that were tried, by suite; those of all processes where tests run in several.
TRIED: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    bad_input = sys.modules.get("bad_input")
    if bad_input is None:
        return
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        TRIED.update(bad_input.TRIED)
    else:
        output["tried"] = dict(bad_input.TRIED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    TRIED.update(getattr(node, "workeroutput", {}).get("tried", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TRIED:
        suites = ", ".join(f"{suite} {count:,}" for suite, count in TRIED.items())
        terminalreporter.write_line(f"bad inputs tried: {TRIED.total():,} ({suites})")
