"""Two fingerprint files side by side: the first interval in which their runs part, and the symbols that do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from strand.fixed import dataclass
from strand.replaying.fingerprint_file import End, Interval, OutputState, SymbolState, read_fingerprints


@dataclass(frozen=True, slots=True)
class SymbolParting:
    """A symbol that differs, with the state that each run recorded for it; None for a run that had not met it."""

    symbol: str
    a: SymbolState | None
    b: SymbolState | None

    @property
    def input_differs(self) -> bool:
        """True if the two runs were given different ticks of the symbol."""
        return self.a is None or self.b is None or (self.a.input, self.a.ticks) != (self.b.input, self.b.ticks)

    @property
    def rows_differ(self) -> bool:
        """True if the symbol's rows differ."""
        return self.a is None or self.b is None or self.a.rows != self.b.rows


@dataclass(frozen=True, slots=True)
class OutputParting:
    """An output that differs: the number of equal records ``before``, and the state in each run; None for a run without
    such an output."""

    name: str
    before: int
    a: OutputState | None
    b: OutputState | None


@dataclass(frozen=True, slots=True)
class Parting:
    """Comparison of two recorded runs: the last common point, and the first differences after it.

    Attributes:
        paths: The two files.
        headers: The headers of the files.
        ends: The last lines of the files.
        same: Whether the runs are the same.
        after: After how many ticks they were the same last.
        by: After how many ticks they were not the same any more; None if one of them had ended.
        symbols: The symbols that differ there, first those whose input does.
        outputs: The outputs that differ there.
        before: What either run had recorded of these symbols at ``after``.
        notes: Differences between the runs' inputs, handlers and selections, in words.
        settings: Differences between settings that must not matter, in words.
    """

    paths: tuple[str, str]
    headers: tuple[Mapping[str, Any], Mapping[str, Any]]
    ends: tuple[End | None, End | None]
    same: bool
    after: int
    by: int | None
    symbols: tuple[SymbolParting, ...]
    outputs: tuple[OutputParting, ...]
    before: Mapping[str, SymbolState]
    notes: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def input_differs(self) -> bool:
        """True if the input differs for any symbol that differs."""
        return any(s.input_differs for s in self.symbols)


class _Side:
    """File of one side, read so far: every symbol's state, and the states at the last point where both files were the
    same."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = read_fingerprints(path)
        self._intervals: Iterator[Interval] = iter(self.file)
        self._next = next(self._intervals, None)
        self.state: dict[str, SymbolState] = {}
        self.changed: dict[str, SymbolState | None] = {}
        self.at: Interval | None = None
        #: Outputs where both were last the same.
        self.outputs: Mapping[str, OutputState] = {}
        #: True if ``at`` is the run's end, and not a rest on the way: handlers may act at the end of a run.
        self.ended = False

    def advance(self) -> None:
        """Reads on to the next interval; ``at`` is None where there is none."""
        self.at = self._next
        if self.at is None:
            return
        self._next = next(self._intervals, None)
        self.ended = self._next is None
        for name, state in self.at.changed.items():
            self.changed.setdefault(name, self.state.get(name))
            self.state[name] = state

    def agree(self) -> None:
        """Notes that both files are the same here."""
        assert self.at is not None
        self.changed.clear()
        self.outputs = self.at.outputs

    def finish(self) -> End | None:
        """Reads to the end, which is checked."""
        for _ in self._intervals:
            pass
        return self.file.end


def diff_runs(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Parting:
    """Compares two fingerprint files in one pass over both.

    Files that were recorded with different ``every`` are compared where both were at rest after the same number of
    ticks.

    Args:
        a: The first file.
        b: The second file.

    Raises:
        FormatError: If a file cannot be read, or is not a fingerprint file.
        TruncatedFeedError: If a file ends too soon.
    """
    one, two = _Side(a), _Side(b)
    after = 0
    one.advance()
    two.advance()
    while one.at is not None and two.at is not None:
        if one.at.ticks != two.at.ticks:
            (one if one.at.ticks < two.at.ticks else two).advance()
            continue
        same = (one.at.fingerprint, one.at.input) == (two.at.fingerprint, two.at.input)
        alike = one.ended == two.ended
        if alike and not same:
            return _parting(one, two, after, one.at.ticks)
        if same:
            after = one.at.ticks
            one.agree()
            two.agree()
        # Of a rest and an end the rest is passed: the end is compared with an end.
        for side in (one, two):
            if alike or not side.ended:
                side.advance()
    if one.at is not None or two.at is not None:
        return _parting(one, two, after, None)
    return _parting(one, two, after, after)


def _parting(one: _Side, two: _Side, after: int, by: int | None) -> Parting:
    symbols: list[SymbolParting] = []
    outputs: tuple[OutputParting, ...] = ()
    before: dict[str, SymbolState] = {}
    if one.at is not None and two.at is not None:  # else one of them had ended
        outputs = tuple(_outputs_that_differ(one, one.at.outputs, two.at.outputs))
        for name in sorted(one.changed.keys() | two.changed.keys()):
            a, b = one.state.get(name), two.state.get(name)
            if a != b:
                symbols.append(SymbolParting(name, a, b))
                known = one.changed.get(name, a)
                if known is not None:
                    before[name] = known
    symbols.sort(key=lambda s: not s.input_differs)
    ends = (one.finish(), two.finish())
    headers = (one.file.header, two.file.header)
    same = by == after and not symbols and one.at is two.at is None
    return Parting(
        paths=(os.fspath(one.file.path), os.fspath(two.file.path)),
        headers=headers,
        ends=ends,
        same=same,
        after=after,
        by=by,
        symbols=tuple(symbols),
        outputs=outputs,
        before=before,
        notes=tuple(_notes(*headers)),
        settings=tuple(_settings(*headers)),
    )


def _outputs_that_differ(
    side: _Side, ours: Mapping[str, OutputState], theirs: Mapping[str, OutputState]
) -> Iterator[OutputParting]:
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            before = side.outputs.get(name, (0, ""))[0]
            yield OutputParting(name, before, ours.get(name), theirs.get(name))


def _notes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """Differences between the runs' sources, handlers and options, in words."""
    yield from _source_notes(a.get("source", []), b.get("source", []))
    ours, theirs = a.get("handlers", {}), b.get("handlers", {})
    for symbol in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(symbol) or {}, theirs.get(symbol) or {}
        of = "" if symbol == "*" else f" of {symbol}"
        names = [h.get("load") or h.get("name") or "none" for h in (mine, other)]
        if names[0] != names[1]:
            yield f"handler{of}: {names[0]} against {names[1]}"
            continue
        yield from _option_notes(of, mine.get("options", {}), other.get("options", {}))
        if mine.get("code") != other.get("code"):
            yield f"handler{of}: the text of {names[0]} has changed between the runs"
    for what in ("selection", "feed_options"):
        for name in sorted({**a.get(what, {}), **b.get(what, {})}):
            values = a.get(what, {}).get(name), b.get(what, {}).get(name)
            if values[0] != values[1]:
                yield f"{name}: {values[0]} against {values[1]}"
    if a.get("version") != b.get("version"):
        yield f"strand: {a.get('version')} against {b.get('version')}"


def _option_notes(of: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield f"handler{of}: {name}: {a.get(name, 'its default')} against {b.get(name, 'its default')}"


def _source_notes(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Iterator[str]:
    if len(a) != len(b):
        yield f"input: {len(a)} files against {len(b)}"
        return
    for mine, other in zip(a, b, strict=True):
        names = [Path(str(s.get("path"))).name for s in (mine, other)]
        if (mine.get("size"), mine.get("head")) != (other.get("size"), other.get("head")):
            yield (
                f"input: {names[0]} ({_size(mine)}) against {names[1]} ({_size(other)})"
                + ("" if mine.get("size") != other.get("size") else ", whose first MiB differs")
            )


def _size(source: Mapping[str, Any]) -> str:
    return "no file" if source.get("size") is None else f"{source['size']:,} bytes"


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = a.get("settings", {}), b.get("settings", {})
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{name}: {ours.get(name)} against {theirs.get(name)}"


def to_json(value: Any) -> Any:
    """A field's value as JSON has it."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [to_json(v) for v in value] if isinstance(value, list | tuple) else value
