"""strand demo."""

from __future__ import annotations

import json
import sys

import pytest

from strand.command import demo
from strand.command.cli import main

pytestmark = pytest.mark.python


def test_the_demo_shows_rows_and_every_way_of_routing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The sample once instead of five times, and one round of each way: rates are not asked for here.
    monkeypatch.setattr(demo, "REPEATS", 1)
    monkeypatch.setattr(demo, "ROUNDS", 1)
    monkeypatch.setattr(sys, "argv", ["strand", "demo", "--json"])
    main()
    found = json.loads(capsys.readouterr().out)
    assert found["ticks"] == 200_500
    for row in found["comparison"]:
        assert set(row["mticks_s"]) == {"serial", "static", "static_lpt", "strand"}
        assert min(row["mticks_s"].values()) > 0
