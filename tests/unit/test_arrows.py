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
