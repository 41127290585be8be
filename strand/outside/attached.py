"""``strand.attach``: another process's dispatcher, found by its memory, as it is now."""

# Not with annotations as text: the declarations of options stand in types.

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from strand.binding.engine_words import StrandInspection
from strand.binding.outside import MAX_LEVELS, NotRunningError, OutsideView
from strand.brief import brief, listed, several
from strand.dispatch.statistics import Description, HandlerDescription, statistics_of
from strand.errors import AttachError, ConfigurationError, UnknownSymbolError
from strand.fixed import dataclass
from strand.options import Text, Whole, named_options
from strand.output.books import merged_levels
from strand.outside.snapshot import Snapshot, snapshot_of
from strand.stats import Statistics
from strand.symbols import near_symbol
from strand.tables.columns import Column, NumpyPrices, Table
from strand.units import Unit, undeclared
from strand.validate import is_whole, whole

#: Text of such files' links.
_LINK: Final = "/memfd:strand (deleted)"


def view_of(target: int, name: str | None) -> tuple[OutsideView, Description]:
    """The dispatcher of a process, by its id; where it has several, that with a name. Raises AttachError."""
    found = _views(target)
    chosen = [(view, about) for view, about in found if name in (None, about.name)]
    names = ", ".join(repr(about.name) if about.name else "one without a name" for _, about in found)
    if not chosen:
        raise AttachError(f"process {target}: no dispatcher has the name {name!r}; it has {names}")
    if len(chosen) > 1:
        raise AttachError(f"process {target} has {len(chosen)} dispatchers, {names}: give the name of one")
    return chosen[0]


def view_at(fd: int) -> tuple[OutsideView, Description]:
    """The dispatcher whose memory an open file is. Raises AttachError."""
    try:
        return _view(fd)
    except AttachError as error:
        raise AttachError(f"descriptor {fd}: {error}") from None


def _view(fd: int) -> tuple[OutsideView, Description]:
    view = OutsideView(fd)
    return view, Description.of(view.description)


def _refused(error: PermissionError) -> str:
    """Error text for a refusal that the system does not explain: the known facts, and possible causes."""
    assert error.errno is not None
    return (
        f"this process may not look at it: the system refuses ({errno.errorcode[error.errno]}). It may be another "
        "user's, have rights that this process lacks, or forbid it (prctl PR_SET_DUMPABLE)"
    )


def _views(pid: int) -> list[tuple[OutsideView, Description]]:
    folder = Path("/proc") / str(pid) / "fd"
    try:
        files = sorted(folder.iterdir(), key=lambda path: int(path.name))
    except FileNotFoundError:
        raise AttachError(f"there is no process {pid}") from None
    except PermissionError as error:
        raise AttachError(f"process {pid}: {_refused(error)}") from None
    found: list[tuple[OutsideView, Description]] = []
    refused: list[AttachError] = []
    seen: set[int] = set()  # a process may have several descriptors of one file
    for path in files:
        try:
            if path.readlink() != Path(_LINK) or (file := path.stat().st_ino) in seen:
                continue
            seen.add(file)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            refused.append(AttachError(_refused(error)))
            continue
        except OSError:
            continue  # it was closed meanwhile
        try:
            found.append(_view(fd))
        except NotRunningError:
            continue
        except AttachError as error:
            refused.append(error)
        finally:
            os.close(fd)
    if not found:
        why = str(refused[0]) if refused else "it has no running dispatcher with attachable=True (--attachable)"
        raise AttachError(f"process {pid}: {why}")
    return found


def _is_alive(pid: int) -> bool:
    """Tells whether a process still runs. A zombie does not, though it keeps its number."""
    try:
        state = (Path("/proc") / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


#: For so long a strand's owner is waited for.
PATIENCE_NS = 100_000_000
#: Of a descriptor: it is an int in C.
MAX_FD = 2**31 - 1


@dataclass(frozen=True, repr=False)
class Look:
    """One strand at one moment.

    Attributes:
        strand: Its number.
        handler: The name of its handler.
        symbols: The names of its symbols.
        rows: Their rows, shape (len(symbols),), exact integers in the units of ``units``.
        counts: What the strand had accepted, handled and so on.
        in_visit: Whether its owner held it for 100 ms: then counts and rows may be of several moments.
        size_unit: What 1 in a size is worth in units of the instrument. None if merged feeds differ in it.
    """

    strand: int
    handler: str
    symbols: tuple[str, ...]
    rows: npt.NDArray[Any]
    counts: StrandInspection
    in_visit: bool
    size_unit: float | None
    _declared: np.dtype[Any]

    def __repr__(self) -> str:
        counts = f"{self.counts.accepted:,} ticks accepted", f"{self.counts.pending:,} pending"
        return brief(self, f"strand {self.strand}", self.handler, listed(self.symbols), *counts)

    @property
    def units(self) -> dict[str, Unit]:
        """Unit of each field of ``rows``."""
        return Table(self._declared, self.size_unit).units

    def columns(self, prices: NumpyPrices = "float") -> dict[str, Column]:
        """The rows as columns in natural units, as ``Rows`` shows them; sizes as the feeds have them where
        ``size_unit`` is None. Raises ConfigurationError for ``prices`` other than ``"float"`` and ``"integer"``."""
        table = Table(self._declared, 1.0 if self.size_unit is None else self.size_unit)
        return {"symbol": np.array(self.symbols, np.str_), **table.columns(self.rows, prices)}


@dataclass(frozen=True, repr=False)
class BookLook:
    """The best levels of a book at one moment.

    Books of several publishers are each of one moment, but not all of the same.

    Attributes:
        symbol: Its name.
        asks: Best first, an array of ``strand.output.books.LEVEL``: price in 1e-9, size, and orders where a feed has
            them.
        bids: The same of the other side.
        size_unit: What 1 in a size is worth in units of the instrument. None if merged feeds differ in it.
        in_visit: Whether the strand's owner held it for 100 ms: then the book may be of several moments.
    """

    symbol: str
    asks: npt.NDArray[Any]
    bids: npt.NDArray[Any]
    size_unit: float | None
    in_visit: bool

    def __repr__(self) -> str:
        return brief(self, self.symbol, several(len(self.bids), "bid"), several(len(self.asks), "ask"))


class _Symbols:
    """The symbols of a dispatcher seen from outside, and their strands."""

    def __init__(self, view: OutsideView, description: Description) -> None:
        self._view = view
        self._description = description
        self._strand_of_symbol = np.zeros(0, np.uint32)
        self._keys: list[npt.NDArray[np.uint32]] = []
        self._settled = False
        self._names: dict[int, str] = {}
        self._index: dict[str, int] = {}

    def check(self) -> None:
        if self._description.kind == "scheduler":
            raise AttachError("it is a scheduler, which has no symbols: see snapshot()")

    def strand_of(self, key: int) -> int:
        strand = int(self._view.strand_of_symbol[key])
        if strand >= self._view.n_strands:
            raise AttachError("it is damaged: a symbol names a strand that does not exist")
        return strand

    def of_strand(self, strand: int) -> npt.NDArray[np.uint32]:
        """A strand's symbols. Which they are may change until the first tick comes, and not after it."""
        if self._settled:
            return self._keys[strand]
        settled, now = self._view.totals()["accepted"] > 0, self._view.strand_of_symbol
        if not np.array_equal(now, self._strand_of_symbol):
            self._strand_of_symbol = known = now.copy()
            if int(known.max()) >= self._view.n_strands:
                raise AttachError("it is damaged: a symbol names a strand that does not exist")
            by_strand = np.argsort(known, kind="stable").astype(np.uint32)
            ends = np.cumsum(np.bincount(known, minlength=self._view.n_strands))
            self._keys = np.split(by_strand, ends[:-1])
        self._settled = settled
        return self._keys[strand]

    def known(self) -> dict[str, int]:
        """Keys by name, of all symbols that have one now."""
        self.check()
        names = (self._view.name(key) for key in range(self._view.n_symbols))
        self._index = {name: key for key, name in enumerate(names) if name}
        return self._index

    def key(self, symbol: str) -> int:
        self.check()
        if symbol not in self._index and symbol not in self.known():
            raise UnknownSymbolError(f"{symbol!r} is not a symbol of this dispatcher{near_symbol(symbol, self._index)}")
        return self._index[symbol]

    def name(self, key: int) -> str:
        """Name of a symbol; its number, where it has no name yet."""
        if key not in self._names:
            name = self._view.name(key)
            if not name:
                return f"#{key}"
            self._names[key] = name
        return self._names[key]


class Attached:
    """A dispatcher of another process, or of this one.

    The dispatcher goes on, and no lock is taken: each counter is exact, but not all are of one moment. Its memory stays
    readable after the process has ended.
    """

    def __init__(self, view: OutsideView, description: Description) -> None:
        self._view = view
        #: Name, process, version, configuration and handlers.
        self.description = description
        #: Sizes and choices, by the names of ``Dispatcher``'s arguments where it has them.
        self.configuration = description.configuration
        #: Number of strands; ``look`` takes a number below it.
        self.n_strands = view.n_strands
        self._rows = [undeclared(handler.row) for handler in description.handlers]
        self._symbols = _Symbols(view, description)

    def __repr__(self) -> str:
        about, handled = self.description, self._view.totals()["handled"]
        strands = several(self.n_strands, "strand")
        return brief(self, about.name, f"process {about.pid}", strands, f"{handled:,} ticks handled")

    @property
    def has_ended(self) -> bool:
        """True once the run has stopped, or its process has ended. Its figures stay as they were."""
        return not self._view.is_shown or not _is_alive(self.description.pid)

    def keeps_book(self, symbol: str) -> bool:
        """Returns whether ``book`` has an answer for a symbol.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
        """
        number = self._view.handler_of(self._symbols.strand_of(self._symbols.key(symbol)))
        return number < len(self._rows) and self.description.handlers[number].books is not None

    def snapshot(self) -> Snapshot:
        """Reads the figures of the run at this moment, by level and with those of the last 5 minutes.

        It takes no lock, and costs the run nothing. It reads a few hundred kilobytes at most, however many symbols
        there are.

        Raises:
            AttachError: If the memory is damaged.
        """
        return snapshot_of(self._view, self.description)

    def statistics(self) -> Statistics:
        """Returns counters and latencies since the start.

        Only the dispatcher's own process knows its watermark and the cores of its workers, which are None here.
        Abandoned ticks and orders taken as plain ticks are 0 here.
        """
        return statistics_of(self._view, paced=self.description.paced)

    def look(self, strand: int) -> Look:
        """Reads a strand and the rows of its symbols.

        Args:
            strand: Its number, from 0.

        Raises:
            AttachError: If no strand has that number, it is a scheduler, or the memory is damaged.
        """
        self._symbols.check()
        if not is_whole(strand) or not 0 <= strand < self._view.n_strands:
            raise AttachError(f"strand: {strand!r} is not a whole number from 0 to {self._view.n_strands - 1:,}")
        return self._look(int(strand), self._symbols.of_strand(int(strand)))

    def looks(self) -> Iterator[Look]:
        """Looks at all strands that have had ticks, each at a moment of its own.

        Strands that no worker is in come first, in the order of their numbers, then the others.

        Raises:
            AttachError: If the memory is damaged.
        """
        busy = []
        for strand in map(int, np.flatnonzero(self.accepted())):
            look = self._look(strand, self._symbols.of_strand(strand), patience_ns=0)
            if look.in_visit:
                busy.append(strand)
            else:
                yield look
        for strand in busy:
            yield self._look(strand, self._symbols.of_strand(strand))

    def accepted(self, first: int = 0, n: int | None = None) -> npt.NDArray[np.uint64]:
        """Returns how many ticks each strand has accepted since the start, shape (n,).

        Args:
            first: The first strand.
            n: How many strands; None: all from ``first`` on.

        Raises:
            ConfigurationError: If there are no such strands.
        """
        first = whole("first", first, 0, self.n_strands)
        left = self.n_strands - first
        return self._view.accepted(first, left if n is None else whole("n", n, 0, left))

    def symbols_of(self, strand: int, most: int) -> str:
        """Returns text with the first symbols of a strand, ``most`` at most, and the number of further ones.

        Numbers that a feed holds in reserve have no name, and count only on a strand where no symbol has one.

        Raises:
            AttachError: If it is a scheduler, or the memory is damaged.
        """
        self._symbols.check()
        keys = self._symbols.of_strand(strand).tolist()
        names = list(map(self._symbols.name, keys))
        names = [name for key, name in zip(keys, names, strict=True) if name != f"#{key}"] or names
        return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")

    def strands_with(self, text: str) -> npt.NDArray[np.uint32]:
        """Returns the strands with a symbol whose name contains a text, in any case.

        Raises:
            AttachError: If it is a scheduler, or the memory is damaged.
        """
        wanted = text.casefold()
        keys = [key for name, key in self._symbols.known().items() if wanted in name.casefold()]
        return np.unique(np.array([self._symbols.strand_of(key) for key in keys], np.uint32))

    def symbol(self, symbol: str) -> Look:
        """Looks at the strand of a symbol, with that symbol's row alone.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            AttachError: If the memory is damaged.
        """
        key = self._symbols.key(symbol)
        return self._look(self._symbols.strand_of(key), np.array([key], np.uint32))

    def book(self, symbol: str, levels: int = 20) -> BookLook:
        """Returns the best levels of a symbol's book.

        If there are several publishers, sizes and orders of one price are added up over all of them.

        Args:
            symbol: Its name.
            levels: How many levels to return of each side at most, 1 to 64.

        Raises:
            UnknownSymbolError: If the dispatcher has no such symbol.
            AttachError: If its handler keeps no book.
            ConfigurationError: If ``levels`` is out of bounds.
        """
        maximum = whole("levels", levels, 1, MAX_LEVELS)
        key = self._symbols.key(symbol)
        if not self.keeps_book(symbol):
            raise AttachError(f"symbol: the handler of {symbol} keeps no book")
        about = self.description.handlers[self._view.handler_of(self._symbols.strand_of(key))]
        assert about.books is not None
        asks, bids, publishers, _, in_visit = self._view.book(about.books, about.of_levels, key, 0, PATIENCE_NS)
        sides: list[list[npt.NDArray[Any]]] = [[asks], [bids]]
        for place in range(1, publishers):
            *more, _, _, also = self._view.book(about.books, about.of_levels, key, place, PATIENCE_NS)
            for side, found in zip(sides, more, strict=True):
                side.append(found)
            in_visit |= also
        if publishers > 1:
            asks, bids = merged_levels(sides[0], "A"), merged_levels(sides[1], "B")
        return BookLook(symbol, asks[:maximum], bids[:maximum], about.size_unit, in_visit)

    def _look(self, strand: int, keys: npt.NDArray[np.uint32], patience_ns: int = PATIENCE_NS) -> Look:
        number = self._view.handler_of(strand)
        if number >= len(self._rows):
            raise AttachError("it is damaged: a strand names a handler that does not exist")
        counts, rows, in_visit = self._view.look(strand, keys, patience_ns)
        handler: HandlerDescription = self.description.handlers[number]
        if handler.row.itemsize > rows.shape[1]:
            raise AttachError("it is damaged: its rows are shorter than its handler's")
        found = np.ascontiguousarray(rows[:, : handler.row.itemsize]).view(self._rows[number])[:, 0]
        names = tuple(map(self._symbols.name, keys.tolist()))
        return Look(strand, handler.name, names, found, counts, in_visit, handler.size_unit, handler.row)


class _Attaching(TypedDict, total=False):
    """Options of ``attach``."""

    fd: Annotated[
        int | None,
        None,
        Whole(0, MAX_FD),
        "A descriptor of its memory (``Dispatcher.memory_fd``) that this process was handed.\nThe caller keeps it, and "
        "may close it at once.",
    ]
    name: Annotated[
        str | None, None, Text("NAME"), "The name of the run, if the process has several.\nNot with ``fd``."
    ]


@named_options("attach()", declares=_Attaching)
def attach(pid: int | None = None, **options: Unpack[_Attaching]) -> Attached:
    """Looks at a running dispatcher that was made with ``attachable=True``: without a lock, and without stopping it.

    Give either ``pid`` or ``fd``. In both cases the memory is mapped read-only.

    Args:
        pid: The id of its process, whose files are found in /proc.

    Raises:
        ConfigurationError: If not exactly one of ``pid`` and ``fd`` is given, or ``name`` is given with ``fd``.
        AttachError: If the process does not exist, is another user's, or forbids it; or has no dispatcher that may be
            looked at. Also if the descriptor is of something else, or the memory is of another build of strand, or
            damaged. The message says which.
    """
    fd, name = options["fd"], options["name"]
    if (pid is None) == (fd is None):
        raise ConfigurationError(
            "attach", "give either the id of a process or fd=, a descriptor of a dispatcher's memory"
        )
    if fd is not None:
        if name is not None:
            raise ConfigurationError("name", "leave it out with fd=, because a descriptor belongs to one dispatcher")
        return Attached(*view_at(fd))
    if not is_whole(pid) or pid < 1:
        raise AttachError(f"pid: {pid!r} is not the id of a process")
    return Attached(*view_of(int(pid), name))
