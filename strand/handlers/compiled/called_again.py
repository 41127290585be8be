"""Second call of a failed handler, in Python, with copies of its row and its tick.

A debugger can step through it, also through a function that numba has compiled.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import Tapes, TradeMaker, TradeSource
from strand.binding.memory import Space
from strand.brief import OURS, CodeLine
from strand.errors import ConfigurationError
from strand.handlers.context import Context
from strand.ticks import TRADE

if TYPE_CHECKING:
    from strand.handlers.state import Parameters
    from strand.symbols import SymbolTable


class Before(Protocol):
    """The input of a run, read again up to the tick that a handler failed on."""

    def ticks(self) -> Iterator[npt.NDArray[Any]]:
        """The symbol's ticks, in batches; the last one is the tick that failed."""

    def fails(self, handler: Any) -> bool:
        """Tells whether another handler that is called with the symbol's ticks fails by then, too."""

    def row_after(self, handler: Any) -> Any:
        """The row that another handler has right after that tick, shape (1,)."""

    def row_before(self, handler: Any) -> Any:
        """Row of the symbol right before the failed tick."""


class FailedCall(NamedTuple):
    """The call of a handler that failed: for which symbol, and copies of its row and tick, arrays of shape (1,).

    ``context`` and ``object`` are the symbol's own, where Python ran the handler. ``cause``: what Python raised.
    ``before``: None where the input cannot be read again. ``after``: by name the rows of those before it in a chain,
    each of shape (1,), as they were right after the tick. ``rehearses``: the run has not come to the tick yet, and the
    row is the one before it.
    """

    symbol: str
    key: int
    row: npt.NDArray[Any]
    tick: npt.NDArray[Any]
    table: SymbolTable
    context: Context | None = None
    object: Any = None
    cause: BaseException | None = None
    before: Before | None = None
    rehearses: bool = False
    after: Mapping[str, npt.NDArray[Any]] = MappingProxyType({})

    def params_of(self, handler: str, params: Parameters | None) -> Any:
        """The symbol's record of a handler's parameters; None where it has none."""
        return None if params is None else params.records(handler, self.table)[self.key]


class PlainFields:
    """A record as a compiled handler sees it: its fields are attributes. Numbers are Python's, so that a division by
    zero raises, as it does there; a write to a field is one into the record."""

    __slots__ = ("_record",)
    _record: Any

    def __init__(self, record: Any) -> None:
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._record[name]
        except (KeyError, ValueError):
            raise AttributeError(
                f"there is no field {name!r}; there are {', '.join(self._record.dtype.names)}"
            ) from None
        return (
            value
            if isinstance(value, np.ndarray)
            else PlainFields(value)
            if isinstance(value, np.void)
            else value.item()
        )

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        try:
            self._record[name] = value
        except OverflowError:
            raise OverflowError(
                f"{name}: {value} is beyond what {self._record.dtype[name]} holds; of a total, read its sizes in a "
                "coarser unit (size_unit)"
            ) from None

    __getitem__, __setitem__ = __getattr__, __setattr__

    def __repr__(self) -> str:
        return f"<record {self._record}>"


class PlainRow(PlainFields):
    """A row, with the rows of the handlers before it in a chain by their names. ``before`` gives the record of one, and
    None for a name that none has."""

    __slots__ = ("_before",)
    _before: Callable[[str], Any]

    def __init__(self, record: Any, before: Callable[[str], Any]) -> None:
        super().__init__(record)
        object.__setattr__(self, "_before", before)

    def __getattr__(self, name: str) -> Any:
        if name not in self._record.dtype.names and (record := self._before(name)) is not None:
            return PlainFields(record)
        return super().__getattr__(name)


class PlainOutputs:
    """Stand-in for ``emit``: a method by output, which takes the fields of a record."""

    def __init__(self, emit: Callable[..., None], outputs: Mapping[str, np.dtype[Any]]) -> None:
        self._emit, self._outputs = emit, outputs

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in self._outputs:
            raise AttributeError(f"emit has no output {name!r}; there are {', '.join(self._outputs)}")
        dtype = self._outputs[name]

        def emit(*values: Any, **named: Any) -> None:
            fields = dtype.names or ()
            given = dict(zip(fields, values, strict=False)) | named
            if len(given) != len(values) + len(named) or given.keys() != set(fields):
                raise ConfigurationError(f"emit.{name} takes {', '.join(fields)}")
            record: npt.NDArray[Any] = np.zeros(1, dtype)
            for field, value in given.items():
                record[field][0] = value
            self._emit(record[0], output=name)

        return emit


class PlainClock:
    """Stand-in for ``ctx``: it tells the time, and sets no timer."""

    def __init__(self, time: int) -> None:
        self.time = time

    def wake_at(self, ns: int) -> None:
        """Nothing wakes."""


def trade_of(source: TradeSource | None, call: FailedCall) -> npt.NDArray[Any]:
    """The trade that a tick reports, shape (1,); its size is -1 where the tick is no trade. Without a source the tick
    itself. Raises ConfigurationError where the trade depends on ticks before it that cannot be read again."""
    if source is None:
        return call.tick
    maker, ticks = TradeMaker(Tapes(Space(), call.key + 1), source), iter([call.tick])
    if source.books:
        if call.before is None:
            raise ConfigurationError(
                "replay: its trade is made of this tick and the orders before it, and the input of this run cannot be "
                "read again: use a strand.replay of files, from their beginning, without dropped ticks"
            )
        ticks = call.before.ticks()
    made: npt.NDArray[Any] = np.zeros(1, TRADE)
    for some in ticks:
        made, _ = maker.make(some, 0)
    return made[-1:]


def codes_of(written: tuple[Callable[..., Any], ...]) -> Iterator[CodeType]:
    """The code of functions, and of the methods of classes."""
    for thing in written:
        plain = thing
        while (inner := getattr(plain, "py_func", None) or getattr(plain, "func", None)) is not None:
            plain = inner
        classes = plain.__mro__ if isinstance(plain, type) else (plain,)
        for each in classes:
            functions = vars(each).values() if isinstance(each, type) else (each,)
            for function in functions:
                code = getattr(function, "__code__", None)
                if isinstance(code, CodeType):
                    yield code


def line_of(error: BaseException | None, written: tuple[Callable[..., Any], ...]) -> CodeLine | None:
    """The innermost line of a handler's own files that an exception went through, else the first one that is not
    strand's; None: it went through none."""
    files = {code.co_filename for code in codes_of(written)}
    places = [(frame.f_code.co_filename, line) for frame, line in _frames(error)]
    own = [place for place in places if place[0] in files] or [p for p in places if not p[0].startswith(OURS)][:1]
    if not own:
        return None
    file, line = own[-1]
    return CodeLine(file, line, linecache.getline(file, line).strip())


def _frames(error: BaseException | None) -> Iterator[tuple[Any, int]]:
    at: TracebackType | None = None if error is None else error.__traceback__
    while at is not None:
        yield at.tb_frame, at.tb_lineno
        at = at.tb_next
