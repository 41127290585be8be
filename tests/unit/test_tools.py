"""``tools/house.py --check`` names each gate that a checkout passes, and its room's budget of lines."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strand.machine import HEADERS

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools/house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkout(at: Path, gates: str, budget: str) -> Path:
    """A checkout of three modules: one has 801 lines, one is used once, and one reaches into another package."""
    files = {
        "strand/a/__init__.py": "",
        "strand/a/one.py": "class One:\n    _inner = 1\n",
        "strand/b/__init__.py": "",
        "strand/b/two.py": "from strand.a.one import One\n\nfound = One()._inner\n",
        "strand/b/three.py": "#\n" * 801,
        "tools/rooms.toml": f"[gates]\n{gates}\n[budget]\n{budget}",
    }
    for name, text in files.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(text)
    for empty in ("feeds", "csrc"):
        (at / empty).mkdir()
    for number in range(20):
        (at / f"strand/a/more{number}.py").write_text("")
    return at


def test_each_gate_that_is_passed_is_named(tmp_path: Path, house: ModuleType) -> None:
    root = checkout(tmp_path, "one_importer = 0\nreaches = 0\nfiles = {}", '"strand/a" = 2\n"strand/b" = 803\n')
    assert list(house.passed_gates(root)) == [
        "strand/a: 22 files, and 20 may be",
        "strand/b/three.py: 801 lines, and a file has 800 at most",
        "1 modules have one importer, and 0 may: put one into its importer",
        "1 reaches into privates, and 0 may be: strand.b.two:3 One()._inner",
        "strand/b: 804 lines, and tools/rooms.toml allows 803: make it smaller, or give the reason there",
    ]


def test_a_gate_holds_at_its_number(tmp_path: Path, house: ModuleType) -> None:
    gates = 'one_importer = 1\nreaches = 1\nfiles = {"strand/a" = 22}'
    root = checkout(tmp_path, gates, '"strand/a" = 2\n"strand/b" = 804\n')
    (root / "strand/b/three.py").write_text("#\n" * 800)
    assert not list(house.passed_gates(root))


def test_a_budget_rises_with_a_reason_only(tmp_path: Path, house: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "began_with", lambda root: {"strand/a": 1, "strand/b": 900})
    gates = 'one_importer = 1\nreaches = 1\nfiles = {"strand/a" = 22}'
    root = checkout(tmp_path, gates, '"strand/a" = 2\n"strand/b" = 901  # a third shape of handlers\n')
    (root / "strand/b/three.py").write_text("#\n" * 800)
    assert list(house.passed_gates(root)) == ["strand/a: its budget rose from 1 to 2 without a reason behind it"]


# ---- ``tools/arrows.py`` finds the arrows that go against the order of rooms, and those of circles


@pytest.fixture(scope="module")
def arrows() -> ModuleType:
    spec = importlib.util.spec_from_file_location("arrows", ROOT / "tools/arrows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arrows_to_later_rooms_and_those_of_circles_are_wrong(arrows: ModuleType) -> None:
    found = {
        "base": {"top.a"},
        "mid.a": {"base", "mid.b"},
        "mid.b": {"mid.c"},
        "mid.c": {"mid.a", "base"},
        "top.a": {"mid.a"},
    }
    room = arrows.placed(found, {"low": ["base"], "mid": ["mid.*"], "top": ["top.*"]})
    assert arrows.wrong_arrows(found, room) == {"base -> top.a", "mid.a -> mid.b", "mid.b -> mid.c", "mid.c -> mid.a"}


def test_a_file_without_a_room_is_named(arrows: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"mid\.a is in no room"):
        arrows.placed(["base", "mid.a"], {"low": ["base"]})


def test_every_way_to_import_makes_an_arrow_and_so_does_a_text_that_is_a_modules_name(
    arrows: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "strand/inner").mkdir(parents=True)
    ways = {
        "a": "import strand.goal",
        "b": "from strand import goal",
        "c": "def f():\n    from strand.goal import x",
        "d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import strand.goal",
        "e": "import importlib\nimportlib.import_module('strand.goal')",
        "f": "from strand import Name",
        "g": "TABLE = {'x': ('strand.goal', 'strand.goal.x')}",
        "h": "import_module(name='strand.goal')",
        "i": "__import__('strand.goal')",
        "j": "TABLE = (('x', 'strand.goal'), ('y', 'json'))",
        "k": "load('strand.goal', 'x')",
        "l": "import_module(f'strand.goal.{name}')",
        "m": "WORDS = {'x': 'strand.goal.x', 'y': 'see strand.goal'}\nload('strand', f'strand.goal.{name}')",
    }
    for name, text in ways.items():
        (tmp_path / f"strand/inner/{name}.py").write_text(text)
    for name in ("__init__", "goal", "inner/__init__"):
        (tmp_path / f"strand/{name}.py").write_text("")
    monkeypatch.setattr(arrows, "PACKAGES", {"strand": tmp_path / "strand"})
    found = arrows.python_arrows()
    assert {name: found[f"strand.inner.{name}"] for name in ways} == {
        **{key: {"strand.goal"} for key in "abcdeghijkl"}, "f": {"strand"}, "m": set(),
    }  # fmt: skip


@pytest.mark.parametrize("include", ['"top/a.h"', "<top/a.h>"])
def test_an_include_of_a_later_room_is_named_even_where_it_does_not_compile(
    arrows: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    include: str,
) -> None:
    texts = {"low/a.c": f"#include {include}\n", "top/a.h": "unknown a;\n", "top/b.c": "int b;\n"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "rooms.toml").write_text('[c]\nlow = ["low/*"]\ntop = ["top/*"]\n[python]\n')
    for name, value in (("CSRC", tmp_path), ("ROOMS", tmp_path / "rooms.toml"), ("PACKAGES", {})):
        monkeypatch.setattr(arrows, name, value)
    with pytest.raises(SystemExit):
        arrows.main()
    said = capfd.readouterr().err.splitlines()
    assert said[-2:] == [
        f"{tmp_path}/low/a.c: does not compile, so only its includes were looked at",
        "low/a -> top/a: goes against the order of tools/rooms.toml, or closes a circle",
    ]


# ---- The headers that are installed are all that a handler of one's own needs


@pytest.mark.parametrize("header", HEADERS)
def test_each_installed_header_compiles_beside_the_others_alone(header: str, tmp_path: Path) -> None:
    for name in HEADERS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "csrc" / name, tmp_path / name)
    (tmp_path / "mine.c").write_text(f'#include "{header}"\nint mine(void) {{ return 0; }}\n')
    compiler = [
        "cc",
        "-std=gnu11",
        "-Wall",
        "-Werror",
        f"-I{tmp_path}",
        "-c",
        tmp_path / "mine.c",
        "-o",
        tmp_path / "mine.o",
    ]
    done = subprocess.run(compiler, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_build_installs_those_that_the_package_names() -> None:
    named = re.search(r"^HEADERS = \((.*?)\)", (ROOT / "setup.py").read_text(), flags=re.S | re.M)
    assert named is not None
    assert tuple(re.findall(r'"([^"]+)"', named[1])) == HEADERS


# ---- testing


PAGE = Path(__file__).parents[2] / "docs/testing.md"


def test_importing_strand_does_not_import_it() -> None:
    program = "import sys, strand, strand.dispatch.dispatcher, strand.replaying.replay; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert not {"strand.testing", "strand._lab", "strand._scheduled"} & set(done.stdout.split())


def test_who_needs_the_laboratory_is_told_that_it_is_missing() -> None:
    program = "import sys; sys.modules['strand._lab'] = None; import strand.feeds.synthetic"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "the generated market and the benchmarks need the module strand._lab" in done.stderr
    assert "install tickstrand again" in done.stderr


def test_the_examples_of_its_page_run() -> None:
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 5
    for test in tests:
        test()
