"""Functions are found by the name under which they were registered."""

from __future__ import annotations

import pytest
from task_pools import Stepped

import strand
from strand.errors import ConfigurationError
from strand.tasks import core

pytestmark = pytest.mark.python


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_functions", {})


def test_a_function_is_submitted_by_its_name() -> None:
    @strand.task
    def double(x: int) -> int:
        return 2 * x

    @strand.task(name="mail")
    def send(to: str, *, fn: str) -> str:
        return to + fn

    assert double(3) == 6
    here = Stepped()
    futures = [here.tasks.submit("double", 4), here.tasks.submit("mail", "a", fn="b")]
    here.pool.run_all()
    assert [future.result() for future in futures] == [8, "ab"]
    with pytest.raises(ConfigurationError, match="did you mean 'mail'"):
        here.tasks.submit("mial")


def test_a_name_belongs_to_one_function_and_a_module_loaded_again_replaces_its_own() -> None:
    def first() -> int:
        return 1

    strand.task(first, name="x")
    with pytest.raises(ConfigurationError, match=r"already the task .*first"):
        strand.task(len, name="x")
    assert strand.task(name="x")(first) is first

    def again() -> int:
        return 2

    again.__qualname__ = first.__qualname__
    strand.task(name="x")(again)
    assert core.task_named("x") is again


def test_what_is_no_name_or_no_function_is_refused() -> None:
    for name in ("", 5):
        with pytest.raises(ConfigurationError, match="is not the name of a task"):
            strand.task(name=name)
    with pytest.raises(ConfigurationError, match="cannot be called"):
        strand.task(name="x")(5)
    with pytest.raises(ConfigurationError, match="no name of its own"):
        strand.task(type("C", (), {"__call__": lambda self: 1})())
