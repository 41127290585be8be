"""Conditions and delays for another attempt at a failed task."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from strand.brief import written
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import Number, Span, Whole, named_fields, option, read_options
from strand.spans import SpanLike, span_ns, span_text

if TYPE_CHECKING:
    import random

TRANSIENT: Final = "transient"
BUSINESS: Final = "business"
SYSTEM: Final = "system"
_USUAL: Final[dict[str, tuple[type[BaseException], ...]]] = {
    TRANSIENT: (Exception, ConnectionError, TimeoutError),
    BUSINESS: (ValueError, TypeError, LookupError, PermissionError),
    SYSTEM: (MemoryError, OSError),
}

ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RetryPolicy:
    """Tries a task that raised again, by the kind of its error.

    A *transient* error may be over soon: the task goes to level ``retry`` after its backoff. A *system* error is one of
    the surroundings: an alert goes out at once, and the task goes one level up after its backoff. A *business* error
    would come again: the task fails, and a warning of the logger ``strand.tasks`` says so. A task that raised after its
    last retry becomes a dead letter. An error that is no ``Exception``, like SystemExit, is never tried again.

    Of all types listed, the nearest one among an error's classes decides. Unless they are listed otherwise, ValueError,
    TypeError, LookupError and PermissionError are business errors, and MemoryError and OSError system errors. All other
    Exceptions are transient, ConnectionError and TimeoutError too.

    Args:
        transient: An exception type or a tuple of them, kept as a tuple: transient errors.
        business: An exception type or a tuple of them, kept as a tuple with the usual ones: business errors.
        system: An exception type or a tuple of them, kept as a tuple: system errors.
        classify: Called with the error in place of the lists; returns one of the three words. A task whose ``classify``
            raises fails with that error.
        on_alert: Called with the future and the error in the worker. None: a line at level ERROR of the logger
            ``strand.tasks``.

    Raises:
        ConfigurationError: If a value is outside of its bounds, ``max_delay`` is below ``base_delay``, or something is
            no exception type or is listed twice.
    """

    max_retries: int = option(3, Whole(0, 1_000_000), "The number of retries.")
    base_delay: SpanLike = option(
        "1s",
        Span(),
        "The wait before the first retry.",
        more="Retry *n*, from 1, waits ``d = min(max_delay, base_delay * multiplier ** (n - 1))`` less a random part. "
        "So it waits between ``(1 - jitter) * d`` and ``d``, both included.",
    )  # kept in ns
    max_delay: SpanLike = option("60s", Span(), "The longest wait, not below base_delay.")  # kept in ns
    multiplier: float = option(2.0, Number(1, 1000), "The factor by which each further wait is longer.")
    jitter: float = option(0.5, Number(0, 1), "The greatest share of a wait that is drawn at random.")
    transient: ErrorTypes | None = None
    business: ErrorTypes | None = None
    system: ErrorTypes | None = None
    classify: Callable[[BaseException], str] | None = None
    on_alert: Callable[[Any, BaseException], object] | None = None

    def __post_init__(self) -> None:
        faults = read_options(self)
        if not faults.has("base_delay", "max_delay") and self.max_delay_ns < self.base_delay_ns:
            faults.append(ConfigurationError("max_delay", f"{self.max_delay_ns:,} ns is less than base_delay"))
        with faults.kept():
            self._list_types()
        for name in ("classify", "on_alert"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                faults.append(ConfigurationError(name, f"{getattr(self, name)!r} cannot be called"))
        faults.end()

    def __repr__(self) -> str:
        return written(self, span_text)

    def _list_types(self) -> None:
        """Completes the lists of types: a type that is listed for one kind leaves the defaults of the others. A list of
        business errors adds to its defaults."""
        given = {name: _types(name, getattr(self, name)) for name in _USUAL if getattr(self, name) is not None}
        listed = [kind for types in given.values() for kind in types]
        if again := [kind for kind in listed if listed.count(kind) > 1]:
            name = [name for name, types in given.items() if again[0] in types][-1]
            raise ConfigurationError(name, f"{again[0].__name__} is listed twice")
        for name, usual in _USUAL.items():
            kept = tuple(kind for kind in usual if kind not in listed)
            mine = given.get(name, kept)
            object.__setattr__(self, name, (*mine, *kept) if name == BUSINESS and name in given else mine)

    @property
    def base_delay_ns(self) -> int:
        """``base_delay`` in ns."""
        return span_ns("base_delay", self.base_delay)

    @property
    def max_delay_ns(self) -> int:
        """``max_delay`` in ns."""
        return span_ns("max_delay", self.max_delay)

    def kind_of(self, error: BaseException) -> str:
        """The kind of an error: ``"transient"``, ``"business"`` or ``"system"``.

        Args:
            error: The error.

        Raises:
            ConfigurationError: If ``classify`` returns another word.
            Exception: What ``classify`` raises.
        """
        if not isinstance(error, Exception):
            return BUSINESS
        if self.classify is not None:
            found = self.classify(error)
            if found not in _USUAL:
                raise ConfigurationError("classify", f"it returned {found!r}, which is not one of {', '.join(_USUAL)}")
            return found
        for kind in type(error).__mro__:
            for name in _USUAL:
                if kind in getattr(self, name):
                    return name
        return BUSINESS

    def delay_ns(self, retry: int, generator: random.Random) -> int:
        """Waiting time of a retry, in ns.

        Args:
            retry: The number of the retry, from 1.
            generator: Draws the random part.
        """
        base, longest = self.base_delay_ns, self.max_delay_ns
        # By logarithms first: a power of a float overflows, and one of integers takes for ever.
        if (retry - 1) * math.log(self.multiplier) >= math.log(longest / base):
            delay = longest
        else:
            delay = min(longest, int(base * self.multiplier ** (retry - 1)))
        least = delay - int(delay * self.jitter)
        return generator.randint(least, delay)


#: For a task that runs once, whatever policy its scheduler has: it fails as a task without a policy does.
ONCE: Final = RetryPolicy(max_retries=0)


def _types(name: str, given: Any) -> tuple[type[BaseException], ...]:
    types = (given,) if isinstance(given, type) else given
    if not isinstance(types, tuple):
        raise ConfigurationError(name, f"{given!r} is not a tuple of exception types")
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigurationError(name, f"{kind!r} is not an exception type")
    return types
