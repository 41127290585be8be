"""What commands read: standard input, selections, damaged records."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from command_here import run_here
from warm_python import run_warm

from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


def test_standard_input_is_replayed_and_selected_from() -> None:
    replay = ["replay", "-", "--symbols", "AAAH*", "--start", "09:45", "--limit", "100", "--json"]
    for command in (replay, ["info", "-", *replay[2:]]):
        with subprocess.Popen(["cat", SAMPLE], stdout=subprocess.PIPE) as pipe:
            done = run_warm("-m", "strand", *command, "--date", "2026-01-05", stdin=pipe.stdout)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["ticks"] == 100


def test_damaged_records_are_passed_over_and_shown_when_told_so(tmp_path: Path) -> None:
    day = tmp_path / "day.itch50"
    assert run_here("gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)).returncode == 0
    whole = json.loads(run_here("info", str(day), "--json").stdout)["ticks"]
    day.write_bytes(day.read_bytes() + b"\0\x05zzzzz")
    assert run_here("replay", str(day)).returncode == 2
    done = run_here("replay", str(day), "--on-bad-record", "skip", "--on-error", "quarantine", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ticks"] == whole


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("size_unit=1", "feeds.open() of itch files has no option 'size_unit'"),
        ("path=x", "path: no reader has such an option"),
    ],
)
def test_an_option_that_the_reader_has_not_is_refused(given: str, said: str) -> None:
    done = run_here("info", str(sample_path()), "--feed", given)
    assert done.returncode == 2
    assert said in done.stderr
