"""``tools/house.py --check`` names each gate that a checkout passes, and its room's budget of lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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
