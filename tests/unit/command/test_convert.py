"""strand convert."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from strand import feeds
from strand.command.cli import cli
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python


DAY = ["--date", SAMPLE_DATE]


def convert(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["convert", str(sample_path()), *args, *DAY])
    return done.exit_code, done.output


def test_chosen_ticks_are_written_and_counted(tmp_path: Path) -> None:
    status, output = convert(str(tmp_path / "day.npz"), "--limit", "500", "--json")
    assert status == 0
    said = json.loads(output)
    with feeds.open(tmp_path / "day.npz") as feed:
        ticks = np.concatenate(list(feed.batches()))
    assert said["ticks"] == len(ticks) == 500
    assert said["file_bytes"] == (tmp_path / "day.npz").stat().st_size
    with feeds.open(sample_path(), date=SAMPLE_DATE) as feed:
        first = next(iter(feed.batches()))[:500]
    assert ticks["order_id"].tolist() == first["order_id"].tolist()


def test_people_are_told_in_a_line(tmp_path: Path) -> None:
    status, output = convert(str(tmp_path / "day.npz"), "--limit", "500")
    assert status == 0
    assert f"{tmp_path / 'day.npz'}: 500 ticks of " in output


def test_an_ending_that_is_none_leaves_no_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["convert", str(sample_path()), str(tmp_path / "day.xyz"), *DAY])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_one_file_alone_is_said_to_lack_the_other() -> None:
    done = CliRunner().invoke(cli, ["convert", str(sample_path())])
    assert done.exit_code == 2
    assert f"behind it the one to write: there is {sample_path()} alone" in done.output
