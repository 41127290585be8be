"""What a function's code says and refers to."""

from __future__ import annotations

import os.path
from hashlib import blake2b
from typing import Any

import pytest

import strand
from strand.handlers.compiled.code_references import add_code, imported_in, referred_to

pytestmark = pytest.mark.python

LEAST = 5


def _digest_of(function: Any) -> str:
    digest = blake2b()
    add_code(digest, function.__code__)
    return digest.hexdigest()


def test_code_is_the_same_wherever_it_stands_and_another_where_it_does_another_thing() -> None:
    one, moved, other = (
        lambda tick: tick.size in {"a", "b"},
        lambda tick: tick.size in {"b", "a"},
        lambda tick: tick.size in {"a", "c"},
    )
    assert _digest_of(one) == _digest_of(moved) != _digest_of(other)


def test_names_are_found_in_the_module_in_functions_around_it_and_through_modules() -> None:
    outer, later = 7, None

    def function(row: Any) -> Any:
        def inner() -> Any:
            return outer, LEAST, later

        class Made:
            least = LEAST

        return inner, Made, os.path.join, strand.Tick, row.LEAST

    found = list(referred_to(function))
    assert found[:4] == [os.path.join, strand.Tick, outer, LEAST]
    assert found.count(LEAST) == 2


def test_a_name_that_has_no_value_yet_is_none() -> None:
    def function() -> Any:
        return later

    assert list(referred_to(function)) == []
    later = 1
    assert list(referred_to(function)) == [1]


def test_what_a_function_imports_is_found() -> None:
    def function() -> Any:
        from os import path
        from os.path import basename, join

        try:
            import there_is_no_such_module  # type: ignore[import-not-found]
        except ImportError:
            there_is_no_such_module = None
        return path, basename, join, there_is_no_such_module

    assert list(imported_in(function)) == [os.path, os.path.basename, os.path.join]


def test_what_a_long_function_refers_to_and_imports_is_found() -> None:
    """Arguments of its instructions above 255 take another instruction."""
    lines = "".join(f"    a{n} = {n + 1000}\n    b.c{n}\n" for n in range(300))
    space: dict[str, Any] = {"os": os}
    exec(f"def long(b):\n{lines}    from os.path import join\n    return os.path.basename", space)
    assert list(referred_to(space["long"])) == [os.path.basename]
    assert list(imported_in(space["long"])) == [os.path.join]
