"""Options by keyword: their names, and names that are none."""

from __future__ import annotations

from typing import Any

import pytest

from strand.errors import ConfigurationError
from strand.options import check_apart, options_of, refuse_renamed, refuse_unknown

pytestmark = pytest.mark.python


def takes(path: str, *, date: str = "", size_unit: float = 1.0, _own: int = 0) -> None: ...


class Taker:
    def __init__(self, path: str, *, columns: str = "") -> None: ...


def test_options_are_what_is_given_by_keyword_alone() -> None:
    assert options_of(takes) == {"date", "size_unit"}
    assert options_of(Taker) == {"columns"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["dat"], "reader() has no option 'dat'; did you mean 'date'?"),
        (["zzz", "aaa"], "reader() has no option 'aaa'; it has date, size_unit"),
        (["day"], "day: is called date now"),
    ],
)
def test_an_option_that_is_none_is_answered_with_those_there_are(given: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_unknown(given, options_of(takes), "reader()", {"day": "date"})
    assert str(caught.value) == said


def test_known_options_are_taken_also_where_another_had_that_name() -> None:
    refuse_unknown(["date"], options_of(takes), "a reader", {"date": "day"})


def test_an_old_name_says_a_new_one_only_where_there_is_that() -> None:
    with pytest.raises(ConfigurationError, match="a reader has no option 'day'; it has date"):
        refuse_unknown(["day"], options_of(takes), "a reader", {"day": "month"})


def test_old_names_are_refused_of_what_takes_the_new_ones() -> None:
    def takes_all(*line: str, date: str = "") -> None: ...

    refuse_renamed(["day", "size_unit"], takes_all, {"day": "month", "size_unit": "unit"})
    with pytest.raises(ConfigurationError, match=r"^day: is called date now$"):
        refuse_renamed(["day"], takes_all, {"day": "date"})
    with pytest.raises(ConfigurationError, match=r"^a: is called line now, and given without its name$"):
        refuse_renamed(["a"], takes_all, {"a": "line"})


@pytest.mark.parametrize(
    ("options", "said"), [({"date": 1}, "date: give it"), ({3: 1}, "feed_options: 3 is no option")]
)
def test_an_option_with_an_argument_of_its_own_is_refused_among_others(options: Any, said: str) -> None:
    check_apart("feed_options", {"profile": 1}, ["date"])
    with pytest.raises(ConfigurationError, match=said):
        check_apart("feed_options", options, ["date"])
