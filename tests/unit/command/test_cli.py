"""The command as a user meets it: what it prints, where, and with which status it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from command_here import run_here
from warm_python import run_warm

from strand import get_include
from strand.command import demo
from strand.command.cli import cli, main
from strand.feeds.sample import sample_path
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python

SAMPLE = str(sample_path())


def strand(*args: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; ``run_here`` is quicker where what it says is all that matters."""
    return run_warm("-m", "strand", *args)


def test_replay_prints_one_json_object_and_writes_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "rows.npy"
    done = strand("replay", SAMPLE, "--handler", "vwap", "--workers", "2", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert plain["ticks"] == 200_500
    assert plain["workers"] == 2
    assert done.stderr == ""
    assert len(np.load(out)) == plain["symbols"] == 500


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--json",), 0), (("--cores", "0"), 2)])
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
    if options:
        assert json.loads(done.stdout)["statistics"]["unpinned"] == refused
    else:
        assert refused in " ".join(done.stdout.split())


def test_replay_shows_rates_workers_latencies_and_drops_to_people() -> None:
    done = run_here("replay", SAMPLE, "--limit", "1000")
    assert done.returncode == 0, done.stderr
    for word in ("1,000 ticks", "limited by", "worker 0", "publishers", "end to end", "p99.9", "dropped: nothing"):
        assert word in " ".join(done.stdout.split()), word


@pytest.mark.parametrize(("limit", "words"), [(("--limit", "150000"), "150,000 of 150,000"), ((), "replaying")])
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
    """What a program wrote there; nothing once it has ended, which Linux reports as an error."""
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
    assert "is no handler" in done.stderr


def test_info_counts_what_the_file_holds() -> None:
    done = run_here("info", SAMPLE, "--date", "2026-01-05", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["format"], found["ticks"], found["symbols"]) == ("itch50", 200_500, 500)
    assert found["statistics"]["messages"] == 201_507
    assert found["last_ns"] > found["first_ns"]
    assert found["share_of_ticks"]["top_500"] == 1.0


def test_info_of_several_days_says_both_and_asks_for_a_date_where_times_lack_one(tmp_path: Path) -> None:
    ticks = zeros(2)
    ticks["ts_recv"] = ticks["ts_event"] = [1_767_600_000_000_000_000, 1_767_700_000_000_000_000]
    write_npy(tmp_path / "days.npz", ticks, ["A"])
    shown = " ".join(run_here("info", str(tmp_path / "days.npz")).stdout.split())
    assert "2026-01-05 08:00:00.000000 to 2026-01-06 11:46:40.000000 UTC" in shown
    assert "give --date" not in shown
    assert "give --date" in run_here("info", SAMPLE).stdout


def test_gen_writes_the_same_file_for_the_same_seed(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.itch50", "b.itch50", "c.itch50")]
    for path, seed in zip(files, ("3", "3", "4"), strict=True):
        done = run_here(
            "gen", "itch", "--symbols", "20", "--messages", "2000", "--seed", seed, "--out", str(path), "--json"
        )
        assert done.returncode == 0, done.stderr
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["replay", "no-such-file"], "there is no such file"),
        (["replay", __file__], "what can be read"),
        (["replay", SAMPLE, "--cores", "9999"], "cannot be used"),
        (["replay", SAMPLE, "--cores", "x"], "not a list of cores"),
        (["replay", SAMPLE, "--cores", "3-1"], "'3-1' is not a list of cores"),
        (["gen", "itch", "--symbols", "5", "--messages", "10", "--out", "."], "it is a folder"),
        (["gen", "itch", "--symbols", "5", "--messages", "10", "--out", "/"], "it is a folder"),
        (["convert", SAMPLE, "--to", "npz", "."], "it is a folder"),
        (["replay", SAMPLE, "--strands", "many"], "not auto, per-symbol or a number"),
        (["replay", SAMPLE, "--handler", "nothing"], "not one of bars, bbo, book, count, depth, imbalance, spin, "),
        (["replay", SAMPLE, "--handler", "no_such_module:f"], "cannot import"),
        (["replay", SAMPLE, "--symbols", "NOSUCH"], "NOSUCH"),
        (["replay", SAMPLE, "--symbols", ","], "symbols: ',' names none"),
        (["info", SAMPLE, "--symbols", ""], "symbols: '' names none"),
        (["replay", SAMPLE, "--date", "yesterday"], "yesterday"),
        (["replay", SAMPLE, "--workers", "-1"], "--workers"),
        (["replay", SAMPLE, "--out", "rows.txt"], "must end in one of"),
        (["replay", SAMPLE, "--out", "/no/such/folder/rows.npy"], "no folder"),
        (["info", "/"], "directory"),
        (["gen", "itch", "--skew", "wild", "--out", "x"], "skew"),
        (["gen", "itch", "--symbols", "70000", "--out", "x"], "65,535"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_error_and_status_2(
    args: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # In this process: one of its own would be most of the time. What is not caught would come through.
    monkeypatch.setattr(sys, "argv", ["strand", *args])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_command_has_json() -> None:
    def leaves(command: click.Command) -> Iterator[click.Command]:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                each = command.get_command(context, name)
                assert each is not None
                yield from leaves(each)
        else:
            yield command

    found = list(leaves(cli))
    assert len(found) > 10
    assert [c.name for c in found if not any("--json" in parameter.opts for parameter in c.params)] == []


def test_the_folder_of_the_headers_is_printed_as_text_and_as_json() -> None:
    assert run_here("include").stdout.strip() == get_include()
    assert json.loads(run_here("include", "--json").stdout) == {"include": get_include()}


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
    for option in (["--on-error", "skip"], ["--on-bad-record", "skip"]):
        done = run_here("replay", str(day), *option, "--on-error", "quarantine", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["ticks"] == whole


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


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "[" / "x]"  # what rich would take for the end of a style
    folder.mkdir(parents=True)
    day = folder / "20260105.itch50"
    for args, words in (
        (["gen", "itch", "--symbols", "5", "--messages", "500", "--out", str(day)], str(day)),
        (["replay", str(day), "--handler", "count", "--out", str(folder / "rows.csv")], "rows written to"),
        (["info", str(day), "--symbols", " AAAAA , AAAAB"], "itch50"),
        (["convert", str(day), str(folder / "day.npz")], str(folder / "day.npz")),
        (["serve", str(day), "--line", "127.0.0.1:9", "--speed", "0"], "messages in"),
    ):
        done = run_here(*args)
        assert done.returncode == 0, done.stderr
        assert "".join(words.split()) in "".join(done.stdout.split())
        assert "[/x]" in "".join(done.stdout.split())


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
