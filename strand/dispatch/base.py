"""Common part of a dispatcher and a plain loop: symbols, records, handlers with their rows, and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.books import RowHistory
from strand.binding.columns import Seen
from strand.binding.feeder import Feeder
from strand.binding.memory import Space
from strand.dicts import ByName
from strand.dispatch.configuration import DispatcherOptions, check_memory
from strand.dispatch.python_handlers import KeepsObjects, named_objects
from strand.dispatch.records import OrderWatch, RecordReader
from strand.errors import HandlerError
from strand.handlers import Handler, HandlerLike
from strand.handlers.base import BindContext, BoundHandler, BoundNative
from strand.handlers.compiled.called_again import Before
from strand.handlers.failures import Kept, call_again, call_of
from strand.handlers.feed_trades import ContractsUsed
from strand.handlers.loading import assign_handlers
from strand.handlers.native_handlers import NativeHandler
from strand.output.books import Books
from strand.output.outputs import Outputs
from strand.output.rows import BasketRows, RowMemory, Rows
from strand.symbols import SymbolTable
from strand.threads import Inside

#: Makes the history of some rows.
HistoryOf = Callable[[Rows], RowHistory]


def _around(history: RowHistory, bound: BoundHandler) -> BoundHandler:
    assert isinstance(bound, BoundNative)
    return replace(bound, function=history.around(bound.function))


class _Python(KeepsObjects, Protocol):
    """Python's handlers."""

    def learn_symbols(self) -> None: ...


class RunBase:
    """Checks what both are given, puts the handlers to work, and shows what they make.

    One that runs them calls ``_open`` when it has memory for rows, and sets ``_python``.
    """

    _python: _Python

    def __init__(
        self,
        symbols: int | Sequence[str],
        handler: HandlerLike | None,
        handlers: Mapping[str, HandlerLike] | None,
        options: DispatcherOptions,
        *,
        history: HistoryOf | None = None,
    ) -> None:
        self._table = SymbolTable(symbols)
        check_memory(len(self._table), 1)
        of_records = options["dtype"], options["key"], options["columns"], options["column_options"]
        self._reader = reader = RecordReader(*of_records)
        self._assigned = assign_handlers(self._table, handler, handlers, reader.dtype, options["feed"])
        _, self._handlers, self._handler_of_symbol, self._units = self._assigned
        #: Makes what keeps the rows of before as handlers change them. None: nobody wants that, or handlers here may
        #: change rows where it does not look: those that Python runs, those of shared rows, and those that publish.
        singles = [part for handler in self._handlers for part in handler.singles]
        may_publish = any(isinstance(part, NativeHandler) and part.may_publish for part in singles)
        keeps = self._units is None and not may_publish and all(part.is_native for part in singles)
        self._history_of = history if keeps else None
        self._history: RowHistory | None = None
        self._orders = OrderWatch(self._handlers, self._handler_of_symbol)
        self._inside = Inside()
        of_files: dict[str, Any] = {"inside": self._inside, "escape_formulas": options["escape_formulas"]}
        self._outputs = Outputs(self._handlers, self._table, options["out"], **of_files)
        #: Each handler's, by the numbers that emitted records know them by.
        names = list(self._outputs)
        self._output_numbers = [[names.index(name) for name, _ in h.emitted] for h in self._handlers]

    def _open(self, memory: RowMemory, row_stride: int, space: Space) -> None:
        """Puts the handlers to work on rows that lie in ``memory``, so many bytes apart. The handlers' state beside the
        rows lies in ``space``."""
        context = BindContext(self._table, self._reader.dtype, self._reader.key, row_stride, space)
        self._bound = [h.bind(context) for h in self._handlers]
        self._makers, self._tapes = context.makers, context.tapes
        self._contracts = context.contracts
        self._wants_names = any(contracts.address for contracts in context.contracts)
        shared = BasketRows(context.shared, self._units)
        self._rows = Rows(self._table, memory, self._handlers, self._handler_of_symbol, shared)
        if self._history_of is not None:
            self._history = history = self._history_of(self._rows)
            self._bound = [_around(history, bound) for bound in self._bound]
        memories, paths = [bound.memory for bound in self._bound], [bound.path for bound in self._bound]
        self._books = Books(self._table, memories, self._handler_of_symbol, self._rows, paths)

    @property
    def symbols(self) -> SymbolTable:
        """The symbols' names by index."""
        return self._table

    def learn_symbols(self, names: Sequence[str]) -> None:
        """Takes over names that a feed has met since, by index, where there was none yet.

        Raises:
            ConfigurationError: If a function of baskets gives one of them a basket, or ``contracts`` gives one that has
                had ticks another contract, which is too late.
        """
        known = self._table.n_named
        if not self._table.learn(names) and self._table.n_named == known:
            return
        for part in (part for handler in self._handlers for part in handler.singles):
            part.shape.check_learnt(part.name, self._table, known)
        for contracts in self._contracts:
            contracts.learn()
        self._python.learn_symbols()

    @property
    def rows(self) -> Rows:
        """All symbols' state: ``rows["AAPL"]``, ``rows.array``. It is live during the run, and final after it."""
        return self._rows

    @property
    def baskets(self) -> BasketRows:
        """All baskets' rows: ``baskets["pair"]``. They are live during the run, and final after it.

        There are none without a ``basket_handler``.
        """
        return self._rows.shared

    @property
    def outputs(self) -> Outputs:
        """Outputs of the handlers, by name: ``for batch in dispatcher.outputs["bars"]`` while the run goes on."""
        return self._outputs

    @property
    def keeps_books(self) -> bool:
        """True if a handler here keeps books, of orders or of levels."""
        return self._books.are_kept

    @property
    def books(self) -> Books:
        """The books that ``strand.book()`` and ``strand.depth()`` keep.

        Raises:
            ConfigurationError: If no handler keeps books.
        """
        self._books.check_kept()
        return self._books

    @property
    def objects(self) -> Mapping[str, Any]:
        """The objects of an object handler, by symbol, for those that have had ticks."""
        named = named_objects(self._python) if self._python.objects else ()
        return ByName("object", {name: thing for _, name, thing in named})

    @property
    def _needs_positions(self) -> bool:
        """True if records need their positions: for outputs, or a history of rows."""
        return len(self._outputs) > 0 or self._history_of is not None

    def _kept(self) -> Kept:
        """State of the run that reports of failures need."""
        return Kept(self._rows, self._python.contexts, self._python.objects, self._reader.dtype)

    def _handler_of(self, key: int) -> Handler:
        return self._handlers[int(self._handler_of_symbol[key])]

    def _interior(self) -> Interior:
        raise NotImplementedError

    def _publishing(self, records: npt.NDArray[Any] | np.void) -> None:
        """Records are about to be published. Raises RecordTypeError."""
        keys = self._reader.read(records)[self._reader.key]
        for contracts in self._contracts:
            contracts.publishing(keys)


class Interior:
    """The inside of a run, for what is built on one: a replay, a comparison of runs, a benchmark. No user needs it.

    It keeps nothing: a run makes one for whoever asks, and does not hold it. A run of each kind has an inside of its
    own.
    """

    def __init__(self, run: RunBase) -> None:
        self._run = run
        #: The handlers, each once.
        self.handlers: Sequence[Handler] = run._handlers
        #: The rows of before, which the run keeps as handlers change them; None: it keeps none.
        self.history = run._history
        #: True if a symbol has to have its name before its first tick, since its contract goes by that.
        self.wants_names = run._wants_names
        #: Returns the handler of a symbol by its index.
        self.handler_of = run._handler_of

    # ---- of handlers

    def rehearse(self, tick: npt.NDArray[Any], before: Before | None) -> None:
        """Calls the handler of a tick, shape (1,), in Python, on copies, ahead of the run. ``before``: the input up to
        that tick. Raises ConfigurationError where that cannot be, and what the handler raises."""
        run = self._run
        key = int(tick[run._reader.key][0])
        call = call_of(key, run._rows.at(key), tick, run._table, run._kept())
        call_again(run._handler_of(key), call._replace(rehearses=True), before=before)

    def leave_ends_out(self) -> None:
        """The run stops in the middle of its feed: handlers' ends are not to be called."""
        raise NotImplementedError

    # ---- of ticks

    @property
    def feed_time(self) -> int:
        """The feed's time so far, as positions have it: ns, 0 before the first record."""
        raise NotImplementedError

    def finished_reader(self) -> Callable[[], int]:
        """Returns a function that gives the number of records that are handled or dropped by then."""
        raise NotImplementedError

    def handled_reader(self) -> Callable[[], int]:
        """Returns a function that gives a number of records: so many, from the first one of this run, are handled or
        dropped. After a failure that ends the run the number stays."""
        raise NotImplementedError

    def first_of(self, batch: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
        """Returns the first ``n`` ticks of a batch that an interrupt cut short: those that were published."""
        return batch[:n]

    @property
    def takes_feeder(self) -> bool:
        """True if a decoder may publish to the run as it decodes."""
        return False

    def feeder(self, counts: npt.NDArray[np.int64], seen: Seen, limit: int | None) -> Feeder:
        """Returns a feeder, through which a feed's decoder publishes as it decodes. It starts once a batch has shown
        which symbols are busy. ``counts``: ticks by symbol, shape (n_symbols,), added to, as is ``seen``. ``limit``:
        ticks to end after."""
        raise NotImplementedError

    @property
    def pinned_cores(self) -> Sequence[int]:
        """Cores that threads of the run are pinned to."""
        return ()

    # ---- of the end

    def contracts_used(self) -> ContractsUsed:
        """Returns the contracts that ticks were for."""
        every = self._run._contracts
        if not every:
            return ContractsUsed()
        unused = dict.fromkeys(name for contracts in every for name in contracts.unused)
        return ContractsUsed(
            tuple(unused), frozenset.intersection(*(frozenset(contracts.symbols) for contracts in every))
        )

    def take_unfit(self, *, with_open: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns numbers by symbol of trades without a price, which handlers that ask for trades were not called with,
        and of quotes' events whose last tick never came. ``with_open``: the run ends those that are open. Parts of a
        chain count the same. The caller has to report them: no RuntimeWarning follows at the end."""
        run = self._run
        unpriced, unended = np.zeros((2, len(run._table)), np.int64)
        for maker in run._makers:
            np.maximum(unpriced, maker.unpriced, out=unpriced)
        for tape in run._tapes:
            np.maximum(unended, tape.unended(len(unended), with_open=with_open), out=unended)
        run._makers.clear()
        return unpriced, unended

    # ---- of failures

    @property
    def all_failures(self) -> list[HandlerError]:
        """The failures of handlers that the run keeps, in the order they happened."""
        raise NotImplementedError

    @property
    def strand_of_symbol(self) -> npt.NDArray[np.uint32]:
        """The number of each symbol's strand, shape (n_symbols,)."""
        raise NotImplementedError

    def place_of(self, error: HandlerError) -> tuple[int, npt.NDArray[np.bool_] | None] | None:
        """Returns where a tick failed: the number of ticks before it, of some symbols; and a mask of these by key, None
        for all. None: it is not known, as where ticks were dropped."""
        raise NotImplementedError


def interior(run: RunBase) -> Interior:
    """Returns the inside of a run."""
    return run._interior()
