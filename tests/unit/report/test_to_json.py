"""A run as JSON."""

from __future__ import annotations

import json

import pytest

import strand
from strand.feeds.sample import sample_path
from strand.report.closing import as_dict

pytestmark = pytest.mark.python


def test_the_report_is_plain_json_and_says_what_limits_the_run() -> None:
    plain = json.loads(json.dumps(as_dict(strand.replay(sample_path(), "vwap"))))
    assert plain["ticks"] == 200_500
    assert plain["limited_by"] in ("reading and inflating", "feed", "set-up", "dispatch")
    assert sum(w["handled"] for w in plain["statistics"]["workers"]) == 200_500


def test_waits_are_those_of_a_paced_run_and_queue_depths_those_of_one_as_fast_as_it_goes() -> None:
    fast, paced = (as_dict(strand.replay(sample_path(), "vwap", speed=speed)) for speed in (0, 1e7))
    assert list(fast["statistics"]["latency"]) == ["handler"]
    assert 0 <= fast["queue_depth"]["p50"] <= fast["queue_depth"]["p99"] <= fast["queue_depth"]["maximum"] <= 200_500
    assert paced["queue_depth"] is None
    latency = paced["statistics"]["latency"]
    assert list(latency) == ["wait", "handler", "end_to_end"]
    assert latency["end_to_end"]["p99_ns"] >= latency["wait"]["p50_ns"] >= latency["wait"]["resolution_ns"] > 0


def test_a_latency_that_was_never_counted_is_null() -> None:
    plain = as_dict(strand.replay(sample_path(), "vwap", workers=0, limit=100))["statistics"]["latency"]["handler"]
    assert plain.pop("count") == 0
    assert set(plain.values()) == {None}
    counted = as_dict(strand.replay(sample_path(), "vwap", workers=1, limit=100))["statistics"]["latency"]["handler"]
    assert counted["count"] > 0
    assert counted["maximum_ns"] >= counted["p50_ns"] > 0
