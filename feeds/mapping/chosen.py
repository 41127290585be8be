"""Choice of a table's columns by options: the column of each field, and the keys of a profile for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strand.errors import ConfigurationError
from strand.feeds.mapping.rules import FieldRule, field_rule
from strand.feeds.mapping.scalars import PRICES, TIMES
from strand.feeds.mapping.units import PRICE_POWER
from strand.feeds.mapping.values import ACTIONS, NS_IN, ONLY_NS, SIDES, said_unit
from strand.ticks import FIELDS
from strand.validate import is_whole

__all__ = ["NOT_HERE", "Reading", "chosen_columns", "constant_rules"]

#: By the name of a bid's column: the tick's field that holds it.
_BID: Final = {"bid_price": "price", "bid_size": "size"}
_EXTRA: Final = ("symbol", *_BID, "ask_price", "ask_size")
#: Keys of a profile that are for columns of text alone.
NOT_HERE: Final = (
    "since", "digits", "undefined", "plus", "text", "later_of", "earlier_of", "signed", "running",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """Options for reading values: see ``ParquetFeed``. Units are given as powers of ten. ``price_power``: None where
    none was given; numbers are then in currency, but integers of a file of ticks in 1e-9. ``time_unit``: the unit of
    times that are integers; None: unknown. ``own``: the file holds ticks as strand writes them."""

    price_power: int | None = None
    size_power: int = 0
    time_unit: str | None = None
    time_zone: str | None = None
    rounds: bool = False
    undefined_nulls: bool = False
    own: bool = False

    def price_powers(self) -> tuple[int, int]:
        """The powers of ten that turn a column's numbers into a tick's price: for floats and decimals, and for
        integers."""
        if self.price_power is None:
            return PRICE_POWER, 0 if self.own else PRICE_POWER
        return PRICE_POWER + self.price_power, PRICE_POWER + self.price_power


def _as_of_a_column(field: str, value: Any) -> Any:
    """A constant as a profile has it: of a side or an action the letter that a column's word or code stands for."""
    words = {"side": SIDES, "action": ACTIONS}.get(field, {})
    text = chr(value) if is_whole(value) and 0 <= value < 256 else value
    found = words.get(text.strip().lower()) if isinstance(text, str) else None
    return value if found is None else found.decode()


def _rule_of(field: str, given: Mapping[str, Any], where: str, reading: Reading) -> FieldRule:
    """The rule of a table of keys; units that it does not give are those of all columns."""
    keys = dict(given)
    if field in TIMES and "empty" in keys:
        raise ConfigurationError(f"{where}.empty: leave it out: every row has to have its time")
    if "otherwise" in keys and "map" not in keys:
        raise ConfigurationError(f"{where}.otherwise: give map too: it is for what map does not list")
    if "constant" in keys:
        keys["constant"] = _as_of_a_column(field, keys["constant"])
    is_text = field in TIMES and (keys.get("unit") == "stamp" or "format" in keys)
    bare = field in TIMES and "unit" not in keys and reading.time_unit is None and not is_text
    if field in TIMES and "unit" not in keys and not is_text:
        keys["unit"] = reading.time_unit or "ns"
    if field in PRICES and "unit" not in keys and reading.price_power is not None:
        keys["unit"] = f"1e{reading.price_power}"
    rule = field_rule(field, keys, where, reading.size_power, NOT_HERE)
    if "clock" in rule.unit and rule.format is not None:
        raise ConfigurationError(f"{where}.format: is a clock without its date: join the two columns in the table")
    if any(unit not in (*NS_IN, "stamp") for unit in rule.unit) or len(rule.unit) > 1:
        raise ConfigurationError(
            f"{where}.unit: give one of {', '.join(NS_IN)} for times that are whole numbers, or 'stamp' for text"
        )
    if bare:
        if isinstance(rule.constant, int) and 0 < rule.constant < ONLY_NS:
            cure = said_unit(rule.constant, "time_unit='UNIT'")
            raise ConfigurationError(f"{where}: {cure}")
        rule = replace(rule, unit=())
    if reading.own and field in PRICES and "unit" not in keys:  # as where a column alone is named
        rule = replace(rule, whole_power=-PRICE_POWER)
    return rule if "map" in keys else replace(rule, map=())


def constant_rules(
    columns: Mapping[str, Any], constants: Mapping[str, int | str | bytes], reading: Reading
) -> dict[str, FieldRule]:
    """The rules of fields that have one value for all rows. ``columns``: what is said of the others."""
    found: dict[str, FieldRule] = {}
    for field, value in constants.items():
        if columns.get(field) is not None:
            raise ConfigurationError(f"{field}: given both in columns and in constants")
        if field not in FIELDS or field == "instrument_id":
            raise ConfigurationError(f"constants: {field!r} is not a field that can have one value for all rows")
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        try:
            found[field] = _rule_of(field, {"constant": text}, f"constants.{field}", reading)
        except ConfigurationError as error:
            raise ConfigurationError(str(error).replace(".constant:", ":", 1)) from None
    return found


def chosen_columns(
    names: Sequence[str], columns: Mapping[str, Any], reading: Reading
) -> tuple[dict[str, str | None], dict[str, FieldRule]]:
    """The column of each field that was named, None for none, and the rules of those that have one."""
    fields = (*FIELDS, *_EXTRA)
    found: dict[str, str | None] = {}
    rules: dict[str, FieldRule] = {}
    for field, given in columns.items():
        if field not in fields:
            raise ConfigurationError(f"columns: there is no field {field!r}; there are {', '.join(fields)}")
        if field == "price" and given is not None and columns.get("ask_price") is not None:
            raise ConfigurationError("columns.price: with ask_price, give it as bid_price")
        if not isinstance(given, str | Mapping | None):
            raise ConfigurationError(f"columns.{field}: give a column's name, a table of keys or None, not {given!r}")
        place = _BID.get(field, field)
        wanted: Sequence[str] = (given,) if isinstance(given, str) else ()
        if isinstance(given, Mapping):
            if field in ("symbol", "instrument_id"):
                raise ConfigurationError(f"columns.{field}: give the name of a column, not {given!r}")
            rules[place] = _rule_of(field, given, f"columns.{field}", reading)
            wanted = rules[place].columns
        there = next((name for name in wanted if name in names), None)
        if wanted and there is None and not (place in rules and rules[place].optional):
            raise ConfigurationError(
                f"columns: there is no column {' or '.join(map(repr, wanted))} for {field}; there are "
                f"{', '.join(names)}"
            )
        found[place] = there
    return found, rules
