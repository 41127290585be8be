"""The policy whose priorities grow with the wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import AGING_BY_LOAD, AGING_MAXIMUM, AGING_USUAL
from strand.dicts import FrozenDict
from strand.errors import ConfigurationError
from strand.options import ByName, Number, Span, Whole, named_fields, option, read_options
from strand.policies.policy import LEVELS, Policy
from strand.spans import SpanLike
from strand.validate import did_you_mean, is_whole, shown

__all__ = ["CLASSES", "CLASS_SHIFT", "RULES", "Aging"]

#: Classes, the highest first.
CLASSES: Final = ("urgent", "high", "normal")
#: Rules other than priority by which a strand may be taken, in the core's order.
RULES: Final = ("low_every", "max_wait")
#: Bounds of a coefficient, in points per second. The core's resolution is 2e-7 of the least one at 5 GHz.
_LEAST, _MOST = 0.001, 1_000_000.0
#: The core has the class in the upper bits.
CLASS_SHIFT: Final = 30


_COEFFICIENT: Final = Number(_LEAST, _MOST, "points per second")


def _class(name: str, given: Any) -> str:
    if given not in CLASSES:
        raise ConfigurationError(name, f"{shown(given)} is not a class: give urgent, high and normal")
    return str(given)


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Aging(Policy):
    """Drains the strand with the highest priority first, which grows with the wait.

    A priority is a base plus a coefficient for each second of waiting, in points. A wait counts since the strand was
    last listed as ready. A base is a whole number from -500,000,000 to 500,000,000; the bigger one comes first. It is 0
    unless ``priorities=`` of the dispatcher says otherwise.

    docs/policies.md says what holds across workers, and has the bound of a wait.

    Publishers never handle ticks themselves, as they do under Fifo where that is cheaper.

    Raises:
        ConfigurationError: If a value is out of these bounds, both ``coefficient`` and ``classes`` are given, or
            ``low_every`` without ``classes``. Also if ``classes`` are not these three.
    """

    core_name = "aging"
    usual_priority = AGING_USUAL

    coefficient: float | None = option(
        None,
        _COEFFICIENT,
        "Points that a strand gains per second of waiting.",
        unset="1",
        more="It is not given beside classes.",
        flag=None,
    )
    low_every: int | Literal["load"] | None = option(
        None,
        Whole(1, 1_000_000, "load", "N|load"),
        "After so many strands of higher classes, a worker takes the strand of class normal that has waited longest.",
        unset="never",
        more='``"load"`` makes that number 8 x ready strands of higher classes / ready strands of ``normal``, at least '
        "2 and at most 64.",
        flag=None,
    )
    classes: Mapping[str, float] | None = option(
        None,
        ByName(_COEFFICIENT, _class, "CLASS=COEFFICIENT"),
        "In place of coefficient, one for each of the classes urgent, high and normal.",
        unset="one coefficient for all",
        more="None is below that of a lower class. A priority is then a base (of class ``normal``), a class (with base "
        '0), or both: ``("urgent", 10)``.',
        flag="--class",
    )
    max_wait: SpanLike | None = option(
        None,
        Span(),
        "A strand that has waited longer comes before all that have not.",
        unset="no such bound",
        more="Of several, the one that has waited longest comes first.",
        flag=None,
    )  # kept in ns

    def __post_init__(self) -> None:
        faults = read_options(self)
        if self.classes is None:
            if self.coefficient is None:
                object.__setattr__(self, "coefficient", 1.0)
            if self.low_every is not None and not faults.has("low_every"):
                reason = "without classes there is no lowest class; give classes too"
                faults.append(ConfigurationError("low_every", reason))
        elif self.coefficient is not None and not faults.has("coefficient"):
            reason = "classes has one for each class; give either coefficient or classes"
            faults.append(ConfigurationError("coefficient", reason))
        if self.classes is not None and not faults.has("classes"):
            with faults.kept():
                object.__setattr__(self, "classes", _ordered(self.classes))
        faults.end()

    def core_options(self) -> dict[str, Any]:
        classes = {CLASSES[-1]: self.coefficient} if self.classes is None else self.classes
        coefficients = [classes[name] for name in reversed(CLASSES) if name in classes]
        return {
            "coefficient": (*coefficients, *[0.0] * (len(CLASSES) - len(coefficients))),
            "n_classes": len(coefficients),
            "low_every": AGING_BY_LOAD if self.low_every == "load" else self.low_every or 0,
            "max_wait_ns": self.max_wait or 0,
        }

    def priority_of(self, name: str, priority: Any) -> int:
        if is_whole(priority):
            return self._number(name, CLASSES[-1], priority)
        if self.classes is not None:
            cls, base = priority if isinstance(priority, tuple) and len(priority) == 2 else (priority, 0)
            if isinstance(cls, str) and is_whole(base):
                return self._number(name, cls, base)
        raise ConfigurationError(name, f"{shown(priority)} is not a priority: {self._cure(priority)}")

    def _number(self, name: str, cls: str, base: int) -> int:
        if cls not in CLASSES:
            what = "a level of Levels" if cls in LEVELS else "not a class"
            cure = did_you_mean(cls, CLASSES, after=" ")
            raise ConfigurationError(name, f"{shown(cls)} is {what}: {cure}{self._cure(cls)}")
        if not -AGING_MAXIMUM <= base <= AGING_MAXIMUM:
            reason = f"{base:,} is out of range: a base is from -500,000,000 to 500,000,000"
            raise ConfigurationError(name, reason)
        return ((len(CLASSES) - 1 - CLASSES.index(cls)) << CLASS_SHIFT) + self.usual_priority + int(base)

    def _cure(self, priority: Any) -> str:
        """Advice for a value that is no priority: the values to give instead."""
        if isinstance(priority, (float, np.floating)) and float(priority).is_integer():
            return f"give {int(priority)}, without a point"
        if self.classes is None:
            classes = ", or classes to Aging for priorities by name" if isinstance(priority, (str, tuple)) else ""
            return f"give a whole number, the bigger one comes first{classes}"
        return f"give a whole number, one of {', '.join(CLASSES)}, or both, like ('urgent', 10)"

    def of_strand(self, priorities: npt.NDArray[np.uint32]) -> int:
        return int(priorities.max())  # the highest class, and in it the biggest base


def _ordered(given: Mapping[str, float]) -> FrozenDict[str, float]:
    """The coefficients, the highest class first. Raises ConfigurationError."""
    if missing := [name for name in CLASSES if name not in given]:
        raise ConfigurationError("classes", f"{missing[0]!r} is missing: give urgent, high and normal")
    for higher, lower in pairwise(CLASSES):
        if given[higher] < given[lower]:
            reason = f"{higher!r} has {given[higher]:g}, less than {given[lower]:g} of the lower class {lower!r}"
            raise ConfigurationError("classes", reason)
    return FrozenDict({name: given[name] for name in CLASSES})
