"""``strand bench`` in the process of the tests."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from strand.command.bench import bench

SMALL = ["--ticks", "20000", "--symbols", "300", "--work", "2", "--workers", "2", "--rounds", "1", "--idle", "backoff"]


def invoke(*args: str) -> Result:
    return CliRunner().invoke(bench, args)


def printed(*args: str) -> dict[str, Any]:
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
