"""Rules as a file for Prometheus, tried by Prometheus' own tool."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strand.alerts import DEFAULTS, Rule
from strand.alerts.export import prometheus_rules, query

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")

DEPTHS = 'strand_queue_depth{instance="a",kind="task",level="normal"}'
ENDS = 'strand_ended_total{kind="task",instance="a",level="immediate",outcome="?"}'
STARTS = 'strand_started_total{instance="a",kind="task",level="low"}'
WAITS = 'strand_wait_seconds_bucket{instance="a",kind="task",level="high",le="?"}'


def said(command: str, file: Path) -> str:
    """Returns what promtool says of a file. Fails if promtool does."""
    assert PROMTOOL is not None
    ran = subprocess.run(
        [PROMTOOL, command, "rules", file], cwd=file.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def promtool(folder: Path, rules: list[Rule], series: dict[str, str], at: str, expected: list[str]) -> None:
    """Fails unless just the alerts ``expected`` fire at a time of the series of samples, which come each 30 s."""
    (folder / "rules.json").write_text(json.dumps(prometheus_rules(rules)))
    names = [each["alert"] for group in prometheus_rules(rules)["groups"] for each in group["rules"]]
    tests: dict[str, Any] = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": int(name in expected)}],
                    }
                    for name in names
                ],
            }
        ],
    }
    (folder / "tests.json").write_text(json.dumps(tests))
    said("test", folder / "tests.json")


def test_prometheus_takes_the_file_of_all_default_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(prometheus_rules(DEFAULTS)))
    assert f"{len(DEFAULTS)} rules found" in said("check", tmp_path / "rules.json")


QUEUE = Rule("queue_depth", "warning", 1000, "normal")
SUCCESS = Rule("success_rate", "warning", 0.999, "immediate")
PROMOTION = Rule("promotion_rate", "warning", 0.1)
WAIT = Rule("wait_p99", "severe", 15, "high")
PROMOTIONS = STARTS.replace("started", "promotions")


def ends(**outcomes: str) -> dict[str, str]:
    return {ENDS.replace("?", outcome): values for outcome, values in outcomes.items()}


def waits(within_8_s: str) -> dict[str, str]:
    return {WAITS.replace("?", at): values for at, values in (("8", within_8_s), ("32", "0+9x2"), ("+Inf", "0+9x2"))}


@pytest.mark.parametrize(
    ("rule", "series", "firing"),
    [
        (QUEUE, {DEPTHS: "1001 1001 1001"}, True),
        (QUEUE, {DEPTHS: "0 1001 1001"}, False),
        (replace(QUEUE, level="any"), {DEPTHS: "1001 1001 1001"}, True),
        (replace(QUEUE, level="high"), {DEPTHS: "1001 1001 1001"}, False),
        (replace(QUEUE, level="all"), {DEPTHS: "600x2", DEPTHS.replace("normal", "low"): "600x2"}, True),
        (Rule("cpu_usage", "warning", 0.75), {'strand_cpu_usage_ratio{instance="a"}': "0.8x2"}, True),
        (SUCCESS, ends(done="0+30x2", failed="0+1x2"), True),
        (SUCCESS, ends(done="0+30x2", failed="0x2"), False),
        (SUCCESS, ends(done="0+2x2", failed="0+2x2"), False),
        (SUCCESS, ends(expired="0+40x2"), True),
        (replace(SUCCESS, level="all"), ends(cancelled="0+40x2"), False),
        (PROMOTION, {STARTS: "0+100x2", PROMOTIONS: "0+20x2"}, True),
        (PROMOTION, {STARTS: "0x2", PROMOTIONS: "0+20x2"}, False),
        (Rule("starvation_count", "warning", 5), {STARTS.replace("started", "starved"): "0+10x2"}, True),
        (Rule("tasks_dead", "severe", 0), ends(dead="0+1x2"), True),
        (Rule("tasks_dead", "severe", 0), ends(failed="0+1x2"), False),
        (Rule("tasks_promoted", "notice", 0), {PROMOTIONS: "0+1x2"}, True),
        (WAIT, waits("0+1x2"), True),
        (WAIT, waits("0+9x2"), False),
    ],
)
def test_prometheus_fires_on_the_samples_on_which_the_rule_does(
    tmp_path: Path, rule: Rule, series: dict[str, str], firing: bool
) -> None:
    name = prometheus_rules([rule])["groups"][0]["rules"][0]["alert"]
    is_rate = "[5m]" in query(rule)  # it needs two samples, so it is beyond its limit from the second one on
    longer = {each: values.replace("x2", "x4") for each, values in series.items()}
    promtool(tmp_path, [rule], longer, "2m" if is_rate else "1m", [name] if firing else [])
