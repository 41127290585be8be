"""Sources of a tick's fields among the columns of a table, and the conversion of rows to ticks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from strand.binding.columns import Field, value_ticks, whole
from strand.errors import ConfigurationError
from strand.feeds.base import Flags, TickBatch, TicksAre
from strand.feeds.mapping.rules import (
    KINDS,
    KINDS_OF_TEXT,
    LETTERS,
    NO_KIND,
    PLACES,
    PRICES,
    SIZES,
    TIMES,
    UNDEFINED,
    FieldRule,
    SymbolKeys,
    action_of,
    blank_tick,
    checked,
    field_rule,
    flags_of,
    kind_of,
    names_of,
    put,
)
from strand.feeds.mapping.values import (
    IDS,
    NS_IN,
    ONLY_NS,
    PRICE_POWER,
    PRICE_UNIT,
    TIME_UNIT,
    WORDS,
    Column,
    Target,
    TimeUnit,
    Values,
    defined,
    either,
    ids,
    integers,
    letters,
    mapped,
    plain_letters,
    plain_map,
    plain_numbers,
    plain_times,
    said_unit,
    scaled,
    times,
    unusable,
)
from strand.fixed import dataclass
from strand.ticks import FIELDS, KIND_QUOTE, MAX_SEQUENCE, UNDEF_PRICE, empty, limits, picked
from strand.validate import is_whole

#: By the name of a bid's column: the tick's field that holds it.
_BID: Final = {"bid_price": "price", "bid_size": "size"}
_EXTRA: Final = ("symbol", *_BID, "ask_price", "ask_size")
#: Keys of a profile that are for columns of text alone.
NOT_HERE: Final = (
    "since", "digits", "undefined", "plus", "later_of", "earlier_of", "running", "both_sides",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """Options for reading values: see ``ParquetFeed``. Units are given as powers of ten. ``price_power``: None where
    none was given; numbers are then in currency, but integers of a file of ticks in 1e-9. ``size_power``: of the ticks'
    sizes, ``own_size_power``: of the columns'. ``time_unit``: the unit of times that are integers; None: unknown.
    ``own``: the file holds ticks as strand writes them."""

    price_power: int | None = None
    size_power: int = 0
    own_size_power: int = 0
    time_unit: str | None = None
    zone: str | None = None
    rounds: bool = False
    undefined_nulls: bool = False
    own: bool = False

    def in_units(self, rule: FieldRule) -> FieldRule:
        """A rule whose column has the units of all columns."""
        if rule.field in SIZES:
            return replace(rule, power=self.own_size_power)
        if rule.field not in PRICES:
            return rule
        whole_power = -PRICE_POWER if self.own and self.price_power is None else None
        return replace(rule, power=self.price_power or 0, whole_power=whole_power)


def _as_of_a_column(field: str, value: Any) -> Any:
    """A constant as a profile has it: of a side or an action the letter that a code stands for."""
    return chr(value) if field in WORDS and is_whole(value) and 0 <= value < 256 else value


def _rule_of(field: str, given: Mapping[str, Any], where: str, reading: Reading) -> FieldRule:
    """The rule of a table of keys; units that it does not give are those of all columns."""
    keys = dict(given)
    if field in TIMES and "empty" in keys:
        raise ConfigurationError(f"{where}.empty", "leave it out: every row has to have its time")
    if "otherwise" in keys and "map" not in keys:
        raise ConfigurationError(f"{where}.otherwise", "give map too: it is for what map does not list")
    if "constant" in keys:
        keys["constant"] = _as_of_a_column(field, keys["constant"])
    is_text = field in TIMES and (keys.get("unit") == "stamp" or "format" in keys)
    bare = "unit" not in keys
    if field in TIMES and bare and not is_text:
        keys["unit"] = reading.time_unit or "ns"
    if field in PRICES and bare and reading.price_power is not None:
        keys["unit"] = f"1e{reading.price_power}"
    rule = field_rule(field, keys, where, reading.size_power, NOT_HERE)
    if "clock" in rule.unit and rule.format is not None:
        raise ConfigurationError(f"{where}.format", "is a clock without its date: join the two columns in the table")
    if any(unit not in (*NS_IN, "stamp") for unit in rule.unit) or len(rule.unit) > 1:
        raise ConfigurationError(
            f"{where}.unit", f"give one of {', '.join(NS_IN)} for times that are whole numbers, or 'stamp' for text"
        )
    if bare:
        rule = reading.in_units(rule)
    if bare and field in TIMES and reading.time_unit is None and not is_text:
        if isinstance(rule.constant, int) and 0 < rule.constant < ONLY_NS:
            cure = said_unit(rule.constant, "time_unit='UNIT'")
            raise ConfigurationError(where, f"{cure}")
        rule = replace(rule, unit=())
    return rule if "map" in keys else replace(rule, map=())


def constant_rules(
    columns: Mapping[str, Any], constants: Mapping[str, int | str | bytes], reading: Reading
) -> dict[str, FieldRule]:
    """The rules of fields that have one value for all rows. ``columns``: what is said of the others."""
    found: dict[str, FieldRule] = {}
    for field, value in constants.items():
        if columns.get(field) is not None:
            raise ConfigurationError(field, "given both in columns and in constants")
        place = _BID.get(field, field)
        if place not in (*FIELDS, *PLACES) or field == "instrument_id":
            raise ConfigurationError("constants", f"{field!r} is not a field that can have one value for all rows")
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        try:
            found[place] = _rule_of(field, {"constant": text}, f"constants.{field}", reading)
        except ConfigurationError as error:
            raise error.at(error.field.removesuffix(".constant")) from None
    return found


def joined_columns(given: Any) -> tuple[str, ...]:
    """The columns whose texts make a symbol; empty where there is one. Raises ConfigurationError."""
    if not isinstance(given, Mapping):
        return ()
    where, others = "columns.symbol", ("column", "instrument", "file_name", "constant")
    if not given.get("join"):
        raise ConfigurationError(where, f"give the name of a column, or join: those of its parts, not {given!r}")
    return names_of(checked(SymbolKeys, given, where, but=others).join)


def chosen_columns(
    names: Sequence[str], columns: Mapping[str, Any], reading: Reading
) -> tuple[dict[str, str | None], dict[str, FieldRule]]:
    """The column of each field that was named, None for none, and the rules of those that have one."""
    fields = (*FIELDS, *_EXTRA)
    found: dict[str, str | None] = {}
    rules: dict[str, FieldRule] = {}
    for field, given in columns.items():
        if field not in fields:
            raise ConfigurationError("columns", f"there is no field {field!r}; there are {', '.join(fields)}")
        if field == "price" and given is not None and columns.get("ask_price") is not None:
            raise ConfigurationError("columns.price", "with ask_price, give it as bid_price")
        if not isinstance(given, str | Mapping | None):
            raise ConfigurationError(
                f"columns.{field}", f"give a column's name, a table of keys or None, not {given!r}"
            )
        place = _BID.get(field, field)
        wanted: Sequence[str] = (given,) if isinstance(given, str) else ()
        if field == "symbol" and isinstance(given, Mapping):
            wanted = next(((name,) for name in joined_columns(given) if name not in names), joined_columns(given)[:1])
        elif isinstance(given, Mapping):
            if field == "instrument_id":
                raise ConfigurationError(f"columns.{field}", f"give the name of a column, not {given!r}")
            rules[place] = _rule_of(field, given, f"columns.{field}", reading)
            wanted = rules[place].columns
        there = next((name for name in wanted if name in names), None)
        if wanted and there is None and not (place in rules and rules[place].optional):
            raise ConfigurationError(
                "columns",
                f"there is no column {' or '.join(map(repr, wanted))} for {field}; there are {', '.join(names)}",
            )
        found[place] = there
    return found, rules


#: Names that columns have, by the field they are taken for; the first one that a file has counts. Case does not.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "ts_event": ("ts_event", "event_time", "exchange_time", "exch_ts", "timestamp", "datetime", "time", "ts"),
    "ts_recv": ("ts_recv", "recv_time", "receive_time", "received_at", "local_timestamp", "local_ts"),
    "symbol": ("symbol", "ticker", "raw_symbol", "instrument", "sym"),
    "instrument_id": ("instrument_id",),
    "price": ("price", "px", "last_price"),
    "size": ("size", "qty", "quantity", "volume", "amount", "shares"),
    "order_id": ("order_id", "orderid", "order_ref"),
    "sequence": ("sequence", "seq", "seq_num", "sequence_number"),
    "ref_id": ("ref_id", "match_id", "trade_id", "match_number"),
    "publisher_id": ("publisher_id",),
    "action": ("action",),
    "side": ("side", "aggressor_side"),
    "flags": ("flags",),
    "depth": ("depth", "level"),
    "kind": ("kind",),
}
#: A quote's columns, where there is no price.
QUOTE_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "price": ("bid_price", "bid_px", "bid_px_00", "bid", "best_bid"),
    "size": ("bid_size", "bid_sz", "bid_sz_00", "bid_qty", "bid_amount"),
    "ask_price": ("ask_price", "ask_px", "ask_px_00", "ask", "best_ask"),
    "ask_size": ("ask_size", "ask_sz", "ask_sz_00", "ask_qty", "ask_amount"),
}
_BARS: Final = frozenset(("open", "high", "low", "close"))
#: A unit at the end of a column's name, as in timestamp_ms.
_UNIT_IN_NAME: Final = re.compile(r"_(s|ms|us|ns|seconds|millis|micros|nanos)$", re.IGNORECASE)
_UNIT_WORDS: Final = {"s": "s", "ms": "ms", "us": "us", "ns": "ns", "seconds": "s", "millis": "ms", "micros": "us",
                      "nanos": "ns"}  # fmt: skip
_NULL: Final = "holds null; nulls='undefined' reads that as no value, but not in a time"
#: By a kind. Rows that make no tick have one too.
_ACTIONS: Final = np.full(256, ord("N"), np.uint32)
_ACTIONS[list(KINDS.values())] = [ord(action_of(kind)) for kind in KINDS.values()]
#: By the letter of an action.
_KINDS: Final = np.array([kind_of(bytes([letter])) for letter in range(256)], np.uint32)

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot become a tick: its index among those converted, the column (empty: none), and what is wrong."""

    index: int
    column: str
    problem: str

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.problem}" if self.column else self.problem


@dataclass(slots=True)
class Conversion:
    """Ticks of rows, and what was wrong in some rows.

    Attributes:
        ticks: One per row, shape (n,).
        bad: Mask of the rows that can be no tick; None: all can.
        first: The first of these.
        inexact: Mask of the rows in which a number was rounded; None: none was.
        left_out: Mask of the rows whose ``sequence`` no tick holds: they have their number. None: there is none.
        rows: The places of the rows, where some of those that were given make no ticks; None: all do.
    """

    ticks: TickBatch
    bad: Mask | None = None
    first: BadRow | None = None
    inexact: Mask | None = None
    left_out: Mask | None = None
    rows: Array | None = None

    def note(self, bad: Mask, column: str, why: str | Callable[[int], str], *, over: bool = False) -> None:
        """Adds bad rows, of which there is one or more. ``why``: what is wrong with the first one, or a function that
        says it of a row. ``over``: in a row with other faults, this one is told."""
        self.bad = either(self.bad, bad)
        index = int(np.argmax(bad))
        if self.first is None or index < self.first.index + over:
            self.first = BadRow(index, column, why if isinstance(why, str) else why(index))

    def kept(self, skips: bool) -> Mask | None:
        """Mask of the rows whose ticks count: all good ones with ``skips``, else those before the first bad one. None:
        all rows."""
        if self.bad is None or self.first is None:
            return None
        return ~self.bad if skips else np.arange(len(self.bad)) < self.first.index

    def counts(self, within: Mask | None = None) -> dict[str, int]:
        """The numbers of such rows among those ``within``, by the names that statistics give them."""
        masks = {"rows_rounded": self.inexact, "sequences_left_out": self.left_out}
        return {
            name: int(np.count_nonzero(mask if within is None else mask & within))
            for name, mask in masks.items()
            if mask is not None
        }


class Assembly:
    """Ticks of fields, whatever columns or texts the fields come from: the one place of what a tick has that nothing
    gives.

    A row with one time has it for both. An action says the kind, or a kind the action; prices of both sides make a
    quote. A sequence is the row's number. A constant stands in place of a column.

    Args:
        constants: Fields of one value, as ticks hold it. Both sides of a quote have names of their own (``PLACES``).
        given: The other fields, which each call of ``ticks`` has values for.
    """

    def __init__(self, constants: Mapping[str, Any], given: Collection[str]) -> None:
        said = {*constants, *given}
        blank = blank_tick()
        for field, value in constants.items():
            put(blank, field, value)
        for time, other in (TIMES, TIMES[::-1]):
            if time in constants and other not in constants:
                blank[other] = constants[time]
        if "kind" in constants and "action" not in constants:
            blank["action"] = action_of(int(constants["kind"]))
        elif "kind" not in said and "ask_price" in said:
            blank["kind"], blank["side"] = KIND_QUOTE, b"N"
        elif "kind" not in said and "action" in constants:
            blank["kind"] = _KINDS[blank["action"].view(np.uint8)]
        self._blank, self._constants = blank, dict(constants)
        self._kind_by_action = not said & {"kind", "ask_price"}

    def ticks(
        self, rows: range | npt.NDArray[np.uint64], keys: npt.NDArray[np.uint32] | None, read: Mapping[str, Field]
    ) -> tuple[TickBatch, int]:
        """Ticks of rows, and how many of them are good: up to the first row for which a field has no value.

        Args:
            rows: The rows' numbers in the file, from 1.
            keys: Each row's ``instrument_id``, shape (n,); None: 0.
            read: The values of each field.
        """
        fields = {PLACES.get(field, field): found for field, found in read.items()}
        if (moments := fields.get("ts_recv", fields.get("ts_event"))) is not None:
            fields = {"ts_event": moments, "ts_recv": moments, **fields}
        if keys is not None:
            fields["instrument_id"] = whole(keys)
        if not isinstance(rows, range):
            fields.setdefault("sequence", whole(rows))
        if self._kind_by_action and "action" in fields:
            fields["kind"] = fields["action"].through(_KINDS)
        elif "kind" in fields and "action" not in fields:
            fields["action"] = fields["kind"].through(_ACTIONS)
        fields = {field: found for field, found in fields.items() if field not in self._constants}
        ticks, good = value_ticks(self._blank, int(rows[0]) if len(rows) else 1, len(rows), fields)
        if "sequence" in self._constants:
            ticks["sequence"] = self._constants["sequence"]
        return ticks, good


def columns_of(
    names: Sequence[str],
    columns: Mapping[str, Any],
    constants: Mapping[str, int | str | bytes],
    reading: Reading,
) -> Columns:
    """The columns that a file's ticks are made of, by what the user says and by their names.

    ``columns`` maps fields to columns, to tables of a profile's keys (``NOT_HERE`` are for text alone), or to None to
    leave a field out; what it does not name is recognised by ``ALIASES``. ``constants``: one value for all rows, prices
    and sizes in natural units. Raises ConfigurationError for a field, column or key that there is not.
    """
    chosen, rules = chosen_columns(names, columns, reading)
    rules |= constant_rules(columns, constants, reading)
    given = {field for field, rule in rules.items() if rule.constant is not None}
    found = {field: _first_of(aliases, names, field in TIMES) for field, aliases in ALIASES.items()}
    if (found["price"] is None and "price" not in chosen) or "bid_price" in {*columns, *constants}:
        found |= {field: _first_of(aliases, names) for field, aliases in QUOTE_ALIASES.items()}
    if found["price"] is None and "price" not in {*chosen, *given} and {*map(str.lower, names)} >= _BARS:
        raise ConfigurationError(
            "columns",
            "name the price: the table has bars (open, high, low, close). To keep the bars, write them as CSV and read "
            "that by a profile with bars (docs/feeds/csv.md); to take their closes for trades, give "
            "columns={'price': 'close'} (--feed columns.price=close) and constants={'kind': 'trade'}",
        )
    if reading.own:
        found["symbol"] = None  # its keys and the names in its metadata replace the column
    found |= dict.fromkeys(given)
    found |= chosen
    of = {field: column for field, column in found.items() if column is not None}
    is_quote = "ask_price" in of or "ask_price" in given
    rules |= {
        field: reading.in_units(FieldRule(field, (column,)))
        for field, column in of.items()
        if field not in rules and field not in ("symbol", "instrument_id")
    }
    # Two fields may share a column only where that was asked for.
    for field, column in of.items():
        alike = [name for name in names if name.lower() == column.lower()]
        if field not in chosen and len(alike) > 1:
            key = _called(field, is_quote)
            raise ConfigurationError(
                f"columns.{key}",
                f"say which one it is, {' or '.join(map(repr, alike))}, by columns={{{key!r}: NAME}}",
            )
    side = next((one for one in PLACES if one in constants or columns.get(one) is not None), None)
    if side is not None and not is_quote:
        where = "columns" if columns.get(side) is not None else "constants"
        raise ConfigurationError(f"{where}.{side}", "name ask_price too: a quote has both")
    if is_quote and chosen.get("side") is not None and "kind" not in chosen and "kind" not in given:
        raise ConfigurationError("columns.side", "leave it out: a quote has both sides")
    _share(of, given, chosen)
    for rule in rules.values():
        if rule.signed and (rule.field != "size" or is_quote or chosen.get("side") or "side" in given):
            raise ConfigurationError(f"columns.{rule.field}.signed", "is for size, and only where no side is given")
        if rule.signed:
            of.pop("side", None)
    # Fields whose unit no option for the whole file changes.
    own_units = {_BID.get(each, each) for each, said in columns.items() if isinstance(said, Mapping) and "unit" in said}
    return Columns(of, rules, reading, own_units, joined_columns(columns.get("symbol")))


def _share(of: dict[str, str], constants: Collection[str], chosen: Mapping[str, str | None]) -> None:
    """Settles which field has a place that an id shares with a side of a quote: the one that was chosen."""
    for field, other in (("order_id", "ask_price"), ("ref_id", "ask_size")):
        if field in of and other in of:
            if field in chosen and other in chosen:
                raise ConfigurationError(
                    "columns", f"{field} and {other} share one place in a tick: give only one of them"
                )
            del of[field if other in chosen or field not in chosen else other]
        for one, second in ((field, other), (other, field)):
            if one in constants and second in of:
                raise ConfigurationError(
                    "constants",
                    f"{one} shares its place in a tick with {second}, which column {of[second]!r} holds; leave the "
                    f"constant out, or the column by columns={{{second!r}: None}}",
                )
            if one in constants and second in constants:
                raise ConfigurationError(
                    "constants", f"{one} and {second} share one place in a tick: give only one of them"
                )


def _called(field: str, is_quote: bool) -> str:
    """Name of a field in ``columns``."""
    return f"bid_{field}" if is_quote and field in ("price", "size") else field


class Columns:
    """The columns that ticks are made of: ``columns_of`` makes them as users say it, ``of_rules`` of a profile's rules.

    Args:
        of: The column of each field.
        rules: The rule of each field that has one, by column or constant.
        reading: Options for reading values.
        own_units: The fields whose unit no option for the whole file changes.
        joined: The columns whose texts make the symbol, where one does not.
    """

    def __init__(
        self,
        of: Mapping[str, str],
        rules: Mapping[str, FieldRule],
        reading: Reading,
        own_units: Collection[str],
        joined: Sequence[str] = (),
    ) -> None:
        self.joined = tuple(joined)
        self.of, self._rules, self._reading, self._own_units = dict(of), dict(rules), reading, own_units
        self.constants = {field: rule.constant for field, rule in rules.items() if rule.constant is not None}
        #: The column that receive times come from, if one does.
        self.time = None if "ts_recv" in self.constants else of.get("ts_recv", of.get("ts_event"))
        #: Whether a column or a constant gives a time, and a size.
        self.has_time, self.has_sizes = (
            any(field in of or field in self.constants for field in fields) for fields in (TIMES, SIZES)
        )
        every = list(of.values())
        #: The columns that make one field of letters each, and nothing else.
        self.letters = [name for field, name in of.items() if field in LETTERS and every.count(name) == 1]
        #: By time, the columns whose texts say what is added to it.
        self._plus = {field: rule.plus.columns for field, rule in rules.items() if rule.plus is not None}
        self.is_quote = "ask_price" in of or "ask_price" in self.constants
        signed = {"side"} if any(rule.signed for rule in rules.values()) else set()
        self._assembly = Assembly(self.constants, {*self.of, *signed})

    @classmethod
    def of_rules(
        cls, names: Sequence[str], rules: Iterable[FieldRule], constants: Mapping[str, FieldRule], reading: Reading
    ) -> Self:
        """Columns by the rules of a profile, with the user's constants in place of theirs. A column that is optional
        may be missing."""
        of: dict[str, str] = {}
        found: dict[str, FieldRule] = {}
        for rule in rules:
            field = _BID.get(rule.field, rule.field)
            column = next((each for each in rule.columns if each in names), None)
            if field not in constants and (rule.constant is not None or column is not None):
                found[field] = rule
                of |= {} if column is None else {field: column}
        return cls(of, found | dict(constants), reading, of)

    def flags_of(self, ticks: TicksAre | None) -> Flags:
        """The flags of ticks that mean ``ticks``, as far as the columns tell."""
        return flags_of((rule for field, rule in self._rules.items() if field in self.of or not rule.columns), ticks)

    @property
    def names(self) -> list[str]:
        """The columns to be read, each once."""
        added = [name for field in self.of.keys() & self._plus for name in self._plus[field]]
        return list(dict.fromkeys([*self.of.values(), *self.joined, *added]))

    @property
    def time_unit(self) -> str | None:
        """The unit of receive times that are whole numbers, if it is said."""
        unit = self._time_unit("ts_recv" if "ts_recv" in self.of else "ts_event")
        return unit.name if unit.is_said else None

    def assumes_prices(self, is_whole: Callable[[str], bool]) -> bool:
        """Tells whether prices are whole numbers of an unknown unit. ``is_whole``: of a column's name."""
        unsaid = self._reading.price_power is None and not self._reading.own
        return unsaid and any(
            is_whole(self.of[field]) and field not in self._own_units for field in PRICES if field in self.of
        )

    def convert(
        self,
        column: Callable[[str], Column],
        rows: range | npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
    ) -> Conversion:
        """Rows of a table as ticks. ``column`` gives a column by its name. ``rows``: the rows' numbers in the file,
        from 1. ``keys``: each row's ``instrument_id``.

        Raises TypeError, with the column and what is wrong, for a column whose type no value of the field can have.
        """
        of = {
            field: defined(column(name), self._rules[field].undefined)
            for field, name in self.of.items()
            if field not in ("symbol", "instrument_id")
        }
        if self.is_quote and "kind" not in self.of and "kind" not in self.constants:
            of.pop("side", None)  # a quote has both
        made, good = self._converted(of, column, rows, keys, {field: self._plain(field, of[field]) for field in of})
        if good < len(made.ticks):  # the functions that explain bad values read all columns
            made, _ = self._converted(of, column, rows, keys, {})
        return made

    def _converted(
        self,
        of: Mapping[str, Column],
        column: Callable[[str], Column],
        rows: range | npt.NDArray[np.uint64],
        keys: npt.NDArray[np.uint32],
        plain: Mapping[str, Field | None],
    ) -> tuple[Conversion, int]:
        """The ticks, and how many are good. ``plain``: columns that C reads without conversion."""
        made = Conversion(empty(0))
        read = {field: plain.get(field) or self._read(field, found, made) for field, found in of.items()}
        self._complete(read, column, made)
        if "sequence" in read and plain.get("sequence") is None:  # of a plain one C finds what no tick holds
            read["sequence"], made.left_out = held(read["sequence"], rows)
        made.ticks, good = self._assembly.ticks(rows, keys, read)
        return made, good

    def _complete(self, read: dict[str, Field], column: Callable[[str], Column], made: Conversion) -> None:
        """Adds to times what another column says, gives rows without one time the other, and takes the sides of sizes
        with a sign."""
        if "size" in read and self._rules["size"].signed:
            read["side"] = whole(sides_of(read["size"].values))
            read["size"] = whole(np.abs(read["size"].values))
        if not any(self._rules[time].empty or time in self._plus for time in TIMES if time in read):
            return
        found = {time: read[time].values for time in TIMES if time in read}
        for time in tuple(found):
            for name in self._plus.get(time, ()):
                added = mapped(column(name), dict(self._rules[time].plus.ns), None, time)  # type: ignore[union-attr]
                if isinstance(added, str):
                    raise TypeError(f"column {name!r} for {time} {added}")
                if added.bad is not None:
                    made.note(added.bad, name, added.explain)
                found[time] = found[time] + added.values
        read |= dict(zip(TIMES, map(whole, both_times(found.get("ts_event"), found.get("ts_recv"))), strict=True))

    def _plain(self, field: str, column: Column) -> Field | None:
        rule = self._rules[field]
        if field in TIMES:
            if rule.empty or rule.plus is not None:
                return None
            return (
                None if column.local and self._reading.zone is not None else plain_times(column, self._time_unit(field))
            )
        if rule.zero or rule.signed:
            return None
        if rule.map:
            return plain_map(column, dict(rule.map), rule.otherwise)
        if field in LETTERS:
            return plain_letters(column, None if self._reading.own else WORDS[field])
        return plain_numbers(column, self._target(rule))

    def _time_unit(self, field: str) -> TimeUnit:
        # A column that both times come from has its unit by either's keys.
        same = [time for time in TIMES if self.of.get(time) == self.of[field]]
        units = (unit for time in (field, *same) for unit in self._rules[time].unit if unit in NS_IN)
        said = next(units, self._reading.time_unit)
        if self._reading.own:  # whatever times they had
            return TimeUnit("ns", True, (1 << 63) - 1)
        if said is not None:
            return TimeUnit(said, True)
        named = _UNIT_IN_NAME.search(self.of[field])
        return TimeUnit(_UNIT_WORDS[named[1].lower()]) if named else TimeUnit()

    def _check_unit(self, field: str, column: Column, found: Values) -> None:
        """Raises TypeError, with the unit by which the dates make sense, for whole numbers whose unit nothing says."""
        unit = self._time_unit(field)
        bad = _wrong(found, True)
        if (
            unit.is_said
            or column.kind != "integer"
            or bad is None
            or not (bad := bad & (column.values < ONLY_NS)).any()
        ):
            return
        name = self.of[field]
        option = TIME_UNIT
        if len({self.of[time] for time in TIMES if time in self.of}) > 1:  # which may have units of their own
            option = f"columns={{{field!r}: {{'column': {name!r}, 'unit': 'UNIT'}}}}"
        doubt = f", although its name says {unit.name}" if unit.name is not None else ""
        number = int(column.values[int(np.argmax(bad))])
        raise TypeError(f"{said_unit(number, option)}: column {name!r} ({column.type}) for {field}{doubt}")

    def _target(self, rule: FieldRule) -> Target:
        unit = "unit={0!r} of the column" if rule.field in self._own_units else PRICE_UNIT
        target = rule.target(self._reading.size_power, unit, signs=True)
        return target._replace(highest=255) if rule.field == "kind" and self._reading.own else target

    def _read(self, field: str, column: Column, made: Conversion) -> Field:
        rule = self._rules[field]
        found = self._values(rule, column)
        if isinstance(found, str):
            raise TypeError(
                unusable(_called(field, self.is_quote), self.of[field], column.type, column.problem or found)
            )
        if field in TIMES:
            self._check_unit(field, column, found)
        if found.inexact is not None:
            made.inexact = either(made.inexact, found.inexact)
        undefined = self._reading.undefined_nulls
        bad = _wrong(found, rule.empty or (undefined and field not in TIMES))
        if bad is not None:
            nulls = np.zeros(len(bad), np.bool_) if found.nulls is None else found.nulls
            made.note(bad, self.of[field], lambda row: _NULL if nulls[row] else found.explain(row))
        values = _filled(field, found)
        if rule.zero:
            values = np.where(values == 0, UNDEF_PRICE, values)
        return whole(values)

    def _values(self, rule: FieldRule, column: Column) -> Values | str:
        """A column's values as the rule has them; else what is wrong with its type."""
        reading, field = self._reading, rule.field
        if rule.map:
            return mapped(column, dict(rule.map), rule.otherwise, field)
        if field in TIMES:
            same = [self._rules[time] for time in TIMES if self.of.get(time) == self.of[field]]
            pattern = next((one.format for one in same if one.format is not None), None)
            unit = self._time_unit(field)
            return times(column, unit, pattern=pattern, zone=reading.zone, rounds=reading.rounds)
        if field in LETTERS:
            return letters(column, None if reading.own else WORDS[field])
        if field == "kind" and column.kind in ("integer", "text") and not reading.own:
            return mapped(column, KINDS_OF_TEXT, None, field, NO_KIND)
        if field in IDS and column.words is not None:
            return ids(column, field, rule.text, empty=rule.empty)
        target = self._target(rule)
        if field == "sequence":
            target = target._replace(highest=limits("order_id")[1])  # of one that no tick holds, the row is sound
        is_scaled = field in PRICES or field in SIZES
        return scaled(column, target, rounds=reading.rounds) if is_scaled else integers(column, target)


def both_times(event: Array | None, recv: Array | None) -> tuple[Array, Array]:
    """The times of rows' events and receipts, of which at least one is given: a time that is missing, or 0, is the
    other one."""
    event, recv = recv if event is None else event, event if recv is None else recv
    assert event is not None
    assert recv is not None
    recv = np.where(recv == 0, event, recv) if (recv == 0).any() else recv
    return np.where(event == 0, recv, event) if (event == 0).any() else event, recv


def sides_of(sizes: Array) -> Array:
    """Sides that the signs of sizes give: below 0 is a sell."""
    return np.where(sizes < 0, b"A", np.where(sizes > 0, b"B", b"N"))


def is_filled(ticks: TickBatch) -> Mask:
    """Mask of the ticks that hold a value: a price, of either side for a quote, or a size."""
    quote = (ticks["kind"] == KIND_QUOTE) & (ticks["order_id"] != UNDEF_PRICE)
    found: Mask = (ticks["price"] != UNDEF_PRICE) | quote | ((ticks["kind"] != KIND_QUOTE) & (ticks["size"] != 0))
    return found


def woven(parts: Sequence[TickBatch], kept: Mask) -> tuple[TickBatch, npt.NDArray[np.int64]]:
    """Ticks of rows that make several each, row by row, and the row of each tick.

    Args:
        parts: The ticks of each part, one per row.
        kept: Which rows have which part, shape (rows, parts).
    """
    every = empty(kept.size).reshape(kept.shape)
    for place, ticks in enumerate(parts):
        every[:, place] = ticks
    rows = np.repeat(np.arange(len(kept)), kept.sum(axis=1))
    return picked(every.reshape(-1), kept.reshape(-1)), rows


def held(sequence: Field, rows: range | npt.NDArray[np.uint64]) -> tuple[Field, Mask | None]:
    """Sequences as ticks hold them: a row's number in place of one that none holds, and which rows that are."""
    beyond = sequence.values > MAX_SEQUENCE
    if not beyond.any():
        return sequence, None
    return whole(np.where(beyond, np.asarray(rows, np.uint64), sequence.values)), beyond


def _filled(field: str, found: Values) -> Array:
    """A field's values, with the field's undefined value in place of nulls."""
    if found.nulls is None:
        return found.values
    values = found.values.copy()
    values[found.nulls] = UNDEFINED.get(field, 0)
    return values


def _wrong(found: Values, undefined_nulls: bool) -> Mask | None:
    bad = found.bad if found.nulls is None or found.bad is None else found.bad & ~found.nulls
    wrong = either(bad, None if undefined_nulls else found.nulls)
    return wrong if wrong is not None and wrong.any() else None


def _first_of(aliases: Sequence[str], names: Sequence[str], may_have_unit: bool = False) -> str | None:
    by_lower = {name.lower(): name for name in reversed(names)}
    if may_have_unit:
        by_lower = {_UNIT_IN_NAME.sub("", name): by_lower[name] for name in by_lower} | by_lower
    return next((by_lower[alias] for alias in aliases if alias in by_lower), None)
