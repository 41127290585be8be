"""Marks of symbols and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.policies.marks import mark_bits

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("given", "bits"), [("io", 1), ("frees_memory", 2), (["io", "frees_memory"], 3), ({"io"}, 1), ([], 0)]
)
def test_marks_are_bits(given: Any, bits: int) -> None:
    assert mark_bits("marks", given) == bits


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("free_memory", "marks: 'free_memory' is not a mark: did you mean 'frees_memory'"),
        (["io", 3], "marks: 3 is not a mark: give io or frees_memory, or several of them"),
        (None, "marks: None is not a mark"),
    ],
)
def test_what_is_no_mark_is_refused(given: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        mark_bits("marks", given)
