"""Whatever goes wrong, the command ends with one line that says what to do, and with the status of its kind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_here import run_here
from warm_python import run_warm

from strand.command.cli import main
from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python
SAMPLE = str(sample_path())
REPLAY = ["replay", SAMPLE, "--handler", "count", "--limit", "1000"]
LONG = "a" * 300
#: The command of this environment, and the module.
COMMANDS = {"strand": [str(Path(sys.executable).parent / "strand")], "module": [sys.executable, "-m", "strand"]}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([*REPLAY, "--cores", "0-99999999999"], "this process may use"),
        ([*REPLAY, "--symbols", "@/dev/zero"], "name a file of text, below 64 MiB"),
        (["listen", "--websocket", "ws://127.0.0.1:9", "--profile", "/dev/zero"], "name a file of text, below 64 MiB"),
        ([*REPLAY, "--date", "2600-01-01"], "is not from 1970 to 2261"),
        ([*REPLAY, "--date", "0001-01-01"], "is not from 1970 to 2261"),
        ([*REPLAY, "--set", "fill"], "--set: 'fill' is not OPTION=VALUE"),
        (["replay"], "Missing argument 'FILES...' (strand replay --help)"),
        (["convert", SAMPLE, "x.npz", "--to", "pdf"], "--to: 'pdf' is not one of "),
        (["listen"], "give --line, once or twice, --websocket or --kafka (strand listen --help)"),
        (["gen", "itch", "--symbols", "5", "--messages", "10", "--out", "."], "it is a folder"),
        (["gen", "itch", "--symbols", "70000", "--out", "x"], "65,535"),
        (["convert", SAMPLE, "--to", "npz", "."], "it is a folder"),
        ([*REPLAY, "--out", "/no/such/folder/rows.npy"], "no folder"),
        (["replay", SAMPLE, "--handler", "no_such_module:f"], "cannot import"),
        ([*REPLAY, "--symbols", ","], "symbols: ',' names none"),
        (["cat", SAMPLE, "--columns", ","], "columns: ',' names none"),
        (["bench", "nonsense"], "No such command 'nonsense'"),
        (["replay", LONG], "File name too long"),
        (["replay", LONG + "*"], "no file matches"),
        (["info", LONG], "File name too long"),
        (["convert", LONG, "out.npz"], "File name too long"),
        (["convert", SAMPLE, "--date", SAMPLE_DATE, LONG + ".npz"], "File name too long"),
        ([*REPLAY, "--out", LONG + ".csv"], "File name too long"),
        ([*REPLAY, "--report", LONG + ".html"], "File name too long"),
        (["diff", LONG, SAMPLE], "File name too long"),
        (["listen", "--line", "127.0.0.1:99999"], "a port from 0 to 65535"),
        (["listen", "--line", "127.0.0.1:" + "9" * 5000], "a port from 0 to 65535"),
        (["listen", "--websocket", "ws://127.0.0.1:99999", "--profile", "p.toml"], "port"),
        (["serve", SAMPLE, "--line", "127.0.0.1:99999"], "a port from 0 to 65535"),
    ],
)  # fmt: skip
def test_options_and_paths_beyond_what_can_be_are_one_line(tmp_path: Path, args: list[str], words: str) -> None:
    (tmp_path / "p.toml").write_text('[[message]]\nsymbol = "s"\nkind = "trade"\n[message.fields]\nprice = "p"\n')
    done = run_here(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert re.fullmatch("strand: .*\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


def test_without_a_command_and_when_asked_there_is_help() -> None:
    for args, status in ([], 2), (["--help"], 0), (["replay", "-h"], 0), (["bench"], 2):
        done = run_here(*args)
        assert done.returncode == status
        assert (done.stderr if status else done.stdout).startswith("Usage: strand ")


@pytest.mark.parametrize(
    "args", [REPLAY, [*REPLAY, "--json"], ["info", SAMPLE], ["--help"], ["--version"], ["handlers"], ["include"]]
)
def test_a_full_disk_on_standard_output_is_one_line(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run_warm("-m", "strand", *args, stdout=full)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "free some disk space, or send standard output elsewhere" in done.stderr
        # Nobody can be told; the status still says it.
        if args in (REPLAY, ["--help"]):
            assert run_warm("-m", "strand", *args, stdout=full, stderr=full).returncode == 2


@pytest.mark.parametrize("failing", ["MemoryError()", 'MemoryError("no memory for the books")', "thread"])
def test_no_memory_is_one_line(failing: str) -> None:
    raising = 'RuntimeError("can\'t start new thread")' if failing == "thread" else failing
    program = f"""
import strand.command.cli, strand.command.replay
def fails(*_, **__):
    raise {raising}
strand.command.replay.run_replay = fails
strand.command.cli.main()
"""
    done = run_warm("-c", program, *REPLAY)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("strand: use fewer workers (--workers) or symbols (--symbols), or free some memory")


TELLS = """
import sys
class Told:
    def find_spec(self, name, path=None, target=None):
        if name == "strand.command.cli":
            open({told!r}, "w").close()
sys.meta_path.insert(0, Told())
"""


# Behind the command's first import both are the same, and go on as long.
@pytest.mark.parametrize(("command", "steps"), [("module", range(12)), ("strand", range(0, 12, 4))])
def test_an_interrupt_while_the_command_starts_is_one_line(command: str, steps: range, tmp_path: Path) -> None:
    """At any time from the command's first import on: what Python does before is its own."""
    ends = []
    for step in steps:
        # A folder of its own for each: Python goes by what it kept of a module of the same size and second.
        folder = tmp_path / str(step)
        folder.mkdir()
        told = folder / "told"
        (folder / "sitecustomize.py").write_text(TELLS.format(told=str(told)))
        environment = os.environ | {"PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}
        started = [*COMMANDS[command], "replay", SAMPLE, "--handler", "count", "--speed", "1"]
        with subprocess.Popen(
            started, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                while not told.exists() and process.poll() is None:
                    time.sleep(0.001)
                time.sleep(step * 0.06)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=100)
            finally:
                process.kill()
        # Python kills itself by the signal where that came within code it compiled from text: a shell says 130 of both.
        status = 128 - process.returncode if process.returncode < 0 else process.returncode
        ends.append((status, said.strip()))
    assert ends == [(130, "interrupted")] * len(ends)


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A request to terminate, which a command started meanwhile does not ignore, as one under nohup would."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_request_to_terminate_leaves_nothing_half_done(tmp_path: Path, number: int) -> None:
    out = tmp_path / "bars.npy"
    command = ["replay", SAMPLE, "--handler", "bars", "--speed", "1", "--out", f"bars={out}", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "strand", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        try:
            said, error = process.communicate(timeout=100)
        finally:
            process.kill()
    assert (process.returncode, error.strip()) == (128 + number, "terminated")
    assert [path.name for path in tmp_path.iterdir()] in ([], ["bars.npy"])
    assert not said or json.loads(said)["error"] == "interrupted"


def test_a_request_to_terminate_that_is_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr("strand.command.cli.cli.main", lambda **_: os.kill(os.getpid(), signal.SIGHUP))
        main()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
