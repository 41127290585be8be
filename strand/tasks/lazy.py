"""Stand-ins for the parts that a future makes only on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["NOBODY", "Lazy"]


class _Nobody:
    """The bell of a future that is done: there is nothing to wait for."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        del timeout
        return predicate()


#: The bell of every future that is done.
NOBODY: Final = _Nobody()


class Lazy:
    """A list that a future gets on its first use. ``kind``: what makes it."""

    def __init__(self, kind: Callable[[], list[Any]] = list) -> None:
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: Any, owner: type) -> Any:
        return future.__dict__.setdefault(self._name, self._kind())
