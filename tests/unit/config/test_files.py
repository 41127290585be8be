"""Configuration files as they are."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from strand import validate
from strand.config.configuration import Config, check_file
from strand.config.file import format_of, read_file, template
from strand.dispatch.guard import Guard
from strand.errors import ConfigurationError, MissingExtraError
from strand.policies.policy import POLICIES, Levels

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


# ---- The file that strand config init writes


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_what_is_written_says_the_defaults_when_it_is_read(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"a.{form}"
    file.write_text(template(form))
    assert Config.load(file) == Config()
    given = {entry.key for entry in Config.load(file).entries() if entry.origin == str(file)}
    assert {"policy.name", "worker_pool.queue_capacity", "retry_policy.max_attempts"} <= given
    assert not any(key.startswith(("priorities", "groups", "marks", "resource_limits")) for key in given)
    values = [(entry.key, entry.value) for entry in Config.load(file).entries()]
    assert values == [(entry.key, entry.value) for entry in Config().entries()]


def set_by(text: str, policy: str) -> str:
    """The text with all keys set that a policy has options for, and those of tables that all have."""
    lines, is_of_another = [], False
    for line in text.replace('"fifo"', f'"{policy}"').splitlines():
        if found := re.match(r" *# (?:For (\w+)[:,] |For (fair) a name|.*; for (levels)\.|Under (Levels), )", line):
            is_of_another = policy not in (each and each.lower() for each in found.groups())
        elif not line.strip() or (line.strip().startswith("# ") and not "".join(lines[-1:]).strip().startswith("# ")):
            is_of_another = False
        lines.append(line if is_of_another else re.sub(r"^( *)#(?! )", r"\1", line))
    return "\n".join(lines)


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_what_is_not_set_can_be(tmp_path: Path, form: str) -> None:
    (tmp_path / f"a.{form}").write_text(set_by(template(form), "levels"))
    found, problems = check_file(tmp_path / f"a.{form}")
    assert problems == []
    assert found.policy == Levels()
    assert dict(found.priorities) == {"*": "normal"}
    assert dict(found.marks) == {"*": "io"}
    assert found.pool.workers == 4
    assert found.limits.level_capacity_ticks == {"low": 500_000}
    assert found.guard == Guard()


@pytest.mark.parametrize("form", ["toml", "yaml"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_options_of_each_policy_can_be_set_as_they_stand(tmp_path: Path, policy: str, form: str) -> None:
    text = set_by(template(form), policy)
    starts = (
        re.search(rf"^\[?{table}", text, flags=re.M) for table in ("priorities", "worker_pool", "resource_limits")
    )
    priorities, pool, limits = (found.start() for found in starts if found is not None)
    (tmp_path / f"a.{form}").write_text(text[:priorities] + text[pool:limits])
    found, problems = check_file(tmp_path / f"a.{form}")
    assert problems == []
    assert found.policy == POLICIES[policy]()


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_groups_can_be_set_with_their_policy(tmp_path: Path, form: str) -> None:
    text = template(form).replace('"fifo"', '"fair"')
    (tmp_path / f"a.{form}").write_text(re.sub(r'#("\*"(?: =|:) "rest")', r"\1", text))
    assert Config.load(tmp_path / f"a.{form}").groups == {"*": "rest"}


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_every_key_that_is_shown_is_in_the_file(form: str) -> None:
    keys = set(re.findall(r"^ *#?([\w\"*]+)(?: =|:) \S", template(form), flags=re.M))
    shown = {entry.key.rpartition(".")[2] for entry in Config(policy=Levels()).entries()}
    assert shown <= keys
    assert all(len(line) <= 120 for line in template(form).splitlines())


def test_the_pages_have_the_keys_of_tables_as_they_are_declared() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    spec = importlib.util.spec_from_file_location("option_tables", docs / "option_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    changes = {
        "configuration.md": [
            ("Number of worker threads.", "Threads."),
            ("`worker_pool.queue_capacity` |", "`queue_capacity` |"),
        ],
        "policies.md": [("Points that a strand gains", "Points"), ("`--weight GROUP=NUMBER`", "`--weights`")],
    }
    assert [page.name for page in tables.PAGES] == list(changes)
    for page in tables.PAGES:
        text = page.read_text("utf-8")
        assert tables.written(text) == text, ".venv/bin/python docs/option_tables.py --write"
        for told, changed in changes[page.name]:
            assert told in text
            assert tables.written(text.replace(told, changed)) == text
