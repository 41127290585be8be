"""Checks of what options take: numbers, Python's or numpy's, within bounds; words of a few; texts; truth values."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from reprlib import Repr
from typing import Any, Final, TypeGuard

import numpy as np

from strand.errors import ConfigurationError

#: The largest whole number that C takes.
MAXIMUM: Final = 2**63 - 1
#: The powers of ten that a unit may be.
MIN_UNIT: Final = -18
_MAX_UNIT: Final = 9
#: The most names that ``few_of`` gives.
_FEW: Final = 6
_BRIEF: Final = Repr()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 1, 60, 60
_BARE: Final = re.compile(r"[\w*-]+")
_NO_MARKS: Final = bytes(set(range(256)) - set(b'"[]{}'))
#: Arrays and objects within each other.
_MOST_DEEP: Final = 400


def shown(value: Any) -> str:
    """A value in a few words: aliases in YAML can make one that is longer than any memory."""
    return _BRIEF.repr(value)


def path(*parts: Any) -> str:
    """The dotted path of a field. A part that has a dot or a space itself is in quotes: ``groups."BRK.B"``."""
    return ".".join(part if _BARE.fullmatch(part) else f'"{part}"' for part in map(str, parts))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Word of ``words`` that is most like a misspelt one, whatever their case; None where none is like it. A name whose
    parts are all right, as ``workers`` for ``max_workers``, comes before others that are not very near."""
    from difflib import get_close_matches  # which a run without errors does not wait for

    by_folded: dict[str, str] = {}
    for each in words:
        by_folded.setdefault(each.casefold(), each)
    word = word.casefold()
    near = get_close_matches(word, by_folded)
    parts = {*word.split("_")}
    right = [each for each in near if parts.issuperset(each.split("_"))]
    best = get_close_matches(word, near, n=1, cutoff=0.9) or right or near
    return by_folded[best[0]] if best else None


def did_you_mean(name: object, names: Iterable[str], *, before: str = "", after: str = "") -> str:
    """Returns ``did you mean 'book'?`` with the nearest of ``names``, between the texts ``before`` and ``after``.
    Returns an empty text if no name is near."""
    near = nearest(name, names) if isinstance(name, str) else None
    return f"{before}did you mean {near!r}?{after}" if near else ""


def few_of(name: str, names: Iterable[str]) -> str:
    """The names that are most like a misspelt one, or have it as a part, as ``the nearest are a, b``. The first few
    of all names where none is like it."""
    from difflib import get_close_matches

    every = list(names)
    near = get_close_matches(name, every, n=_FEW) + [each for each in every if name.casefold() in each.casefold()]
    found = list(dict.fromkeys(near))[:_FEW] if name else []
    return f"the nearest are {', '.join(found)}" if found else f"there are {', '.join(every[:_FEW])}, ..."


def unknown(name: Any, what: str, known: Collection[str]) -> str:
    """Message that a name is unknown, with the nearest known one."""
    near = nearest(name, known) if isinstance(name, str) else None
    cure = f"did you mean {near}? It is " if near else "it is "
    return f"{cure}no {what}; there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"


class Faults(list[ConfigurationError]):
    """The faults of a set of options, which are checked one by one and raised together."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the errors of the block."""
        try:
            yield
        except ConfigurationError as error:
            self += error.each()

    def has(self, *fields: str) -> bool:
        """Returns whether one of these fields, or a part of it, is wrong."""
        return any(fault.field.partition(".")[0] in fields for fault in self)

    def end(self) -> None:
        """Raises the first fault, which has the others."""
        if self:
            self[0].others = tuple(self[1:])
            raise self[0]


def is_whole(value: Any) -> TypeGuard[int]:
    """Tells whether a value is a whole number, of Python or numpy. ``True`` and ``False`` are not, nor are numpy's
    spans of time, which count as integers there."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> TypeGuard[float]:
    """Tells whether a value is a whole number or a float other than NaN, of Python or numpy."""
    return is_whole(value) or (isinstance(value, (float, np.floating)) and not math.isnan(value))


def is_between(value: Any, lowest: float, highest: float) -> TypeGuard[float]:
    """Tells whether a value is a number from ``lowest`` to ``highest``. Numpy's short floats do not hold every
    bound."""
    exact: Any = float(value) if isinstance(value, np.floating) else value
    return is_number(exact) and lowest <= exact <= highest


def whole(name: str, value: Any, minimum: int, maximum: int = MAXIMUM) -> int:
    """The whole number that the option ``name`` was given. Raises ConfigurationError outside the bounds, which count
    as inside."""
    if not is_whole(value) or not minimum <= value <= maximum:
        end = "2^63 - 1" if maximum == MAXIMUM else f"{maximum:,}"
        raise ConfigurationError(name, f"{shown(value)} is not a whole number from {minimum:,} to {end}")
    return int(value)


def one_of(name: str, value: Any, words: Iterable[str]) -> int:
    """The place of the word that the option ``name`` was given. Raises ConfigurationError for another one."""
    choices = list(words)
    if not isinstance(value, str) or value not in choices:
        raise ConfigurationError(
            name, f"{shown(value)} is not one of {', '.join(choices)}{did_you_mean(value, choices, before='; ')}"
        )
    return choices.index(value)


def seconds(name: str, value: Any) -> float | None:
    """The seconds that the option ``name`` allows; None for any number, as for more than a lock can wait for. Raises
    ConfigurationError, for NaN too."""
    if value is None:
        return None
    if not is_number(value):
        raise ConfigurationError(name, f"{shown(value)} is not a number of seconds, nor None (no limit)")
    return float(value) if value <= threading.TIMEOUT_MAX else None


def yes_or_no(name: str, value: Any) -> bool:
    """The truth value that the option ``name`` was given. Raises ConfigurationError for any other value: ``"no"`` would
    count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigurationError(name, f"{shown(value)} is neither True nor False")
    return bool(value)


def file_path(name: str, value: Any) -> Path:
    """The path that the option ``name`` was given. Raises ConfigurationError for what is none."""
    if not isinstance(value, str | os.PathLike):
        raise ConfigurationError(name, f"{shown(value)} is not a path")
    return Path(value)


def mapping(name: str, value: Any, example: str) -> Mapping[Any, Any]:
    """The dict that the option ``name`` was given. Raises ConfigurationError for what is none; ``example``: of one."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(name, f"{shown(value)} is not a dict like {example}")
    return value


def several(name: str, value: Any, example: str) -> list[Any]:
    """The values that the option ``name`` was given. Raises ConfigurationError for what is no list, as for one text;
    ``example``: of one."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ConfigurationError(name, f"{shown(value)} is not a list like {example}")
    return list(value)


def text(name: str, value: object) -> str:
    """Text. Raises ConfigurationError, naming the argument."""
    if not isinstance(value, str):
        raise ConfigurationError(name, f"{shown(value)} is not text")
    return value


def callable_of(name: str, value: Any) -> Any:
    """The function that the option ``name`` was given. Raises ConfigurationError for what cannot be called."""
    if not callable(value):
        raise ConfigurationError(name, f"{value!r} cannot be called")
    return value


def unit_power(name: str, unit: object) -> int:
    """The power of ten that a unit is: -3 for ``"0.001"``. Raises ConfigurationError, which names the option."""
    try:
        number = Decimal(str(unit)) if isinstance(unit, str | int | float | Decimal) else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    if number.is_finite() and number > 0 and number.normalize().as_tuple().digits == (1,):
        power = number.adjusted()
        if MIN_UNIT <= power <= _MAX_UNIT:
            return power
    raise ConfigurationError(
        name, f"give a power of ten from 1e{MIN_UNIT} to 1e{_MAX_UNIT} as text, like '0.001'; not {unit!r}"
    )


def check_depth(data: bytes | bytearray | str) -> None:
    """Looks at the arrays and objects of JSON before a decoder does.

    A decoder that comes to the end of the stack first leaves no room for the finalizers of garbage that is collected
    meanwhile, and they fail. Raises ValueError for more than 400 within each other.
    """
    if len(data) <= _MOST_DEEP:
        return
    text = data.encode("utf-8", "replace") if isinstance(data, str) else data
    if text.count(b"[") + text.count(b"{") <= _MOST_DEEP:
        return
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = text.translate(None, _NO_MARKS).replace(b'""', b"")  # most strings hold no mark: they fall out at once
    opens = np.isin(np.frombuffer(re.sub(rb'"[^"]*"?', b"", marks), np.uint8), (ord("["), ord("{")))
    if np.cumsum(np.where(opens, 1, -1)).max(initial=0) > _MOST_DEEP:
        raise ValueError(f"more than {_MOST_DEEP} arrays and objects are within each other")
