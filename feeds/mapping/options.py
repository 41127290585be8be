"""Types of the options of all readers of columns: their names for users are those of ``column_options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from strand.errors import ConfigurationError
from strand.feeds.base import Flags, TicksAre
from strand.feeds.mapping.columns import Reading
from strand.feeds.mapping.events import event_fields, with_last
from strand.feeds.mapping.rules import checked, names_of
from strand.validate import unit_power

#: End of an error about a row.
MEND: Final = (
    "mend it or its mapping; on_bad_record='skip' leaves such rows out, and a book that lacks an order is wrong"
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``columns``: fields and what ``Columns`` says of each. ``constants``: one value for all rows.
    ``inexact``: what is done with a number that is no whole number of units. ``time_unit``: of times that are integers,
    ``zone``: of those that name none. ``ticks``: what the ticks mean. ``flags``: masks of their flags by meaning.
    ``event``: what the ticks of an event have in common. ``nulls``: what a null is. ``unit_power`` checks units."""

    columns: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    inexact: Literal["raise", "round"] = "raise"
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    zone: str | None = None
    ticks: TicksAre | None = None
    flags: dict[str, int] | None = None
    event: str | list[str] = []
    nulls: Literal["raise", "undefined"] = "raise"
    on_bad_record: Literal["raise", "skip"] = "raise"

    @property
    def masks(self) -> Flags | None:
        """``flags``, where they are given."""
        return None if self.flags is None else Flags.of(self.flags)

    def ends_of(self, flags: Flags, known: bool) -> tuple[tuple[str, ...], Flags]:
        """The fields that the ticks of an event have in common (none: each tick is one), and the ticks' flags with the
        bit of its end. ``known``: the file says where events end.

        Raises:
            ConfigurationError: If ``event`` cannot be.
        """
        names = names_of(self.event)
        if names in ((), ("tick",), ("row",)):
            return (), flags
        if known or flags.last:
            raise ConfigurationError("event", "leave it out: the flags say where an event ends already")
        fields = event_fields(names, "event")
        return fields, with_last(flags, "event")

    def reading(self, price_unit: object, size_unit: object, *, own_size_power: int = 0, **more: Any) -> Reading:
        """The options for reading values. Raises ConfigurationError for a unit that is no power of ten."""
        given = {
            "price_power": None if price_unit is None else unit_power("price_unit", price_unit),
            "size_power": own_size_power if size_unit is None else unit_power("size_unit", size_unit),
            "time_unit": self.time_unit,
            "undefined_nulls": self.nulls == "undefined",
        }
        return Reading(own_size_power=own_size_power, zone=self.zone, rounds=self.rounds, **(given | more))

    @property
    def rounds(self) -> bool:
        return self.inexact == "round"

    @property
    def skips(self) -> bool:
        return self.on_bad_record == "skip"


def options_among(given: Mapping[str, Any]) -> Options:
    """The options of all readers of columns among the arguments of one, by name. Raises as ``check_options`` does."""
    return check_options(**{name: value for name, value in given.items() if name in Options.__struct_fields__})


def check_options(**given: Any) -> Options:
    """The options; None stands for one that is left out. Raises ConfigurationError, which names the option."""
    said = checked(Options, {name: value for name, value in given.items() if value is not None}, "")
    _ = said.masks
    return said
