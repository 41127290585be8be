"""Description of a dispatcher for processes that attach: a text in JSON that lies in the dispatcher's memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from strand.binding.books import BookMemory
from strand.binding.depths import DepthMemory
from strand.brief import brief, listed
from strand.errors import AttachError
from strand.machine import strand_version
from strand.units import layout_from_json, layout_to_json

if TYPE_CHECKING:
    from strand.binding.engine import Engine
    from strand.binding.engine_config import EngineConfig
    from strand.handlers import Handler
    from strand.handlers.bound import BoundHandler
    from strand.symbols import SymbolTable

__all__ = ["Description", "HandlerDescription", "ShownNames", "described"]


@dataclass(frozen=True)
class HandlerDescription:
    """Description of a handler: its name, its row with the fields' declarations, and the worth of 1 in a size (None:
    unknown).

    ``books``: where its books lie, ``of_levels``: whether they are of levels and not of orders; None: it keeps none."""

    name: str
    row: np.dtype[Any]
    size_unit: float | None
    books: int | None = None
    of_levels: bool = False


@dataclass(frozen=True, repr=False)
class Description:
    """``version``: of strand; ``pid`` and ``made_at`` (seconds since 1970, UTC): which process made it, and when.
    ``configuration``: sizes and choices, by the names of ``Dispatcher``'s arguments where it has them.
    ``paced``: see ``Statistics``."""

    name: str
    version: str
    pid: int
    made_at: float
    configuration: Mapping[str, Any]
    handlers: tuple[HandlerDescription, ...]
    outputs: tuple[str, ...]
    paced: bool = True

    def __repr__(self) -> str:
        return brief(self, self.name, f"process {self.pid}", listed(handler.name for handler in self.handlers))

    @classmethod
    def of(cls, text: bytes) -> Description:
        """Reads the text. Raises AttachError where it is no description."""
        try:
            about = json.loads(text)
            handlers = tuple(
                HandlerDescription(
                    str(h["name"]), layout_from_json(h["row"]), h["size_unit"], h["books"], bool(h["of_levels"])
                )
                for h in about["handlers"]
            )
            return cls(
                str(about["name"]),
                str(about["version"]),
                int(about["pid"]),
                float(about["made_at"]),
                dict(about["configuration"]),
                handlers,
                tuple(map(str, about["outputs"])),
                bool(about["paced"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AttachError("it is damaged: its description cannot be read") from error


def described(
    name: str,
    config: EngineConfig,
    handlers: Sequence[Handler],
    bound: Sequence[BoundHandler],
    outputs: Sequence[str],
    *,
    paced: bool,
) -> bytes:
    """The text for a dispatcher of this process."""
    about = {
        "name": name,
        "version": strand_version(),
        "pid": os.getpid(),
        "made_at": time.time(),
        "configuration": asdict(config),
        "handlers": [_described(h, b.memory) for h, b in zip(handlers, bound, strict=True)],
        "outputs": list(outputs),
        "paced": paced,
    }
    return json.dumps(about, default=int).encode()


def _described(handler: Handler, memory: object) -> dict[str, Any]:
    return {
        "name": handler.name,
        "row": layout_to_json(handler.state),
        "size_unit": handler.size_unit,
        "books": memory.offset if isinstance(memory, (BookMemory, DepthMemory)) else None,
        "of_levels": isinstance(memory, DepthMemory),
    }


class ShownNames:
    """The names of a dispatcher's symbols that whoever attaches finds in its memory."""

    def __init__(self, engine: Engine, table: SymbolTable) -> None:
        self._engine = engine
        self._table = table
        self._known: set[int] = set()

    def update(self) -> None:
        """Adds the names that are new."""
        table, known = self._table, self._known
        new = {key: table.name(key) for key in range(table.n_named) if key not in known and table.has_name(key)}
        if new:
            self._engine.set_names(new)
            known.update(new)
