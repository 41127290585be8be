"""Options by keyword: their names, and names that are none."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

import strand
from strand.errors import ConfigurationError, UnknownOptionError
from strand.feeds.live.mold import MoldFeed
from strand.feeds.live.websocket import WebSocketFeed
from strand.feeds.merge.feeds import merge_feeds
from strand.options import Option, check_apart, named_fields, options_in, options_of, refuse_unknown

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
    ],
)
def test_an_option_that_is_none_is_answered_with_those_there_are(given: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_unknown(given, options_of(takes), "reader()")
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("options", "said"), [({"date": 1}, "date: give it"), ({3: 1}, "feed_options: 3 is not the name of an option")]
)
def test_an_option_with_an_argument_of_its_own_is_refused_among_others(options: Any, said: str) -> None:
    check_apart("feed_options", {"profile": 1}, ["date"])
    with pytest.raises(ConfigurationError, match=said):
        check_apart("feed_options", options, ["date"])


@pytest.mark.parametrize("make", [strand.Scheduler, strand.Dispatcher])
def test_the_options_of_a_class_are_listed_without_its_object(make: Any) -> None:
    with pytest.raises(UnknownOptionError, match="it has ") as caught:
        make(zzz=1)
    assert "self" not in str(caught.value).replace(",", "").split()


def test_an_object_of_options_is_made_as_ever() -> None:
    @named_fields
    @dataclass(frozen=True, slots=True)
    class Given:
        a: int
        b: int = 2
        c: int = field(default=3, init=False)

    assert [Given(1), Given(1, 2), Given(b=2, a=1)] == [Given(1)] * 3
    assert replace(Given(1), b=5).b == 5
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Given(b=1)  # type: ignore[call-arg]
    with pytest.raises(UnknownOptionError, match="no option 'c'; it has a, b"):
        Given(1, c=4)  # type: ignore[call-arg]
    pool = strand.Pool(workers=2, cores=None)
    assert pickle.loads(pickle.dumps(pool)) == pool
    assert replace(pool, workers=3).cores is None


DECLARED = [strand.Pool, strand.Limits, strand.Levels, strand.Aging, strand.Fair, strand.Guard, strand.RetryPolicy]
BAD: dict[str, Any] = {"Whole": 0.5, "Number": float("nan"), "Choice": "no such", "Span": 30, "ByName": []}


def checked(kind: type[Any]) -> dict[str, Option]:
    """The options of a class that are checked as it is made."""
    return {name: one for name, one in options_in(kind).items() if type(one.kind).__name__ in BAD}


@pytest.mark.parametrize("kind", DECLARED)
def test_every_bad_value_of_a_class_of_options_is_told_at_once_by_its_field(kind: Any) -> None:
    bad = {name: BAD[type(one.kind).__name__] for name, one in checked(kind).items()}
    assert bad
    for name, value in bad.items():
        with pytest.raises(ConfigurationError, match=f"^{name}: ") as caught:
            kind(**{name: value})
        assert [(error.field, f"{name}: {error.reason}") for error in caught.value.each()] == [
            (name, str(caught.value))
        ]
    with pytest.raises(ConfigurationError) as caught:
        kind(**bad)
    assert [error.field for error in caught.value.each()] == list(bad)
    again = pickle.loads(pickle.dumps(caught.value))
    assert [(error.field, error.reason) for error in again.each()] == [
        (error.field, error.reason) for error in caught.value.each()
    ]


@pytest.mark.parametrize("kind", DECLARED)
def test_none_is_taken_where_it_has_a_meaning(kind: Any) -> None:
    for name, one in checked(kind).items():
        if one.unset and name != "coefficient":
            assert getattr(kind(**{name: None}), name) is None
        elif not one.unset:
            with pytest.raises(ConfigurationError, match=f"^{name}: None is not|^{name}: NoneType is not"):
                kind(**{name: None})


@pytest.mark.parametrize("kind", DECLARED)
def test_the_documentation_of_a_class_has_each_declaration(kind: Any) -> None:
    text = " ".join((kind.__doc__ or "").split())
    for name, one in options_in(kind).items():
        assert f" {name}: {one.text}" in text
        assert one.kind.range in text.replace(one.kind.range.capitalize(), one.kind.range) or one.kind.range == ""
        assert one.unset in text


@pytest.mark.parametrize("feed", [MoldFeed, WebSocketFeed])
def test_arguments_with_a_kind_are_options_with_the_texts_of_the_docstring(feed: type[Any]) -> None:
    options = options_in(feed)
    assert {"max_messages", "record", "on_bad_record"} <= options.keys()
    signature = inspect.signature(feed)
    for name, option in options.items():
        assert (option.flag, option.default) == (f"--{name.replace('_', '-')}", signature.parameters[name].default)
        assert f"{name}: {option.text[:-1][:20]}" in inspect.getdoc(feed)
        assert len(option.text) > 10
    assert options["max_messages"].help == "The feed ends after so many messages. [default: no bound; x>=1]"
    assert options["max_messages"].unset == "no bound"
    with pytest.raises(ConfigurationError) as raised:
        options["max_seconds"].read(0)
    assert raised.value.field == "max_seconds"


def test_an_unknown_option_of_any_entry_point_has_the_nearest_name() -> None:
    with strand.Scheduler(1) as scheduler:
        calls: list[tuple[Callable[..., Any], str, str]] = [
            (strand.TaskGroup, "nme", "name"),
            (strand.Inverse, "fce", "face"),
            (scheduler.options, "priorty", "priority"),
            (merge_feeds, "reorder", "reorder_ns"),
            (partial(strand.sweep, "x.npy", "count"), "wrkers", "workers"),
        ]
        for call, unknown, near in calls:
            with pytest.raises(UnknownOptionError, match=rf"has no option '{unknown}'; did you mean '{near}'\?"):
                call(**{unknown: 1})
    with pytest.raises(ConfigurationError, match=r"params: give a dict for each set; .* is run by strand.replay"):
        strand.sweep("x.npy", "count", out="folder", symbols=["A"])
