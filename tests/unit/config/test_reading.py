"""Configuration files as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from strand import validate
from strand.config.reading import format_of, read_file
from strand.errors import ConfigurationError, MissingExtraError

pytestmark = pytest.mark.python


def read(folder: Path, name: str, text: str) -> object:
    (folder / name).write_text(text)
    return read_file(folder / name)


@pytest.mark.parametrize("name", ["a.toml", "a.yaml", "a.yml"])
def test_toml_and_yaml_say_the_same(tmp_path: Path, name: str) -> None:
    text = "[policy]\nname = 'levels'\n[worker_pool]\nmax_workers = 2\n"
    if name != "a.toml":
        text = "policy: {name: levels}\nworker_pool:\n  max_workers: 2\n"
    assert read(tmp_path, name, text) == {"policy": {"name": "levels"}, "worker_pool": {"max_workers": 2}}
    assert read(tmp_path, name, "# nothing\n") == {}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.toml", "a = [", "is not valid TOML: "),
        ("a.toml", "[a]\nb = 1\nb = 2\n", "is not valid TOML: .*line 3"),
        ("a.toml", "a = " + "[" * 100_000, "is not valid TOML: "),
        ("a.yaml", "a: [", "is not valid YAML: "),
        ("a.yaml", "a: *b", "is not valid YAML: "),
        ("a.yaml", "a: !!python/object/apply:os.getpid []", "is not valid YAML: "),
        ("a.yaml", "a: " + "[" * 100_000, "is not valid YAML: "),
        ("a.yaml", "a:\n  b: 1\n  c: 2\n  b: 1\n", "is not valid YAML: 'b' is twice in a table, in line 4"),
        ("a.yaml", "? [1]\n: 2\n", "is not valid YAML: "),
        ("a.yaml", "a: !!map x\n", "is not valid YAML: "),
        ("a.yaml", "a: 0000-99-99\n", "is not valid YAML: "),
        ("a.yaml", "- a\n", "has a list: give tables of keys"),
        ("a.yaml", "a\n", "has a str: give tables of keys"),
        ("a.ini", "", "ends in one of .toml, .yaml, .yml"),
        ("a", "", "ends in one of"),
    ],
)
def test_what_is_neither_is_one_error_that_names_the_file(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as error:
        read(tmp_path, name, text)
    assert str(error.value).startswith(str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path / "folder.toml"):
        (tmp_path / "folder.toml").mkdir(exist_ok=True)
        with pytest.raises(ConfigurationError, match=r"config: .* cannot be read"):
            read_file(path)


def test_yaml_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"PyYAML.*pip install 'tickstrand\[config\]'"):
        read(tmp_path, "a.yaml", "a: 1\n")
    assert read(tmp_path, "a.toml", "a = 1\n") == {"a": 1}


def test_formats_go_by_the_ending_and_keys_with_dots_are_in_quotes() -> None:
    assert [format_of(name) for name in ("a.toml", "b.yaml", "c.d.yml")] == ["toml", "yaml", "yaml"]
    assert validate.path(*("priorities", "symbols", "BRK.B")) == 'priorities.symbols."BRK.B"'
    assert validate.path(*("priorities", "symbols", "*")) == "priorities.symbols.*"
