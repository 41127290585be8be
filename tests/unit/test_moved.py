"""Names that have moved are refused at their old place with the new one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import strand
from strand.moved import MOVED

pytestmark = pytest.mark.python

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()


def found(path: str) -> object:
    """The module, or the name of one, that a path leads to."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


@pytest.mark.parametrize(("old", "now"), [(f"strand.{old}", f"strand.{now}") for old, now in MOVED.items()])
def test_what_has_moved_says_where_it_is_now(old: str, now: str) -> None:
    module, _, name = old.rpartition(".")
    assert not hasattr(import_module(module), name)
    with pytest.raises(AttributeError, match=f"^{old} is {now} now$"):
        getattr(import_module(module), name)
    with pytest.raises(ImportError, match=f"cannot import name {name!r}"):
        exec(f"from {module} import {name}")
    assert found(now) is not None
    assert f"| `{old}` | `{now}` |" in CHANGELOG


@pytest.mark.parametrize("module", ["strand", "strand.feeds", "strand.feeds.live", "strand.ticks"])
def test_what_never_was_is_an_ordinary_error(module: str) -> None:
    assert not hasattr(import_module(module), "no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec(f"from {module} import no_such_name")
    assert strand.ticks.MAX_SEQUENCE == 2**40 - 1
