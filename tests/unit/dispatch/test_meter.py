"""What a visit is charged: the meter of on-CPU time, over made-up clocks."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from policies import CSRC, SUPPORT

from examples import examples

#: The C under test is built here, without the checks of make asan.
pytestmark = pytest.mark.python

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


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
