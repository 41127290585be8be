"""Meters: readings of CPU, memory and I/O, from made-up folders of the system and of this machine."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_support import wait_until
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from policies import CSRC, SUPPORT

from examples import examples
from strand import Guard
from strand.dispatch import guarding
from strand.dispatch.guarding import Meters, cpu_meter, io_meter, memory_meter
from strand.errors import MissingExtraError

pytestmark = pytest.mark.python


#: The mounts of a container with version 2, and of a machine with version 1.
MOUNT_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNT_1 = "".join(
    f"{30 + i} 23 0:{26 + i} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for i, name in enumerate(("cpu", "cpuacct", "memory"))
)
PSI = "some avg10={some} avg60=0.00 avg300=0.00 total=1\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n"
DISK = "   8       {n} {name} 1 2 3 4 5 6 7 8 {in_flight} 10 11\n"


class System:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> System:
        """A file for each name, ``__`` in the place of slashes and ``___`` of dots."""
        for name, text in files.items():
            path = self.root / name.replace("___", ".").replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self

    def version_2(self, group: str = "/") -> System:
        return self.write(proc__self__cgroup=f"0::{group}\n", proc__self__mountinfo=MOUNT_2)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Its ``s`` is the time that rates go by."""
    made = SimpleNamespace(s=0.0)
    monkeypatch.setattr(guarding, "time", SimpleNamespace(monotonic=lambda: made.s))
    return made


def test_cpu_time_is_measured_against_the_groups_limit(system: System, clock: SimpleNamespace) -> None:
    system.version_2("/a/b").write(
        sys__fs__cgroup__a__b__cpu___max="200000 100000\n",
        sys__fs__cgroup__a__b__cpu___stat="usage_usec 1000000\nuser_usec 5\n",
    )
    meter = cpu_meter(system.root)
    assert meter.source.endswith("/sys/fs/cgroup/a/b")
    clock.s = 2.0
    system.write(sys__fs__cgroup__a__b__cpu___stat="usage_usec 4000000\nuser_usec 5\n")
    assert meter.read() == pytest.approx(0.75)
    assert meter.read() == 0.0, "no time has passed"
    clock.s = 4.0
    assert meter.read() == pytest.approx(0.0)


def test_the_tightest_limit_of_the_groups_around_it_counts(system: System, clock: SimpleNamespace) -> None:
    system.version_2("/a/b").write(
        sys__fs__cgroup__a__b__cpu___max="max 100000\n",
        sys__fs__cgroup__a__cpu___max="100000 100000\n",
        sys__fs__cgroup__a__cpu___stat="usage_usec 0\n",
        sys__fs__cgroup__a__b__memory___max="1000\n",
        sys__fs__cgroup__a__b__memory___current="500\n",
        sys__fs__cgroup__a__b__memory___stat="anon 1\ninactive_file 100\n",
        sys__fs__cgroup__a__memory___max="2000\n",
        sys__fs__cgroup__a__memory___current="1800\n",
        sys__fs__cgroup__a__memory___stat="inactive_file 0\n",
    )
    cpu = cpu_meter(system.root)
    clock.s = 1.0
    system.write(sys__fs__cgroup__a__cpu___stat="usage_usec 500000\n")
    assert cpu.read() == pytest.approx(0.5)
    assert memory_meter(system.root, machine_bytes=10_000).read() == pytest.approx(0.9)
    system.write(sys__fs__cgroup__a__memory___current="200\n")
    assert memory_meter(system.root, machine_bytes=10_000).read() == pytest.approx(0.4), "the cache is not in use"


def test_a_group_in_a_namespace_of_its_own_is_the_mounted_folder(system: System) -> None:
    system.version_2("/../../x").write(
        sys__fs__cgroup__memory___max="100\n",
        sys__fs__cgroup__memory___current="25\n",
        sys__fs__cgroup__memory___stat="inactive_file 0\n",
    )
    assert memory_meter(system.root, machine_bytes=1000).read() == 0.25


def test_groups_of_version_1_limit_too(system: System, clock: SimpleNamespace) -> None:
    system.write(
        proc__self__cgroup="4:memory:/job\n2:cpuacct:/job\n1:cpu:/job\n0::/\n",
        proc__self__mountinfo=MOUNT_1,
        sys__fs__cgroup__cpu__job__cpu___cfs_quota_us="50000\n",
        sys__fs__cgroup__cpu__job__cpu___cfs_period_us="100000\n",
        sys__fs__cgroup__cpu__cpu___cfs_quota_us="-1\n",
        sys__fs__cgroup__cpuacct__job__cpuacct___usage="0\n",
        sys__fs__cgroup__memory__job__memory___limit_in_bytes="1000\n",
        sys__fs__cgroup__memory__job__memory___usage_in_bytes="900\n",
        sys__fs__cgroup__memory__job__memory___stat="inactive_file 7\ntotal_inactive_file 300\n",
        sys__fs__cgroup__memory__memory___limit_in_bytes="9223372036854771712\n",
    )
    cpu = cpu_meter(system.root)
    clock.s = 1.0
    system.write(sys__fs__cgroup__cpuacct__job__cpuacct___usage="400000000\n")
    assert cpu.read() == pytest.approx(0.8)
    assert memory_meter(system.root, machine_bytes=10_000).read() == pytest.approx(0.6)


@pytest.mark.parametrize("limit", ["max", "10000", "9223372036854771712"])
def test_without_a_limit_below_it_the_machine_is_measured(
    system: System, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    system.version_2().write(sys__fs__cgroup__memory___max=f"{limit}\n", sys__fs__cgroup__cpu___max="max 100000\n")
    times = [SimpleNamespaceTimes(user=1, system=0, idle=9, iowait=0, guest=1)]
    fake = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(total=200, available=50), cpu_times=lambda: times[-1])
    monkeypatch.setitem(sys.modules, "psutil", fake)
    memory, cpu = memory_meter(system.root, machine_bytes=10_000), cpu_meter(system.root)
    assert (memory.source, cpu.source) == ("the machine", "the machine")
    assert memory.read() == 0.75
    times.append(SimpleNamespaceTimes(user=4, system=3, idle=11, iowait=2, guest=1))
    assert cpu.read() == pytest.approx(0.6), "6 s busy of 10 s; a guest's time is in the user's"


def test_the_machine_has_no_more_time_in_use_than_has_passed(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    system.version_2()
    looks = iter(range(10))

    def busy_throughout() -> SimpleNamespaceTimes:
        return SimpleNamespaceTimes(user=2 ** next(looks), idle=0)  # each look comes later than the one before

    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(cpu_times=busy_throughout))
    cpu = cpu_meter(system.root)
    assert [cpu.read(), cpu.read()] == [1.0, 1.0]


class SimpleNamespaceTimes(tuple):  # type: ignore[type-arg]
    """CPU times as psutil has them: a tuple with names."""

    def __new__(cls, **times: float) -> Any:
        made = super().__new__(cls, times.values())
        made.__dict__.update(times)
        return made


def test_the_machine_itself_can_be_measured() -> None:
    pytest.importorskip("psutil")
    meter = Meters(Guard())

    def is_a_share() -> bool:
        # A thread that waits for its turn between the clock and the usage sees more than there can be: not each time.
        reading = meter.read()
        assert reading.cpu is not None
        assert reading.memory is not None
        assert 0 < reading.memory < 1.5
        return 0 < reading.cpu <= 1.5

    wait_until(is_a_share)


def test_a_missing_psutil_names_the_extra(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    for make in (cpu_meter, memory_meter):
        with pytest.raises(MissingExtraError, match=r"pip install 'tickstrand\[guard\]'"):
            make(system.root)
    assert Meters(Guard(cpu=None, memory=None), system.root).lacks_io, "what is not watched needs nothing"


def test_pressure_is_the_groups_where_it_limits_and_else_the_machines(system: System) -> None:
    system.version_2("/a").write(
        proc__pressure__io=PSI.format(some="40.00"), sys__fs__cgroup__a__io___pressure=PSI.format(some="12.50")
    )
    meter = io_meter(system.root)
    assert meter is not None
    assert (meter.field, meter.read()) == ("io_pressure", 0.4)
    system.write(sys__fs__cgroup__a__cpu___max="100000 100000\n", sys__fs__cgroup__a__cpu___stat="usage_usec 0\n")
    meter = io_meter(system.root)
    assert meter is not None
    assert meter.read() == 0.125


def test_pressure_is_that_of_the_innermost_group_with_a_limit(system: System) -> None:
    system.version_2("/a/b/c").write(
        sys__fs__cgroup__a__cpu___max="100000 100000\n",
        sys__fs__cgroup__a__cpu___stat="usage_usec 0\n",
        sys__fs__cgroup__a__io___pressure=PSI.format(some="10.00"),
        sys__fs__cgroup__a__b__memory___max="1000\n",
        sys__fs__cgroup__a__b__io___pressure=PSI.format(some="20.00"),
        sys__fs__cgroup__a__b__c__io___pressure=PSI.format(some="30.00"),
    )
    meter = io_meter(system.root)
    assert meter is not None
    assert meter.read() == 0.2


def test_without_pressure_it_is_the_longest_queue_of_a_disk(system: System) -> None:
    disks = [("sda", 120), ("sda1", 70), ("sda2", 50), ("sdb", 3)]
    text = "".join(DISK.format(n=i, name=name, in_flight=n) for i, (name, n) in enumerate(disks))
    meter = io_meter(system.write(proc__diskstats=text).root)
    assert meter is not None
    assert (meter.field, meter.read()) == ("io_queue", 120)
    assert Guard().strains(Meters(Guard(cpu=None, memory=None), system.root).read())["io"] == pytest.approx(1.2)


def test_with_neither_io_is_off_and_that_is_said(system: System) -> None:
    found = Meters(Guard(cpu=None, memory=None), system.root)
    assert found.lacks_io
    assert found.sources == {
        "cpu": "not watched",
        "memory": "not watched",
        "io": "not watched: there is neither /proc/pressure/io nor /proc/diskstats",
    }
    assert Guard().strains(found.read()) == {"cpu": None, "memory": None, "io": None}


def test_pressure_that_cannot_be_read_is_not_there(system: System) -> None:
    (system.root / "proc/pressure/io").mkdir(parents=True)
    assert io_meter(system.root) is None


# ---- What a visit is charged: the meter of on-CPU time, over made-up clocks


CORRECTED = 60  # SD_CORRECTED_NS of the build for made-up clocks
START = 1_000_000

#: What a thread does between stretches and in them: it runs for so long, loses its core for so long, and runs again.
#: Whether a stretch is Python's; None: the thread goes on with the one before, so that what lies between is of it.
SPAN = st.tuples(st.integers(0, 100), st.sampled_from([0, 0, 0, 5, 50, 500]), st.integers(0, 100))
STRETCHES = st.lists(st.tuples(SPAN, SPAN, st.sampled_from([False, False, True, None])), min_size=1, max_size=30)
Span = tuple[int, int, int]
Stretches = list[tuple[Span, Span, bool | None]]


def build(folder: Path, changed: tuple[str, str] | None = None) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler"
    text = (CSRC / "base/meter.c").read_text()
    if changed is not None:
        assert text.count(changed[0]) == 1, changed[0]
        text = text.replace(*changed)
    source, library = folder / "meter.c", folder / "meter.so"
    source.write_text(text)
    options = ["-std=gnu11", "-O1", "-w", "-DSD_MODEL_SCHEDULER", "-shared", "-fPIC", f"-I{CSRC}", "-o", library]
    subprocess.run([compiler, *options, SUPPORT / "meter.c", source], check=True)
    built = ctypes.CDLL(str(library))
    built.trial_end.restype = ctypes.c_uint64
    return built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("meter"))


def begin(built: ctypes.CDLL, now: int, ran: int, exact: bool) -> None:
    built.trial_begin(ctypes.c_uint64(now), ctypes.c_uint64(ran), int(exact))


def end(built: ctypes.CDLL, now: int, ran: int) -> int:
    return int(built.trial_end(ctypes.c_uint64(now), ctypes.c_uint64(ran)))


def charged_as_promised(built: ctypes.CDLL, stretches: Stretches) -> None:
    built.trial_forget()
    now, ran = START, 0
    charged = on_cpu = losses = 0
    exact = None
    for between, within, of_python in stretches:
        spans = [within]
        if exact is not None and of_python is None:
            spans.append(between)
        now, ran = now + sum(between), ran + between[0] + between[2]
        if len(spans) == 1:
            exact = bool(of_python)
            begin(built, now, ran, exact)
        now, ran = now + sum(within), ran + within[0] + within[2]
        took = end(built, now, ran)
        used = sum(span[0] + span[2] for span in spans)
        assert took <= sum(map(sum, spans)), "no stretch is charged for more than it took"
        if exact:
            assert took == used, "and Python's for no wait"
        charged, on_cpu, losses = charged + took, on_cpu + used, losses + sum(span[1] > 0 for span in spans)
    assert on_cpu <= charged <= on_cpu + losses * CORRECTED


@settings(
    max_examples=examples(500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(stretches=STRETCHES)
def test_a_thread_that_loses_its_core_is_charged_for_little_of_that(built: ctypes.CDLL, stretches: Stretches) -> None:
    charged_as_promised(built, stretches)


WRONG = {
    "never corrects": ("  if (!meter->exact && !is_old(meter, now)) {", "  if (!meter->exact) {"),
    "charges the wait too": ("if (meter->exact || took > left) took = left;", ""),
    "begins no next stretch": ("  meter->began = now;\n  if (!meter->exact", "  if (!meter->exact"),
    "lets a gap cover for a loss": ("exact || is_old(meter, now)) correct", "exact || !meter->since) correct"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_variant_is_caught(tmp_path: Path, name: str) -> None:
    wrong = build(tmp_path, WRONG[name])

    @settings(max_examples=3000, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(stretches=STRETCHES)
    def run(stretches: Stretches) -> None:
        charged_as_promised(wrong, stretches)

    with pytest.raises(AssertionError):
        run()


def test_a_correction_takes_off_what_was_given_since_the_last_one(built: ctypes.CDLL) -> None:
    built.trial_forget()
    begin(built, START, 0, False)
    assert end(built, START + 30, 30) == 30
    begin(built, START + 30, 30, False)
    assert end(built, START + 535, 35) == 5


@pytest.mark.parametrize("exact", [False, True])
def test_a_clock_that_is_behind_charges_no_more_than_what_ran(built: ctypes.CDLL, exact: bool) -> None:
    built.trial_forget()
    begin(built, START, 100, exact)
    assert end(built, START - 40, 107) == (7 if exact else 0)
    begin(built, START - 80, 107, False)
    assert end(built, START - 70, 117) == 10


def test_another_thread_is_not_charged_by_the_first_ones_time(built: ctypes.CDLL) -> None:
    built.trial_forget()
    begin(built, START, 5000, False)
    assert end(built, START + 10, 5010) == 10
    built.trial_forget()
    begin(built, START + 20, 3, False)
    assert end(built, START + 520, 13) == 10
