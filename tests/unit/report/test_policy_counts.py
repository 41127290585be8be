"""What a policy counted, where it is shown."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import strand
from strand.frozen_dict import FrozenDict
from strand.report.counts import policy_tables
from strand.report.tables import print_policy
from strand.stats import FairStatistics, GroupStatistics, GuardStatistics, Statistics
from strand.ticks import TICK

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def risen() -> Statistics:
    """Of a run in which strands of level low rose."""
    ticks = np.zeros(4, TICK)
    with strand.Dispatcher(2, "count", policy=strand.Levels(), priorities={"*": "low"}, workers=1, cores=None) as d:
        d.publish(ticks)
    counts = FrozenDict(immediate=0, high=1, retry=2, normal=3, low=4_000)
    return replace(d.statistics(), promoted=counts, starved=FrozenDict(dict(counts) | {"low": 5}))


def test_each_level_that_a_strand_can_rise_out_of_has_a_row(risen: Statistics) -> None:
    [(heads, rows)] = policy_tables(risen)
    assert heads == ("level", "rose out of it", "starved in it")
    assert rows == [("high", "1", "1"), ("retry", "2", "2"), ("normal", "3", "3"), ("low", "4,000", "5")]


def test_the_tables_are_printed(risen: Statistics) -> None:
    console = Console(file=io.StringIO(), width=100)
    print_policy(console, risen)
    assert "4,000" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "starved in it" in console.file.getvalue()  # type: ignore[attr-defined]


def test_what_a_guard_held_back_has_a_row_for_each_resource(risen: Statistics) -> None:
    decided = {
        "cpu": GuardStatistics("the machine", False, 1_200, 3, 2_500_000_000),
        "io": GuardStatistics("not watched: there is nothing", False, 0, 0, 0),
    }
    heads, rows = policy_tables(replace(risen, guard=FrozenDict(decided)))[1]
    assert heads == ("short of", "held back", "until max_hold", "in all")
    assert rows == [
        ("cpu (the machine)", "1,200", "3", "2.5 s"),
        ("io (not watched: there is nothing)", "0", "0", "0.0 s"),
    ]


def test_first_in_first_out_counts_nothing(tmp_path: Path) -> None:
    with strand.Dispatcher(2, "count", workers=1, cores=None) as d:
        d.publish(np.zeros(4, TICK))
    assert policy_tables(d.statistics()) == []


def test_what_aging_took_is_shown_by_class_and_by_rule() -> None:
    with strand.Dispatcher(2, "count", policy=strand.Aging(), workers=1, cores=None) as d:
        d.publish(np.zeros(4, TICK))
    s = replace(d.statistics(), picked=FrozenDict(normal=1_234), picked_by_rule=FrozenDict(low_every=0, max_wait=7))
    assert policy_tables(s) == [
        (("class", "taken"), [("normal", "1,234")]),
        (("taken for", "strands"), [("low_every", "0"), ("max_wait", "7")]),
    ]


@pytest.mark.parametrize(("n", "last"), [(3, "g2"), (21, "g20"), (50, "30 others")])
def test_groups_that_are_not_shown_by_name_have_a_row_together(risen: Statistics, n: int, last: str) -> None:
    times = [1000 - i for i in range(n)]
    groups = {f"g{i}": GroupStatistics(ns, ns / sum(times), 2, i, i or None) for i, ns in enumerate(times)}
    fair = FairStatistics(FrozenDict(groups), 0, 0, ())
    [(heads, rows)] = [table for table in policy_tables(replace(risen, fair=fair)) if table[0][0] == "group"]
    assert heads == ("group", "on CPU", "share", "slices used up", "longer stretches", "longest")
    assert rows[-1][0] == last
    assert sum(int(row[3]) for row in rows) == 2 * n
    assert sum(int(row[4].replace(",", "")) for row in rows) == sum(range(n))
    assert (rows[0][5], rows[-1][5]) == ("", f"{n - 1} ns")
    assert sum(float(row[2].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.05 * len(rows))
