"""A dispatcher saves itself to a file, and goes on from one: strand.dispatch.saved_state has what lies in it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from strand.dispatch.saved_state import FORMAT, SavedState, build
from strand.dispatch.saved_symbols import restore_symbols, saved_symbols
from strand.feeds.io.atomic_write import atomic_write
from strand.units import layout_to_json

if TYPE_CHECKING:
    from strand.binding.engine import Engine
    from strand.dispatch.python_handlers import PythonHandlers
    from strand.dispatch.records import RecordReader
    from strand.dispatch.routing import Routing
    from strand.handlers import Handler
    from strand.symbols import SymbolTable

__all__ = ["Saving"]

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
    table: SymbolTable
    handlers: Sequence[Handler]
    handler_of_symbol: npt.NDArray[np.uint16]
    start: int
    fixed: int

    # ---- saving

    def write(
        self, path: str | os.PathLike[str], python: PythonHandlers, rows_read: int, more: Mapping[str, Any]
    ) -> None:
        """Writes the file. ``rows_read``: by the reader of arrays; ``more``: what the caller adds, arrays among it.

        Raises SavedStateError for what a handler's ``save`` returns, FeedError where the file cannot be written."""
        symbols = saved_symbols(python)
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
                        to.write(piece.data)
                        pieces.append((at, len(piece)))
            tables = self.engine.saved_tables() | {"handler_of_symbol": self.handler_of_symbol.view(np.uint8)}
            for name, table in tables.items():
                with packed.open(f"tables/{name}", "w", force_zip64=True) as to:
                    to.write(table.data)
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
                "symbols": [self.table.name(i) if self.table.has_name(i) else "" for i in range(self.table.n_named)],
                "memory": {"start": self.start, "fixed": self.fixed, "end": end, "pieces": pieces},
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
            for handler in self.handlers
        ]

    # ---- going on

    def begin(self, path: str | os.PathLike[str]) -> SavedState:
        """Opens the file, and reads the memory of the handlers back, before anything more is taken from the space.

        Raises SavedStateError, and MemoryError."""
        saved = SavedState(Path(path))
        with saved.reading():
            self._check(saved)
            self._reserve(saved)
        return saved

    def take_up(self, saved: SavedState, routing: Routing, reader: RecordReader, python: PythonHandlers) -> None:
        """Reads the rest back, once all parts are there.

        Raises SavedStateError, MemoryError, and what an object's ``on_start`` and ``load`` raise."""
        with saved.reading():
            strand_of_symbol = saved.table("map", np.uint32, len(self.table))
            if strand_of_symbol.max(initial=0) >= self.engine.config.n_strands:
                raise ValueError("a symbol's strand does not exist")
            routing.restore(strand_of_symbol)
            self._fill(saved)
            reader.rows_read = int(saved.about["rows_read"])
            symbols = list(saved.symbols(len(self.table)))
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
        if not np.array_equal(saved.table("handler_of_symbol", np.uint16), self.handler_of_symbol):
            raise saved.error("its symbols have other handlers than here")
        for index, name in enumerate(saved.about["symbols"]):
            if name and self.table.has_name(index) and self.table.name(index) != name:
                raise saved.error(f"symbol {index} is {name!r} there and {self.table.name(index)!r} here")
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

    def _reserve(self, saved: SavedState) -> None:
        """Keeps what comes later from where the saved memory goes, and fills that. Raises MemoryError."""
        about = saved.about["memory"]
        if about["end"] < self.fixed:
            raise ValueError("its memory ends before it begins")
        self.engine.space.take_up_to(about["end"])
        memory = self.engine.space.part(self.start, about["end"])
        memory[: self.fixed - self.start] = 0  # what comes behind is zeros
        saved.read_into("memory", [memory[at : at + size] for at, size in about["pieces"]])

    def _fill(self, saved: SavedState) -> None:
        """Reads the engine's tables back; the symbols are routed by then."""
        for name, table in self.engine.saved_tables().items():
            saved.read_into(f"tables/{name}", [table])
        self.engine.restore()
        self.table.learn(saved.about["symbols"])


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
