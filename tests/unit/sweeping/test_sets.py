"""Sets of parameters, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.sweeping.sets import parameter_sets, text_of

pytestmark = pytest.mark.python


def test_a_list_of_dicts_is_taken_as_it_is() -> None:
    assert parameter_sets([{"a": 1}, {"a": 2, "b": 0.5}]) == [{"a": 1}, {"a": 2, "b": 0.5}]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_row_of_a_frame_is_a_set(library: str) -> None:
    frame = pytest.importorskip(library).DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert parameter_sets(frame) == [{"a": 1, "b": 0.5}, {"a": 2, "b": 1.5}]


def test_the_same_values_have_one_text() -> None:
    assert text_of({"b": np.float64(0.5), "a": np.int32(1)}) == text_of({"a": 1, "b": 0.5}) == '{"a": 1, "b": 0.5}'
    assert text_of({"a": np.array([1, 2])}) == '{"a": [1, 2]}'


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([{"a": 1}, {"a": 2}, {"a": np.int8(1)}], r'params: set 2 is the same as set 0: \{"a": 1\}'),
        ([{"a": 1}, {}], r"params: set 1: \{\} is not a dict of parameters by name"),
        ([{"a": 1}, {2: 1}], r"params: set 1: \{2: 1\} is not a dict of parameters by name"),
        ([], "params: there is no set"),
        ({"a": 1}, "params: dict is no list of dicts, one a set"),
    ],
)
def test_what_are_no_sets_or_one_twice_is_refused(sets: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parameter_sets(sets)
