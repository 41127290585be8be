"""Sets of parameters, as users give them."""

from __future__ import annotations

import numpy as np
import pytest

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
