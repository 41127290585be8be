"""Fingerprints that strand replay prints and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_here import run_here

import strand
from strand.diff import diff_runs
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python


def test_replay_s_command_prints_and_writes_fingerprints(tmp_path: Path, order_day: Any) -> None:
    write_npy(tmp_path / "day.npz", *order_day)
    base = ("replay", tmp_path / "day.npz", "--handler", "vwap")
    expected = strand.replay(tmp_path / "day.npz", "vwap", workers=1).fingerprint
    done = run_here(*base, "--workers", "0", "--fingerprint-every", "1000", "--fingerprints", tmp_path / "run.jsonl")
    assert done.returncode == 0, done.stderr
    assert f"fingerprint: {expected}" in done.stdout
    full = run_here(*base, "-v", "--workers", "0", "--fingerprint-every", "1000")
    assert "at 1,000 ticks: fingerprint" in full.stdout
    plain = json.loads(run_here(*base, "--fingerprint-every", "1000", "--json").stdout)
    assert plain["fingerprint"] == expected == plain["intervals"][-1]["fingerprint"]
    assert plain["intervals"][0]["ticks"] == 1000
    assert diff_runs(tmp_path / "run.jsonl", tmp_path / "run.jsonl").same
