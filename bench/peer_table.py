"""Output of bench/peers.py: the machine, the packages, and one table per job."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from strand.errors import DISTRIBUTION

__all__ = ["Times", "machine", "put_into", "table"]

BEGIN, END = "<!-- measured:begin -->", "<!-- measured:end -->"


@dataclass
class Times:
    """Of a side at one job: seconds, a turn each, all at ``messages``. ``note``: why there are none, or no more."""

    load: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    messages: int = 0
    note: str = ""

    @property
    def load_s(self) -> float:
        return median(self.load)

    @property
    def run_s(self) -> float:
        return median(self.run)

    @property
    def whole_s(self) -> float:
        return self.load_s + self.run_s


def machine(packages: Iterable[str], others: Iterable[str]) -> str:
    """The day, the machine and what is installed. ``others``: named with their versions already."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in info if "model name" in line), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    there = [name for name in sorted({"numpy", "strand", *packages}) if importlib.util.find_spec(name)]
    versions = [f"{name} {importlib.metadata.version({'strand': DISTRIBUTION}.get(name, name))}" for name in there]
    return (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB; load "
        f"{os.getloadavg()[0]:.1f} at first. Python {platform.python_version()}, {', '.join([*versions, *others])}."
    )


def table(job: str, symbols: int, messages: int, times: Mapping[str, Times]) -> Iterator[str]:
    """A line a side. Rates are of the messages that the side was given; the best of those given all are bold."""
    yield f"### {job}: {messages / 1e6:g} M messages, {symbols:,} symbols"
    yield ""
    yield "| side | load, s | run, s | M messages/s of run | of load and run | |"
    yield "|---|---|---|---|---|---|"
    full = {name: found for name, found in times.items() if found.run and found.messages == messages}
    shortest_run = min(full, key=lambda name: full[name].run_s, default=None)
    shortest_whole = min(full, key=lambda name: full[name].whole_s, default=None)
    for name, found in times.items():
        if not found.run:
            yield f"| {name} | | | | | {found.note} |"
            continue
        of_run = _rate(found.messages / found.run_s, name == shortest_run)
        of_all = _rate(found.messages / found.whole_s, name == shortest_whole)
        smaller = f"of {found.messages / 1e6:g} M messages" if found.messages < messages else ""
        note = ", ".join(part for part in (smaller, found.note) if part)
        yield f"| {name} | {found.load_s:.2f} | {found.run_s:.3f} | {of_run} | {of_all} | {note} |"
    yield ""


def _rate(a_second: float, best: bool) -> str:
    text = f"{a_second / 1e6:.2f}" if a_second >= 1e5 else f"{a_second / 1e6:.4f}"
    return f"**{text}**" if best else text


def put_into(path: Path, lines: Iterable[str]) -> None:
    """Replaces what is between the marks."""
    text = path.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    path.write_text("\n".join([before, *lines, after]))
