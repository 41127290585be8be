"""strand serve."""

from __future__ import annotations

import json
import signal
import socket

import pytest
from command_apart import started

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
