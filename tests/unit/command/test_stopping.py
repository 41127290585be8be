"""``strand replay --only --until --pdb``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python

MINE = """
class Looks:
    def __init__(self):
        self.seen = 0

    def on_tick(self, tick):
        self.seen += 1
        if self.seen == 7:
            raise ValueError("seven")


try:
    import numba
    import strand

    @strand.handler(state=[("x", "f8")], on="trade", cache=False)
    def sizes(row, trade):
        row.x = 1 / (trade.size - 400 + 0 * row.book.bid_size)

    signal = strand.chain(strand.book(), sizes)
except ImportError:
    pass
"""


@pytest.fixture
def replay(tmp_path: Path) -> Any:
    """Runs the command over the sample, in a folder with a handler ``mine:Looks``."""
    (tmp_path / "mine.py").write_text(MINE)

    def run(*options: str, said: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "strand", "replay", str(sample_path()), *options]
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
        return subprocess.run(
            command, check=False, input=said, capture_output=True, text=True, cwd=tmp_path, env=environment
        )

    return run


def test_until_stops_at_a_tick_of_one_symbol(replay: Any) -> None:
    result = replay("--only", "AAAHD", "--until", "5", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["ticks"] == 5


def test_a_failure_shows_the_tick_and_the_line(replay: Any, tmp_path: Path) -> None:
    result = replay("--handler", "mine:Looks", "--workers", "1", "--only", "AAAHD", "--json")
    assert result.returncode == 2
    line = f'{tmp_path / "mine.py"}:9: raise ValueError("seven")'
    assert result.stderr.endswith(f" (its tick 7): ValueError: seven, at {line}\n")
    assert json.loads(result.stdout)["error"].endswith("ValueError: seven")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_on_a_trade_behind_a_book_shows_the_line(workers: str, replay: Any, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    result = replay("--handler", "mine:signal", "--workers", workers, "--only", "AAAHD")
    assert result.returncode == 2
    at = f"{tmp_path / 'mine.py'}:18: row.x = 1 / (trade.size - 400 + 0 * row.book.bid_size)"
    assert result.stderr.endswith(f"(its tick 54): ZeroDivisionError, at {at}\n")


def test_pdb_stops_in_the_handler_at_the_tick(replay: Any) -> None:
    result = replay(
        "--handler", "mine:Looks", "--only", "AAAHD", "--until", "5", "--pdb", said="p ('seen', self.seen)\nc\n"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "('seen', 4)" in result.stdout


def test_a_terminal_shows_the_prompt_and_no_bar_over_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "strand", "replay", str(sample_path()), "--handler", "mine:Looks"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "TERM": "xterm"}
    process = subprocess.Popen(
        [*command, "--only", "AAAHD", "--until", "5", "--pdb"], stdin=theirs, stdout=theirs, stderr=theirs,
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"(Pdb) " not in shown:
        shown += os.read(ours, 1024)
    os.write(ours, b"q\n")
    assert process.wait() == 0
    os.close(ours)
    assert b"replaying" not in shown


def test_q_at_the_prompt_ends_the_command(replay: Any) -> None:
    result = replay("--handler", "mine:Looks", "--only", "AAAHD", "--until", "5", "--pdb", said="q\n")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pdb"], "--pdb: give the tick, such as --only AAPL --until 17"),
        (["--only", "A", "--until", "2", "--pdb", "--workers", "2"], "--pdb runs in one thread"),
        (["--only", "A", "--symbols", "B"], "--only replays one symbol"),
        (["--until", "noon"], "until: 'noon' is not a time"),
        (["--handler", "count", "--only", "AAAHD", "--until", "2", "--pdb"], "'count' is machine code"),
    ],
)
def test_what_does_not_go_together_is_refused(replay: Any, options: list[str], said: str) -> None:
    result = replay(*options)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
