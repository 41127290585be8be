"""Digests that say whether an input, or a handler, is still the one that a result was made of."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from strand.brief import in_full
from strand.errors import FeedError
from strand.handlers import Handler
from strand.handlers.base import SingleHandler, TradesHandler
from strand.handlers.compiled_handlers import CompiledHandler, numba_module
from strand.handlers.hosted import HostedHandler
from strand.handlers.native_functions import NativeFunctions
from strand.handlers.native_handlers import NativeHandler
from strand.handlers.sets import part_with_sets
from strand.machine import strand_version
from strand.sweeping.python_digests import add_written

__all__ = ["DIGEST_BYTES", "Stamp", "code_digest", "file_digest", "stamp_of"]

DIGEST_BYTES: Final = 16
#: Stamp that shows without reading that a file is the same: bytes, and the time of its last change in ns.
Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp:
    """Raises FeedError for a file that is not there."""
    try:
        found = path.stat()
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error
    return found.st_size, found.st_mtime_ns


def file_digest(path: Path) -> str:
    """BLAKE2b of a file's bytes, 32 hexadecimal digits. Raises FeedError."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                whole.update(block)
    except OSError as error:
        raise FeedError(f"cannot be read: {error.strerror or error}", path=path) from error
    return whole.hexdigest()


def code_digest(handler: Handler, options: Mapping[str, Any]) -> str:
    """Digest, 32 hexadecimal digits, of everything that a result depends on beside the input and the set of parameters.
    It covers the handler's code with the functions, classes and values that the code names. It also covers earlier
    handlers and their options, the options of the replay and its feed, and Strand's version."""
    numba_module()
    from strand.handlers.compiled_loop import add_function

    whole = blake2b(digest_size=DIGEST_BYTES)
    swept, _ = part_with_sets(handler)
    words: list[object] = [strand_version(), [(name, _said(value)) for name, value in sorted(options.items())]]
    for called, part in handler.parts_as(handler.name):
        words += [called, type(part).__name__, part.state.descr, sorted(part.outputs.items()), part.timers, part.ends]
        words += [isinstance(part, TradesHandler) and part.asks_for_trades]
        words += [_params(part, called == swept), None if part.origin is None else sorted(part.origin.options.items())]
        if isinstance(part, CompiledHandler):
            for function in part.written:
                add_function(whole, function, set())
        if isinstance(part, HostedHandler):
            add_written(whole, part.written)
        if isinstance(part, NativeHandler):
            words += _library(part)
    whole.update(in_full(words).encode())
    return whole.hexdigest()


def _said(value: Any) -> object:
    """An option's value; where that names files, with the digests of what they hold."""
    texts = value if isinstance(value, list | tuple) else [value]
    files = [Path(text.removeprefix("@") if isinstance(text, str) else text) for text in texts if _names_a_file(text)]
    return value, [file_digest(path) for path in files]


def _names_a_file(value: object) -> bool:
    return isinstance(value, str | Path) and Path(str(value).removeprefix("@")).is_file()


def _params(part: SingleHandler, swept: bool) -> object:
    """Parameters of a part for its digest; for the swept part, only the values that all sets share."""
    if part.params is None:
        return None
    return part.params.dtype.descr, sorted(part.params.defaults.items()), _sorted(part.params.values), swept


def _sorted(values: Mapping[str, Mapping[str, Any]]) -> object:
    return sorted((symbol, sorted(row.items())) for symbol, row in values.items())


def _library(part: NativeHandler) -> list[object]:
    kept = getattr(part.function, "keep", None)
    first = kept[0] if isinstance(kept, tuple) and kept else None
    if not isinstance(first, NativeFunctions) or not isinstance(first.source, str | Path):
        return []
    return [part.name, file_digest(Path(first.source))]
