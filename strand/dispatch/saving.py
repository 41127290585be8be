"""A dispatcher at rest saves itself to a file, and another process goes on from it.

A zip file. ``state.json`` says of what it is, ``memory`` has what handlers keep in the dispatcher's space, without the
stretches that are all zeros, ``tables/NAME`` the parts of the arena, ``objects/KEY`` what the object of a symbol
said of itself, ``arrays/NAME`` what a replay adds. zipfile checks each part's CRC as it is read.
"""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.memory import ABI_VERSION
from strand.errors import ConfigurationError, SavedStateError
from strand.feeds.io.atomic_write import atomic_write
from strand.handlers.context import Context
from strand.handlers.shared_rows import SharedObjects
from strand.units import layout_to_json
from strand.validate import file_path

if TYPE_CHECKING:
    from strand.binding.engine import Engine
    from strand.dispatch.python_handlers import PythonHandlers
    from strand.dispatch.records import RecordReader
    from strand.dispatch.routing import Routing
    from strand.handlers import Handler
    from strand.handlers.loading import Assigned

#: Of the format.
FORMAT: Final = 1


def check_name(path: str | os.PathLike[str]) -> None:
    """Raises ConfigurationError for a name of a saved state that promises another packing than its own."""
    if (ending := file_path("save", path).suffix.lower()) in (".gz", ".zst", ".bz2", ".xz", ".zip"):
        raise ConfigurationError(
            "save", f"{path}: a saved state is not compressed again: give a name that does not end in {ending}"
        )


def build() -> str:
    """Facts that decide the layout of memory: the release, the version of the layout, and the processor."""
    from strand.machine import strand_version

    return f"strand {strand_version()}, layout {ABI_VERSION}, {platform.machine()}"


class SavedSymbol(NamedTuple):
    """Python's state of a symbol. ``alarm``: the due time of its timer (0: never). ``data``: the bytes that its object
    saved (None: there is no object)."""

    key: int
    alarm: int
    data: bytes | None


@dataclass
class SavedState:
    """A file, read as far as it is asked for. ``about``: what state.json says.

    Raises SavedStateError where it is none, is damaged, or is of another format."""

    path: Path
    about: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        try:
            self.about = json.loads(self.part("state.json"))
            found = self.about["strand_state"]
        except (ValueError, KeyError, TypeError) as error:
            raise self.error("it is not a saved state of a dispatcher") from error
        if found != FORMAT:
            raise self.error(f"its format is {found}, made by {self.about.get('build')}; this release reads {FORMAT}")
        if self.about.get("build") != build():
            raise self.error(
                f"it was saved by {self.about.get('build')}; its memory layout may be different from that of this "
                f"build, {build()}"
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises SavedStateError for faults that reading the block meets."""
        try:
            yield
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise self.error(f"it is damaged: {error!r}") from error

    def read_into(self, name: str, arrays: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Reads a part into arrays, one behind the other, which have to take it all. Raises SavedStateError."""
        with self._opened(name) as part:
            for array in arrays:
                to, read = array.data, 0
                while read < len(to) and (n := part.readinto(to[read:])):
                    read += n
                if read < len(to):
                    raise self.error(f"it is damaged: {name} ends too soon")
            if part.read(1):
                raise self.error(f"it is damaged: {name} is longer than it should be")

    def error(self, what: str) -> SavedStateError:
        return SavedStateError(f"{self.path}: {what}")

    def part(self, name: str) -> bytes:
        with self._opened(name) as part:
            found: bytes = part.read()
        return found

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        import zipfile

        try:
            with zipfile.ZipFile(self.path) as packed, packed.open(name) as part:
                yield part
        except KeyError as error:
            raise self.error(f"it is damaged: {name} is missing") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self.error(f"it is damaged, or not a saved state: {error}") from error
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from error

    def table(self, name: str, dtype: npt.DTypeLike, n: int | None = None) -> npt.NDArray[Any]:
        """A table, of ``n`` numbers where that is known. Raises SavedStateError where it has another size."""
        data = self.part(f"tables/{name}")
        size = np.dtype(dtype).itemsize
        if len(data) % size or n not in (None, len(data) // size):
            raise self.error(f"it is damaged: {name} has {len(data)} bytes")
        return np.frombuffer(data, dtype)

    def array(self, name: str) -> npt.NDArray[Any]:
        """Array that the caller added. Raises SavedStateError where there is none of this name."""
        if name not in self.about["arrays"]:
            raise self.error(f"it has no {name}: it was not saved by a replay")
        return np.frombuffer(self.part(f"arrays/{name}"), self.about["arrays"][name])

    def symbols(self, n: int) -> Iterator[SavedSymbol]:
        """Python's state of each of ``n`` symbols."""
        for key, alarm, has_object in self.about["python"]:
            if not 0 <= key < n:
                raise self.error(f"it is damaged: it has no symbol {key}")
            yield SavedSymbol(key, alarm, self.part(f"objects/{key}") if has_object else None)


#: Attributes of a context itself.
_OWN: Final = frozenset(vars(Context("", "", 0, None))) | {"log"}


def check_objects(python: PythonHandlers) -> None:
    """Raises SavedStateError, naming the handler, for a handler whose state only Python knows and that cannot save
    it."""
    for key, context in python.contexts.copy().items():
        thing = python.objects.get(key)
        if isinstance(thing, SharedObjects):
            raise SavedStateError(
                f"handler {context.handler!r}: objects of {thing.kind}s are not saved: keep their state in rows, with "
                "kind='batch' or a compiled function"
            )
        if thing is not None and not (hasattr(thing, "save") and hasattr(thing, "load")):
            raise SavedStateError(
                f"handler {context.handler!r}: its objects have state that only Python can save: give "
                f"{type(thing).__name__} save(self) -> bytes, and load(self, data), which is called after on_start"
            )
        if kept := sorted(set(vars(context)) - _OWN):
            raise SavedStateError(
                f"handler {context.handler!r} keeps ctx.{kept[0]}, which is not saved: keep it in ctx.row"
            )


def saved_symbols(python: PythonHandlers) -> list[SavedSymbol]:
    """State of the symbols that have had ticks, by key. Raises SavedStateError for a ``save`` that returns no bytes,
    and the exceptions of ``save``."""
    found = []
    for key, host in sorted(python.hosts_by_key().items()):
        thing, data = python.objects.get(key), None
        if thing is not None:
            data = thing.save()
            if not isinstance(data, bytes):
                raise SavedStateError(
                    f"handler {python.contexts[key].handler!r}: save returned {type(data).__name__} for "
                    f"{python.contexts[key].symbol}, but must return bytes"
                )
        found.append(SavedSymbol(key, host.own_alarm, data))
    return found


def restore_symbols(python: PythonHandlers, symbols: Iterable[SavedSymbol]) -> None:
    """Binds them as they were. Objects are started, which emits nothing, and given what they saved."""
    for symbol in symbols:
        host = python.bind_again(symbol.key)
        if symbol.data is not None:
            python.objects[symbol.key].load(symbol.data)
        host.resume(symbol.alarm)


#: Piece in bytes: stretches of zeros are found piece by piece.
PIECE_BYTES: Final = 1 << 20
#: Settings that decide the layout of the memory, and the arguments they come from.
LAYOUT: Final = {
    "n_symbols": "symbols",
    "n_strands": "strands",
    "n_workers": "workers",
    "n_publishers": "max_publishers",
    "record_size": "dtype",
    "key_offset": "key",
    "sequence_offset": "dtype",
    "sequence_high": "dtype",
    "time_offset": "dtype",
    "row_bytes": "handler",
    "has_positions": "handler",
    "n_segments": "memory_bytes, capacity_ticks or batch_ticks",
    "is_bounded": "total_capacity_ticks or level_capacity_ticks",
    "output_memory": "output_memory",
    "attachable": "attachable",
    "counters_start": "_counters_start",
}


@dataclass
class Saving:
    """A dispatcher as it is made: what it consists of, and where the memory of its handlers lies in the space.

    ``start``: where it begins; ``fixed``: up to where it lay when the handlers were bound. Equal arguments give equal
    layouts."""

    engine: Engine
    assigned: Assigned
    start: int
    fixed: int

    # ---- saving

    def write(
        self,
        path: str | os.PathLike[str],
        python: PythonHandlers,
        rows_read: int,
        taken: tuple[int, int],
        more: Mapping[str, Any],
    ) -> None:
        """Writes the file. ``rows_read``: the rows that the reader of arrays has read; ``taken``: the part of the space
        that the engine uses itself; ``more``: values and arrays that the caller adds.

        Raises SavedStateError if a handler's ``save`` returns what cannot be saved, FeedError if the file cannot be
        written."""
        symbols, table = saved_symbols(python), self.assigned.table
        self.engine.watermark()  # a round that ends at rest: later ones have the same end
        arrays = {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
        end = self.engine.space.bytes
        memory = self.engine.space.part(self.start, end)
        pieces: list[tuple[int, int]] = []
        import zipfile

        with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            with packed.open("memory", "w", force_zip64=True) as to:
                for at in range(0, len(memory), PIECE_BYTES):
                    piece = memory[at : at + PIECE_BYTES]
                    if piece.any():
                        to.write(piece.tobytes())
                        pieces.append((at, len(piece)))
            tables = self.engine.saved_tables() | {"handler_of_symbol": self.assigned.of_symbol.view(np.uint8)}
            for name, part in tables.items():
                with packed.open(f"tables/{name}", "w", force_zip64=True) as to:
                    # Copies: zipfile reads the bytes twice, and an idle worker that asks for the watermark takes a
                    # lock in them.
                    for at in range(0, len(part), PIECE_BYTES):
                        to.write(part[at : at + PIECE_BYTES].tobytes())
            for name, array in arrays.items():
                packed.writestr(f"arrays/{name}", array.tobytes())
            for symbol in symbols:
                if symbol.data is not None:
                    packed.writestr(f"objects/{symbol.key}", symbol.data)
            about = {
                "strand_state": FORMAT,
                "build": build(),
                "configuration": self._configuration(),
                "handlers": self._handlers(),
                "symbols": [table.name(i) if table.has_name(i) else "" for i in range(table.n_named)],
                "memory": {"start": self.start, "fixed": self.fixed, "taken": taken, "end": end, "pieces": pieces},
                "python": [[symbol.key, symbol.alarm, symbol.data is not None] for symbol in symbols],
                "rows_read": rows_read,
                "arrays": {name: array.dtype.str for name, array in arrays.items()},
                "more": {name: value for name, value in more.items() if name not in arrays},
            }
            packed.writestr("state.json", json.dumps(about))

    def _handlers(self) -> list[list[Any]]:
        """The parts of a handler: the name of each, its options as text, and the layouts of its row and outputs."""
        return [
            [
                handler.name,
                [[name, _options(part)] for name, part in handler.parts_as(handler.name)],
                layout_to_json(handler.state),
                [[name, layout_to_json(dtype)] for name, dtype in handler.emitted],
            ]
            for handler in self.assigned.handlers
        ]

    # ---- going on

    def begin(self, path: str | os.PathLike[str]) -> SavedState:
        """Opens the file, and checks that this dispatcher can go on from it, before anything more is taken from the
        space. Raises SavedStateError."""
        saved = SavedState(file_path("load", path))
        with saved.reading():
            self._check(saved)
        return saved

    def take_up(self, saved: SavedState, routing: Routing, reader: RecordReader, python: PythonHandlers) -> None:
        """Reads all back, once all parts are there.

        Raises SavedStateError, MemoryError, and what an object's ``on_start`` and ``load`` raise."""
        with saved.reading():
            strand_of_symbol = saved.table("map", np.uint32, len(self.assigned.table))
            if strand_of_symbol.max(initial=0) >= self.engine.config.n_strands:
                raise ValueError("a symbol's strand does not exist")
            about = saved.about["memory"]
            if about["taken"][0] == self.fixed:
                # Its place is the same here: a state that is saved and loaded again and again does not grow.
                routing.restore(strand_of_symbol)
                self._reserve(saved, routing.taken)
            else:
                self._reserve(saved, (0, 0))
                routing.restore(strand_of_symbol)
            self._fill(saved)
            reader.rows_read = int(saved.about["rows_read"])
            symbols = list(saved.symbols(len(self.assigned.table)))
        self.engine.space.adopt_books()
        restore_symbols(python, symbols)

    def _configuration(self) -> dict[str, Any]:
        return asdict(self.engine.config) | {"is_bounded": self.engine.config.is_bounded}

    def _check(self, saved: SavedState) -> None:
        """Raises SavedStateError where this is no dispatcher that can go on from the file, naming what differs."""
        self._check_handlers(saved)
        before, now = saved.about["configuration"], self._configuration()
        policy_before, policy = (found.get("policy", {}).get("name") for found in (before, now))
        if policy_before != policy:
            raise saved.error(f"it was saved with the policy {policy_before}, and this dispatcher has {policy}")
        for name, argument in LAYOUT.items():
            if before.get(name) != now[name]:
                raise saved.error(
                    f"it was saved with {argument}: {name} {before.get(name)}, and this dispatcher has {now[name]}"
                )
        if not np.array_equal(saved.table("handler_of_symbol", np.uint16), self.assigned.of_symbol):
            raise saved.error("its symbols have other handlers than here")
        for index, name in enumerate(saved.about["symbols"]):
            if name and self.assigned.table.has_name(index) and self.assigned.table.name(index) != name:
                raise saved.error(f"symbol {index} is {name!r} there and {self.assigned.table.name(index)!r} here")
        memory = saved.about["memory"]
        if (memory["start"], memory["fixed"]) != (self.start, self.fixed):
            raise saved.error(
                "its memory layout is different: give the dispatcher the arguments that the saved one had"
            )

    def _check_handlers(self, saved: SavedState) -> None:
        """Raises SavedStateError where these are other handlers, or have other options."""
        theirs, mine = saved.about["handlers"], json.loads(json.dumps(self._handlers()))
        before, now = ([name for name, *_ in handlers] for handlers in (theirs, mine))
        if before != now:
            raise saved.error(f"it was saved with {_listed(before)}, and this dispatcher has {_listed(now)}")
        for (name, parts, *layouts), (_, parts_here, *layouts_here) in zip(theirs, mine, strict=True):
            if parts != parts_here:
                raise saved.error(f"its handler {name!r} {_difference(parts, parts_here)}")
            for what, a, b in zip(("rows", "outputs"), layouts, layouts_here, strict=True):
                if a != b:
                    raise saved.error(f"the {what} of its handler {name!r} have other fields than here")

    def _reserve(self, saved: SavedState, taken: tuple[int, int]) -> None:
        """Reserves the place of the saved memory, and fills it except for the part that is ``taken`` already. Raises
        MemoryError."""
        about = saved.about["memory"]
        if about["end"] < max(self.fixed, taken[1]) or list(taken) not in (list(about["taken"]), [0, 0]):
            raise ValueError("its memory ends before it begins")
        kept = self.engine.space.part(*taken).copy()
        self.engine.space.take_up_to(about["end"])
        memory = self.engine.space.part(self.start, about["end"])
        memory[: self.fixed - self.start] = 0  # what comes behind is zeros
        saved.read_into("memory", [memory[at : at + size] for at, size in about["pieces"]])
        self.engine.space.part(*taken)[:] = kept

    def _fill(self, saved: SavedState) -> None:
        """Reads the engine's tables back; the symbols are routed by then."""
        for name, table in self.engine.saved_tables().items():
            saved.read_into(f"tables/{name}", [table])
        self.engine.restore()
        self.assigned.table.learn(saved.about["symbols"])


def _listed(names: Sequence[str]) -> str:
    return f"{'handler' if len(names) == 1 else 'handlers'} {', '.join(map(repr, names))}"


def _difference(before: Sequence[Any], now: Sequence[Any]) -> str:
    """Difference between the parts of one handler, each with its options: the first option that differs, or the
    parts."""
    if [name for name, _ in before] != [name for name, _ in now]:
        return f"consisted of {', '.join(name for name, _ in before)}, and here of {', '.join(name for name, _ in now)}"
    part, option, were, are = next(
        (part, option, were, are)
        for (part, were), (_, are) in zip(before, now, strict=True)
        for option in sorted({*were, *are})
        if were.get(option) != are.get(option)
    )
    name = option if len(before) == 1 else f"{part}.{option}"
    old, new = (f"{name}={found[option]}" if option in found else f"no {name}" for found in (were, are))
    return f"had {old}, and here it has {new}"


def _options(handler: Handler) -> dict[str, str]:
    """Options of a handler as text, as far as they are known."""
    return {**(handler.origin.options if handler.origin else {}), **handler.described_params}
