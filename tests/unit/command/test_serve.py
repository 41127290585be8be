"""strand serve."""

from __future__ import annotations

import json
import signal
import socket

import pytest
from bounded_child import in_bounded_child
from command_apart import started
from command_here import run_here
from interrupt_points import many_interrupts

from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python


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
