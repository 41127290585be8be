"""A thread that looks again and again: how it ends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from engine_support import wait_until

from strand.dispatch.watching import Regular
from strand.threads import Inside

pytestmark = pytest.mark.python


class Looks(Regular):
    """Counts its looks, and raises at the one with this number."""

    def __init__(self, engine: Any, fails_at: int | None = None) -> None:
        super().__init__(engine, 100_000, "strand-looks", allowed=[0], inside=Inside())
        self.times: list[int] = []
        self.ends: list[BaseException | None] = []
        self._fails_at = fails_at

    def _look(self, now_ns: int) -> None:
        self.times.append(now_ns)
        if len(self.times) == self._fails_at:
            raise RuntimeError("as told")

    def _ended(self, error: BaseException | None) -> None:
        self.ends.append(error)


def test_it_looks_until_it_is_told_to_end_and_may_be_told_twice() -> None:
    looks = Looks(SimpleNamespace(stopping=False))
    looks.start()
    wait_until(lambda: len(looks.times) >= 3)
    looks.tell_to_end()
    looks.end()
    looks.end()
    n = len(looks.times)
    assert looks.times == sorted(looks.times)
    assert looks.ends == [None]
    assert not any(thread.name == "strand-looks" for thread in threading.enumerate())
    assert len(looks.times) == n


def test_it_ends_with_its_engine() -> None:
    engine = SimpleNamespace(stopping=False)
    looks = Looks(engine)
    looks.start()
    wait_until(lambda: bool(looks.times))
    engine.stopping = True
    wait_until(lambda: looks.ends == [None])
    looks.end()


def test_a_look_that_fails_is_the_last_one_and_is_told() -> None:
    looks = Looks(SimpleNamespace(stopping=False), fails_at=2)
    looks.start()
    wait_until(lambda: bool(looks.ends))
    looks.end()
    assert len(looks.times) == 2
    assert isinstance(looks.ends[0], RuntimeError)
