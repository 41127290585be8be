"""Chains of native handlers in C, seen from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from strand._bindings import ffi, lib
from strand._bindings.engine import NativeFunction, builtin

__all__ = ["MOST_PARTS", "Part", "chained"]

MOST_PARTS: Final[int] = lib.SD_CHAIN_MOST


@dataclass(frozen=True, slots=True)
class Part:
    """One handler of a chain, where its row begins in the chain's, and how many outputs it has."""

    function: NativeFunction
    row_offset: int
    outputs: int = 0


def chained(parts: Sequence[Part]) -> NativeFunction:
    """One function that runs all of them on each tick."""
    chain = ffi.new("sd_chain *")
    chain.n = len(parts)
    kept: list[Any] = []
    first = 0
    for entry, part in zip(chain.part, parts, strict=False):
        params = ffi.new("char[]", part.function.params) if part.function.params else ffi.NULL
        kept.append((part.function, params))
        if part.function.ahead is not None:
            entry.ahead = part.function.ahead
        entry.fn, entry.params, entry.row_offset = part.function.pointer, params, part.row_offset
        entry.first_output, entry.n_outputs = first, part.outputs
        first += part.outputs
    pure = all(part.function.pure for part in parts)
    return NativeFunction(builtin("chain"), bytes(ffi.buffer(chain)), pure=pure, keep=kept)
