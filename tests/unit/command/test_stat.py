"""strand stat."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from click.testing import CliRunner
from outside_ticks import SYMBOLS, some_ticks

from strand import Dispatcher
from strand.command.cli import cli


def test_another_process_looks_and_the_command_too() -> None:
    with Dispatcher(SYMBOLS, "count", workers=1, cores=None, attachable=True) as dispatcher:
        dispatcher.publish(some_ticks(1000))
        dispatcher.drain()
        shows = "print(a.statistics().handled, a.symbol('S3').rows['ticks'][0])"
        run = [sys.executable, "-c", f"import strand; a = strand.attach({os.getpid()}); {shows}"]
        told = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.split()
        assert told == ["1000", str(dispatcher.rows["S3"]["ticks"])]
        arguments = ["stat", str(os.getpid()), "--symbol", "S3", "--strands"]
        plain = json.loads(CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False).output)
        assert plain["handled"] == 1000
        assert plain["symbols"][0]["row"]["ticks"] == dispatcher.rows["S3"]["ticks"]
        assert sum(one["handled"] for one in plain["by_strand"]) == 1000
        shown = CliRunner().invoke(cli, arguments, catch_exceptions=False).output
        assert "handled 1,000" in shown
        assert "S3 (count)" in shown
