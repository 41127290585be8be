"""The thread of a guard: it measures, decides, and tells the engine which strands to hold back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from strand.binding.engine import Engine
from strand.binding.engine_words import RESOURCES
from strand.binding.memory import memory_there
from strand.dicts import FrozenDict
from strand.dispatch.guard import Guard, Hold, Reading, decide
from strand.dispatch.watching import Regular
from strand.errors import MissingExtraError
from strand.fixed import dataclass
from strand.logs import Event
from strand.stats import GuardStatistics
from strand.threads import Inside

ROOT: Final = Path("/")
#: Files of a limit and of its use, and the count in memory.stat of memory that the kernel can reclaim by itself.
_MEMORY: Final = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@dataclass(frozen=True, slots=True)
class Meter:
    """``read``: the value now; raises OSError. ``source``: where it comes from, as text. ``field``: of a Reading."""

    field: str
    source: str
    read: Callable[[], float]


class Meters:
    """Meters of the resources that ``guard`` watches. ``sources``: by resource, the source of its values, or why there
    is none.

    Raises MissingExtraError where psutil is needed and not installed, OSError where a file cannot be read."""

    def __init__(self, guard: Guard, root: Path = ROOT) -> None:
        made = {
            "cpu": None if guard.cpu is None else cpu_meter(root),
            "memory": None if guard.memory is None else memory_meter(root),
            "io": None if guard.io_pressure is None else io_meter(root),
        }
        self._meters = [meter for meter in made.values() if meter is not None]
        self.sources = {resource: "not watched" if meter is None else meter.source for resource, meter in made.items()}
        #: True if I/O is to be watched, and cannot be.
        self.lacks_io = guard.io_pressure is not None and made["io"] is None
        if self.lacks_io:
            self.sources["io"] = "not watched: there is neither /proc/pressure/io nor /proc/diskstats"

    def read(self) -> Reading:
        """Measures all resources now; CPU time since the last call. Raises OSError."""
        return Reading(**{meter.field: meter.read() for meter in self._meters})


class _Rate:
    """CPU time that was used since the last call, in cores. ``read_s``: the clock, and CPU time so far, in seconds."""

    def __init__(self, read_s: Callable[[], tuple[float, float]]) -> None:
        self._read_s = read_s
        self._last = read_s()

    def __call__(self) -> float:
        now, used = self._read_s()
        elapsed, spent = now - self._last[0], used - self._last[1]
        if elapsed <= 0:
            return 0.0
        self._last = now, used
        return spent / elapsed


def cpu_meter(root: Path = ROOT) -> Meter:
    """The share that is used of the CPU time which the tightest limit allows, or which the machine has."""
    rates = [(folder, cores, _Rate(partial(_by_clock, used))) for folder, cores, used in _cpu_limits(root)]
    if rates:
        return Meter("cpu", str(rates[0][0]), lambda: max(rate() / cores for _, cores, rate in rates))
    psutil = _psutil("a guard of the machine's CPU")

    hertz = os.sysconf("SC_CLK_TCK")

    def read() -> tuple[float, float]:  # of one reading, or more time may be in use than has passed
        # In whole ticks of the kernel: sums of seconds would be rounded, and their difference may be below zero.
        times = psutil.cpu_times()
        guest, idle = (
            sum(round(getattr(times, name, 0) * hertz) for name in names)
            for names in (("guest", "guest_nice"), ("idle", "iowait"))
        )
        all_ticks = sum(round(time * hertz) for time in times) - guest
        return all_ticks, all_ticks - idle

    return Meter("cpu", "the machine", _Rate(read))


def memory_meter(root: Path = ROOT, machine_bytes: int | None = None) -> Meter:
    """The share that is in use of the tightest limit, or of the machine's memory. Pages of files that the kernel gives
    back when memory is asked for are not in use."""
    limits = list(_memory_limits(root, memory_there() if machine_bytes is None else machine_bytes))
    if limits:

        def read() -> float:
            return max(
                (_number(folder / used) - _stat(folder / "memory.stat", inactive)) / limit
                for folder, limit, used, inactive in limits
            )

        return Meter("memory", str(limits[0][0]), read)
    psutil = _psutil("a guard of the machine's memory")

    def of_machine() -> float:
        memory = psutil.virtual_memory()
        return 1 - float(memory.available) / float(memory.total)

    return Meter("memory", "the machine", of_machine)


def io_meter(root: Path = ROOT) -> Meter | None:
    """Meter of the time that some task waited for I/O: of the innermost cgroup with a limit of CPU or memory, else of
    the machine. Without such figures, it counts the requests in flight at the busiest disk. None: there is neither."""
    limits = [*(limit[0] for limit in _cpu_limits(root)), *(limit[0] for limit in _memory_limits(root, memory_there()))]
    # The innermost of those with a limit; one of version 1 has no such file.
    files = [folder / "io.pressure" for folder in _folders(root, "") if folder in limits][:1]
    files.append(root / "proc/pressure/io")
    for file in files:
        # The file is there and cannot be read where the kernel was started without PSI.
        if _can_read(file):
            return Meter("io_pressure", str(file), partial(_pressure, file))
    disks = root / "proc/diskstats"
    return Meter("io_queue", str(disks), partial(_longest_queue, disks)) if _can_read(disks) else None


def _pressure(file: Path) -> float:
    for line in file.read_text().splitlines():
        kind, *fields = line.split()
        if kind == "some":
            return float(dict(field.split("=") for field in fields)["avg10"]) / 100
    raise OSError(f"{file} has no line 'some'")


def _longest_queue(disks: Path) -> float:
    # A partition's requests are its disk's too, and so the longest queue is a disk's.
    return float(max((int(line.split()[11]) for line in disks.read_text().splitlines()), default=0))


# ---- cgroups


def _folders(root: Path, controller: str) -> list[Path]:
    """The folders of this process's cgroup and of those around it, the innermost first; ``controller``: of a
    hierarchy of version 1, ``""``: of version 2."""
    groups: dict[str, str] = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        groups |= dict.fromkeys(controllers.split(","), group)
    if controller not in groups:
        return []
    for line in _lines(root / "proc/self/mountinfo"):
        fields, _, more = line.partition(" - ")
        top, point = fields.split()[3:5]
        kind, _, options = more.split(" ", 2)
        if kind != ("cgroup" if controller else "cgroup2") or (controller and controller not in options.split(",")):
            continue
        outermost, path = root / point.lstrip("/"), Path(groups[controller])
        # In a namespace of its own, or a container, the mounted folder is that of this process's cgroup.
        inner = path.relative_to(top) if path.is_relative_to(top) and ".." not in path.parts else Path()
        own = outermost / inner
        return [own, *(folder for folder in own.parents if folder.is_relative_to(outermost))]
    return []


def _cpu_limits(root: Path) -> list[tuple[Path, float, Callable[[], float]]]:
    """Folders with a limit, how many cores it allows, and the CPU time that was used in s."""
    found: list[tuple[Path, float, Callable[[], float]]] = []
    for folder in _folders(root, ""):
        quota, _, period = (_text(folder / "cpu.max") or "max").partition(" ")
        if quota != "max":
            used_s = partial(_scaled, partial(_stat, folder / "cpu.stat", "usage_usec"), 1e-6)
            found.append((folder, int(quota) / int(period), used_s))
    for folder, used in zip(_folders(root, "cpu"), _folders(root, "cpuacct"), strict=False):
        quota, period = (_text(folder / name) or "-1" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
        if int(quota) > 0 and int(period) > 0:
            used_s = partial(_scaled, partial(_number, used / "cpuacct.usage"), 1e-9)
            found.append((folder, int(quota) / int(period), used_s))
    return found


def _by_clock(used_s: Callable[[], float]) -> tuple[float, float]:
    return time.monotonic(), used_s()


def _scaled(count: Callable[[], int], scale: float) -> float:
    return count() * scale


def _memory_limits(root: Path, machine_bytes: int) -> Iterator[tuple[Path, int, str, str]]:
    """Folders with a limit below the machine's memory: the limit in bytes, the file of the use, and the count of memory
    that the kernel can reclaim."""
    for version, controller in ((2, ""), (1, "memory")):
        maximum, used, inactive = _MEMORY[version]
        for folder in _folders(root, controller):
            limit = _text(folder / maximum)
            if limit is not None and limit != "max" and int(limit) < machine_bytes:
                yield folder, int(limit), used, inactive


def _lines(file: Path) -> list[str]:
    return (_text(file) or "").splitlines()


def _text(file: Path) -> str | None:
    """None: it is not there, or cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _can_read(file: Path) -> bool:
    return bool(_text(file))


def _number(file: Path) -> int:
    return int(file.read_text())


def _stat(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise OSError(f"{file} has no line {name!r}")


def _psutil(feature: str) -> Any:
    try:
        import psutil
    except ImportError as error:
        raise MissingExtraError(feature, "psutil", "guard") from error
    return psutil


_LOGGER: Final = ".guard"
_UNWATCHED: Final = Event("guard.unwatched", _LOGGER, "WARNING", "%(resource)s: %(source)s")
_HELD: Final = Event("guard.held", _LOGGER, "INFO", "%(resource)s: at %(percent).0f %% of its threshold: %(effect)s")
_RELEASED: Final = Event(
    "guard.released", _LOGGER, "INFO", "%(resource)s: %(why)s: what was held back for %(held_s).1f s goes on"
)
_ENDED: Final = Event("guard.ended", _LOGGER, "ERROR", "the guard has ended, and holds nothing back any more")
#: Work that waits per resource, for the log.
_WAITS: Final = {
    "cpu": "strands of level low wait",
    "memory": "only levels immediate and high go on, and what frees memory",
    "io": "strands marked io wait",
}


class Guarding(Regular):
    """Thread that holds strands back while it runs. However it ends, it releases them. Raises MissingExtraError without
    psutil, where it is needed."""

    def __init__(self, engine: Engine, guard: Guard, *, allowed: Sequence[int], inside: Inside) -> None:
        super().__init__(engine, guard.every_ns, "strand-guard", allowed=allowed, inside=inside)
        self._guard = guard
        meters = Meters(guard)
        self._read: Callable[[], Reading] = meters.read
        self._sources, self._lacks_io = meters.sources, meters.lacks_io
        self._holds = {resource: Hold() for resource in RESOURCES}
        self._reading = Reading()

    def start(self) -> None:
        if self._lacks_io:
            _UNWATCHED(resource="io", source=self._sources["io"])
        super().start()

    def statistics(self) -> Mapping[str, GuardStatistics]:
        """Decisions so far, by resource."""
        holds, last = self._holds, self._reading
        readings = {"cpu": last.cpu, "memory": last.memory}
        readings["io"] = last.io_queue if last.io_pressure is None else last.io_pressure
        now = time.monotonic_ns()  # after that: a hold that begins meanwhile would have lasted for less than nothing
        return FrozenDict(
            {
                resource: GuardStatistics(
                    self._sources[resource],
                    hold.since_ns is not None,
                    hold.begun,
                    hold.expired,
                    hold.held_until(now),
                    readings[resource],
                )
                for resource, hold in holds.items()
            }
        )

    def _look(self, now_ns: int) -> None:
        """Lets strands rise that are due, decides, and holds back what is decided."""
        self._reading = self._read()
        before, strains = self._holds, self._guard.strains(self._reading)
        waiting = self._engine.schedule.hold_back(_bits(before))
        holds = {
            resource: decide(
                self._guard, hold, strains[resource], waits=bool(waiting & RESOURCES[resource]), now_ns=now_ns
            )
            for resource, hold in before.items()
        }
        if _bits(holds) != _bits(before):
            self._engine.schedule.hold_back(_bits(holds))
        self._holds = holds
        for resource, hold in holds.items():
            self._say(resource, before[resource], hold, strains[resource])

    def _say(self, resource: str, before: Hold, hold: Hold, strain: float | None) -> None:
        percent = 0.0 if strain is None else 100 * strain
        if hold.begun > before.begun:
            _HELD(resource=resource, percent=percent, effect=_WAITS[resource])
        elif before.since_ns is not None and hold.since_ns is None:
            why = "max_hold is over" if hold.expired > before.expired else f"at {percent:.0f} % of its threshold"
            held_s = (hold.held_ns - before.held_ns) / 1e9
            _RELEASED(resource=resource, why=why, held_s=held_s)

    def _ended(self, error: BaseException | None) -> None:
        self._engine.schedule.hold_back(0)
        now = time.monotonic_ns()
        self._holds = {resource: hold.ended(now) for resource, hold in self._holds.items()}
        if error is not None:
            self._sources = dict.fromkeys(self._sources, f"not watched: the guard has ended by {error!r}")
            _ENDED(exc_info=error)


def _bits(holds: Mapping[str, Hold]) -> int:
    """The resources that strands are held back for."""
    return sum(RESOURCES[resource] for resource, hold in holds.items() if hold.since_ns is not None)
