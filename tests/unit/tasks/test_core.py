"""How a task comes in: what a plain one costs, and what is taken back."""

from __future__ import annotations

import pytest
from task_pools import Stepped

pytestmark = pytest.mark.python


class NoLock:
    """Fails where it is taken."""

    def acquire(self, blocking: bool = True) -> bool:
        raise AssertionError("a plain task took a lock")

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_plain_task_takes_no_lock() -> None:
    here = Stepped()
    core = here.tasks._core
    for part in (core.table, core.waiting):
        part.lock = NoLock()  # type: ignore[assignment]
    futures = [here.tasks.submit(int), here.tasks.options(priority="high", deadline="1s").submit(int)]
    here.pool.run_all()
    assert [future.result() for future in futures] == [0, 0]
    with pytest.raises(AssertionError, match="took a lock"):
        core.table.take_lock()
