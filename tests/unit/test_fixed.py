"""Frozen classes of ``strand.fixed`` behave as those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from strand import fixed

pytestmark = pytest.mark.python


def classes(dataclass: Any) -> dict[str, Any]:
    """Some frozen classes, made by a decorator."""

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: float = 0.5
        tags: list[int] = field(default_factory=list, compare=False, repr=False)
        kind: ClassVar[str] = "point"

    @dataclass(frozen=True)
    class Named:
        name: str
        _: KW_ONLY
        size: int = 3

    @dataclass(frozen=True)
    class Longer(Named):
        more: int = field(default=0, kw_only=True)
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.size)

    @dataclass(frozen=True, eq=False, repr=False, kw_only=True)
    class Same:
        x: int
        y: int = 2

    @dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641
        x: int = 0
        made: list[int] = field(init=False, default_factory=lambda: [1])
        usual: int = field(init=False, default=7)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass
    class Loose:
        x: int = 1

    class Sub(Named):
        pass

    found = {one.__name__: one for one in (Point, Named, Longer, Same, Own, Empty, Loose, Sub)}
    for one in found.values():
        one.__qualname__ = one.__name__
    return found


THEIRS, OURS = classes(dataclasses.dataclass), classes(fixed.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}), ("Point", (1,), {"y": 2.5}), ("Point", (1, 2.5, [3]), {}), ("Point", (), {}),
    ("Point", (1, 2, 3, 4), {}), ("Named", ("a",), {}), ("Named", ("a", 3), {}), ("Named", ("a",), {"size": 4}),
    ("Longer", ("a",), {"more": 1, "size": 5}), ("Longer", ("a",), {"twice": 1}), ("Same", (), {"x": 1}),
    ("Same", (1,), {}), ("Own", (5,), {}), ("Empty", (), {}), ("Loose", (2,), {}), ("Sub", ("a",), {"size": 9}),
]  # fmt: skip


def outcome(function: Callable[[], Any]) -> Any:
    """A result, or the type and text of an error."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_objects_are_made_shown_compared_and_changed_as_the_standard_ones(
    monkeypatch: pytest.MonkeyPatch, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    def look(kinds: dict[str, Any]) -> Any:
        kind = kinds[name]
        monkeypatch.setattr(sys.modules[__name__], name, kind, raising=False)
        made, again = kind(*args, **kwargs), kind(*args, **kwargs)

        def change(act: Callable[[Any], None]) -> Any:
            thing = kind(*args, **kwargs)
            return outcome(lambda: act(thing))

        return (
            [getattr(made, one.name, "unset") for one in dataclasses.fields(made)],
            [(one.name, one.type, one.kw_only) for one in dataclasses.fields(made)],
            dataclasses.asdict(made),
            outcome(lambda: (made == again, hash(made) == hash(again), made == 5, made in {again: 1})),
            outcome(lambda: hash(made)) if name == "Loose" else None,
            repr(made) if name != "Same" else None,
            str(inspect.signature(kind)),
            change(lambda one: setattr(one, dataclasses.fields(one)[0].name, 1)),
            change(lambda one: delattr(one, dataclasses.fields(one)[0].name)),
            change(lambda one: setattr(one, "nothing", 1)) if name in {"Named", "Sub", "Loose"} else None,
            [
                dataclasses.asdict(f(made))
                for f in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)))
            ],
            outcome(lambda: dataclasses.asdict(dataclasses.replace(made, x=8))),
            kind.__match_args__,
        )

    assert outcome(lambda: look(OURS)) == outcome(lambda: look(THEIRS))


def test_objects_that_differ_are_not_equal_and_no_subclass_is() -> None:
    for kinds in (OURS, THEIRS):
        assert kinds["Point"](1) != kinds["Point"](2)
        assert kinds["Point"](1, tags=[1]) == kinds["Point"](1, tags=[2])
        assert kinds["Named"]("a") != kinds["Sub"]("a")
        assert kinds["Same"](x=1) != kinds["Same"](x=1)


def test_a_factory_makes_a_value_for_each_object() -> None:
    kind = OURS["Point"]
    assert kind(1).tags is not kind(1).tags
