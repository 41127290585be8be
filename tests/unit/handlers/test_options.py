"""Options of handlers as text: read, refused, written into what a run leaves, and given on the command line."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.binding.memory import Space
from strand.errors import ConfigurationError
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.handlers import BUILTIN, Handler, NativeHandler
from strand.handlers.loading import find, load_handler, options_of
from strand.replaying.recorder import describe_handlers

pytestmark = pytest.mark.python
PAGE = Path(__file__).resolve().parents[3] / "docs" / "handlers" / "options.md"


def params_of(handler: Handler) -> bytes:
    """What the C function of a built-in handler is given."""
    assert isinstance(handler, NativeHandler)
    if not callable(handler.function):
        return handler.function.params
    params: bytes = handler.function(Space(), 1).function.params
    return params[32:]  # behind the addresses of its books


@pytest.mark.parametrize(
    ("name", "options", "same"),
    [
        ("bars", {}, lambda: strand.bars("1m")),
        ("bars", {"every": "60s", "fill": "yes", "partial": "no"}, lambda: strand.bars("1m", fill=True, partial=False)),
        ("bars", {"ticks": "50"}, lambda: strand.bars(ticks=50)),
        ("bars", {"notional": "1e6", "zero_sizes": "price"}, lambda: strand.bars(notional="1e6", zero_sizes="price")),
        (
            "bars",
            {"sessions": "09:30-16:00 America/New_York", "outside": "bars"},
            lambda: strand.bars("1m", sessions="09:30-16:00 America/New_York", outside="bars"),
        ),
        ("spread", {"every": "5s", "book": "no"}, lambda: strand.spread("5s", book=False)),
        ("trade_stats", {"sign": "resting"}, lambda: strand.trade_stats(sign="resting")),
        ("vwap", {"every": "1h"}, lambda: strand.vwap("1h")),
        ("imbalance", {"every": "10s"}, lambda: strand.imbalance("10s")),
        ("volatility", {"ticks": "9", "price": "mid"}, lambda: strand.volatility(ticks=9, price="mid")),
        ("spin", {"work": "40"}, lambda: strand.handlers.spin(40)),
    ],
)
def test_options_as_text_make_the_handler_that_the_function_makes(name: str, options: Any, same: Any) -> None:
    found, wanted = load_handler(name, options), same()
    assert params_of(found) == params_of(wanted)
    assert (found.state, found.outputs, found.name) == (wanted.state, wanted.outputs, wanted.name)
    assert (callable(found.function), found.for_feed is None) == (callable(wanted.function), wanted.for_feed is None)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_option_says_what_it_is_about_and_stands_on_its_page(name: str) -> None:
    (section,) = (part for part in PAGE.read_text("utf-8").split("\n## ") if part.startswith("Built-in"))
    (row,) = (line for line in section.splitlines() if line.startswith(f"| [`{name}`]"))
    for option in options_of(BUILTIN[name]).values():
        assert option.about
        assert f"`{option.name}" in row, option.name


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        (
            "bars",
            {"interval": "60s"},
            "it has no option 'interval'; its options: every, a span of time, such as 1m or 500ms; ",
        ),
        ("bars", {"fill": "perhaps"}, "fill: give yes or no, not 'perhaps'; its options: every"),
        ("bars", {"ticks": "1.5"}, "ticks: give a whole number, not '1.5'"),
        ("bars", {"every": "soon"}, "'soon' is not a span of time.*; its options: every"),
        ("bars", {"outside": "drop"}, "outside: give one of skip, bars, not 'drop'"),
        ("bars", {"every": "1m", "ticks": "5"}, "give exactly one of every, ticks, volume and notional"),
        ("bars", {"sessions": "9-16 Nowhere"}, "sessions: .*; its options"),
        ("depth", {"top": "65"}, "'?65'? is not a whole number from 1 to 64; its options: top"),
        ("bars", {"evry": "1m"}, "it has no option 'evry'; did you mean 'every'\\? its options: every, "),
        ("count", {"every": "1m"}, "it has no option 'every'; it has no options"),
    ],
)
def test_what_is_no_option_or_none_of_its_values_is_answered_with_those_there_are(
    name: str, options: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"handler {name}: .*{words}"):
        load_handler(name, options)


@pytest.mark.parametrize(
    "like",
    [
        strand.bars("5m", fill=True),
        strand.bars(notional=Decimal("2.5")),
        strand.bars(dt.timedelta(milliseconds=1500)),
        strand.bars("60000000000ns", sessions="09:30-16:00 America/New_York"),
        strand.spread("7ns", partial=False),
        strand.volatility("1m", every="1h", price="mid"),
        strand.handlers.spin(9, dear_every=2),
    ],
)
def test_a_built_in_handler_knows_what_makes_it_again(like: Handler) -> None:
    assert like.origin is not None
    assert like.origin.load is not None
    assert params_of(load_handler(like.origin.load, like.origin.options)) == params_of(like)


@pytest.mark.parametrize(
    ("numpy_s", "python_s"),
    [
        (lambda n: strand.bars(ticks=n(50)), "50"),
        (lambda n: strand.bars(notional=n(5)), "5"),
        (lambda n: strand.volatility(ticks=n(50)), "50"),
        (lambda n: strand.depth(top=n(3), max_levels=n(9)), "3"),
        (lambda n: strand.handlers.spin(n(9), dear_every=n(2)), "9"),
    ],
)
def test_numpy_s_whole_numbers_are_whole_numbers(numpy_s: Any, python_s: str) -> None:
    given, same = numpy_s(np.int64), numpy_s(int)
    assert (given.state, given.origin) == (same.state, same.origin)
    assert getattr(given.function, "params", None) == getattr(same.function, "params", None)
    assert next(iter(given.origin.options.values())) == python_s
    with pytest.raises(ConfigurationError, match=r"True.* is no"):
        numpy_s(np.bool_)


def test_what_text_cannot_say_is_told_apart_and_not_loaded() -> None:
    origins = [strand.bars("1m", sessions=strand.Sessions(np.array([[0, end]]))).origin for end in (10, 20)]
    assert origins[0] != origins[1]
    assert [origin.load for origin in origins if origin is not None] == [None, None]


def test_parameters_of_ones_own_are_read_by_their_fields(mine: str) -> None:
    texts = {"least": "7", "share": "0.25", "loud": "yes", "name": "xyz", "steps": "1,-2,3"}
    handler = load_handler(f"{mine}:large", texts)
    given = handler.params.values["*"]
    assert (given["least"], given["share"], given["loud"], given["name"]) == (7, 0.25, True, b"xyz")
    assert given["steps"].tolist() == [1, -2, 3]
    assert handler.origin is not None
    assert (handler.origin.load, handler.origin.options) == (f"{mine}:large", texts)
    assert {option.name: option.default for option in options_of(find(f"{mine}:large")).values()} == {
        "least": "100", "share": "0.5", "loud": "no", "name": "ab", "steps": "0,0,0",
    }  # fmt: skip
    found = strand.replay(sample_path(), handler, feed_options={"date": SAMPLE_DATE}, workers=1, cores=None)
    assert found.rows.array["n"].sum() > 0


def test_text_that_is_longer_than_its_field_is_refused(mine: str) -> None:
    assert options_of(find(f"{mine}:large"))["name"].kind.words == "text of at most 4 bytes"
    with pytest.raises(ConfigurationError, match="large: name: give text of at most 4 bytes, not 'abcde'; its options"):
        load_handler(f"{mine}:large", {"name": "abcde"})
    with pytest.raises(ConfigurationError, match="at most 4 bytes"):
        load_handler(f"{mine}:large", {"name": "ééé"})
    like: Any = find(f"{mine}:large")
    for name in (b"abcde", "abcde"):
        with pytest.raises(ConfigurationError, match=r"name: .* cannot hold b?'abcde': it is too long"):
            strand.Dispatcher(1, like.with_params({"*": {"name": name}}))


def test_what_a_symbol_was_given_stays(mine: str) -> None:
    from strand.handlers.loading import configured

    handler: Any = find(f"{mine}:large")
    given = handler.with_params({"A": {"least": 1}, "*": {"least": 2, "share": 1.0}})
    found = configured(given, {"least": "3"}, "large")
    assert found.params.values == {"A": {"least": 1}, "*": {"least": 3, "share": 1.0}}


def test_parameters_given_in_python_stand_in_the_file_of_a_run(mine: str) -> None:
    large: Any = find(f"{mine}:large")

    def said(like: Any) -> Any:
        return describe_handlers({"*": like})["*"]["options"]

    assert said(large.with_params({"*": {"least": 7}})) == {"least": "7"}
    two = [said(large.with_params({"A": {"least": n}})) for n in (1, 2)]
    assert two[0]["by symbol"].startswith("1 symbols, ")
    assert two[0] != two[1]
    assert said(strand.chain(strand.book(), large.with_params({"*": {"least": 7}}))) == {"large.least": "7"}


def test_parts_of_a_chain_are_named_before_their_options(mine: str) -> None:
    handler = load_handler(f"{mine}:after_book", {"large.least": "9"})
    assert handler.parts[1][1].params.values == {"*": {"least": 9}}
    with pytest.raises(
        ConfigurationError, match=r"no option 'least'; did you mean 'large\.least'\? its options: large"
    ):
        load_handler(f"{mine}:after_book", {"least": "9"})
