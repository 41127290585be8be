"""A module's test is found by its name, or there is a reason here.

strand/PKG/MOD.py has tests/unit/PKG/test_MOD.py, and feeds/PKG/MOD.py has tests/unit/feeds/PKG/test_MOD.py.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages

import pytest

pytestmark = pytest.mark.python


ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests" / "unit"

#: Modules without a test of their name: why, and which test runs them. It gets shorter, and stays sorted.
ELSEWHERE = {
    "__main__": ("starts the command", "command/test_cli"),
    "binding/decoding": ("is what decoders inherit", "binding/test_itch"),
    "binding/engine_config": (
        "fills in C's configuration, which arguments are checked for",
        "dispatch/test_configuration",
    ),
    "binding/itch_stripe": ("decodes stripes that the reader cuts", "feeds/formats/itch/test_stripes"),
    "binding/market": ("draws a market in C, whose reference is in Python", "feeds/synthetic/test_market"),
    "binding/market_files": ("encodes a market in C for files", "feeds/synthetic/test_files"),
    "binding/pcap": ("decodes packets, which files of packets prove", "feeds/formats/test_pcap"),
    "binding/ping": ("measures single ticks", "bench/test_latency"),
    "binding/pitch": ("decodes lines, which files of lines prove", "feeds/formats/test_pitch"),
    "binding/py_batches": ("hands a worker its batches and timers", "handlers/test_timer"),
    "binding/scheduled": ("is the engine under a seed", "testing/test_seeded_dispatcher"),
    "binding/serial": ("runs the plain loop", "reference/test_loop"),
    "binding/serve": ("sends packets of a line", "command/test_live"),
    "command/serving": ("declares options of serve and listen", "command/test_live"),
    "command/starting": ("has the imports of a command that starts", "command/test_ending"),
    "dispatch/base": ("is what dispatcher and plain loop share", "reference/test_loop"),
    "dispatch/engine_run": ("puts an engine's parts together, and ends a run", "dispatch/test_lifecycle"),
    "feeds/formats/json/file": ("is what feeds of lines of JSON inherit", "feeds/formats/json/test_reader"),
    "feeds/mapping/renamed": ("has names of before and no code", "feeds/formats/json/test_profile"),
    "feeds/stock_attributes": ("has the letters of a stock and no code", "feeds/formats/itch/test_directory"),
    "handlers/base": ("is what all kinds of handlers inherit", "handlers/test_kinds"),
    "handlers/bound": ("is what a handler becomes in a run", "handlers/test_chains"),
    "handlers/compiled_names": ("has numba's names and no code", "handlers/test_compiled_loop"),
    "handlers/hosted": ("is what handlers in Python inherit", "handlers/test_batch_handlers"),
    "replaying/result": ("adds what notebooks and pages show to a run's result", "report/test_card"),
    "report/contents": ("is the page, section by section", "report/test_page"),
}


def modules() -> set[str]:
    """Their paths within the package ``strand``, which feeds/ belongs to."""
    strand, feeds = ROOT / "strand", ROOT / "feeds"
    found = [path.relative_to(strand) for path in strand.rglob("*.py")]
    found += [path.relative_to(ROOT) for path in feeds.rglob("*.py")]
    return {str(path.with_suffix("")) for path in found if path.name != "__init__.py"}


def path_of(module: str) -> Path:
    return UNIT / Path(module).with_name(f"test_{Path(module).name}.py")


def missing(names: set[str]) -> list[str]:
    return sorted(name for name in names if name not in ELSEWHERE and not path_of(name).is_file())


def test_every_module_has_a_test_of_its_name_or_a_reason() -> None:
    assert missing(modules()) == []


@pytest.mark.parametrize("new", ["dispatch/brand_new", "feeds/brand_new", "feeds/formats/csv/brand_new"])
def test_a_new_module_is_noticed(new: str) -> None:
    assert missing({*modules(), new}) == [new]


def test_modules_of_all_packages_are_seen() -> None:
    assert {"__main__", "dispatch/base", "feeds/base", "feeds/formats/csv/lines"} <= modules()


def test_the_list_is_short_and_sorted_and_each_entry_is_needed_and_runs_somewhere() -> None:
    assert len(ELSEWHERE) < 27
    assert list(ELSEWHERE) == sorted(ELSEWHERE)
    assert set(ELSEWHERE) <= modules()
    assert [name for name in ELSEWHERE if path_of(name).is_file()] == []
    assert [test for _, test in ELSEWHERE.values() if not (UNIT / f"{test}.py").is_file()] == []


def hidden(package: str) -> list[str]:
    """Public functions and classes of a package that have a module's name: importing the module would replace them."""
    found = import_module(package)
    below = {module.name for module in iter_modules(found.__path__)}
    return sorted(name for name in getattr(found, "__all__", ()) if name in below)


def test_no_module_has_the_name_of_a_public_function() -> None:
    tops = ["strand", "strand.feeds"]  # which another folder has
    paths = [(import_module(top).__path__, f"{top}.") for top in tops]
    packages = {*tops, *(each.name for path, top in paths for each in walk_packages(path, top) if each.ispkg)}
    assert {"strand.diff", "strand.feeds.io"} <= packages
    assert [f"{package}.{name}" for package in sorted(packages) for name in hidden(package)] == []
