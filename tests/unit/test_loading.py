"""``import strand`` takes no time: public names are loaded on their first use, and commands when they are called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import strand
from strand.command.cli import COMMANDS, cli
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]
#: What takes most of the time of a start.
SLOW = {"numpy", "numba", "cffi", "rich", "strand._core", "strand.handlers", "strand.feeds"}
IMPORTS_EVERYTHING = """
import importlib, json, pkgutil, sys
import strand
def owner(package, name):
    found = getattr(package, name)
    return f"{getattr(found, '__module__', None)}.{getattr(found, '__qualname__', repr(found))}"
def public():
    packages = [strand] + [sys.modules[name] for name in sorted(sys.modules) if name.startswith("strand.")
                           and hasattr(sys.modules[name], "__path__") and hasattr(sys.modules[name], "__all__")]
    return {f"{package.__name__}.{name}": owner(package, name) for package in packages for name in package.__all__}
if sys.argv[1] == "last":
    before = public()
for found in pkgutil.walk_packages(strand.__path__, "strand."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
after = public()
if sys.argv[1] == "last":
    assert before.items() <= after.items(), set(before.items()) - set(after.items())
print(json.dumps(after))
"""


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported(program: str) -> set[str]:
    """Modules that are imported after a program, which may print and exit."""
    said = run("-c", f"import atexit, sys\natexit.register(lambda: print('|', *sys.modules))\n{program}")
    return set(said.rpartition("|")[2].split())


@pytest.mark.parametrize(
    "program",
    [
        "import strand",
        "import strand; dir(strand)",
        "import strand; assert not hasattr(strand, 'outputs')",
        "import strand; strand.StrandError; strand.get_include()",
        *(f"import sys\nsys.argv[1:] = {words!r}\nfrom strand.__main__ import main\nmain()"
          for words in (["--version"], ["--help"], ["include"])),
    ],
)  # fmt: skip
def test_what_needs_no_numpy_imports_none(program: str) -> None:
    assert not imported(program) & SLOW


def test_a_replay_to_a_parquet_file_imports_none_of_what_it_does_not_use(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    words = ["replay", str(sample_path()), "--handler", "bbo", "--date", SAMPLE_DATE]
    words += ["--out", f"bbo={tmp_path / 'bbo.parquet'}"]
    found = imported(f"import sys\nsys.argv[1:] = {words!r}\nfrom strand.__main__ import main\nmain()")
    assert (tmp_path / "bbo.parquet").exists()
    assert "strand.handlers.builtin.market_tables" in found
    assert not found & {
        "asyncio", "click.shell_completion", "csv", "difflib", "fractions", "html", "importlib.metadata", "msgspec",
        "numba", "numpy.ma.core", "pandas", "pdb", "polars", "pyarrow.compute", "random", "rich", "secrets",
        "strand.dispatch.guarding", "strand.feeds.formats.csv.reader", "strand.feeds.formats.lean",
        "strand.handlers.chains", "strand.handlers.compiled.handlers", "strand.handlers.python_handlers",
        "strand.caller.run", "strand.replaying.pacing",
        "starlette", "strand.alerts", "strand.http", "strand.metrics", "strand.replaying.timeline",
        "strand.report.html", "strand.report.tables", "strand.screens", "strand.tasks.future", "strand.tasks.tasks",
        "zipfile",
    }  # fmt: skip


#: What no small replay into rows needs, whether the command or Python asks for it.
UNUSED = {
    "asyncio", "bz2", "csv", "difflib", "email", "glob", "gzip", "hashlib", "html", "http", "importlib.metadata",
    "msgspec", "numba", "numpy.ma", "pandas", "pdb", "polars", "pyarrow", "random", "rich", "shutil", "ssl",
    "starlette", "tomllib", "urllib.request", "zipfile",
    "strand.alerts", "strand.binding.live", "strand.caller", "strand.dispatch.guarding", "strand.dispatch.samples",
    "strand.dispatch.saving", "strand.feeds.formats.recording", "strand.handlers.builtin.bar_handlers",
    "strand.handlers.builtin.measures", "strand.handlers.builtin.tape", "strand.handlers.chains",
    "strand.handlers.python_handlers", "strand.http", "strand.metrics", "strand.outside", "strand.replaying.pacing",
    "strand.replaying.fingerprint_file", "strand.replaying.recorder", "strand.replaying.snapshots",
    "strand.replaying.until", "strand.report.html", "strand.report.tables", "strand.screens", "strand.sweeping",
    "strand.tasks.future", "strand.tasks.tasks",
}  # fmt: skip


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("import sys\nsys.argv[1:] = {words!r}\nfrom strand.__main__ import main\nmain()", 150),
        ("import strand\nstrand.replay({file!r}, 'count')", 135),
    ],
    ids=["command", "python"],
)
def test_a_small_replay_imports_few_modules(tmp_path: Path, program: str, most: int) -> None:
    """A module takes 0.2 ms and more: `python bench/start.py` shows what they take together."""
    file = str(tmp_path / "small.itch")
    run("-m", "strand", "gen", "itch", "--out", file, "--messages", "1000", "--symbols", "10")
    found = imported(program.format(file=file, words=["replay", file, "--handler", "count"]))
    assert "strand.feeds.formats.itch" in found
    assert not found & UNUSED
    assert len([name for name in found if name.startswith("strand")]) <= most


@pytest.mark.parametrize("words", [["stat", "--help"], ["config", "init", "--help"], ["alerts", "run", "--help"]])
def test_commands_on_another_process_import_no_network_for_their_help(words: list[str]) -> None:
    found = imported(f"import sys\nsys.argv[1:] = {words!r}\nfrom strand.__main__ import main\nmain()")
    assert not found & {"email", "http", "socket", "ssl", "strand.alerts.watch", "strand.metrics", "urllib.request"}


@pytest.mark.parametrize("when", ["first", "last"])
def test_public_names_are_the_same_before_and_after_all_modules_are_imported(when: str) -> None:
    """A module that has the name of a function would take its place."""
    found = json.loads(run("-c", IMPORTS_EVERYTHING, when))
    names = [f"strand.{name}" for name in strand.__all__]
    assert {name: found[name] for name in names} == {
        f"strand.{name}": f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', repr(value))}"
        for name, value in ((name, getattr(strand, name)) for name in strand.__all__)
    }


def test_dir_shows_what_is_public_and_imports_nothing() -> None:
    shows = "import sys, strand, strand.feeds\nbefore = {*sys.modules}\nshown = dir(strand), dir(strand.feeds)\n"
    done = run("-c", f"{shows}assert {{*sys.modules}} == before\nprint(*shown[0], '|', *shown[1])")
    names, feeds = (set(part.split()) for part in done.split("|"))
    assert names == {*strand.__all__, *strand._PACKAGES}
    assert feeds == set(strand.feeds.__all__)
    assert all(hasattr(strand, name) for name in names)
    assert dir(strand.testing) == sorted(strand.testing.__all__)


def test_no_module_of_the_package_has_the_name_of_a_public_function() -> None:
    modules = {path.stem for path in (ROOT / "strand").iterdir()}
    assert "replaying" in modules
    assert not modules & set(strand.__all__)


def test_modules_are_attributes_and_what_is_none_is_an_attribute_error() -> None:
    assert strand.ticks.zeros(2).shape == (2,)
    assert strand.output.AT_END
    with pytest.raises(AttributeError, match="module 'strand' has no attribute 'vwop'"):
        strand.vwop  # noqa: B018
    assert not hasattr(strand, "_nothing")


def test_every_command_is_where_the_table_says() -> None:
    width = max(map(len, COMMANDS))
    for name, (_, line) in COMMANDS.items():
        found = cli.get_command(None, name)
        assert found is not None
        assert found.name == name
        assert f"  {name:<{width}}  {line}\n" in CliRunner().invoke(cli, ["--help"]).output
