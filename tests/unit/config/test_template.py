"""The file that strand config init writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strand.config.configuration import Config, check_file
from strand.config.template import template
from strand.dispatch.guard import Guard
from strand.policies.every_policy import POLICIES
from strand.policies.policy import Levels

pytestmark = pytest.mark.python


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
