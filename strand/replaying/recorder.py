"""A run's fingerprints while it goes on: it is brought to rest every so many ticks, and what changed is recorded."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import numpy as np
import numpy.typing as npt

from strand.brief import in_full
from strand.errors import FeedError, called
from strand.feeds import Feed, TickBatch
from strand.feeds.opening import expand
from strand.handlers import Handler, HandlerLike, resolve
from strand.handlers.options import Origin
from strand.machine import strand_version
from strand.output.fingerprint import Digests, Names, OutputDigest, RowBytes, Running, digest_sum, fingerprint_of
from strand.output.output import output_digests
from strand.replaying.fingerprint_file import End, Interval, SymbolState, create_fingerprints, dump
from strand.replaying.stops import Stop

if TYPE_CHECKING:
    from strand.caller.run import CallerRun
    from strand.dispatch.dispatcher import Dispatcher
    from strand.replaying.options import Asked


class Recorder(Stop):
    """Records an interval every so many ticks, and what is left at the end; into a file, if one was asked for.

    ``names`` gives the symbols' names so far, by index. ``counts``: of published ticks, by symbol. ``header``: makes
    the file's.
    """

    def __init__(
        self,
        dispatcher: Dispatcher | CallerRun,
        names: Callable[[], Sequence[str]],
        counts: npt.NDArray[np.int64],
        asked: Asked,
        header: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._dispatcher = dispatcher
        self._names = names
        self._every = asked["fingerprint_every"]
        dispatcher.outputs.digest_all()
        self._file: BinaryIO | None = None
        self._creating: AbstractContextManager[BinaryIO] | None = None
        if asked["fingerprints"] is not None:
            self._creating = create_fingerprints(asked["fingerprints"], header())
        n = len(dispatcher.symbols)
        self._counts = counts
        self._has_ended = False
        self._error: BaseException | None = None
        self._ticks = 0
        self._recorded = -1
        self._inputs = Running()
        self._touched = np.zeros(n, np.bool_)
        self._last = np.zeros(n, np.uint64)
        self._rows = RowBytes(dispatcher.rows)
        self._row_digests: Digests = np.zeros((n, 2), np.uint64)
        self._input_digests: Digests = np.zeros((n, 2), np.uint64)
        self._row_sum, self._input_sum = np.zeros(2, np.uint64), np.zeros(2, np.uint64)
        self._nameless: set[int] = set()
        self._intervals: list[Interval] = []

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """Intervals that were recorded, without the symbols."""
        return tuple(self._intervals)

    def __enter__(self) -> Self:
        if self._creating is not None:
            self._file = self._creating.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Ends the recording after the dispatcher has stopped: handlers' work at the end of a run is part of it."""
        try:
            if kind is None and self._has_ended:
                self._end()
        except BaseException as failure:
            if self._creating is not None:
                self._creating.__exit__(type(failure), failure, failure.__traceback__)
            raise
        if self._creating is not None:
            self._creating.__exit__(kind, error, trace)

    def next(self, at: int) -> int | None:
        return None if self._every is None else at + self._every - self._ticks % self._every

    def published(self, ticks: TickBatch) -> None:
        keys = ticks["instrument_id"]
        self._inputs.add(ticks)
        self._touched[keys] = True
        self._last[keys] = ticks["sequence"]  # of those of one symbol the last one stands
        self._ticks += len(ticks)
        if self._every is not None and self._ticks % self._every == 0 and len(ticks):
            self._dispatcher.drain()
            self._record()

    def ending(self, error: BaseException | None) -> None:
        """All ticks are published, or those before an error. The rest is recorded when this context is left."""
        self._has_ended, self._error = True, error

    def _end(self) -> None:
        # Once more where the last interval ended with the ticks: a handler may act at the end of a run.
        self._record()
        if self._file is not None:
            error, dropped = self._error, sum(self._dispatcher.statistics().dropped.values())
            words = None if error is None else str(error) or type(error).__name__
            digests = output_digests(self._dispatcher.outputs)
            dump(self._file, End(self._ticks, self._fingerprint(digests), dropped, words, _plain(digests)))

    def _record(self) -> None:
        names, counts = self._learn(), self._counts
        changed: list[int] = []
        for at, digests in self._rows.changed(names, counts, self._touched):
            differs = (self._row_digests[at] != digests).any(axis=1) | self._touched[at]
            self._row_sum += digest_sum(digests) - digest_sum(self._row_digests[at])
            self._row_digests[at] = digests
            changed += np.asarray(at)[differs].tolist()
            self._nameless.update(i for i in at if names[i].startswith("#"))
        ticked = np.flatnonzero(self._touched & (counts > 0)).tolist()
        if ticked:
            inputs = self._inputs.digests(names, ticked)
            self._input_sum += digest_sum(inputs) - digest_sum(self._input_digests[ticked])
            self._input_digests[ticked] = inputs
        self._touched[:] = False
        outputs = self._dispatcher.outputs.settled_digests()
        whole = Interval(
            self._ticks,
            self._fingerprint(outputs),
            fingerprint_of(self._input_sum),
            _plain(outputs),
            {names[i]: self._state(i) for i in sorted(changed)} if self._file is not None else {},
        )
        if self._intervals and self._ticks == self._recorded:
            if whole.fingerprint == self._intervals[-1].fingerprint:
                return
            self._intervals.pop()
        self._recorded = self._ticks
        self._intervals.append(replace(whole, changed={}))
        if self._file is not None:
            dump(self._file, whole)

    def _fingerprint(self, outputs: Mapping[str, OutputDigest]) -> str:
        return fingerprint_of(self._row_sum, outputs, self._dispatcher.rows)

    def _learn(self) -> Names:
        """Names so far. A symbol that has got its name since is another symbol to a digest."""
        self._dispatcher.learn_symbols(self._names())
        names = self._dispatcher.symbols  # not a list of all: a feed has room for many more than come
        named = [i for i in self._nameless if not names[i].startswith("#")]
        self._touched[named] = True
        self._nameless.difference_update(named)
        return names

    def _state(self, i: int) -> SymbolState:
        rows, inputs = self._row_digests[i].tobytes()[:8].hex(), self._input_digests[i].tobytes()[:8].hex()
        return SymbolState(rows, inputs, int(self._counts[i]), int(self._last[i]))


def _plain(outputs: Mapping[str, OutputDigest]) -> dict[str, tuple[int, str]]:
    """Number of records of each output, and their digest."""
    return {name: (digest.records, digest.digest().hex()) for name, digest in outputs.items()}


#: Bytes of a file's start that identify it, beside its name and size.
HEAD_BYTES: Final = 1 << 20


def run_header(
    source: Any,
    handlers: Mapping[str, HandlerLike | None],
    asked: Asked,
    begins: Mapping[str, Any],
    *,
    feed_options: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The header: everything in it is plain. ``begins``: names of symbols, and the first tick's position, in place of
    those that were asked for. ``settings`` are those that must not matter, such as ``workers``."""
    selection = {"symbols": None, "start": asked["start"], "end": asked["end"], "limit": asked["limit"], **begins}
    return {
        "version": strand_version(),
        "every": asked["fingerprint_every"],
        "source": describe_source(source, feed_options),
        "handlers": describe_handlers(handlers),
        "selection": {name: value for name, value in selection.items() if value not in (None, 0, [])},
        "feed_options": {name: _as_json(value) for name, value in feed_options.items()},
        "settings": {name: _as_json(value) for name, value in settings.items()},
    }


def _as_json(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else in_full(value)


def describe_source(source: Any, feed_options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each file's path, size in bytes, and the digest of its first MiB; what is no file has only a path."""
    if isinstance(source, Feed) and not isinstance(source, str | os.PathLike | Sequence):
        return [{"path": source.info.path, "size": None, "head": None}]
    found: list[dict[str, Any]] = []
    for path in expand(source, dict(feed_options)):
        known = Path(path)
        if not known.is_file():
            found.append({"path": called(path), "size": None, "head": None})
            continue
        try:
            with known.open("rb") as file:
                head = blake2b(file.read(HEAD_BYTES), digest_size=16).hexdigest()
        except OSError as error:
            raise FeedError(f"cannot be read: {error.strerror or error}", path=known) from error
        found.append({"path": os.fspath(known.absolute()), "size": known.stat().st_size, "head": head})
    return found


def describe_handlers(handlers: Mapping[str, HandlerLike | None]) -> dict[str, dict[str, Any]]:
    """Describes the handlers by symbol (``*``: the others). ``name``: the handler's. ``load``: the name to load it by
    (None: unknown). ``options``: as text. ``code``: a digest of its code (None for a handler that is not Python)."""
    return {symbol: _describe(like) for symbol, like in handlers.items() if like is not None}


def _describe(like: HandlerLike) -> dict[str, Any]:
    handler = resolve(like)
    origin = handler.origin or Origin(_where(like), {})
    if origin.load is None and not origin.options:
        origin = Origin(None, handler.described_params)
    code = _code(like if isinstance(like, type) else handler)
    return {"name": handler.name, "load": origin.load, "options": dict(origin.options), "code": code}


def _where(like: HandlerLike) -> str | None:
    """``module:name`` where that is this handler."""
    for module_name, module in list(sys.modules.items()):
        if module_name == "__main__" or module_name.startswith("strand."):
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is like:
                return f"{module_name}:{name}"
    return None


def _code(like: Handler | type) -> str | None:
    """A digest of the text of a handler's functions, which says nothing of what they call."""
    try:
        written = (like,) if isinstance(like, type) else like.written
        texts = [inspect.getsource(inspect.unwrap(function)) for function in written]
    except (OSError, TypeError):
        return None
    return blake2b("".join(texts).encode(), digest_size=8).hexdigest() if texts else None
