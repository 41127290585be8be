"""strand replay: what it runs and reports, several handlers, terminals, and how a run is stopped."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from command_apart import strand as strand_apart
from command_here import run_here
from rich.markup import escape
from rich.table import Table
from warm_python import run_warm

import strand
from strand.command.cli import cli, main
from strand.command.run_options import running
from strand.command.showing import Writes, writing
from strand.dispatch.configuration import Limits, Pool
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.policies.policy import Levels
from strand.replaying.replay import replay
from strand.report.tables import TerminalConsole
from strand.ticks import zeros

pytestmark = pytest.mark.python


SAMPLE = str(sample_path())


def test_replay_prints_one_json_object_and_writes_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "rows.npy"
    done = strand_apart("replay", SAMPLE, "--handler", "vwap", "--workers", "2", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["ticks"] == 200_500
    assert plain["workers"] == 2
    assert done.stderr == ""
    assert len(np.load(out)) == plain["symbols"] == 500


def test_an_interrupted_replay_says_that_no_rows_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        interrupt = KeyboardInterrupt()
        interrupt.partial = replay(SAMPLE, "count", until=("AAAHD", 5))  # type: ignore[attr-defined]
        raise interrupt

    monkeypatch.setattr("strand.command.replay.run_replay", interrupted)
    monkeypatch.setattr("sys.argv", ["strand", "replay", SAMPLE, "--out", str(tmp_path / "rows.npy")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if line] == [
        f"no rows written to {tmp_path / 'rows.npy'}: the run ended early", "interrupted",
    ]  # fmt: skip
    assert "AAAHD" in said.out
    assert list(tmp_path.iterdir()) == []


def test_a_report_says_what_was_shed_and_of_which_level() -> None:
    levels = ["--policy", "levels", "--priority", "AAAHD=high", "--priority", "*=low"]
    bounds = ["--on-full", "shed", "--total-capacity-ticks", "20"]
    done = strand_apart("replay", SAMPLE, "-v", "--handler", "count", *levels, *bounds)
    assert done.returncode == 0, done.stderr
    dropped, by_level = (line for line in done.stdout.splitlines() if line.startswith("dropped"))
    assert " newest" in dropped
    assert by_level.startswith("dropped by level: ")
    assert by_level.endswith(" low")


@pytest.mark.parametrize(("options", "status"), [(("-v",), 0), (("--json",), 0), (("--cores", "0"), 2)])
def test_where_pinning_is_refused_a_replay_runs_and_its_report_says_so(options: tuple[str, ...], status: int) -> None:
    program = """
import os, sys
def refuse(*_):
    raise PermissionError(1, "Operation not permitted")
os.sched_setaffinity = refuse
from strand.command.cli import main
main()
"""
    replay = ["replay", SAMPLE, "--limit", "1000", "--workers", "1", *options]
    done = run_warm("-c", program, *replay)
    assert done.returncode == status, done.stderr
    if status == 2:
        assert done.stderr.startswith("strand: cores: the system refused to pin a worker to core 0 (Operation not perm")
        assert done.stderr.count("\n") == 1
        return
    refused = "workers are not pinned to cores: the system refused it (Operation not permitted)"
    assert done.stderr.count(refused) == 1
    if "--json" in options:
        assert json.loads(done.stdout)["statistics"]["unpinned"] == refused
    else:
        assert refused in " ".join(done.stdout.split())


def test_a_replay_shows_rows_and_one_line_of_figures_and_all_of_them_when_asked() -> None:
    done = run_here("replay", SAMPLE, "--limit", "1000", "--workers", "1", "--date", SAMPLE_DATE)
    assert done.returncode == 0, done.stderr
    head, *_, figures = done.stdout.splitlines()
    assert head.split()[:2] == ["symbol", "ticks"]
    assert figures.startswith("1,000 ticks of ")
    assert figures.endswith(", 1 worker, warnings: none")
    assert "worker 0" not in done.stdout
    done = run_here("replay", SAMPLE, "--limit", "1000", "-v")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for word in ("1,000 ticks", "limited by", "worker 0", "publishers", "handler", "p99.9", "dropped: nothing"):
        assert word in said, word
    assert "end to end" not in said
    assert "wait" not in said
    done = run_here("replay", SAMPLE, "--limit", "1000", "-v", "--speed", "1000000")
    assert "end to end" in done.stdout, done.stderr
    assert "queue depth" not in done.stdout


@pytest.mark.parametrize(("limit", "words"), [(("--limit", "150000"), "150,000 "), ((), "replaying")])
def test_whoever_watches_sees_how_far_a_replay_is(limit: tuple[str, ...], words: str) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "strand", "replay", SAMPLE, *limit], stdout=subprocess.DEVNULL, stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"},
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while chunk := _read_terminal(ours):
        said += chunk
    os.close(ours)
    assert done.wait(timeout=100) == 0
    assert words in said.decode()
    assert "?" not in said.decode().replace("\x1b[?25", "")


def _read_terminal(descriptor: int) -> bytes:
    """The text that a program wrote there; nothing once it has ended, which Linux reports as an error."""
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""


def test_a_handler_of_ones_own_is_found_by_module_and_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import strand\n\n\n@strand.batch_handler(state=[('n', 'u8')])\n"
        "def tally(symbol, ticks, row):\n    row['n'] += len(ticks)\n\n\nnot_one = 7\n"
    )
    done = run_here("replay", SAMPLE, "--handler", "mine:tally", "--out", "rows.csv", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0] == "symbol,n"
    assert sum(int(line.split(",")[1]) for line in lines[1:]) == 200_500
    done = run_here("replay", SAMPLE, "--handler", "mine:not_one", cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a handler" in done.stderr


def test_a_file_cut_short_ends_with_status_2_and_leaves_no_output(tmp_path: Path) -> None:
    day = tmp_path / "day.itch50"
    assert run_here("gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)).returncode == 0
    day.write_bytes(day.read_bytes()[:-7])
    done = run_here("replay", str(day), "--out", str(tmp_path / "rows.npy"))
    assert done.returncode == 2
    assert "byte" in done.stderr
    assert not (tmp_path / "rows.npy").exists()
    assert "ticks of 5 symbols" in " ".join(done.stdout.split())
    whole = json.loads(run_here("info", str(day), "--json").stdout)
    handled = json.loads(run_here("replay", str(day), "--json").stdout)
    assert whole["error"] == handled["error"]
    assert handled["ticks"] == handled["statistics"]["handled"] == whole["ticks"] > 400


def test_a_failed_handler_is_told_once_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(
        "import strand\n\n@strand.batch_handler(state=[('n', 'i8')])\n"
        "def fails(symbol, ticks, row):\n    return 1 // 0  # no\n"
    )
    done = run_here("replay", SAMPLE, "--handler", "failing:fails", "--symbols", "AAAHD", cwd=tmp_path)
    assert done.returncode == 2
    at = f"at {tmp_path / 'failing.py'}:5: return 1 // 0  # no"
    assert re.fullmatch(
        r"strand: handler 'fails' failed on AAAHD at sequence \d+ \(its tick 1\): "
        rf"ZeroDivisionError: integer division or modulo by zero, {re.escape(at)}\n",
        done.stderr,
    )
    assert "ZeroDivision" not in done.stdout
    assert done.stdout.startswith("warning: unknown date: 4,514 ")
    assert "not handled: 4,513 ticks were read, and still waited when the run stopped" in done.stdout
    assert "dropped: 1 failed\n" in done.stdout
    assert ", 1 dropped, 4,513 not handled, warnings: 1\n" in done.stdout


# ---- What commands read: standard input, selections, damaged records


def test_standard_input_is_replayed_and_selected_from() -> None:
    replay = ["replay", "-", "--symbols", "AAAH*", "--start", "09:45", "--limit", "100", "--json"]
    for command in (replay, ["info", "-", *replay[2:]]):
        with subprocess.Popen(["cat", SAMPLE], stdout=subprocess.PIPE) as pipe:
            done = run_warm("-m", "strand", *command, "--date", "2026-01-05", stdin=pipe.stdout)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["ticks"] == 100


def test_damaged_records_are_passed_over_and_shown_when_told_so(tmp_path: Path) -> None:
    day = tmp_path / "day.itch50"
    assert run_here("gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)).returncode == 0
    whole = json.loads(run_here("info", str(day), "--json").stdout)["ticks"]
    day.write_bytes(day.read_bytes() + b"\0\x05zzzzz")
    assert run_here("replay", str(day)).returncode == 2
    done = run_here("replay", str(day), "--on-bad-record", "skip", "--on-error", "quarantine", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ticks"] == whole


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("size_unit=1", "feeds.open() of itch files has no option 'size_unit'"),
        ("path=x", "path: no reader has such an option"),
    ],
)
def test_an_option_that_the_reader_has_not_is_refused(given: str, said: str) -> None:
    done = run_here("info", str(sample_path()), "--feed", given)
    assert done.returncode == 2
    assert said in done.stderr


# ---- What ``strand replay`` shows of its result, and of a run whose results went to files


RUN = ("replay", sample_path(), "--date", SAMPLE_DATE, "--workers", "0", "--limit", "60000")


def rows_of(text: str) -> list[str]:
    """The symbols of the table's lines."""
    return [line.split()[0] for line in text.splitlines() if line.startswith("AA")]


def test_ten_rows_are_shown_or_as_many_as_are_asked_for() -> None:
    assert len(rows_of(run_here(*RUN, "--handler", "vwap").stdout)) == 10
    assert len(rows_of(run_here(*RUN, "--handler", "vwap", "--top", "3").stdout)) == 3


def test_symbols_that_are_named_are_all_shown() -> None:
    names = [f"AAA{a}{b}" for a in "ABC" for b in "ABCD"]
    assert sorted(rows_of(run_here(*RUN, "--symbols", ",".join(names)).stdout)) == names


def test_rows_are_sorted_by_a_field(tmp_path: Path) -> None:
    shown = run_here(*RUN, "--handler", "vwap", "--sort", "volume").stdout.splitlines()
    at = shown[0].split().index("volume")
    volumes = [int(line.split()[at].replace(",", "")) for line in shown if line.startswith("AA")]
    assert volumes == sorted(volumes, reverse=True)
    refused = run_here(*RUN, "--handler", "vwap", "--sort", "nothing", "--out", tmp_path / "rows.csv")
    assert refused.returncode == 2
    assert refused.stderr.startswith("strand: sort: the rows have no field 'nothing'; there are symbol, ticks, trades")
    assert not list(tmp_path.iterdir())


def test_of_results_in_files_the_figures_are_shown_and_rows_where_asked_for(tmp_path: Path) -> None:
    out = ("--handler", "bbo", "--out", f"bbo={tmp_path / 'bbo.npy'}")
    lines = run_here(*RUN, *out).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["60,000", "bbo:"]
    assert len(rows_of(run_here(*RUN, *out, "--top", "2").stdout)) == 2


def test_json_has_all_and_takes_none_of_these() -> None:
    for option in (("--top", "2"), ("--sort", "ticks"), ("-v",)):
        done = run_here(*RUN, "--json", *option)
        assert done.returncode == 2
        assert "--json has all of the run" in done.stderr


# ---- Where a command writes rows and outputs


def run(*args: str) -> tuple[Result, list[Writes]]:
    found: list[Writes] = []

    @click.command()
    @writing
    def command(writes: Writes) -> None:
        found.append(writes)

    return CliRunner().invoke(command, args), found


def test_a_path_is_for_rows_and_one_with_a_name_for_an_output(tmp_path: Path) -> None:
    rows = str(tmp_path / "rows.csv")
    assert run("--out", rows, "--out", "bars=b.parquet", "--out", "x=y=z.npy")[1] == [
        Writes(Path(rows), {"bars": "b.parquet", "x": "y=z.npy"})
    ]
    assert run("--escape-formulas")[1] == [Writes(None, {}, True)]


def test_what_is_no_name_before_an_equals_sign_is_part_of_a_path(tmp_path: Path) -> None:
    rows = str(tmp_path / "a-b=c.npy")
    assert run("--out", rows)[1] == [Writes(Path(rows), {})]


@pytest.mark.parametrize(
    ("outs", "said"),
    [
        (["bars=a.npy", "bars=b.npy"], "'bars' is given twice"),
        (["a.npy", "b.npy"], "rows can go to one file"),
    ],
)
def test_two_files_for_one_thing_are_refused(outs: list[str], said: str) -> None:
    result, found = run(*(word for out in outs for word in ("--out", out)))
    assert result.exit_code == 2
    assert said in result.output
    assert found == []


def test_rows_that_cannot_be_written_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for path in (tmp_path / "rows.xyz", tmp_path / "none" / "rows.csv"):
        result, found = run("--out", str(path))
        assert found == []
        assert "out: " in str(result.exception)


# ---- Options of how a run is done


USUAL = {"cores": "auto", "strands": "auto", "idle": "backoff", "on_error": "stop", "strict": False}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], {}),
        (["--strands", "3", "--idle", "park"], {"strands": 3, "idle": "park"}),
        (["--ingest", "publish"], {"ingest": "publish"}),
        (["--min-workers", "2"], {"pool": Pool(min_workers=2)}),
        (["--on-error", "quarantine"], {"on_error": "quarantine"}),
        (["--policy", "levels"], {"policy": Levels(), "priorities": {}}),
        (
            [
                "--on-full",
                "shed",
                "--total-capacity-ticks",
                "9",
                "--level-capacity-ticks",
                "low=5",
                "--capacity-ticks",
                "4",
            ],
            {
                "limits": Limits(
                    on_full="shed", total_capacity_ticks=9, capacity_ticks=4, level_capacity_ticks={"low": 5}
                )
            },
        ),
        (["--strict", "--attachable", "--cores", "0"], {"strict": True, "attachable": True, "cores": [0]}),
    ],
)
def test_what_is_given_is_said_and_all_else_is_as_usual(args: list[str], said: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []

    @click.command()
    @running
    def command(run: dict[str, Any]) -> None:
        found.append(run)

    assert CliRunner().invoke(command, args).exit_code == 0
    usual = {name: value for name, value in USUAL.items() if "pool" not in said or name not in ("cores", "idle")}
    assert found == [usual | said]


# ---- Handlers and their options on the command line


def test_a_failing_function_ends_the_command_with_status_2(mine: str) -> None:
    done = run_here("handlers", f"{mine}:raises")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"strand: handler {mine}:raises: it raised ValueError")
    assert len(done.stderr.splitlines()) == 1


def test_replay_sets_options_and_writes_what_they_make(tmp_path: Path) -> None:
    day = ["--date", SAMPLE_DATE, "--workers", "1", "--json"]
    args = ["--handler", "bars", "--set", "every=30m", "--set", "partial=no", "--out", f"bars={tmp_path / 'bars.npy'}"]
    done = run_here("replay", sample_path(), *args, *day, "--fingerprints", tmp_path / "run.jsonl")
    assert done.returncode == 0, done.stderr
    bars = np.load(tmp_path / "bars.npy")
    wanted = strand.replay(
        sample_path(), strand.bars("30m", partial=False), feed_options={"date": SAMPLE_DATE}, workers=1, cores=None
    )
    assert json.loads(done.stdout)["fingerprint"] == wanted.fingerprint
    assert len(bars) == len(wanted.outputs["bars"]) > 0
    header = json.loads((tmp_path / "run.jsonl").read_text().partition("\n")[0])
    assert header["handlers"]["*"] == {
        "name": "bars", "load": "bars", "options": {"every": "30m", "partial": "no"}, "code": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "every"], "'every' is not OPTION=VALUE"),
        (["--set", "every=1m", "--set", "every=2m"], "'every' is given twice"),
        (["--set", "interval=1m"], "no option 'interval'; its options: every"),
        (["--set", "fill=1m"], "fill: give yes or no"),
    ],
)
@pytest.mark.parametrize("command", [["replay", "no-file"], ["listen", "--line", "127.0.0.1:0"]])
def test_options_that_cannot_work_end_the_command_before_it_begins(
    command: list[str], args: list[str], words: str
) -> None:
    done = CliRunner().invoke(cli, [*command, "--handler", "bars", *args])
    assert done.exit_code != 0
    assert words in f"{done.exception} {done.output}"


@pytest.mark.parametrize("command", ["replay", "sweep", "policy plan", "listen"])
def test_a_handler_that_is_given_twice_is_refused_by_every_command_with_the_way_to_a_chain(command: str) -> None:
    needs = {"sweep": ["x", "--out", "y"], "policy plan": ["--from", "x", "--wait", "p99=5ms"], "replay": ["x"]}
    done = CliRunner().invoke(cli, [*command.split(), *needs.get(command, []), "--handler", "vwap", "--handler", "bbo"])
    assert done.exit_code == 2
    assert "--handler: it is given 2 times" in done.output
    assert "strand.chain('vwap', 'bbo')" in done.output


# ---- What a terminal would act on and not show, in a name of a file's own, is shown as its code


NASTY = "A\x1b[2J\x9b\u202eB"
SHOWN = r"A\x1b[2J\x9b\u202eB"


def test_a_console_shows_text_and_cells_so() -> None:
    shown = io.StringIO()
    console = TerminalConsole(file=shown, width=80)
    table = Table("name")
    table.add_row(NASTY + " " * 20 + ".")
    console.print(escape(NASTY))
    console.print(table)
    assert shown.getvalue().count(SHOWN) == 2
    assert shown.getvalue().replace("\n", "").isprintable()


@pytest.mark.parametrize("command", ["info", "replay"])
def test_names_in_a_report_and_in_an_error_move_no_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # no line is broken
    path = tmp_path / f"{NASTY}.npz"
    # A symbol's name has no control character, but may turn the line round.
    np.savez(path, ticks=zeros(3).view(np.ndarray), symbols=np.array(["A\u202eB"]))
    monkeypatch.setattr("sys.argv", ["strand", command, str(path)])
    main()
    said = capsys.readouterr().out
    assert command == "replay" or r"\x1b" in said
    assert r"A\u202eB" in said
    assert said.replace("\n", "").isprintable()
    monkeypatch.setattr("sys.argv", ["strand", command, str(path), "--symbols", "none"])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert error.replace("\n", "").isprintable()


# ---- ``strand replay --only --until --pdb``


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
def replayed(tmp_path: Path) -> Any:
    """Runs the command over the sample, in a folder with a handler ``mine:Looks``."""
    (tmp_path / "mine.py").write_text(MINE)

    def run(*options: str, said: str = "") -> subprocess.CompletedProcess[str]:
        words = ("-m", "strand", "replay", SAMPLE, *options)
        return run_warm(*words, cwd=tmp_path, env=os.environ | {"COLUMNS": "200"}, stdin=said.encode())

    return run


def test_until_stops_at_a_tick_of_one_symbol(replayed: Any) -> None:
    result = replayed("--only", "AAAHD", "--until", "5", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["ticks"] == 5


def test_a_failure_shows_the_tick_and_the_line(replayed: Any, tmp_path: Path) -> None:
    result = replayed("--handler", "mine:Looks", "--workers", "1", "--only", "AAAHD", "--json")
    assert result.returncode == 2
    line = f'{tmp_path / "mine.py"}:9: raise ValueError("seven")'
    assert result.stderr.endswith(f" (its tick 7): ValueError: seven, at {line}\n")
    assert json.loads(result.stdout)["error"].endswith("ValueError: seven")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_on_a_trade_behind_a_book_shows_the_line(workers: str, replayed: Any, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    result = replayed("--handler", "mine:signal", "--workers", workers, "--only", "AAAHD")
    assert result.returncode == 2
    at = f"{tmp_path / 'mine.py'}:18: row.x = 1 / (trade.size - 400 + 0 * row.book.bid_size)"
    assert result.stderr.endswith(f"(its tick 54): ZeroDivisionError, at {at}\n")


def test_pdb_stops_in_the_handler_at_the_tick(replayed: Any) -> None:
    result = replayed(
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


def test_q_at_the_prompt_ends_the_command(replayed: Any) -> None:
    result = replayed("--handler", "mine:Looks", "--only", "AAAHD", "--until", "5", "--pdb", said="q\n")
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
def test_what_does_not_go_together_is_refused(replayed: Any, options: list[str], said: str) -> None:
    result = replayed(*options)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
