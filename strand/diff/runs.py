"""Two fingerprint files side by side: the first interval in which their runs part, and the symbols that do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strand.fingerprint_file import End, Interval, SymbolState, read_fingerprints

__all__ = ["Parting", "SymbolParting", "diff_runs"]


@dataclass(frozen=True, slots=True)
class SymbolParting:
    """A symbol that differs: what either run had of it then, None where that run had not met it."""

    symbol: str
    a: SymbolState | None
    b: SymbolState | None

    @property
    def input_differs(self) -> bool:
        """Whether the runs were given different ticks of it."""
        return self.a is None or self.b is None or (self.a.input, self.a.ticks) != (self.b.input, self.b.ticks)

    @property
    def rows_differ(self) -> bool:
        """Whether its row is different."""
        return self.a is None or self.b is None or self.a.rows != self.b.rows


@dataclass(frozen=True, slots=True)
class Parting:
    """What two recorded runs have in common.

    ``same``: all of it. Else they were the same ``after`` so many ticks and not ``by`` so many (None: one of them had
    ended), ``symbols`` those that differ there: first those whose input does. ``outputs`` are the names of outputs that
    differ at the end. ``before`` is what either had recorded of the symbols at ``after``. ``notes`` are differences
    between the runs' inputs, handlers and selections in words, ``settings`` those between settings that must not
    matter, ``headers`` and ``ends`` as the files have them.
    """

    paths: tuple[str, str]
    headers: tuple[Mapping[str, Any], Mapping[str, Any]]
    ends: tuple[End | None, End | None]
    same: bool
    after: int
    by: int | None
    symbols: tuple[SymbolParting, ...]
    outputs: tuple[str, ...]
    before: Mapping[str, SymbolState]
    notes: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def input_differs(self) -> bool:
        """Whether the ticks differ of a symbol that does."""
        return any(s.input_differs for s in self.symbols)


class _Side:
    """One file, read so far: every symbol's state, and the states that symbols had when both were last the same."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = read_fingerprints(path)
        self._intervals: Iterator[Interval] = iter(self.file)
        self.state: dict[str, SymbolState] = {}
        self.changed: dict[str, SymbolState | None] = {}
        self.at: Interval | None = None
        #: Ticks, and 1 for what was recorded once more at the end of a run.
        self.place = (0, 0)

    def advance(self) -> None:
        """Reads on to the next interval; ``at`` is None where there is none."""
        self.at = next(self._intervals, None)
        if self.at is None:
            return
        self.place = (self.at.ticks, 1 if self.at.ticks == self.place[0] and self.place[0] else 0)
        for name, state in self.at.changed.items():
            self.changed.setdefault(name, self.state.get(name))
            self.state[name] = state

    def finish(self) -> End | None:
        """Reads to the end, which is checked."""
        for _ in self._intervals:
            pass
        return self.file.end


def diff_runs(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Parting:
    """Compares two fingerprint files, in one pass over both.

    Files recorded with different ``every`` are compared where both were at rest after the same number of ticks.
    Raises FormatError and TruncatedFeedError for files that are not whole.
    """
    one, two = _Side(a), _Side(b)
    after = 0
    one.advance()
    two.advance()
    while one.at is not None and two.at is not None:
        if one.place != two.place:
            (one if one.place < two.place else two).advance()
            continue
        if (one.at.fingerprint, one.at.input) != (two.at.fingerprint, two.at.input):
            return _parting(one, two, after, one.at.ticks)
        after = one.at.ticks
        one.changed.clear()
        two.changed.clear()
        one.advance()
        two.advance()
    if one.at is not None or two.at is not None:
        return _parting(one, two, after, None)
    return _parting(one, two, after, after)


def _parting(one: _Side, two: _Side, after: int, by: int | None) -> Parting:
    symbols: list[SymbolParting] = []
    before: dict[str, SymbolState] = {}
    if by is not None:
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
    outputs = tuple(_outputs_that_differ(*ends))
    same = by == after and not symbols and not outputs and one.at is two.at is None
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


def _outputs_that_differ(a: End | None, b: End | None) -> Iterator[str]:
    ours, theirs = (end.outputs if end is not None else {} for end in (a, b))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield name


def _notes(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """What the runs were made of, where that differs."""
    yield from _source_notes(a.get("source", []), b.get("source", []))
    ours, theirs = a.get("handlers", {}), b.get("handlers", {})
    for symbol in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(symbol) or {}, theirs.get(symbol) or {}
        of = "" if symbol == "*" else f" of {symbol}"
        names = [h.get("load") or h.get("name") or "none" for h in (mine, other)]
        if names[0] != names[1]:
            yield f"handler{of}: {names[0]} against {names[1]}"
        elif mine.get("code") != other.get("code"):
            yield f"handler{of}: the text of {names[0]} has changed between the runs"
    for what in ("selection", "feed_options"):
        for name in sorted({**a.get(what, {}), **b.get(what, {})}):
            values = a.get(what, {}).get(name), b.get(what, {}).get(name)
            if values[0] != values[1]:
                yield f"{name}: {values[0]} against {values[1]}"
    if a.get("version") != b.get("version"):
        yield f"strand: {a.get('version')} against {b.get('version')}"


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
