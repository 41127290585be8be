"""A run as JSON."""

from __future__ import annotations

import json

import pytest

import strand
from strand.feeds.sample import sample_path
from strand.report.to_json import as_dict

pytestmark = pytest.mark.python


def test_the_report_is_plain_json_and_says_what_limits_the_run() -> None:
    plain = json.loads(json.dumps(as_dict(strand.replay(sample_path(), "vwap"))))
    assert plain["ticks"] == 200_500
    assert plain["limited_by"] in ("reading and inflating", "feed", "set-up", "dispatch")
    assert plain["statistics"]["latency"]["end_to_end"]["p99_ns"] >= plain["statistics"]["latency"]["wait"]["p50_ns"]
    assert sum(w["handled"] for w in plain["statistics"]["workers"]) == 200_500
