"""Definition of a built-in handler: its name, and the subjects of its options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from strand.brief import brief
from strand.dicts import FrozenDict
from strand.handlers.base import Handler
from strand.handlers.options import Option, Origin, options_of_function
from strand.options import named_options
from strand.validate import yes_or_no

P = ParamSpec("P")
H = TypeVar("H", bound=Handler)


class Builtin(NamedTuple):
    """A built-in handler: its name, the module of the function of that name that makes it, which is imported when the
    handler is used, and its options. The options hold unless one of ``instead`` is given."""

    name: str
    module: str
    defaults: Mapping[str, Any] = FrozenDict()
    instead: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief(self, self.name)

    @property
    def make(self) -> Callable[..., Handler]:
        """The function that makes it."""
        found: Callable[..., Handler] = getattr(import_module(self.module), self.name)
        return found

    def __call__(self, **given: Any) -> Handler:
        return self.make(**(given if any(name in given for name in self.instead) else {**self.defaults, **given}))

    @property
    def options(self) -> dict[str, Option]:
        """Options of the handler, by name in their order."""
        found = {}
        for name, option in options_of_function(self.make).items():
            about = ABOUT.get(f"{self.name}.{name}", ABOUT.get(name, ""))
            default = option.kind.show(self.defaults[name]) if name in self.defaults else option.default
            found[name] = option._replace(default=default, about=about)
        return found


#: Annotations of a function take long to evaluate, and a replay by name makes its handler anew.
_options_of: Final = functools.cache(options_of_function)


def built_in(make: Callable[P, H]) -> Callable[P, H]:
    """Decorates a function that makes a built-in handler of the same name: the handlers that it makes know their
    origin. Options of yes or no refuse other values."""
    signature = inspect.signature(make)
    of_bound: Callable[..., H] = make
    flags = [name for name, one in signature.parameters.items() if one.annotation in ("bool", "bool | None")]

    @named_options(f"{make.__name__}()")
    @functools.wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> H:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            make(*args, **kwargs)  # its error names the function
            raise
        given = bound.arguments
        for name in flags:
            if name in given and (given[name] is not None or signature.parameters[name].default is not None):
                given[name] = yes_or_no(name, given[name])  # in C a numpy.bool is no number
        handler = of_bound(*bound.args, **bound.kwargs)
        load: str | None = make.__name__
        said = {}
        for name, option in _options_of(make).items():
            value = given.get(name)
            text = None if value is None else option.kind.show(value)
            if value is not None and text is None:
                load, text = None, str(value)
            if text is not None and text != option.default:
                said[name] = text
        return dataclasses.replace(handler, origin=Origin(load, said, (made, args, kwargs)))

    return made


#: Subjects of built-in handlers' options, by name; if they differ, by handler and name.
ABOUT: Final[Mapping[str, str]] = {
    "every": "emit a record for each stretch of so much time",
    "bars.every": "the time of a bar",
    "quote_bars.every": "the time of a bar",
    "ticks": "a bar for so many trades",
    "quote_bars.ticks": "a bar for so many changes of the best bid and ask",
    "volatility.ticks": "a return over so many prices",
    "volume": "a bar for so many units of the instrument",
    "notional": "a bar for so many units of currency",
    "fill": "emit also the stretches in which nothing came",
    "partial": "emit at the run's end what is under way",
    "sessions": "when the venue is open; what comes outside does not count",
    "auctions": "how long after a session crosses still count",
    "outside": "trades outside of sessions",
    "quote_bars.outside": "changes outside of sessions",
    "zero_sizes": "trades of size 0",
    "book": "take trades and quotes from order books",
    "crosses": "crosses count too",
    "contracts": "what a point of price or an inverse contract is worth, by symbol",
    "fills": "what a fill does: reduce its order, or only report",
    "step": "returns over a grid of so much time",
    "price": "of trades, or the mid of the best quotes",
    "quote_bars.price": "the price that bars are made of",
    "sign": "what tells who bought",
    "of": "what is summed of each trade, with its sign",
    "threshold": "the fixed imbalance that closes a bar",
    "expected_ticks": "trades of a first bar, before anything is expected",
    "span_bars": "span of the mean number of trades, in bars",
    "span_ticks": "span of the mean value of a trade, in trades",
    "min_ticks": "trades that a bar has at least",
    "max_ticks": "trades that a bar has at most",
    "top": "levels that a row shows",
    "changes": "emit each change of these levels",
    "max_levels": "levels that a side keeps",
    "work": "steps a tick",
    "dear_every": "symbols whose index divides by it take more steps",
    "dear_times": "so many times as many",
}
