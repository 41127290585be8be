"""strand serve and strand listen, also as a user starts them, and a short form of ``make live-trial``."""

from __future__ import annotations

import copy
import csv
import itertools
import json
import random
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import itch_reference as ref
import pytest
from bounded_child import in_bounded_child
from command_apart import started
from command_apart import strand as strand_apart
from command_here import run_here
from engine_support import wait_until
from interrupt_points import many_interrupts
from live_trial import Trial, intersect, joined, run_trial
from mold_wire import end_of_session, packet

from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic import SyntheticFeed

pytestmark = pytest.mark.python


def address_of(listener: subprocess.Popen[str]) -> str:
    """Address at which a command says that it listens."""
    assert listener.stderr is not None
    for line in listener.stderr:
        if line.startswith("listening at "):
            return line.split()[-1]
    raise AssertionError("it never listened")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A day of ITCH that a socket's buffer holds whole: a listener that has to wait for its turn loses nothing."""
    path = tmp_path_factory.mktemp("day") / "day.itch50"
    SyntheticFeed(5, 2_000, seed=1, date=SAMPLE_DATE).write_itch(path)
    return str(path)


def test_listen_and_serve_report_to_people(day: str, tmp_path: Path) -> None:
    page, written = tmp_path / "page.html", tmp_path / "bars.csv"
    bars = ("--handler", "bars", "--set", "every=30m", "--out", f"bars={written}", "--report", str(page), "-v")
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", *bars) as listener:
        done = strand_apart("serve", day, "--line", address_of(listener), "--rate", "500000")
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=120)  # it draws figures
    for words in ("messages/s", "session STRAND0001", "0 requests"):
        assert words in " ".join(done.stdout.split()), done.stdout
    assert listener.returncode == 0, errors
    for words in ("session STRAND0001", "0 missing on every line", "receipt to delivery"):
        assert words in " ".join(output.split()), output
    assert written.read_text().startswith('"number","sequence","ts","symbol",')
    text = page.read_text("utf-8")
    assert "ticks handled, in order; nothing dropped" in text
    # The bars that are drawn are read from where they were written.
    assert "Bars of" in text
    assert "bars (every=30m)" in text


def test_listen_prints_its_result_as_replay_does(day: str) -> None:
    shows = ("--handler", "vwap", "--date", SAMPLE_DATE, "--workers", "1", "--sort", "volume", "--top", "3")
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", *shows) as listener:
        done = strand_apart("serve", day, "--line", address_of(listener), "--rate", "500000")
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 0, errors
    replayed = strand_apart("replay", day, *shows).stdout.splitlines()
    said = output.splitlines()
    rows = replayed[: next(at for at, line in enumerate(replayed) if "symbols, by volume" in line) + 1]
    assert said[: len(rows)] == rows
    figures = next(line for line in said[len(rows) :] if " ticks of " in line)
    assert figures.startswith("2,005 ticks of 5 symbols in ")
    assert "end to end p50 " in figures
    assert "limited by" not in output
    assert "session STRAND0001" in output
    refused = strand_apart("listen", "--line", "127.0.0.1:0", "--handler", "vwap", "--sort", "nosuch")
    assert refused.returncode == 2
    assert "sort: the rows have no field 'nosuch'" in refused.stderr


def test_listen_is_ended_by_an_interrupt_and_reports() -> None:
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", "--json") as listener:
        address_of(listener)
        listener.send_signal(signal.SIGINT)
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 0, errors
    assert json.loads(output)["live"]["session"] is None


#: Symbols of the messages to send, and messages of a packet.
NAMES = ("A", "BB", "CCC")
SENT = random.Random(5).choices(NAMES, (5, 3, 1), k=3_000)
PER_PACKET = 6


def ticks_by_symbol(written: Path) -> dict[str, int]:
    with written.open() as file:
        return {row["symbol"]: int(row["ticks"]) for row in csv.DictReader(file)}


def send(line: socket.socket, names: Sequence[str], first: int) -> None:
    """Sends a message for each name, numbered from ``first``."""
    bodies = [ref.message("D", 1 + NAMES.index(name), 10**13 + first + at, 7) for at, name in enumerate(names)]
    line.send(packet(first, bodies))


def wait_until_taken(line: socket.socket) -> None:
    """Waits until the listener at the other end has taken all that was sent to it, or is gone."""
    port = line.getpeername()[1]

    def is_taken() -> bool:
        sockets = [text.split() for text in Path("/proc/net/udp").read_text().splitlines()[1:]]
        return {found[4].partition(":")[2] for found in sockets if found[1].endswith(f":{port:04X}")} <= {"00000000"}

    wait_until(is_taken, 60)


@pytest.mark.parametrize("interrupts", [1, 2])
@pytest.mark.parametrize("goes_on", [False, True], ids=["behind all", "in the middle"])
def test_an_interrupt_behind_ticks_loses_none_of_those_that_came(
    goes_on: bool, interrupts: int, tmp_path: Path
) -> None:
    written, first = tmp_path / "rows.csv", 1 + len(NAMES)
    how = () if not goes_on else ("--json",)
    asked = ("--line", ":0", "--max-seconds", "600", "--handler", "count", "--out", str(written), *how)
    with started("listen", *asked) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        host, port = address_of(listener).split(":")
        line.connect((host, int(port)))
        line.send(packet(1, [ref.directory(1 + at, name.encode()) for at, name in enumerate(NAMES)]))
        # In the middle of more and more, until the listener is gone.
        for at in itertools.count(0, PER_PACKET) if goes_on else range(0, len(SENT), PER_PACKET):
            if goes_on and at == len(SENT) // 2:
                for _ in range(interrupts):
                    listener.send_signal(signal.SIGINT)
            try:
                send(line, SENT[at % len(SENT) :][:PER_PACKET], first + at)
            except ConnectionRefusedError:
                break
            if at % (40 * PER_PACKET) == 0:
                wait_until_taken(line)
        if not goes_on:
            wait_until_taken(line)
            for _ in range(interrupts):
                listener.send_signal(signal.SIGINT)
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 0, errors
    if goes_on:
        found = json.loads(output)
        came = [*itertools.islice(itertools.cycle(SENT), found["live"]["delivered"] - len(NAMES))]
        assert found["ticks"] == found["statistics"]["handled"] == len(came)
    else:
        came = SENT
        assert f"{len(SENT):,} ticks of {len(NAMES)} symbols in " in output
        assert f"{len(NAMES) + len(SENT):,} messages in order, 0 missing on every line" in output
    assert ticks_by_symbol(written) == Counter(came)


def test_a_listener_that_comes_late_says_with_which_message_it_begins() -> None:
    with started("listen", "--line", ":0", "--max-seconds", "60", "--symbols", "NOSUCH", "--json") as listener:
        host, port = address_of(listener).split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.sendto(packet(1001, [ref.message("D", 1, 10**13, 7)] * 3), (host, int(port)))
            line.sendto(end_of_session(1004), (host, int(port)))
        output, errors = listener.communicate(timeout=60)
    assert "warning: the first message received is number 1,001; the 1,000 before it" in errors
    # What was asked for and never came is an error behind the report.
    assert listener.returncode == 2
    found = json.loads(output)
    assert "NOSUCH" in found["error"]
    assert (found["live"]["joined_at"], found["live"]["delivered"]) == (1001, 3)


def test_a_strict_listener_reports_warnings_and_ends_with_2() -> None:
    given = ("listen", "--line", ":0", "--max-seconds", "60", "--handler", "book", "--strict", "--json")
    with started(*given) as listener:
        host, port = address_of(listener).split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.sendto(packet(1, [ref.directory(7, b"A"), ref.message("D", 7, 10**13, 7)]), (host, int(port)))
            line.sendto(end_of_session(3), (host, int(port)))
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 2, errors
    found = json.loads(output)
    assert [(w["kind"], w["count"], w["example"]) for w in found["warnings"]] == [("unknown orders", 1, "1 of A")]
    assert found["error"].startswith("strict: unknown orders")


def test_a_handler_that_fails_ends_listen_with_2_after_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing.py").write_text(
        "class Fails:\n    def on_tick(self, tick):\n        raise ValueError('no more')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = tmp_path / "rows.csv"
    given = ("--max-seconds", "60", "--handler", "failing:Fails", "--out", str(rows), "--json")
    with started("listen", "--line", ":0", *given) as listener:
        host, port = address_of(listener).split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.sendto(packet(1, [ref.directory(7, b"A"), ref.message("D", 7, 10**13, 7)]), (host, int(port)))
            line.sendto(end_of_session(3), (host, int(port)))
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 2, errors
    found = json.loads(output)
    assert "no more" in found["error"]
    assert (found["ticks"], found["live"]["delivered"]) == (1, 2)
    assert f"no rows written to {rows}: the run ended early" in errors
    assert not rows.exists()


def test_a_gap_that_stays_ends_listen_with_2_after_a_report() -> None:
    asked = ("--on-gap", "raise", "--max-seconds", "60", "--first-sequence", "1", "--json")
    with started("listen", "--line", ":0", *asked) as listener:
        done = strand_apart(
            "serve", str(sample_path()), "--line", address_of(listener), "--rate", "500000", "--loss", ".1"
        )
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 2
    assert "came on no line" in errors
    found = json.loads(output)
    assert "came on no line" in found["error"]
    assert found["live"]["delivered"] == found["live"]["gaps"][0][0] - 1


# ---- Strand serve and strand listen as a user starts them, and a short form of ``make live-trial``


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return run_trial(tmp_path_factory.mktemp("trial"), messages=100_000, rate=100_000, loss=0.05, symbols=50)


def test_what_is_served_with_faults_is_heard_but_for_what_both_lines_lost(trial: Trial) -> None:
    assert list(trial.failures()) == []
    assert trial.heard["live"]["gap_messages"] > 0
    assert trial.heard["ticks"] > 90_000


def test_the_trial_fails_where_something_does_not_hold(trial: Trial) -> None:
    trial = copy.deepcopy(trial)
    live = trial.heard["live"]
    live["line_gaps"]["a"] = live["line_gaps"]["a"][:-1]
    live["gaps"] = [*live["gaps"], [1, 2]]
    live["delivered"] -= 1
    assert len(list(trial.failures())) == 3
    assert joined([[1, 2], [2, 4], [5, 6]]) == [[1, 4], [5, 6]]
    assert intersect([[1, 5], [7, 9]], [[3, 8]]) == [[3, 5], [7, 8]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("listen", "--line", "here"), "line: 'here' is not HOST:PORT"),
        (("listen", "--line", ":0", "--line", ":0", "--line", ":0"), "line: 3 of them: give one, or two"),
        (("serve", "x.itch50", "--lingers", "3"), "Did you mean one of"),
        (("serve", "nothing.itch50", "--line", "127.0.0.1:1"), "nothing.itch50"),
        (("serve", str(sample_path()), "--line", "192.0.2.1:1"), "allow_remote"),
        (("serve", str(sample_path()), "--line", ":1", "--loss", "2"), "loss: 2.0 is not a number from 0 to 1"),
        (("serve", str(sample_path()), *("--line", ":1"), *("--loss", ".1") * 3), "loss: given 3 times"),
    ],
)
def test_a_command_that_cannot_work_says_why_and_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = run_here(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


# ---- Strand serve


def test_each_line_has_losses_of_its_own(tmp_path: Path) -> None:
    SyntheticFeed(5, 500, seed=1, date="2026-01-05").write_itch(tmp_path / "day.itch50")
    lines, losses = ("--line", "127.0.0.1:9") * 2, ("--loss", "0", "--loss", "1")
    done = run_here("serve", tmp_path / "day.itch50", *lines, *losses, "--rate", "100000", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["lines"]
    assert [found[line]["lost_packets"] for line in "ab"] == [0, found["a"]["packets"]]
    assert found["b"]["packets"] == 0 < found["a"]["packets"]


def test_serve_is_ended_by_an_interrupt_and_reports_what_it_sent() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        line.settimeout(60)
        address = f"127.0.0.1:{line.getsockname()[1]}"
        with started("serve", str(sample_path()), "--line", address, "--rate", "1000", "--json") as server:
            line.recv(2048)
            server.send_signal(signal.SIGINT)
            output, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert 0 < json.loads(output)["messages"] < 200_000


def test_an_interrupt_in_the_middle_of_another_one_waits_for_nothing() -> None:
    in_bounded_child(serve_under_many_interrupts)


def serve_under_many_interrupts() -> None:
    signal.signal(signal.SIGINT, lambda *_: None)
    with many_interrupts(every_s=20e-6):
        for _ in range(10):
            ended = run_here("serve", sample_path(), "--line", "127.0.0.1:9", "--rate", "1000", "--json")
            assert ended.returncode == 0, ended.stderr
            assert json.loads(ended.stdout)["messages"] < 200_000
