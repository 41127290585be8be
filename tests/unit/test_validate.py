"""Checks of what options take: numbers, words and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strand.errors import ConfigurationError
from strand.validate import did_you_mean, is_number, is_whole, nearest, one_of, seconds, whole, yes_or_no

pytestmark = pytest.mark.python


@pytest.mark.parametrize(
    ("value", "is_one", "number"),
    [
        (3, True, True),
        (np.uint8(3), True, True),
        (True, False, False),
        (np.True_, False, False),
        (3.0, False, True),
        (np.float32(3), False, True),
        (float("nan"), False, False),
        (float("inf"), False, True),
        ("3", False, False),
        (None, False, False),
    ],
)
def test_whole_numbers_and_numbers_are_told_apart(value: Any, is_one: bool, number: bool) -> None:
    assert (is_whole(value), is_number(value)) == (is_one, number)


def test_bounds_count_as_inside_and_what_lies_beyond_is_named() -> None:
    assert [whole("n", value, 2, 4) for value in (2, np.int64(4))] == [2, 4]
    assert type(whole("n", np.int64(4), 2)) is int
    for value in (1, 5, 3.0, True):
        with pytest.raises(ConfigurationError, match=r"^n: .* is not a whole number from 2 to 4$"):
            whole("n", value, 2, 4)
    assert whole("n", 2**63 - 1, 0) == 2**63 - 1
    with pytest.raises(ConfigurationError, match=r"from 0 to 2\^63 - 1$"):
        whole("n", 2**63, 0)


def test_seconds_are_a_number_or_none() -> None:
    assert [seconds("s", value) for value in (None, 2, 0.5)] == [None, 2.0, 0.5]
    with pytest.raises(ConfigurationError, match="s: nan is not a number of seconds"):
        seconds("s", float("nan"))


def test_a_choice_has_the_place_of_its_name() -> None:
    assert [one_of("sign", name, ("a", "b")) for name in ("a", "b")] == [0, 1]
    with pytest.raises(ConfigurationError, match="sign: 'c' is not one of a, b"):
        one_of("sign", "c", ("a", "b"))


def test_a_truth_value_is_one_and_nothing_that_stands_for_one() -> None:
    assert [yes_or_no("sure", value) for value in (True, np.False_)] == [True, False]
    for value in ("no", 0, None):
        with pytest.raises(ConfigurationError, match=r"^sure: .* is neither True nor False$"):
            yes_or_no("sure", value)


def test_the_nearest_of_words_is_the_misspelt_one_or_none() -> None:
    assert nearest("leveled", ["fair", "levels"]) == "levels"
    assert nearest("AAPL", ["fair", "levels"]) is None
    assert nearest("aapl", ["MSFT", "AAPL", "aap"]) == "AAPL"


def test_a_misspelt_name_is_asked_about_and_one_that_is_like_none_is_not() -> None:
    assert did_you_mean("Fiar", iter(["fair", "levels"]), before="; ", after=" ") == "; did you mean 'fair'? "
    assert did_you_mean("AAPL", ["fair"], before="; ", after=" ") == ""
    assert did_you_mean(3, ["fair"]) == ""
