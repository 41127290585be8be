"""strand serve."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from warm_python import run_warm

from strand.feeds.sample import sample_path

pytestmark = pytest.mark.python


def strand(*args: str) -> subprocess.CompletedProcess[str]:
    return run_warm("-m", "strand", *args)


@contextlib.contextmanager
def started(*args: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "strand", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


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
