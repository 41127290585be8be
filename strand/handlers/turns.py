"""Calls of objects' methods for the records of a batch: with which records, what of them, and in which order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import compress, starmap, takewhile
from operator import and_, attrgetter
from types import FunctionType, MethodType
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.handlers.context import FailedOnTick, Timer, reader
from strand.threads import interrupts
from strand.ticks import BY_NAME, KIND_ORDER, KIND_QUOTE, KIND_STATUS, TICK, TRADE

#: Methods for ticks of one kind.
BY_KIND: Final = {"on_order": KIND_ORDER, "on_quote": KIND_QUOTE, "on_status": KIND_STATUS}
#: Methods for ticks, in the order of their calls for one tick.
OF_TICKS: Final = ("on_day", "on_tick", *BY_KIND)
#: The records that a method takes, and the fields that it may take of them.
_TAKEN: Final[dict[str, tuple[np.dtype[Any], frozenset[str]]]] = {
    **dict.fromkeys(OF_TICKS, (TICK, frozenset((*(TICK.names or ()), *BY_NAME)))),
    "on_trade": (TRADE, frozenset(TRADE.names or ())),
}


def _offset(dtype: Any, field: str) -> int:
    return int(dtype.fields[field][1])


def _mask(chosen: Iterable[int]) -> bytes:
    """Table for ``bytes.translate``: 1 for the chosen bytes, else 0."""
    return bytes(byte in chosen for byte in range(256))


_ACTION_AT: Final = _offset(TICK, "action")
#: By method, the byte of a record that tells whether the method takes it, and its values there. A trade's size is below
#: 0 where the tick is no trade.
_CHOSEN: Final = {
    "on_trade": (_offset(TRADE, "size") + 7, _mask(range(128))),
    "on_day": (_offset(TICK, "kind"), _mask([KIND_STATUS])),
    **{method: (_offset(TICK, "kind"), _mask([kind])) for method, kind in BY_KIND.items()},
}

#: Places of records in a batch, and what is made for them one by one: calls, or what a method takes.
Turns = tuple[Sequence[int], Iterator[Any]]


class Source(NamedTuple):
    """A method of objects, and the fields that it takes of its records; none: it takes whole records."""

    method: str
    fields: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Place of the method among those that are called for one tick."""
        return list(_TAKEN).index(self.method)

    @property
    def taking(self) -> tuple[_Taken, type[Any]]:
        """A function that gives the places of the method's records among ticks, and the values that it takes of them.
        Behind it the function that makes calls of a method and these values."""
        return _taken_by(self), starmap if self.fields else map


#: Function of ticks and the trades that they are, which are of use where the objects ask for trades.
_Taken = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Turns]


@cache
def _taken_by(source: Source) -> _Taken:
    method, (record, _) = source.method, _TAKEN[source.method]
    read = reader(record, source.fields)
    if method not in _CHOSEN:
        return lambda ticks, _: (range(len(ticks)), read(ticks.tobytes()))
    (at, mask), size, of_trades = _CHOSEN[method], record.itemsize, method == "on_trade"

    def taken(ticks: npt.NDArray[Any], trades: npt.NDArray[Any]) -> Turns:
        raw, n = (trades if of_trades else ticks).tobytes(), len(ticks)
        chosen = raw[at::size].translate(mask)
        if method == "on_day" and 1 in chosen:
            chosen = bytes(map(and_, chosen, raw[_ACTION_AT::size].translate(_IS_CLEAR)))
        if 0 not in chosen:
            return range(n), read(raw)
        places = list(compress(range(n), chosen))
        return places, read(b"".join([raw[i * size : (i + 1) * size] for i in places]))

    return taken


_IS_CLEAR: Final = _mask(b"R")

# ---- what methods take

#: Fields that methods of classes take.
_known: WeakKeyDictionary[Any, tuple[str, ...]] = WeakKeyDictionary()


def sources_of(thing: object) -> list[Source]:
    """The methods that an object has for ticks and trades, in the order of their calls for one tick."""
    return [
        Source(name, _fields_of(method, name)) for name in _TAKEN if (method := getattr(thing, name, None)) is not None
    ]


def check_taken(handler: str, thing: object) -> None:
    """Checks what the methods of a class, or of an object, take. Raises ConfigurationError."""
    for name in _TAKEN:
        if (method := getattr(thing, name, None)) is not None:
            is_plain = isinstance(thing, type) and isinstance(inspect.getattr_static(thing, name), FunctionType)
            _read_fields(method, name, handler=handler, skip=int(is_plain))


def taking_whole(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The method called ``name`` as one that takes whole records."""
    fields = _fields_of(method, name) if name in _TAKEN else ()
    if not fields:
        return method
    get = attrgetter(*fields)
    return (lambda record: method(get(record))) if len(fields) == 1 else (lambda record: method(*get(record)))


def _fields_of(method: Callable[..., Any], name: str) -> tuple[str, ...]:
    function = method.__func__ if type(method) is MethodType else None
    if type(function) is not FunctionType:
        return _read_fields(method, name)
    if (found := _known.get(function)) is None:
        found = _known[function] = _read_fields(method, name)
    return found


def _read_fields(method: Callable[..., Any], name: str, *, handler: str = "", skip: int = 0) -> tuple[str, ...]:
    """The fields that a method takes, by the names of its arguments behind the first ``skip``. Raises
    ConfigurationError where it takes something else beside a whole record, or beside fields."""
    try:
        given = list(inspect.signature(method).parameters.values())[skip:]
    except (TypeError, ValueError):  # a built-in callable without a signature
        return ()
    _, there = _TAKEN[name]
    by_place = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in by_place if p.default is p.empty]
    fields = tuple(takewhile(there.__contains__, (p.name for p in by_place)))
    is_whole = not fields or not there.issuperset(needed)
    if is_whole and len(needed) <= 1:
        return ()
    if is_whole or any(p.name in there for p in given if p.name not in fields):
        raise ConfigurationError(
            f"handler {handler!r}: {name} takes ({', '.join(p.name for p in given)}): give it one argument, for the "
            "whole record, or only fields of it, such as (price, size)"
        )
    return fields


# ---- at work


class _Where(Protocol):
    """Holder of the place of the tick in hand."""

    at: Any


def take_turns(where: _Where, turns: Iterable[Turns], timer: Timer | None = None) -> None:
    """Makes the calls of turns for a batch in the order of their places, those of one place in the order of the turns.
    ``timer``: no call comes at or after its end. ``where`` knows the place at hand.

    Raises FailedOnTick, with the number of ticks handled. A tick is handled when its calls have returned, even if an
    interrupt comes then."""
    i = -1
    rest: Iterator[tuple[int, ...]] = iter(())
    try:
        taken = [turn for turn in turns if turn[0]]
        if len(taken) == 1 and timer is None:
            ((places, calls),) = taken
            rest = zip(places)
            for (i,) in rest:
                where.at = i
                next(calls)
            return
        rest = iter(sorted((i, rank) for rank, (places, _) in enumerate(taken) for i in places))
        all_calls = [calls for _, calls in taken]
        for i, rank in rest:
            if timer is not None and i >= timer.end:
                break
            where.at = i
            next(all_calls[rank])
    except BaseException as error:
        # Python calls no handler of signals between the return of a call's function and the end of ``next``.
        is_over = interrupts(error) and (error.__traceback__ is None or error.__traceback__.tb_next is None)
        raise FailedOnTick(i + 1 if is_over and next(rest, (-1,))[0] != i else max(i, 0)) from error
