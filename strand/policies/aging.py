"""The policy whose priorities grow with the wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.binding.engine_config import AGING_BY_LOAD, AGING_MAXIMUM, AGING_USUAL
from strand.errors import ConfigurationError
from strand.options import named_fields
from strand.policies.policy import LEVELS, Policy
from strand.spans import SpanLike, span_ns
from strand.validate import Faults, did_you_mean, is_between, is_whole, whole

__all__ = ["CLASSES", "CLASS_SHIFT", "RULES", "Aging"]

#: Classes, the highest first.
CLASSES: Final = ("urgent", "high", "normal")
#: Rules other than priority by which a strand may be taken, in the core's order.
RULES: Final = ("low_every", "max_wait")
#: Bounds of a coefficient, in points per second. The core's resolution is 2e-7 of the least one at 5 GHz.
_LEAST, _MOST = 0.001, 1_000_000.0
#: The core has the class in the upper bits.
CLASS_SHIFT: Final = 30


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Aging(Policy):
    """Drains the strand with the highest priority first, which grows with the wait.

    A priority is a base plus a coefficient for each second of waiting, in points. A wait counts since the strand was
    last listed as ready. A base is a whole number from -500,000,000 to 500,000,000; the bigger one comes first. It is 0
    unless ``priorities=`` of the dispatcher says otherwise.

    docs/policies.md says what holds across workers, and has the bound of a wait.

    Publishers never handle ticks themselves, as they do under Fifo where that is cheaper.

    Args:
        coefficient: Points per second, from 0.001 to 1,000,000; 1 if neither it nor ``classes`` is given.
        low_every: After so many strands of a higher class (1 to 1,000,000), a worker takes the strand of class
            ``normal`` that has waited longest. ``"load"`` makes that number 8 x ready strands of higher classes / ready
            strands of ``normal``, at least 2 and at most 64.
        classes: In place of ``coefficient``, one for each of ``urgent``, ``high`` and ``normal``; none is below that of
            a lower class. A priority is then a base (of class ``normal``), a class (with base 0), or both: ``("urgent",
            10)``.
        max_wait: A strand that has waited longer comes before all that have not; of several, the one that has waited
            longest. ``"250us"`` or float seconds.

    Raises:
        ConfigurationError: If a value is out of these bounds, both ``coefficient`` and ``classes`` are given, or
            ``low_every`` without ``classes``. Also if ``classes`` are not these three.
    """

    core_name = "aging"
    usual_priority = AGING_USUAL

    coefficient: float | None = None
    low_every: int | Literal["load"] | None = None
    classes: Mapping[str, float] | None = None
    max_wait: SpanLike | None = None  # kept in ns

    def __post_init__(self) -> None:
        faults = Faults()
        with faults.of("coefficient"):
            if self.classes is None:
                given = 1.0 if self.coefficient is None else self.coefficient
                object.__setattr__(self, "coefficient", _coefficient("coefficient", given))
            elif self.coefficient is not None:
                raise ConfigurationError(
                    "coefficient: classes has one for each class; give either coefficient or classes"
                )
        with faults.of("classes"):
            if self.classes is not None:
                object.__setattr__(self, "classes", MappingProxyType(_classes(self.classes)))
        with faults.of("low_every"):
            if self.low_every is not None:
                self._check_low_every()
        with faults.of("max_wait"):
            if self.max_wait is not None:
                object.__setattr__(self, "max_wait", span_ns("max_wait", self.max_wait))
        faults.end()

    def _check_low_every(self) -> None:
        if self.classes is None:
            raise ConfigurationError("low_every: without classes there is no lowest class; give classes too")
        if isinstance(self.low_every, str):
            if self.low_every != "load":
                raise ConfigurationError(f"low_every: {self.low_every!r} is neither a whole number nor 'load'")
        else:
            object.__setattr__(self, "low_every", whole("low_every", self.low_every, 1, 1_000_000))

    def __hash__(self) -> int:  # a mapping has none
        return hash((self.coefficient, self.low_every, self.max_wait, *(self.classes or {}).values()))

    def __reduce__(self) -> tuple[Any, ...]:
        classes = None if self.classes is None else dict(self.classes)
        return type(self), (self.coefficient, self.low_every, classes, self.max_wait)

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
        raise ConfigurationError(f"{name}: {priority!r} is not a priority: {self._cure(priority)}")

    def _number(self, name: str, cls: str, base: int) -> int:
        if cls not in CLASSES:
            what = "a level of Levels" if cls in LEVELS else "not a class"
            cure = did_you_mean(cls, CLASSES, after=" ")
            raise ConfigurationError(f"{name}: {cls!r} is {what}: {cure}{self._cure(cls)}")
        if not -AGING_MAXIMUM <= base <= AGING_MAXIMUM:
            raise ConfigurationError(f"{name}: {base:,} is out of range: a base is from -500,000,000 to 500,000,000")
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


def _coefficient(name: str, value: Any) -> float:
    if not is_between(value, _LEAST, _MOST):
        raise ConfigurationError(
            f"{name}: {value!r} is not a coefficient: give points per second, from {_LEAST:g} to {_MOST:,.0f}"
        )
    return float(value)


def _classes(given: Any) -> dict[str, float]:
    """The coefficients, the highest class first."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"classes: {type(given).__name__} is not a dict of coefficients by class")
    for name in given:
        if name not in CLASSES:
            raise ConfigurationError(f"classes: {name!r} is not a class: give urgent, high and normal")
    missing = [name for name in CLASSES if name not in given]
    if missing:
        raise ConfigurationError(f"classes: {missing[0]!r} is missing: give urgent, high and normal")
    found = {name: _coefficient(f"classes: {name}", given[name]) for name in CLASSES}
    for higher, lower in pairwise(CLASSES):
        if found[higher] < found[lower]:
            raise ConfigurationError(
                f"classes: {higher!r} has {found[higher]:g}, less than {found[lower]:g} of the lower class {lower!r}"
            )
    return found
