"""The guard of resources: it decides from measurements and the time alone which strands to hold back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.brief import written
from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import Number, Span, Whole, named_fields, option, read_options
from strand.policies.policy import Levels, Policy, give_policy, mark_bits
from strand.spans import SpanLike, span_ns, span_text
from strand.symbols import SymbolTable
from strand.validate import path


class Reading(NamedTuple):
    """Measurement at one moment; None for a value that is not measured. ``cpu``, ``memory`` and ``io_pressure`` are
    shares from 0 to 1, ``io_queue`` is a number of requests."""

    cpu: float | None = None
    memory: float | None = None
    io_pressure: float | None = None
    io_queue: float | None = None


_SHARE: Final = Number(0, 1, above=True, metavar="SHARE")


@named_fields
@dataclass(frozen=True, slots=True, repr=False)
class Guard:
    """Holds strands back while the machine, or the cgroup that limits this process, is short of something.

    A strand that is held back still rises (``Levels``), and goes on when it has left the levels that are held.
    docs/guard.md says more.

    Raises:
        ConfigurationError: If a share, number or span is out of bounds, ``every`` is above ``max_hold``, or the guard
            watches nothing.
    """

    cpu: float | None = option(
        0.8, _SHARE, "Share of the CPU time above which strands of level low wait.", unset="does not watch it"
    )
    memory: float | None = option(
        0.75,
        _SHARE,
        "Share of the memory above which only strands of the levels immediate and high go on.",
        unset="does not watch it",
        more='So do strands whose symbols are marked ``"frees_memory"`` (``marks=`` of the dispatcher).',
    )
    io_pressure: float | None = option(
        0.4,
        _SHARE,
        "Share of the last 10 s in which some task waited for I/O (the kernel's PSI) above which marked strands wait.",
        unset="does not watch it",
    )
    io_queue: int = option(
        100,
        Whole(1),
        "Requests that a disk has in flight above which strands marked io wait, where the system has no PSI.",
    )
    release: float = option(0.9, _SHARE, "A hold ends below this share of its threshold.")
    max_hold: SpanLike = option(
        "5min",
        Span(),
        "A hold ends after this time in any case.",
        more="It does not begin again before each strand that it held back has had its turn.",
    )  # kept in ns
    every: SpanLike = option("1s", Span(), "The time between two measurements.")  # likewise

    def __post_init__(self) -> None:
        faults = read_options(self)
        if self.cpu is self.memory is self.io_pressure is None:
            reason = "it watches nothing: give cpu, memory or io_pressure"
            faults.append(ConfigurationError("guard", reason))
        if not faults.has("every", "max_hold") and self.every_ns > self.max_hold_ns:
            reason = (
                f"{self.every_ns:,} ns is longer than max_hold ({self.max_hold_ns:,} ns), so a hold would last too "
                "long: give less"
            )
            faults.append(ConfigurationError("every", reason))
        faults.end()

    @property
    def max_hold_ns(self) -> int:
        """``max_hold`` in ns."""
        return span_ns("max_hold", self.max_hold)

    @property
    def every_ns(self) -> int:
        """``every`` in ns."""
        return span_ns("every", self.every)

    def __repr__(self) -> str:
        return written(self, span_text)

    def strains(self, reading: Reading) -> dict[str, float | None]:
        """Returns what was measured over its threshold, by resource (``"cpu"``, ``"memory"``, ``"io"``).

        A value is None if the resource is not watched, or was not measured.
        """
        strains = {"cpu": _over(reading.cpu, self.cpu), "memory": _over(reading.memory, self.memory)}
        if reading.io_pressure is None and self.io_pressure is not None:
            return strains | {"io": _over(reading.io_queue, self.io_queue)}
        return strains | {"io": _over(reading.io_pressure, self.io_pressure)}


def _over(value: float | None, threshold: float | None) -> float | None:
    return None if value is None or threshold is None else value / threshold


class Hold(NamedTuple):
    """State of the holds for a resource: the hold that is on, if any, and the counts so far.

    ``since_ns``: since when, None: they are not. ``in_round``: the last hold ended after ``max_hold``, and not all
    that it held back have had their turn since. ``begun`` holds, ``expired`` of them by ``max_hold``; ``held_ns``: how
    long those that are over lasted together."""

    since_ns: int | None = None
    in_round: bool = False
    begun: int = 0
    expired: int = 0
    held_ns: int = 0

    def held_until(self, now_ns: int) -> int:
        """Total time for which strands were held back, up to ``now_ns``, in ns."""
        return self.held_ns + (0 if self.since_ns is None else now_ns - self.since_ns)

    def ended(self, now_ns: int) -> Hold:
        """Same state with the hold over, if there is one."""
        return self._replace(since_ns=None, held_ns=self.held_until(now_ns))


def decide(guard: Guard, hold: Hold, strain: float | None, *, waits: bool, now_ns: int) -> Hold:
    """Returns the state after ``hold``. ``strain``: see ``Guard.strains``. ``waits``: a strand that the last hold held
    back has not had its turn since."""
    if hold.since_ns is not None:
        if strain is None or strain < guard.release:
            return hold.ended(now_ns)
        if now_ns - hold.since_ns >= guard.max_hold_ns:
            return hold.ended(now_ns)._replace(in_round=True, expired=hold.expired + 1)
        return hold
    if hold.in_round and waits:
        return hold
    if strain is not None and strain > 1:
        return hold._replace(since_ns=now_ns, in_round=False, begun=hold.begun + 1)
    return hold._replace(in_round=False) if hold.in_round else hold


def check_guard(guard: Guard | None, policy: Policy) -> None:
    """Raises ConfigurationError for a guard under a policy without levels."""
    if guard is not None and isinstance(policy, Policy) and not isinstance(policy, Levels):
        reason = f"{type(policy).__name__} has no levels that could be held back; {give_policy('levels')}"
        raise ConfigurationError("guard", reason)


def marks_of(
    guard: Guard | None, policy: Policy, table: SymbolTable, marks: Mapping[str, Any] | None
) -> npt.NDArray[np.uint8]:
    """The marks of each symbol as a set of bits, shape (n_symbols,). Raises what ``check_guard`` does,
    ConfigurationError for marks without a guard, and unknown ones; and UnknownSymbolError."""
    check_guard(guard, policy)
    found = np.zeros(len(table), np.uint8)
    if marks is None or marks == {}:
        return found
    if not isinstance(marks, Mapping):
        raise ConfigurationError("marks", f"{type(marks).__name__} is not a dict of marks by symbol")
    if guard is None:
        reason = "they are for a guard; give guard=strand.Guard(), in a file resource_limits, or leave them out"
        raise ConfigurationError("marks", reason)
    named = dict(marks)
    if "*" in named:
        found[:] = mark_bits("marks.*", named.pop("*"))
    for symbol, given in named.items():
        found[table.index(symbol)] = mark_bits(path("marks", symbol), given)
    return found
