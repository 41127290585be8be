"""A run beside what it should have come to: the first row and the first emitted record that differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Unpack

import numpy as np
import numpy.typing as npt

from strand.caller.run import CallerRun
from strand.diff.runs import to_json
from strand.dispatch.options import GROUPS
from strand.errors import ConfigurationError, DifferenceError
from strand.feeds import Feed
from strand.handlers import HandlerLike
from strand.options import named_options
from strand.output.basket_rows import BasketRows
from strand.output.rows import Rows
from strand.replaying.options import ReplayOptions
from strand.replaying.replay import replay
from strand.replaying.result import ReplayResult

__all__ = ["assert_same", "reference"]

#: Differing symbols, and fields of one, that a message tells; it counts the others.
SHOWN = 5


class Ran(Protocol):
    """Finished run: a ReplayResult, or a Dispatcher that has stopped."""

    @property
    def symbols(self) -> Sequence[str]: ...

    @property
    def rows(self) -> Rows: ...

    @property
    def baskets(self) -> BasketRows: ...

    @property
    def outputs(self) -> Mapping[str, Any]: ...


@named_options("reference()", more=ReplayOptions, like=replay, groups=GROUPS)
def reference(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Feed,
    handler: HandlerLike | None = None,
    *,
    handlers: Mapping[str, HandlerLike] | None = None,
    **options: Unpack[ReplayOptions],
) -> ReplayResult:
    """Runs handlers over a feed, or a file, in a plain loop on the calling thread: no queues, no strands, no workers.

    Each tick is handled before the next one. Every run over the same ticks has to come to the same
    (docs/determinism.md): ``reference(feed, handler).rows["AAPL"]``, and ``.outputs["bars"]``. It raises what
    ``strand.replay`` raises.

    Args:
        source: A path or several, or a feed, as ``strand.replay`` takes it.
        handler: The handler.
        handlers: Handlers by symbol, with ``"*"`` for the others, in place of ``handler``.
        **options: Other options of ``strand.replay``.
    """
    for name in ("workers", "pool"):
        if name in options:
            raise ConfigurationError(name, "a reference is the plain loop, without workers: leave it out")
    options["workers"] = 0
    return replay(source, handler, handlers=handlers, _dispatcher=partial(CallerRun, in_order=True), **options)


def assert_same(run: Ran, expected: Ran) -> None:
    """Raises DifferenceError, an AssertionError, unless two runs have the same rows and outputs to the last bit.

    Symbols are compared by name, and so are baskets.

    Args:
        run: A result of ``strand.replay``, ``reference`` or ``seeded``, or a Dispatcher that has stopped.
        expected: The run to compare with, in the same forms.

    Raises:
        DifferenceError: If the runs differ. The message tells the symbols and fields that differ, with both values, and
            the first record of each output that differs. The error's ``symbols`` and ``outputs`` name all of them.
    """
    of_rows = dict(_row_differences(run, expected))
    of_rows.update(_basket_differences(run.baskets, expected.baskets))
    of_outputs = dict(_output_differences(run.outputs, expected.outputs))
    if not of_rows and not of_outputs:
        return
    lines = [f"{symbol}: {text}" for symbol, text in list(of_rows.items())[:SHOWN]]
    if len(of_rows) > SHOWN:
        lines.append(f"{len(of_rows) - SHOWN} more symbols")
    lines += [f"output {name!r}: {text}" for name, text in of_outputs.items()]
    raise DifferenceError("the run is not what was expected: " + "; ".join(lines), tuple(of_rows), tuple(of_outputs))


def _row_differences(run: Ran, expected: Ran) -> Iterator[tuple[str, str]]:
    at, at_expected = ({name: i for i, name in enumerate(ran.symbols) if name} for ran in (run, expected))
    for name in sorted(at.keys() | at_expected.keys()):
        if name not in at or name not in at_expected:
            yield name, f"only the {'run' if name in at else 'expected one'} has this symbol"
            continue
        row, other = run.rows.at(at[name]), expected.rows.at(at_expected[name])
        if text := _values(row, other):
            yield name, text


def _basket_differences(baskets: BasketRows, expected: BasketRows) -> Iterator[tuple[str, str]]:
    for name in sorted({*baskets, *expected}):
        if name not in baskets or name not in expected:
            yield f"basket {name}", f"only the {'run' if name in baskets else 'expected one'} has it"
        elif text := _values(baskets[name], expected[name]):
            yield f"basket {name}", text


def _output_differences(outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(outputs.keys() | expected.keys()):
        if name not in outputs or name not in expected:
            yield name, f"only the {'run' if name in outputs else 'expected one'} has this output"
            continue
        records, others = _records(outputs[name]), _records(expected[name])
        for i, (record, other) in enumerate(zip(records, others, strict=False)):
            if text := _values(record, other):
                yield name, f"record {i} of {len(records):,}: {text}"
                break
        else:
            if len(records) != len(others):
                yield name, f"{len(records):,} records, expected {len(others):,}, the same up to there"


def _records(output: Any) -> npt.NDArray[Any]:
    """An output's records: those of a Dispatcher are to be asked for."""
    return np.asarray(output.array() if hasattr(output, "array") else output)


def _values(one: Any, other: Any) -> str:
    """The fields of two records that differ, bit by bit; empty where none does."""
    names, others = one.dtype.names, other.dtype.names
    if names != others or one.dtype != other.dtype:
        return f"has the fields {', '.join(names)}, expected {', '.join(others)}, or of other types"
    found = [name for name in names if np.asarray(one[name]).tobytes() != np.asarray(other[name]).tobytes()]
    texts = [f"{name} is {to_json(one[name])}, expected {to_json(other[name])}" for name in found[:SHOWN]]
    if len(found) > SHOWN:
        texts.append(f"and {len(found) - SHOWN} more fields")
    return ", ".join(texts)
