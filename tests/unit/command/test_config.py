"""strand config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_here import run_here

from strand.config.configuration import Config

pytestmark = pytest.mark.python


@pytest.mark.parametrize(("words", "name"), [((), "strand.toml"), (("--yaml",), "strand.yaml"), (("a.yml",), "a.yml")])
def test_from_init_by_check_and_load_to_show_all_are_the_defaults(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    assert run_here("config", "init", *words, cwd=tmp_path).stdout == f"{name} written\n"
    done = run_here("config", "check", name, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: no problems\n"
    assert Config.load(tmp_path / name) == Config()
    shown = json.loads(run_here("config", "show", name, "--json", cwd=tmp_path).stdout)
    assert {one["key"]: one["value"] for one in shown["entries"]} == {one.key: one.value for one in Config().entries()}
    assert {one["origin"] for one in shown["entries"]} == {name, "default"}


def test_init_overwrites_nothing_and_knows_two_formats(tmp_path: Path) -> None:
    (tmp_path / "strand.toml").write_text("mine")
    done = run_here("config", "init", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "strand: strand.toml: already exists: give another name, or remove it\n"
    assert (tmp_path / "strand.toml").read_text() == "mine"
    for words, says in ((("a.ini",), "ends in one of"), (("a.toml", "--yaml"), "--yaml: a.toml ends in .toml")):
        done = run_here("config", "init", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
    assert json.loads(run_here("config", "init", "b.yaml", "--json", cwd=tmp_path).stdout)["format"] == "yaml"
    assert "no/such" in run_here("config", "init", "no/such/a.toml", cwd=tmp_path).stderr


def test_check_tells_all_that_is_wrong_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[priorities]\nlow_timeout = "30 parsecs"\n[worker_pool]\nmax_wokers = 1\n')
    done = run_here("config", "check", "a.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("strand: a.toml: priorities.low_timeout: '30 parsecs' is not a span of time")
    assert second.startswith("strand: a.toml: worker_pool.max_wokers: did you mean max_workers?")
    done = run_here("config", "check", "a.toml", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    assert [problem["field"] for problem in json.loads(done.stdout)["problems"]] == [
        "priorities.low_timeout", "worker_pool.max_wokers",
    ]  # fmt: skip
    assert run_here("config", "show", "a.toml", cwd=tmp_path).returncode == 2


def test_show_tells_people_where_values_come_from(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[policy]\nname = "levels"\n[priorities]\nlow_timeout = "5ms"\n')
    shown = run_here("config", "show", "a.toml", cwd=tmp_path).stdout
    for words in (
        ("policy.name", '"levels"', "a.toml"),
        ("priorities.high_timeout", '"5ms"', "follows from the others"),
        ("worker_pool.queue_capacity", "65536", "default"),
        ("retry_policy.jitter", "0.1", "default"),
        ("resource_limits.cpu_threshold", "not set", "default"),
    ):
        assert any(all(word in line for word in words) for line in shown.splitlines()), words


def test_groups_marks_and_limits_are_checked_and_shown(tmp_path: Path) -> None:
    limits = "[resource_limits]\ncpu_threshold = 0.5\n"
    (tmp_path / "a.toml").write_text(f'policy.name = "levels"\nmarks.A = ["io", "frees_memory"]\n{limits}')
    assert run_here("config", "check", "a.toml", cwd=tmp_path).stdout == "a.toml: no problems\n"
    shown = run_here("config", "show", "a.toml", cwd=tmp_path).stdout
    for words in (("marks.A", '["io",', "a.toml"), ("resource_limits.cpu_threshold", "0.5", "a.toml")):
        assert any(all(word in line for word in words) for line in shown.splitlines()), words
    (tmp_path / "b.toml").write_text(f'policy.name = "fair"\ngroups.A = 5\n{limits}')
    done = run_here("config", "check", "b.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "strand: b.toml: groups.A: 5 is not a name: give text\n"
        "strand: b.toml: resource_limits: Fair has no levels that could be held back; give policy=Levels(), "
        "in a file policy.name = 'levels'\n"
    )
