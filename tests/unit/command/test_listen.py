"""strand listen."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import itch_reference as ref
import pytest
from command_apart import started, strand
from mold_wire import end_of_session, packet

from strand.feeds.sample import SAMPLE_DATE, sample_path

pytestmark = pytest.mark.python


def address_of(listener: subprocess.Popen[str]) -> str:
    """Where it says that it listens."""
    assert listener.stderr is not None
    for line in listener.stderr:
        if line.startswith("listening at "):
            return line.split()[-1]
    raise AssertionError("it never listened")


def test_listen_and_serve_report_to_people(tmp_path: Path) -> None:
    page, written = tmp_path / "page.html", tmp_path / "bars.csv"
    bars = ("--handler", "bars", "--set", "every=30m", "--out", f"bars={written}", "--report", str(page), "-v")
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", *bars) as listener:
        done = strand("serve", str(sample_path()), "--line", address_of(listener), "--rate", "500000")
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=60)
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


def test_listen_prints_its_result_as_replay_does() -> None:
    shows = ("--handler", "vwap", "--date", SAMPLE_DATE, "--workers", "1", "--sort", "volume", "--top", "3")
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", *shows) as listener:
        done = strand("serve", str(sample_path()), "--line", address_of(listener), "--rate", "500000")
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 0, errors
    replayed = strand("replay", str(sample_path()), *shows).stdout.splitlines()
    said = output.splitlines()
    rows = replayed[: next(at for at, line in enumerate(replayed) if "symbols, by volume" in line) + 1]
    assert said[: len(rows)] == rows
    figures = next(line for line in said[len(rows) :] if " ticks of " in line)
    assert figures.startswith("200,500 ticks of 500 symbols in ")
    assert "end to end p50 " in figures
    assert "limited by" not in output
    assert "session STRAND0001" in output
    refused = strand("listen", "--line", "127.0.0.1:0", "--handler", "vwap", "--sort", "nosuch")
    assert refused.returncode == 2
    assert "sort: the rows have no field 'nosuch'" in refused.stderr


def test_listen_is_ended_by_an_interrupt_and_reports() -> None:
    with started("listen", "--line", "127.0.0.1:0", "--max-seconds", "60", "--json") as listener:
        address_of(listener)
        listener.send_signal(signal.SIGINT)
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 0, errors
    assert json.loads(output)["live"]["session"] is None


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


def test_a_gap_that_stays_ends_listen_with_2_after_a_report() -> None:
    asked = ("--on-gap", "raise", "--max-seconds", "60", "--first-sequence", "1", "--json")
    with started("listen", "--line", ":0", *asked) as listener:
        done = strand("serve", str(sample_path()), "--line", address_of(listener), "--rate", "500000", "--loss", ".1")
        assert done.returncode == 0, done.stderr
        output, errors = listener.communicate(timeout=60)
    assert listener.returncode == 2
    assert "came on no line" in errors
    found = json.loads(output)
    assert "came on no line" in found["error"]
    assert found["live"]["delivered"] == found["live"]["gaps"][0][0] - 1
