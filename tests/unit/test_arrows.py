"""``tools/arrows.py`` finds the arrows that go against the order of rooms, and those of circles."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


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


def test_every_way_to_import_makes_an_arrow_and_so_does_a_table_of_modules(
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
        "h": "WORDS = {'x': 'strand.goal.x', 'y': 'see strand.goal'}\nFOLDER = files('strand.goal')",
    }
    for name, text in ways.items():
        (tmp_path / f"strand/inner/{name}.py").write_text(text)
    for name in ("__init__", "goal", "inner/__init__"):
        (tmp_path / f"strand/{name}.py").write_text("")
    monkeypatch.setattr(arrows, "PACKAGES", {"strand": tmp_path / "strand"})
    found = arrows.python_arrows()
    assert {name: found[f"strand.inner.{name}"] for name in ways} == {
        **{key: {"strand.goal"} for key in "abcdeg"}, "f": {"strand"}, "h": set(),
    }  # fmt: skip
