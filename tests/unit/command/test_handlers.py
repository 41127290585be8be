"""strand handlers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import strand
from strand.command.cli import cli
from strand.handlers import BUILTIN

pytestmark = pytest.mark.python


def shown(*args: str) -> Any:
    return CliRunner().invoke(cli, ["handlers", *args])


def test_strand_handlers_lists_them_and_their_options(mine: str) -> None:
    found = json.loads(shown("--json").output)
    assert found.keys() == BUILTIN.keys()
    assert all(found.values())
    spread = json.loads(shown("spread", "--set", "every=1m", "--json").output)
    assert spread["options"]["fill"] == {
        "takes": "yes or no", "default": "no", "about": "emit also the stretches in which nothing came",
    }  # fmt: skip
    assert spread["outputs"]["spread"] == list(strand.handlers.SPREAD.names or ())
    bars = shown("bars").output
    assert "zero_sizes" in bars
    assert "output bars: start, end, open" in bars
    own = json.loads(shown(f"{mine}:every_nth", "--json").output)
    assert (own["about"], own["options"]["n"]["takes"], own["row"]) == (
        "Counts some of the ticks.",
        "a whole number",
        None,
    )
    assert "is not one of bars, bbo, book" in str(shown("nothing").exception)
