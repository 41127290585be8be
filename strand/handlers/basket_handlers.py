"""Handlers that see the ticks of several symbols, in the order of publishing, and keep a row for each basket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from strand.brief import one_line, several
from strand.errors import ConfigurationError, PlaceError, UnknownSymbolError
from strand.fixed import dataclass
from strand.handlers.base import BindContext, Shape, SingleHandler
from strand.handlers.compiled.called_again import PlainFields, PlainOutputs, PlainRow
from strand.handlers.compiled.handlers import CompiledHandler, arguments_of
from strand.handlers.context import Call, Context, FailedOnTick, SymbolFunctions, as_ticks, as_trades
from strand.handlers.feed_trades import On, source_for
from strand.handlers.python_handlers import OBJECT_ROW, ObjectHandler, PythonHandler
from strand.handlers.shared_rows import Members, SharedObjects, SharedRows
from strand.handlers.state import Parameters, check_runs, name_of, output_dtypes, row_dtype
from strand.options import named_options
from strand.symbols import SymbolTable
from strand.validate import one_of, yes_or_no

#: Result of a function for a symbol.
BasketNames = str | Iterable[str] | None


@dataclass(frozen=True)
class Baskets:
    """Baskets as a user gives them: symbols by name of the basket, or a function of a symbol."""

    given: Mapping[str, tuple[str, ...]] | Callable[[str], BasketNames]
    _members: WeakKeyDictionary[SymbolTable, Members] = field(
        default_factory=WeakKeyDictionary, repr=False, compare=False
    )

    @classmethod
    def declared(cls, given: object) -> Baskets:
        """Raises ConfigurationError for what cannot be baskets."""
        if isinstance(given, Mapping):
            if not given:
                raise ConfigurationError("baskets", "there are none; give symbols by name: {'pair': ['AAPL', 'MSFT']}")
            return cls({_name(name): _symbols(name, symbols) for name, symbols in given.items()})
        if callable(given):
            return cls(given)
        raise ConfigurationError(
            "baskets",
            f"{type(given).__name__} is neither a dict of lists of symbols by name, nor a function of a symbol",
        )

    @property
    def described(self) -> dict[str, str]:
        """Number of baskets as text, and a digest of their names and members."""
        if not isinstance(self.given, Mapping):
            return {"baskets": "a function"}
        digest = blake2b(repr(list(self.given.items())).encode())
        return {"baskets": f"{len(self.given):,}, {digest.hexdigest()[:16]}"}

    def members(self, handler: str, table: SymbolTable) -> Members:
        """Members of the baskets among a table's symbols; a function is called once for each. ``handler``: its name.

        Raises UnknownSymbolError for a symbol that the table does not have, and ConfigurationError for what a function
        may not return."""
        found = self._members.get(table)
        if found is None:
            by_name = self._by_name(handler, table) if isinstance(self.given, Mapping) else self._asked(handler, table)
            found = self._members[table] = Members.of(by_name, len(table))
        return found

    def check_learnt(self, handler: str, table: SymbolTable, known: int) -> None:
        """Checks symbols from the index ``known`` on, which have just got names. Raises ConfigurationError where one of
        these symbols has a basket, since its strand is settled by then, and is another one."""
        if isinstance(self.given, Mapping):
            return
        for key in range(known, table.n_named):
            if table.has_name(key) and _names(handler, table.name(key), self.given):
                raise ConfigurationError(
                    "baskets",
                    f"the feed named {table.name(key)!r} after the run had begun, too late for a basket: give the "
                    "baskets as a dict, or a feed that names its symbols at its beginning",
                    where=f"handler {handler!r}",
                )

    def _by_name(self, handler: str, table: SymbolTable) -> dict[str, list[int]]:
        assert isinstance(self.given, Mapping)
        found = {}
        for name, symbols in self.given.items():
            try:
                found[name] = [table.index(symbol) for symbol in symbols]
            except UnknownSymbolError as error:
                raise UnknownSymbolError(f"handler {handler!r}: basket {name!r}: {error}") from None
        return found

    def _asked(self, handler: str, table: SymbolTable) -> dict[str, list[int]]:
        assert not isinstance(self.given, Mapping)
        found: dict[str, list[int]] = {}
        for key in table.named or range(len(table)):
            for name in _names(handler, table.name(key), self.given):
                found.setdefault(name, []).append(key)
        if not found:
            raise ConfigurationError(
                "baskets", "the function returns no basket for any symbol", where=f"handler {handler!r}"
            )
        return found


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError("baskets", f"{name!r} is not a name: give text")
    return name


def _symbols(name: str, symbols: object) -> tuple[str, ...]:
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise ConfigurationError("baskets", f"{name!r}: {symbols!r} is not a list of symbols")
    found = tuple(symbols)
    if not found:
        raise ConfigurationError("baskets", f"{name!r} has no symbols")
    for at, symbol in enumerate(found):
        if not isinstance(symbol, str):
            raise ConfigurationError("baskets", f"{name!r}: {symbol!r} is not a symbol's name: give text")
        if symbol in found[:at]:
            raise ConfigurationError("baskets", f"{name!r} has {symbol!r} twice")
    return found


def _names(handler: str, symbol: str, function: Callable[[str], BasketNames]) -> tuple[str, ...]:
    """Names of the baskets that a function returns for a symbol."""
    said = function(symbol)
    names = () if said is None else (said,) if isinstance(said, str) else said
    returned, where = f"the function returned {said!r} for {symbol!r}", f"handler {handler!r}"
    if not isinstance(names, Iterable):
        raise ConfigurationError(
            "baskets", f"{returned}: return a basket's name, a list of names, or None", where=where
        )
    found = tuple(names)
    for at, name in enumerate(found):
        if not isinstance(name, str) or not name:
            raise ConfigurationError("baskets", f"{returned}: {name!r} is not a name: return text", where=where)
        if name in found[:at]:
            raise ConfigurationError("baskets", f"{returned}: {name!r} is in it twice", where=where)
    return found


def _check_arguments(
    name: str,
    function: Callable[..., Any],
    given: Collection[str],
    *,
    declared: Collection[str] = (),
    undeclared: Collection[tuple[str, str]] = (),
    skip: int = 0,
) -> None:
    """Checks a function's arguments. Raises ConfigurationError for an argument that is not ``given`` to it, or that it
    ``declared`` and leaves out.

    ``undeclared``: an argument, and the keyword that would declare it; ``skip``: arguments before those by name.
    """
    check_runs(name, function)
    taken = arguments_of(function)[skip:]
    for argument, keyword in undeclared:
        if argument in taken:
            raise ConfigurationError(
                keyword, f"give {keyword}= to declare what its argument {argument} is", where=f"handler {name!r}"
            )
    if strange := [argument for argument in taken if argument not in given]:
        raise ConfigurationError(
            f"handler {name!r}: it takes {strange[0]!r}; a basket handler's arguments are {', '.join(given)}, by name"
        )
    if missing := [argument for argument in declared if argument not in taken]:
        raise ConfigurationError(f"handler {name!r}: it has no argument {missing[0]!r}, which it was declared to have")


_METHODS: Final = ("on_start", "on_tick", "on_trade", "on_finish", "on_stop")
#: In place of a basket's number: a symbol has none, or several.
_NONE, _SEVERAL = -1, -2


class BasketContext:
    """Context of one basket for a handler that Python runs.

    ``name``: the basket's, ``index``: its place among all baskets, ``symbols``: the names of its members, ``row``: its
    row, ``rows``: its members' rows, ``params``: their parameters (None without), all three by member. ``after``: after
    other handlers in a chain, by their names, the row of each right after a tick: for a function an array with one for
    each tick in hand, for an object that of the tick in hand. ``log``: a logger.
    """

    __slots__ = (
        "_places", "_strand", "after", "handler", "index", "log", "name", "params", "row", "rows", "symbols",
    )  # fmt: skip

    def __init__(self, handler: str, memory: SharedRows, index: int, of_strand: Context, names: Sequence[str]) -> None:
        keys, params = memory.members.keys[index], of_strand.params_of
        self.handler = handler
        self.name = memory.members.names[index]
        self.index = index
        self.symbols = tuple(names[key] for key in keys)
        self.row = memory.rows[index]
        self.rows = tuple(of_strand.row_of(key) for key in keys)
        self.params = None if params is None else tuple(params[key] for key in keys)
        self.after: Mapping[str, Any] = {}
        self.log = logging.LoggerAdapter(logging.getLogger(f"strand.handlers.{handler}"), {"basket": self.name})
        self._strand = of_strand
        #: Of the ticks in hand, in the batch.
        self._places: npt.NDArray[np.intp] = np.empty(0, np.intp)

    def emit(self, records: Any, at: Any = None, output: str | None = None) -> None:
        """Emits records on behalf of ticks in hand, as ``Context.emit``; ``at``: their places among the ticks, or
        trades, that the handler was called with. An object leaves it out. At the end of a run it is on behalf of the
        end."""
        if self._strand.now is not None:
            self._strand.emit(records, None, output)
            return
        n = len(self._places)
        places = np.asarray(0 if at is None and n == 1 else at)
        if places.dtype.kind not in "iu" or np.any((places < 0) | (places >= n)):
            raise PlaceError(f"at: {at!r} is not a place in a batch of {n} ticks: places count from 0")
        self._strand.emit(records, self._places[places], output)

    def __repr__(self) -> str:
        return one_line(f"<BasketContext of {self.handler} for {self.name}>")


class _Plain:
    """The function of a compiled handler, which Python runs as it is for one basket."""

    def __init__(self, handler: CompiledHandler) -> None:
        self._handler = handler

    def on_start(self, ctx: BasketContext) -> None:
        handler = self._handler
        self._call, self._names = handler.on_tick, arguments_of(handler.on_tick)
        self._rows = [PlainRow(row, partial(_before, ctx)) for row in ctx.rows]
        self._params = [None] * len(ctx.rows) if ctx.params is None else [PlainFields(each) for each in ctx.params]
        self._given: dict[str, Any] = {
            "basket": PlainFields(ctx.row),
            "index": ctx.index,
            "emit": PlainOutputs(ctx.emit, handler.outputs),
        }

    def run(self, tick: Any, member: int) -> None:
        """``on_tick`` or ``on_trade``."""
        of_call = {"tick": tick, "trade": tick, "member": member}
        given = self._given | of_call | {"row": self._rows[member], "params": self._params[member]}
        self._call(*[given[name] for name in self._names])


def _before(ctx: BasketContext, name: str) -> Any:
    """The record of a handler before it in the chain."""
    return ctx.after.get(name)


@dataclass(frozen=True, kw_only=True)
class BasketShape(Shape):
    """Shape of a handler with baskets: beside its symbol's row, its code is called with a basket's.

    ``state``: the dtype of a basket's row. ``counts``: the records that a symbol's row counts, since the user declared
    none; None: it counts nothing.
    """

    kind = "basket"
    plain = _Plain
    in_turn = False
    has_lines = False

    baskets: Baskets
    state: np.dtype[Any]
    counts: Literal["tick", "trade"] | None = None

    @property
    def brief(self) -> str:
        given = self.baskets.given
        return several(len(given), "basket") if isinstance(given, Mapping) else "baskets by a function"

    @property
    def described(self) -> dict[str, str]:
        return self.baskets.described

    @property
    def states(self) -> dict[str, np.dtype[Any]]:
        return {"basket": self.state}

    @property
    def words(self) -> list[object]:
        return [sorted(self.described.items()), self.state.descr, self.counts]

    @property
    def written(self) -> tuple[Callable[..., Any], ...]:
        return (self.baskets.given,) if callable(self.baskets.given) else ()

    def members(self, handler: str, table: SymbolTable) -> Members:
        return self.baskets.members(handler, table)

    def check_learnt(self, handler: str, table: SymbolTable, known: int) -> None:
        self.baskets.check_learnt(handler, table, known)

    def memory_in(self, handler: SingleHandler, context: BindContext) -> SharedRows:
        members = self.members(handler.name, context.table)
        rows = context.space.zeros(len(members.names), self.state)
        context.shared.append(SharedRows(handler.name, members, rows, handler.size_unit))
        return context.shared[-1]

    def functions_in(self, handler: Any, context: BindContext) -> Callable[[Context], SymbolFunctions]:
        memory = self.memory_in(handler, context)
        of_kind: Any = _functions_of_objects if isinstance(handler, ObjectHandler) else _functions_of_batches

        def functions_of(of_strand: Context) -> SymbolFunctions:
            of_strand.rows_of = partial(_rows_of, of_strand, memory)
            functions: SymbolFunctions = of_kind(handler, _Strand(handler.name, memory, of_strand, context.table))
            if self.counts is None:
                return functions
            return functions._replace(ticks=_counting(functions.ticks, of_strand, trades=self.counts == "trade"))

        return functions_of

    def check_again(self, handler: str) -> None:
        raise ConfigurationError(
            f"replay: handler {handler!r} has baskets, and the basket's row before the tick is not kept: stop before "
            "the tick, with strand.replay(until=...)"
        )


def _rows_of(of_strand: Context, memory: SharedRows, keys: Sequence[int]) -> list[Any]:
    """The rows of symbols that share a strand, and those of their baskets."""
    of_baskets = [row for row, members in zip(memory.rows, memory.members.keys, strict=True) if members[0] in keys]
    return [*map(of_strand.row_of, keys), *of_baskets]


def _counting(call: Call, context: Context, *, trades: bool) -> Call:
    """Counts the ticks that were handled in their symbols' rows; ``trades``: those that are trades."""

    def counting(ticks: npt.NDArray[Any]) -> None:
        handled = len(ticks)
        try:
            call(ticks)
        except FailedOnTick as error:
            handled = error.handled
            raise
        finally:
            keys = ticks[context.record_key][:handled]
            if trades:
                keys = keys[context.trades["size"][:handled] >= 0]
            for key, n in zip(*np.unique(keys, return_counts=True), strict=True):
                context.row_of(int(key))["ticks"] += n

    return counting


class _Strand:
    """The baskets of a strand, each from its first tick on, and the ticks of a batch by basket."""

    def __init__(self, handler: str, memory: SharedRows, context: Context, names: Sequence[str]) -> None:
        self.context = context
        self._handler = handler
        self._memory = memory
        self._names = names
        self._known: dict[int, BasketContext] = {}
        self.of_key = memory.members.of_key

    def basket(self, index: int) -> BasketContext:
        found = self._known.get(index)
        if found is None:
            found = BasketContext(self._handler, self._memory, index, self.context, self._names)
            self._known[index] = found
        return found

    @cached_property
    def _lookup(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Basket of each symbol, or a mark that it has none or several, and the symbol's place in it."""
        spans = self._memory.members.spans
        n = spans["end"].astype(np.int64) - spans["first"]
        basket = np.where(n == 1, spans["row"].astype(np.int64), np.where(n == 0, _NONE, _SEVERAL))
        return basket, spans["member"].astype(np.int64)

    def pieces(self, keys: npt.NDArray[Any]) -> Iterator[tuple[int, slice, npt.NDArray[np.int64]]]:
        """Stretches of ticks that one basket is given at a time, with the members they are of. The result is as if all
        baskets were given each tick in turn: a tick of several baskets is a stretch by itself."""
        if not len(keys):
            return
        of_key, member_of_key = self._lookup
        baskets = of_key[keys]
        cuts = np.flatnonzero((baskets[1:] != baskets[:-1]) | (baskets[1:] == _SEVERAL)) + 1
        start = 0
        for end in [*cuts.tolist(), len(keys)]:
            piece, basket = slice(start, end), int(baskets[start])
            if basket >= 0:
                yield basket, piece, member_of_key[keys[piece]]
            elif basket == _SEVERAL:
                for index, member in self.of_key(int(keys[start])):
                    yield index, piece, np.array([member])
            start = end


# ---- functions


def _functions_of_batches(handler: PythonHandler, strand: _Strand) -> SymbolFunctions:
    """Functions that call a handler's own with a batch of one basket's ticks, or trades."""
    on_ticks, of_trades, key = handler.on_ticks, handler.trades is not None, strand.context.record_key
    names, ticks_name = arguments_of(on_ticks), "trades" if of_trades else "ticks"

    def call(ticks: npt.NDArray[Any]) -> None:
        context = strand.context
        places = np.flatnonzero(context.trades["size"] >= 0) if of_trades else np.arange(len(ticks))
        records = context.trades[places] if of_trades else ticks
        records.flags.writeable = False
        for index, piece, members in strand.pieces(ticks[key][places]):
            basket = strand.basket(index)
            basket._places = places[piece]
            basket.after = {name: rows[basket._places] for name, rows in context.after.items()}
            given = {
                ticks_name: records[piece], "rows": basket.rows, "basket": basket.row, "members": members, "ctx": basket
            }  # fmt: skip
            try:
                on_ticks(*[given[name] for name in names])
            except BaseException as error:
                raise FailedOnTick(int(basket._places[0])) from error

    return SymbolFunctions(call)


# ---- objects


def _functions_of_objects(handler: ObjectHandler, strand: _Strand) -> SymbolFunctions:
    """Functions that call the objects of baskets. A basket has its object from its first tick on."""
    objects = SharedObjects("basket")
    calls: dict[int, tuple[BasketContext, Any, Any]] = {}
    has_trades = handler.trades is not None

    def bind(index: int) -> tuple[BasketContext, Any, Any]:
        basket = strand.basket(index)
        objects[basket.name] = thing = handler.factory()
        if hasattr(thing, "on_start"):
            thing.on_start(basket)
        calls[index] = basket, _method(thing, "on_tick"), _method(thing, "on_trade")
        return calls[index]

    def call(ticks: npt.NDArray[Any]) -> None:
        context = strand.context
        size = context.trades["size"] if has_trades else None
        i = 0
        try:
            for i, tick in enumerate(as_ticks(ticks)):
                for index, member in strand.of_key(tick.instrument_id):
                    basket, on_tick, on_trade = calls.get(index) or bind(index)
                    basket._places = np.array([i])
                    basket.after = {name: rows[i] for name, rows in context.after.items()}
                    row = basket.rows[member]
                    if on_tick is not None:
                        on_tick(tick, row, basket.row, member)
                    if on_trade is not None and size is not None and size[i] >= 0:
                        on_trade(next(as_trades(context.trades[i : i + 1])), row, basket.row, member)
        except BaseException as error:
            raise FailedOnTick(i) from error

    def finish() -> None:
        for index in sorted(calls):
            objects[calls[index][0].name].on_finish()

    return SymbolFunctions(call, finish=finish if handler.ends else None, object=objects)


def _method(thing: Any, name: str) -> Callable[..., None] | None:
    """A method of (tick, row, basket, member), whatever of these it takes."""
    found = getattr(thing, name, None)
    if found is None:
        return None
    places = [_GIVEN.index("tick" if each == "trade" else each) for each in arguments_of(found)]
    if places == list(range(len(_GIVEN))):
        method: Callable[..., None] = found
        return method
    if len(places) > 1:
        choose = itemgetter(*places)
        return lambda *given: found(*choose(given))
    return lambda *given: found(*(given[place] for place in places))


_GIVEN: Final = ("tick", "row", "basket", "member")


def _check_methods(name: str, cls: type) -> None:
    """Raises ConfigurationError where the objects of a class could not be called."""
    defined = [method for method in dir(cls) if method.startswith("on_")]
    if strange := [method for method in defined if method not in _METHODS]:
        raise ConfigurationError(
            f"handler {name!r}: {strange[0]!r} is never called for a basket; there are {', '.join(_METHODS)}"
        )
    if not {"on_tick", "on_trade"} & set(defined):
        raise ConfigurationError(f"handler {name!r}: it has neither on_tick nor on_trade")
    for method in ("on_tick", "on_trade"):
        if method in defined:
            given = {"tick" if method == "on_tick" else "trade", "row", "basket", "member"}
            _check_arguments(name, getattr(cls, method), given, skip=1)


@named_options("basket_handler()")
def basket_handler(
    *,
    baskets: Any,
    basket_state: Any,
    state: Any = None,
    params: Any = None,
    name: str | None = None,
    kind: Literal["compiled", "batch"] = "compiled",
    cache: bool = True,
    outputs: Mapping[str, Any] | None = None,
    on: On = "tick",
) -> Callable[[Callable[..., Any]], SingleHandler]:
    """Decorates a function, or a class, that sees the ticks of several symbols in the order of publishing.

    The decorated function or class has one of three forms:

    - A function, compiled by numba and called as ``on_tick(tick, row, basket)``. It takes by name, in any order, the
      arguments that it needs: ``tick`` (``trade`` with ``on="trade"``), ``row`` (the symbol's row) and ``basket`` (the
      basket's row). Others are ``member`` (the symbol's place in the basket, from 0), ``index`` (the basket's place
      among all), ``params`` (the symbol's) and ``emit``. A symbol of several baskets has a call for each, in the order
      of the baskets.
    - With ``kind="batch"``, a function that Python calls as ``on_ticks(ticks, rows, basket)``. ``ticks`` (``trades``)
      is an array of shape (n,) of the basket's records in order, read-only and valid during the call. ``rows`` are the
      members' rows, and ``basket`` is the basket's row. It may also take ``members``, shape (n,), the member of each
      record, and ``ctx``, a ``BasketContext``.
    - A class: each basket has an object, and Strand calls the methods that the class defines. They are
      ``on_start(ctx)``, and ``on_tick(tick, row, basket)`` and ``on_trade(trade, row, basket)``, both also with
      ``member``. ``on_finish()`` comes at the end of a run, when everything has been handled, and ``on_stop()`` when
      the run has ended, in whatever way. ``result.objects`` has the objects by the basket's name.

    The result has the baskets' rows as ``result.baskets``. There are no timers.

    Args:
        baskets: A dict of lists of symbols by the basket's name. Or a function of a symbol that returns its basket's
            name, a list of names, or None. Symbols of a basket share a strand, and so do baskets that have a symbol in
            common; other baskets run in parallel. Symbols without a basket are skipped.
        basket_state: The row of each basket, declared as the ``state`` of ``strand.handler``; it starts as zeros.
        state: The row of each symbol, declared as for ``strand.handler``; it starts as zeros. None: a row counts the
            ticks that the handler was called with.
        params: The parameters of each symbol, as for ``strand.handler``.
        name: The handler's name; None: that of the function or class.
        kind: ``"compiled"``, or ``"batch"`` for a function that Python calls.
        cache: Whether compiled code is kept on disk, as for ``strand.handler``.
        outputs: The dtypes of the records it emits, by name, as for ``strand.handler``.
        on: ``"tick"``, or ``"trade"`` for a function that is called with trades.

    Raises:
        ConfigurationError: If the baskets, a row, an option or the arguments of the function or methods cannot work.
            When a dispatcher is made: if the function does not compile.
        UnknownSymbolError: When a dispatcher is made: if the feed does not have a symbol of a basket.
        MissingExtraError: When a dispatcher is made: if numba is not installed.
    """
    one_of("kind", kind, ("compiled", "batch"))
    yes_or_no("cache", cache)
    common: dict[str, Any] = {
        "state": OBJECT_ROW if state is None else row_dtype(state),
        "params": Parameters.declared(params),
        "outputs": output_dtypes(outputs),
    }
    shape = BasketShape(
        state=row_dtype(basket_state, "basket_state"),
        baskets=Baskets.declared(baskets),
        counts=on if state is None else None,
    )
    source = source_for(on)

    def wrap(function: Callable[..., Any]) -> SingleHandler:
        called = name_of(function, name)
        if isinstance(function, type):
            _check_methods(called, function)
            trades = source_for("trade" if hasattr(function, "on_trade") else "tick")
            counting = replace(shape, counts="tick" if state is None else None)
            return ObjectHandler(name=called, factory=function, trades=trades, shape=counting, **common)
        if kind == "batch":
            _check_arguments(called, function, (f"{on}s", "rows", "basket", "members", "ctx"))
            return PythonHandler(name=called, on_ticks=function, trades=source, shape=shape, **common)
        both = {"params": ("params", params), "emit": ("outputs", outputs)}
        _check_arguments(
            called,
            function,
            (on, "row", "basket", "member", "index", "params", "emit"),
            declared=[argument for argument, (_, given) in both.items() if given],
            undeclared=[(argument, keyword) for argument, (keyword, given) in both.items() if not given],
        )
        return CompiledHandler(name=called, on_tick=function, cache=cache, trades=source, shape=shape, **common)

    return wrap
