"""strand info."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_here import run_here

from strand.feeds.sample import sample_path
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python
SAMPLE = str(sample_path())


def test_info_counts_what_the_file_holds() -> None:
    done = run_here("info", SAMPLE, "--date", "2026-01-05", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["format"], found["ticks"], found["symbols"]) == ("itch50", 200_500, 500)
    assert found["statistics"]["messages"] == 201_507
    assert found["last_ns"] > found["first_ns"]
    assert found["share_of_ticks"]["top_500"] == 1.0


def test_info_of_several_days_says_both_and_asks_for_a_date_where_times_lack_one(tmp_path: Path) -> None:
    ticks = zeros(2)
    ticks["ts_recv"] = ticks["ts_event"] = [1_767_600_000_000_000_000, 1_767_700_000_000_000_000]
    write_npy(tmp_path / "days.npz", ticks, ["A"])
    shown = " ".join(run_here("info", str(tmp_path / "days.npz")).stdout.split())
    assert "2026-01-05 08:00:00.000000 to 2026-01-06 11:46:40.000000 UTC" in shown
    assert "give --date" not in shown
    assert "give --date" in run_here("info", SAMPLE).stdout


def test_counters_of_reading_are_shown_when_asked_and_in_json() -> None:
    plain, verbose = (run_here("info", SAMPLE, *more).stdout for more in ((), ("-v",)))
    told = json.loads(run_here("info", SAMPLE, "--json").stdout)["statistics"]
    assert {"bytes_in", "bytes_out", "bytes_decoded", "read_ns", "type_A"} <= told.keys()
    names = [line.split("  ")[0].strip() for line in plain.splitlines()]
    assert names[-4:] == ["share of ticks", "busiest", "messages", "message types"]
    assert "_" not in "".join(names)
    assert "message types   A 85,311, D 77,730, U 17,457, " in plain
    assert "share of ticks  top 1 2.3%, top 10 13.7%, top 100 46.5%  " in plain
    assert [name for name in told if told[name] and f" {name} " not in verbose] == []
