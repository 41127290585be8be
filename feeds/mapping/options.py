"""Types of the options of all readers of columns: their names for users are those of ``column_options``."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from strand.errors import ConfigurationError
from strand.feeds.base import Flags, TicksAre
from strand.feeds.mapping.rules import told

__all__ = ["MEND", "Options", "check_options"]

#: What an error about a row ends with.
MEND: Final = (
    "mend it or its mapping; on_bad_record='skip' leaves such rows out, and a book that lacks an order is wrong"
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """``columns``: fields and what ``Columns`` says of each. ``constants``: one value for all rows.
    ``inexact``: what is done with a number that is no whole number of units. ``time_unit``: of times that are integers,
    ``time_zone``: of those that name none. ``ticks``: what the ticks mean. ``flags``: masks of their flags by meaning.
    ``nulls``: what a null is. Units are checked by ``unit_power``."""

    columns: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    inexact: Literal["raise", "round"] = "raise"
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    time_zone: str | None = None
    ticks: TicksAre | None = None
    flags: dict[str, int] | None = None
    nulls: Literal["raise", "undefined"] = "raise"
    on_bad_record: Literal["raise", "skip"] = "raise"

    @property
    def masks(self) -> Flags | None:
        """``flags``, where they are given."""
        return None if self.flags is None else Flags.of(self.flags)

    @property
    def rounds(self) -> bool:
        return self.inexact == "round"

    @property
    def skips(self) -> bool:
        return self.on_bad_record == "skip"


def check_options(**given: Any) -> Options:
    """The options; None stands for one that is left out. Raises ConfigurationError, which names the option."""
    try:
        said = msgspec.convert({name: value for name, value in given.items() if value is not None}, Options)
        _ = said.masks
        return said
    except msgspec.ValidationError as error:
        raise ConfigurationError(told(Options, given, str(error), "")) from None
